"""The tables of `rejudge` and `compare`: what lacks judgments says so, and parts of a table have headed columns."""

from __future__ import annotations

import pytest

from summhay_ray.benchmarks.rejudge import JudgeCounts
from summhay_ray.benchmarks.rejudge.workload import Rejudged
from summhay_ray.engine import Results, RunResult
from summhay_ray.report import rejudge_table

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
