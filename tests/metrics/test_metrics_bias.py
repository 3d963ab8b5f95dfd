"""Scores corrected by a judge's bias: the subtracted amount, the combined uncertainty, and the values that stay unchanged."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from summhay_ray.metrics import JudgeBias, SystemScore, bias_of, corrected
from summhay_ray.metrics.scores_by_system import TakenOff

pytestmark = pytest.mark.core

BIAS = JudgeBias("j", mean=0.1, se=0.02, n_insights=1000, n_summaries=100)
Z = 1.959963984540054


def score(**changes: object) -> SystemScore:
    plain = SystemScore(
        system="s",
        retriever="r",
        ordering="given",
        model="m",
        judge="j",
        coverage=0.5,
        citation=0.4,
        citation_precision=0.3,
        citation_recall=0.6,
        joint=0.2,
        n_expected=10,
        n_scored=10,
        n_covered=6,
        words_per_bullet=30.0,
        ci={"coverage": (0.44, 0.58), "joint": (0.15, 0.26), "citation": (0.3, 0.5)},
    )
    return replace(plain, **changes)  # type: ignore[arg-type]


def test_the_bias_is_taken_off_coverage_and_joint_is_scaled_as_coverage_is() -> None:
    found = corrected(score(), BIAS)
    assert found.coverage_corrected == 0.5 - 0.1
    assert found.joint_corrected == pytest.approx(0.2 * 0.4 / 0.5)


def test_variances_add_up_on_either_side() -> None:
    found = corrected(score(), BIAS)
    other = Z * 0.02
    low, high = found.ci["coverage_corrected"]
    assert low == pytest.approx(0.4 - math.sqrt(0.06**2 + other**2))
    assert high == pytest.approx(0.4 + math.sqrt(0.08**2 + other**2))
    # Joint: its own half-width scaled by 0.4 / 0.5, and 0.2 / 0.5 of the bias's half-width.
    low, high = found.ci["joint_corrected"]
    assert low == pytest.approx(0.16 - math.sqrt((0.05 * 0.8) ** 2 + (other * 0.4) ** 2))
    assert high == pytest.approx(0.16 + math.sqrt((0.06 * 0.8) ** 2 + (other * 0.4) ** 2))


def test_everything_raw_stays_to_the_last_bit() -> None:
    raw = score()
    found = corrected(raw, BIAS)
    assert replace(found, coverage_corrected=None, joint_corrected=None, ci=raw.ci, bias=None) == raw
    assert {name: found.ci[name] for name in raw.ci} == raw.ci
    assert "citation_corrected" not in found.ci


def test_a_judge_of_unknown_bias_and_a_score_of_nothing_stay_as_they_are() -> None:
    assert corrected(score(), None) == score()
    nothing = score(coverage=None, joint=None, ci={})
    assert corrected(nothing, BIAS) == nothing


def test_without_a_raw_interval_there_is_no_corrected_one() -> None:
    found = corrected(score(ci={}), BIAS)
    assert (found.coverage_corrected, found.ci) == (0.4, {})


def test_corrected_coverage_stays_within_0_and_1() -> None:
    low = corrected(score(coverage=0.05, joint=0.02, ci={"coverage": (0.0, 0.1), "joint": (0.0, 0.05)}), BIAS)
    assert (low.coverage_corrected, low.joint_corrected) == (0.0, 0.0)
    assert low.ci["coverage_corrected"][0] == 0.0 < low.ci["coverage_corrected"][1]
    stern = replace(BIAS, mean=-0.6)
    assert corrected(score(), stern).coverage_corrected == 1.0
    # Nothing covered in a few queries is no certainty about others.
    none = corrected(score(coverage=0.0, joint=0.0, ci={"joint": (0.0, 0.4)}), BIAS)
    assert (none.joint_corrected, none.ci["joint_corrected"]) == (0.0, (0.0, 0.4))


@given(st.integers(0, 300), st.floats(0, 1), st.floats(0, 0.5), st.floats(0, 0.5), st.floats(-1, 1), st.floats(0, 0.3))
def test_a_corrected_interval_contains_its_figure_and_is_never_narrower(
    halves: int, cited: float, below: float, above: float, mean: float, se: float
) -> None:
    # A mean over 150 insights of 0, a half or 1.
    coverage = halves / 300
    raw = (max(coverage - below, 0.0), min(coverage + above, 1.0))
    found = corrected(score(coverage=coverage, joint=coverage * cited, ci={"coverage": raw}), replace(BIAS, mean=mean, se=se))
    low, high = found.ci["coverage_corrected"]
    assert found.coverage_corrected is not None and found.joint_corrected is not None
    assert 0 <= low <= found.coverage_corrected <= high <= 1
    assert found.joint_corrected <= found.coverage_corrected + 1e-12
    half = max(Z * se, raw[1] - coverage)
    assert high >= min(found.coverage_corrected + half, 1.0) - 1e-12


def test_a_corrected_score_reports_the_subtracted_bias() -> None:
    assert corrected(score(), replace(BIAS, source="144 summaries")).bias == TakenOff("j", 0.1, 0.02, "144 summaries")
    assert corrected(score(), None).bias is None


def test_a_pattern_stands_for_a_model_that_is_asked_in_the_usual_way() -> None:
    wide = replace(BIAS, judge="stored/gpt", names=("replay/*", "*/gpt-4o", "openai/gpt-4o few_shot"))
    assert bias_of("replay/gpt-4o", [wide]) is wide
    assert bias_of("replay/gpt-4o per_summary", [wide]) is None
    assert bias_of("openai/gpt-4o prompt mine/gpt-4o", [wide]) is None
    assert bias_of("openai/gpt-4o few_shot", [wide]) is wide


def test_a_bias_under_the_exact_name_comes_first() -> None:
    wide = replace(BIAS, judge="stored/gpt", names=("released", "*/gpt-4o", "gpt-4o-2024-*"))
    own = replace(BIAS, judge="openai/gpt-4o")
    assert bias_of("openai/gpt-4o", [wide, own]) is own
    assert bias_of("azure/gpt-4o", [wide, own]) is wide
    assert bias_of("released", [wide]) is wide
    # Another model, although its name begins in the same way.
    assert bias_of("openai/gpt-4o-mini", [wide, own]) is None
    assert bias_of("gpt-4o-2024-05-13", [wide]) is wide
    assert bias_of("released", []) is None
