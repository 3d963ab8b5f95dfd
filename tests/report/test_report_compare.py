"""The tables of `rejudge` and `compare`: what lacks judgments says so, and parts of a table have headed columns."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import summhay_ray
from summhay_ray.benchmark import Pivot, Section
from summhay_ray.benchmarks.rejudge import JudgeCounts
from summhay_ray.benchmarks.rejudge.workload import Rejudged
from summhay_ray.engine import Results, RunResult
from summhay_ray.errors import UserError
from summhay_ray.report import markdown, rejudge_table
from summhay_ray.report.cells import grids_of

pytestmark = pytest.mark.core


def result(*judges: JudgeCounts) -> RunResult:
    return RunResult("j1", "rejudge", "budget", {}, {}, {}, 1.0, Results(scores=Rejudged("r1", judges, ())))


def test_means_over_all_summaries_are_called_so() -> None:
    table = rejudge_table(result(JudgeCounts("a", 10, 10, 0, 0.5, 0.25)))
    assert table.title == "Means (%), raw, over all summaries of r1"
    assert table.rows == (("a", "25.0", "50.0", "0", "10/10"),)
    assert not table.starred


def test_means_over_some_are_marked_and_not_called_means_over_all() -> None:
    table = rejudge_table(result(JudgeCounts("a", 10, 7, 0, 0.5, 0.25), JudgeCounts("b", 10, 10, 0, 0.5, 0.25)))
    assert table.title == "Means (%), raw, over what is judged of r1"
    assert table.rows == (("a", "25.0*", "50.0*", "0", "7/10"), ("b", "25.0", "50.0", "0", "10/10"))
    assert table.starred


def test_a_run_that_compare_cannot_take_is_told_in_one_line(tmp_path: Path) -> None:
    store, jobs = str(tmp_path / "store"), Path(__file__).parents[2] / "jobs"
    run = summhay_ray.run(jobs / "retrieval.yaml", store=store, executor="inline").run
    for compared in (
        lambda: summhay_ray.compare_systems(run, run, store=store),
        lambda: summhay_ray.compare_systems(run, systems=("bm25", "oracle"), store=store),
        lambda: summhay_ray.compare(run, store=store),
    ):
        with pytest.raises(UserError, match=f"^{run} is a run of retrieval: compare takes systems of one run or two"):
            compared()


def test_a_row_of_the_report_has_the_mean_of_its_columns_and_no_none() -> None:
    rows = {
        "model": ["a", "a", "b"],
        "retriever": ["x", "y", "x"],
        "joint": [0.1, 0.2, 0.3],
        "words": [10.0, 20.0, 5.0],
        "n": [1, 2, None],
    }
    section = Section("t", "", pl.DataFrame(rows), {"joint": "%"}, pivot=Pivot("model", "retriever", ("joint",), ("words",)))
    [grid] = grids_of(section)
    assert [row[-2].text for row in grid.rows] == ["15", "5"]
    assert "None" not in markdown([section])
