"""Sections of `judge-bench`: agreement with people and bias (the paper's Tables 1 and 6)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from summhay_ray.benchmarks.judge_bench import BenchResult, BenchRow
from summhay_ray.judge import bench
from summhay_ray.report import section_table

pytestmark = pytest.mark.core

FIGURES = bench.Agreement(
    correlation=0.7302,
    correlation_ci=(0.6962, 0.7641),
    correlation_labels=0.7299,
    linking_accuracy=0.8853,
    linking_ci=(0.8561, 0.9118),
    linking_n=706,
    bias={"gpt-4o": 0.126, "gpt3.5": -0.017},
    bias_mean=0.0545,
    length_score_corr=-0.122,
    length_delta_corr=0.02,
    n_scored=1094,
    n_expected=1094,
)
NOTHING = bench.Agreement(None, None, None, None, None, 0, {}, None, None, None, 0, 1094)


def rows(*figures: bench.Agreement) -> list[list[dict[str, str]]]:
    """The rows of both sections for judges with these figures."""
    judges = [BenchRow(f"judge {place}", one, 5.0, 6.9, "estimated", {}) for place, one in enumerate(figures)]
    found = BenchResult(144, 1094, judges, {}, 0.0).sections
    tables = [table for one in found if (table := section_table(one)) is not None]
    return [[dict(zip(table.columns, row, strict=True)) for row in table.rows] for table in tables]


def test_agreement_and_bias_have_a_row_a_judge() -> None:
    [[agreement], [bias]] = rows(FIGURES)
    assert (agreement["correlation"], agreement["same bullet (%)"]) == ("0.7302 [0.6962, 0.7641]", "88.5 [85.6, 91.2]")
    assert (agreement["dollars for 200"], agreement["dollars are"], agreement["n"]) == ("6.9", "estimated", "1094/1094")
    assert (bias["gpt-4o (points)"], bias["gpt3.5 (points)"], bias["mean (points)"]) == ("12.6", "-1.7", "5.5")


def test_figures_of_fewer_insights_than_expected_are_marked() -> None:
    [agreement, bias] = rows(replace(FIGURES, n_scored=1000), NOTHING)
    assert (agreement[0]["correlation"], agreement[0]["n"]) == ("0.7302* [0.6962, 0.7641]", "1000/1094")
    assert bias[0]["mean (points)"] == "5.5*" and (bias[1]["mean (points)"], bias[1]["n"]) == ("-", "0/1094")
