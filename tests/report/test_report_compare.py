"""Wide tables: a row has the mean of its columns."""

from __future__ import annotations

import polars as pl
import pytest

from summhay_ray.benchmark import Section
from summhay_ray.report.formats import paper_grids
from summhay_ray.report.sections import markdown
from summhay_ray.sections import Pivot

pytestmark = pytest.mark.core


def test_a_row_of_the_report_has_the_mean_of_its_columns_and_no_none() -> None:
    rows = {
        "model": ["a", "a", "b"],
        "retriever": ["x", "y", "x"],
        "joint": [0.1, 0.2, 0.3],
        "words": [10.0, 20.0, 5.0],
        "n": [1, 2, None],
    }
    section = Section("t", "", pl.DataFrame(rows), {"joint": "%"}, pivot=Pivot("model", "retriever", ("joint",), ("words",)))
    [grid] = paper_grids(section)
    assert [row[-2].text for row in grid.rows] == ["15", "5"]
    assert "None" not in markdown([section])
