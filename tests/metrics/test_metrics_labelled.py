"""Means corrected by people's labels: by visible arithmetic, and as the authors' package has them."""

from __future__ import annotations

import math

import pytest

from summhay_ray.metrics import LabelledScore, SystemScore, by_labels, corrected_mean

pytestmark = pytest.mark.core

PEOPLE = [1.0, 0.0, 0.5, 1.0, 0.0, 0.5]
JUDGE = [1.0, 0.5, 0.5, 1.0, 0.0, 1.0]
PAIRS = [LabelledScore(*pair) for pair in zip(JUDGE, PEOPLE, strict=True)]
MEAN = 7 / 12
"""Of the judge over twelve items."""


def test_the_judges_mean_error_is_taken_off_its_mean() -> None:
    found = corrected_mean(MEAN, PAIRS, 12, weight=1.0)
    assert found is not None
    # Two of six are judged 0.5 too high.
    assert found.value == pytest.approx(MEAN - 1 / 6)
    variance = (2 * (0.5 - 1 / 6) ** 2 + 4 * (1 / 6) ** 2) / 5
    assert found.half == pytest.approx(2.570582 * math.sqrt(variance / 6), rel=1e-6)
    # ppi-python 0.2.3: ppi_mean_ci of the same, with the judge's twelve values, whose variance is 0.159722.
    whole = 1.959964 * math.sqrt(variance * 5 / 6 / 6 + 0.15972222 / 12)
    assert (found.value - whole, found.value + whole) == pytest.approx((0.12221872, 0.71111461), abs=1e-6)


def test_a_judge_that_tells_nothing_counts_for_nothing() -> None:
    found = corrected_mean(0.9, [LabelledScore(one, people) for one, people in zip([1, 0, 1, 0], [1, 1, 0, 0], strict=True)], 100)
    assert found is not None and (found.weight, found.value) == (0.0, 0.5)


def test_what_is_drawn_rarely_counts_for_more() -> None:
    found = corrected_mean(0.5, [LabelledScore(0.5, 1.0, 0.1), LabelledScore(0.5, 0.5, 0.4)], 100, weight=1.0)
    # Weights 10 and 2.5.
    assert found is not None and found.value == pytest.approx(0.5 + 0.5 * 10 / 12.5)


def test_few_labels_of_a_system_are_those_of_all_and_no_label_changes_nothing() -> None:
    score = SystemScore("s", "bm25", "given", "m", "j", 0.6, 0.5, 0.5, 0.5, 0.3, 10, 10, 6, 20.0, ci={"coverage": (0.5, 0.7)})
    assert by_labels(score, [], [], own=True) == score
    shared = by_labels(score, PAIRS, PAIRS, own=False)
    assert shared.labels is not None and not shared.labels.own and shared.labels.n == 6
    assert shared.coverage_labelled == pytest.approx(0.6 - 1 / 6)
    one = corrected_mean(0.6, PAIRS, 10, weight=1.0)
    assert one is not None and one.half is not None
    half = math.hypot(0.1, one.half)
    assert shared.ci["coverage_labelled"] == pytest.approx((0.6 - 1 / 6 - half, 0.6 - 1 / 6 + half))
    # Without a raw interval there is that of the labels.
    assert shared.ci["joint_labelled"][0] == pytest.approx(max(0.3 - 1 / 6 - one.half, 0.0))
