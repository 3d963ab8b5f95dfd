"""Means corrected by people's labels: by visible arithmetic, and how often their intervals hold the truth."""

from __future__ import annotations

import math

import label_coverage
import pytest

from summhay_ray.metrics import LabelledScore, SystemScore, by_labels, corrected_mean

pytestmark = pytest.mark.core

PEOPLE = [1.0, 0.0, 0.5, 1.0, 0.0, 0.5] * 2
JUDGE = [1.0, 0.5, 0.5, 1.0, 0.0, 1.0] * 2
PAIRS = [LabelledScore(*pair) for pair in zip(JUDGE, PEOPLE, strict=True)]


def test_the_judges_mean_error_is_taken_off_its_mean() -> None:
    found = corrected_mean(7 / 12, PAIRS, 10_000)
    assert found is not None
    # Six pairs: the judge's mean is 2/3 and people's mean is 1/2. The products of deviations sum to 3/4, the judge's squares to
    # 5/6. The weight is 0.9, slightly reduced because there are 12 labels for 10,000 judgments.
    weight = (3 / 4) / (5 / 6) / (1 + 12 / 10_000)
    assert found.weight == pytest.approx(weight)
    assert found.value == pytest.approx(weight * 7 / 12 + 1 / 2 - weight * 2 / 3)
    assert found.low < found.value < found.high


def test_an_uninformative_judge_has_weight_zero() -> None:
    pairs = [LabelledScore(one, people) for one, people in zip([1, 0, 1, 0] * 3, [1, 1, 0, 0] * 3, strict=True)]
    found = corrected_mean(0.9, pairs, 100)
    assert found is not None and (found.weight, found.value) == (0.0, 0.5)


def test_rarely_drawn_labels_have_more_weight() -> None:
    pairs = [LabelledScore(0.5, 1.0, 0.1), LabelledScore(0.5, 0.5, 0.4)] * 5
    found = corrected_mean(0.5, pairs, 100)
    # The judge's values never vary, so its weight is 1; the labels' weights are 10 and 2.5.
    assert found is not None and found.value == pytest.approx(0.5 + 0.5 * 10 / 12.5)


def test_fewer_than_ten_labels_of_a_system_correct_nothing() -> None:
    score = SystemScore("s", "bm25", "given", "m", "j", 0.6, 0.5, 0.5, 0.5, 0.3, 12, 12, 6, 20.0, ci={"coverage": (0.5, 0.7)})
    assert by_labels(score, PAIRS[:9], PAIRS[:9]) == score
    found = by_labels(score, PAIRS[:10], PAIRS[:9])
    assert found.labels is not None and found.labels.n == 10
    assert found.coverage_labelled is not None and found.joint_labelled is None
    one = corrected_mean(0.6, PAIRS[:10], 12)
    assert one is not None
    # The half-widths of the further queries and of the labels, combined like the sides of a right angle.
    low, high = one.value - math.hypot(0.1, one.value - one.low), one.value + math.hypot(0.1, one.high - one.value)
    assert found.ci["coverage_labelled"] == pytest.approx((max(low, 0.0), min(high, 1.0)))


def test_without_a_raw_interval_there_is_none_and_the_reason() -> None:
    reasons = {"coverage": "too few queries: 3, an interval needs 6"}
    score = SystemScore("s", "bm25", "given", "m", "j", 0.6, 0.5, 0.5, 0.5, 0.3, 12, 12, 6, 20.0, ci_reasons=reasons)
    found = by_labels(score, PAIRS, PAIRS)
    assert found.coverage_labelled is not None and "coverage_labelled" not in found.ci
    assert found.ci_reasons["coverage_labelled"] == reasons["coverage"]


def test_labels_that_all_agree_at_the_floor_leave_an_interval() -> None:
    """Judge and people find none of ten covered. The Clopper-Pearson interval of 0 of 10 ends at 1 - 0.025 ** (1 / 10)."""
    found = corrected_mean(0.0, [LabelledScore(0.0, 0.0)] * 10, 200)
    assert found is not None and (found.low, found.high) == pytest.approx((0.0, 1 - 0.025**0.1))


@pytest.mark.parametrize(
    ("judge", "level", "n"),
    [
        ("flatters", "any", 90),
        *(
            pytest.param(*case, marks=pytest.mark.soak)
            for case in (("good", "floor", 30), ("good", "any", 30), ("good", "ceiling", 90), ("noise", "any", 30))
        ),
    ],
)
def test_intervals_hold_near_the_ends_and_for_a_biased_judge(judge: str, level: str, n: int) -> None:
    own, pooled = label_coverage.measure(judge, 3, n, level, times=400)
    # 400 draws at 95 % have a standard error of 1.1 points.
    assert own.mean(axis=0)[0] >= 0.935
    assert pooled.mean(axis=0)[0] >= 0.92
