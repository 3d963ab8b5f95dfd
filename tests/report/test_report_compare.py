"""The tables of `rejudge` and `compare`: what lacks judgments says so, and parts of a table have headed columns."""

from __future__ import annotations

import polars as pl
import pytest

from summhay_ray.benchmark import Section
from summhay_ray.benchmarks.rejudge import JudgeCounts
from summhay_ray.benchmarks.rejudge.workload import Rejudged
from summhay_ray.report import rejudge_table
from summhay_ray.report.cells import paper_grids
from summhay_ray.report.sections import markdown
from summhay_ray.sections import Pivot

pytestmark = pytest.mark.core


def test_means_over_all_summaries_are_called_so() -> None:
    table = rejudge_table(Rejudged("r1", (JudgeCounts("a", 10, 10, 0, 0.5, 0.25),), ()))
    assert table.title == "Means (%), raw, over all summaries of r1"
    assert table.rows == (("a", "25.0", "50.0", "0", "10/10"),)


def test_means_over_some_are_marked_and_not_called_means_over_all() -> None:
    judges = (JudgeCounts("a", 10, 7, 0, 0.5, 0.25), JudgeCounts("b", 10, 10, 0, 0.5, 0.25))
    table = rejudge_table(Rejudged("r1", judges, ()))
    assert table.title == "Means (%), raw, over what is judged of r1"
    assert table.rows == (("a", "25.0*", "50.0*", "0", "7/10"), ("b", "25.0", "50.0", "0", "10/10"))


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
