"""Tables of `judge-bench` (the paper's Tables 1 and 6), and coverage corrected for a judge's bias."""

from __future__ import annotations

from dataclasses import replace

import pytest
from test_report_tables import system

from summhay_ray.benchmarks.judge_bench import BenchRow
from summhay_ray.judge import bench
from summhay_ray.metrics import JudgeBias
from summhay_ray.report import BENCH_LEGEND, bench_tables, table_legends
from summhay_ray.report.terminal_tables import LEGEND, bias_lines, system_tables

pytestmark = pytest.mark.core


def row(**changes: object) -> BenchRow:
    figures = bench.Agreement(
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
    fields = {"judge": "stored/x", "figures": figures, "usd": 5.0, "usd_per_200": 6.9, "usd_source": "estimated", "failures": {}}
    return BenchRow(**{**fields, **changes})  # type: ignore[arg-type]


NOTHING = bench.Agreement(None, None, None, None, None, 0, {}, None, None, None, 0, 1094)


def test_table_1_has_a_row_a_judge() -> None:
    agreement, _ = bench_tables([row()])
    assert dict(zip(agreement.columns, agreement.rows[0], strict=True))["$/200"] == "~6.90"
    figures = ("0.730 (0.696..0.764)", "0.730", "88.5 (85.6..91.2)", "706", "~6.90", "1094/1094")
    assert agreement.rows[0] == ("stored/x", *figures)
    assert len(set(agreement.columns)) == len(agreement.columns)


def test_figures_of_fewer_insights_than_expected_are_marked() -> None:
    few = replace(row().figures, n_scored=1000)
    agreement, bias = bench_tables([row(figures=few), row(judge="all")])
    figures = ("0.730* (0.696..0.764)", "0.730*", "88.5* (85.6..91.2)", "706", "~6.90", "1000/1094")
    assert agreement.rows[0] == ("stored/x", *figures)
    assert bias.rows[0] == ("stored/x", "+12.6*", "-1.7*", "+5.5*", "-0.122*", "0.020*", "1000/1094")
    assert table_legends([agreement]) == [LEGEND] and not any("*" in cell for cell in (*agreement.rows[1], *bias.rows[1]))
    assert any("* fewer than expected" in line for line in BENCH_LEGEND)


def test_the_legend_says_what_score_takes_off_and_what_a_question_mark_is() -> None:
    legend = "\n".join(BENCH_LEGEND)
    assert "? nobody knows" in legend
    assert "Mean: over summarizers, as in Table 6; score takes off the mean over insights" in legend


def test_table_6_has_points_by_summarizer() -> None:
    _, bias = bench_tables([row(), row(judge="mine", figures=NOTHING)])
    assert bias.columns == ("Judge", "gpt-4o", "gpt3.5", "Mean", "Length~score", "Length~delta", "n")
    assert bias.rows == (("stored/x", "+12.6", "-1.7", "+5.5", "-0.122", "0.020", "1094/1094"), ("mine", *["-*"] * 5, "0/1094"))


@pytest.mark.parametrize(
    ("usd", "source", "shown"), [(None, None, "?"), (0.0, "free", "0"), (0.01234, "spent", "0.0123"), (6.9, "estimated", "~6.90")]
)
def test_dollars_say_how_they_are_known(usd: float | None, source: str | None, shown: str) -> None:
    agreement, _ = bench_tables([row(usd_per_200=usd, usd_source=source)])
    assert agreement.rows[0][-2] == shown


def test_coverage_is_also_shown_corrected_where_the_judges_bias_is_known() -> None:
    intervals = {"coverage": (0.4, 0.6), "coverage_corrected": (0.30, 0.50), "joint_corrected": (0.08, 0.12)}
    known = {"coverage_corrected": 0.41, "joint_corrected": 0.1, "ci": intervals}
    systems = [system("random", **known), system("oracle", coverage_corrected=0.45), system("full")]
    *raw, joint, corrected = system_tables(systems)
    assert [table.title.split(" (")[0] for table in raw] == ["Joint", "Coverage", "Citation"]
    assert corrected.title == "Coverage (%), corrected for bias, judged by j"
    assert joint.title == "Joint (%), corrected for bias, judged by j"
    assert corrected.columns == ("Summarizer", "random", "oracle", "full", "n")
    assert corrected.rows == (("gpt-4o", "41.0 [30.0, 50.0]", "45.0", "-", "30/30"),)
    assert joint.rows == (("gpt-4o", "10.0 [8.0, 12.0]", "-", "-", "30/30"),)


def test_people_are_told_what_was_taken_off_or_how_to_measure_it() -> None:
    bias = JudgeBias("stored/gpt", 0.09598, 0.02633, 1094, 144, source="144 summaries of a.json")
    taken = "a bias of 9.6 ±5.2 points (mean over insights, 95 % CI) is subtracted in corrected coverage, measured"
    assert bias_lines({"released": bias, "stored/gpt": bias, "a": None, "b": None}, "r1") == [
        f"released: {taken} as stored/gpt on 144 summaries of a.json",
        f"stored/gpt: {taken} on 144 summaries of a.json",
        "a, b: no bias against people is known, so nothing is corrected; to measure it: summhay judge-bench ANNOTATIONS.json "
        "--judge NAME --out FILE, then summhay score r1 --bias FILE",
    ]
    assert bias_lines({}, "r1") == []


def test_the_raw_tables_are_the_same_with_and_without_a_correction() -> None:
    assert system_tables([system("random", coverage_corrected=0.41)])[:3] == system_tables([system("random")])
    assert len(system_tables([system("random")])) == 3
    partly = system_tables([system("random", coverage_corrected=0.41, n_scored=9)])[4]
    # The floor of 50.0 is nine tenths of it, so that of 41.0 is, too.
    assert partly.rows[0][1] == "41.0* (floor 36.9, 10.0 % missing)"
