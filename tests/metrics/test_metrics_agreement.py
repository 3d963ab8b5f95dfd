"""Agreement of two judges and of two rankings, by visible arithmetic."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from summhay_ray.metrics import Verdicts, agreement_between, alpha, cohens_kappa, pearson, rank_agreement

pytestmark = pytest.mark.core

FULL, PARTIAL, NONE = "FULL_COVERAGE", "PARTIAL_COVERAGE", "NO_COVERAGE"


def test_agreement_counts_labels_and_bullets() -> None:
    first = Verdicts([FULL, FULL, PARTIAL, NONE], [1, 1, 0.5, 0], [1, 2, 3, None])
    second = Verdicts([FULL, PARTIAL, PARTIAL, FULL], [1, 0.5, 0.5, 1], [1, 5, 3, 4])
    found = agreement_between(first, second)
    assert (found.n, found.same_label, found.n_linked, found.same_bullet) == (4, 2 / 4, 3, 2 / 3)
    assert found.confusion == {
        FULL: {FULL: 1, PARTIAL: 1, NONE: 0},
        PARTIAL: {FULL: 0, PARTIAL: 1, NONE: 0},
        NONE: {FULL: 1, PARTIAL: 0, NONE: 0},
    }
    # Means 0.625 and 0.75: (0.375 * 0.25 + 0.375 * -0.25 + -0.125 * -0.25 + -0.625 * 0.25) / sqrt(0.6875 * 0.25)
    assert found.correlation == pytest.approx(-0.125 / math.sqrt(0.6875 * 0.25))


def test_kappa_by_hand() -> None:
    # 20 and 15 of 50 agree: 0.7. Chance: 0.5 x 0.6 + 0.5 x 0.4 = 0.5. (0.7 - 0.5) / (1 - 0.5)
    first = ["yes"] * 25 + ["no"] * 25
    second = ["yes"] * 20 + ["no"] * 5 + ["yes"] * 10 + ["no"] * 15
    assert cohens_kappa(first, second) == pytest.approx(0.4)
    assert cohens_kappa(["yes"], ["yes"]) is None


def test_alpha_by_hand_and_as_published() -> None:
    # Four items have eight ratings: four of 0, three of 1, one of 0.5. Squared ordinal distances count the ratings between two
    # values, minus half of both ends. 0 to 0.5: 4 / 2 + 1 / 2 = 2.5. 0.5 to 1: 2. 0 to 1: 2 + 1 + 1.5 = 4.5.
    observed = 2 * 2.5**2 / 8
    expected = (4 * 1 * 2.5**2 + 1 * 3 * 2**2 + 4 * 3 * 4.5**2) * 2 / (8 * 7)
    assert alpha([[0, 0, 1, 0], [0.5, 0, 1, 1]]) == pytest.approx(1 - (observed + 2 * 4.5**2 / 8) / expected)
    # Krippendorff (2011), Computing Krippendorff's alpha-reliability, section E: ordinal data of four observers.
    x = None
    observers = [
        [1, 2, 3, 3, 2, 1, 4, 1, 2, x, x, x],
        [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, x, 3],
        [x, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, x],
        [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, x],
    ]
    assert alpha(observers) == pytest.approx(0.815, abs=5e-4)
    assert alpha([[1, 1], [1, 1]]) is alpha([[1, x], [x, 1]]) is alpha([]) is None


def test_correlation_by_hand() -> None:
    # Deviations (-1, 0, 1) and (-1, 1, 0): covariance 1, variances 2 and 2.
    assert pearson([0.0, 0.5, 1.0], [0.0, 1.0, 0.5]) == pytest.approx(1 / 2)
    assert pearson([1.0, 1.0], [0.0, 1.0]) is None


def test_nothing_to_agree_on_is_no_figure() -> None:
    nothing = agreement_between(Verdicts([], [], []), Verdicts([], [], []))
    assert (nothing.n, nothing.correlation, nothing.same_label, nothing.same_bullet) == (0, None, None, None)
    same = Verdicts([FULL, FULL], [1, 1], [None, None])
    assert agreement_between(same, same).correlation is None, "no spread"
    with pytest.raises(ValueError):
        agreement_between(same, Verdicts([FULL], [1], [None]))
    with pytest.raises(ValueError, match="2 values against 1"):
        pearson([1, 2], [1])


def test_rank_agreement_allows_for_ties() -> None:
    found = rank_agreement([4, 3, 2, 1], [4, 3, 1, 2])
    # One of six pairs is reversed; ranks differ by 1 twice: 1 - 6 * 2 / (4 * 15).
    assert (found.n, found.kendall, found.spearman) == (4, pytest.approx((5 - 1) / 6), pytest.approx(1 - 6 * 2 / 60))
    # Two pairs are in order, and one is tied only in the second ranking: tau-b = 2 / sqrt(3 * 2).
    assert rank_agreement([3, 2, 1], [2, 1, 1]).kendall == pytest.approx(2 / math.sqrt(6))
    assert rank_agreement([1, 1], [1, 2]).kendall is None and rank_agreement([1], [1]).spearman is None


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=30))
def test_agreement_of_rankings_is_symmetric_and_bounded(pairs: list[tuple[int, int]]) -> None:
    first, second = [a for a, _ in pairs], [b for _, b in pairs]
    there, back = rank_agreement(first, second), rank_agreement(second, first)
    for one, other in ((there.spearman, back.spearman), (there.kendall, back.kendall)):
        assert (one is None) == (other is None)
        assert one is None or other is None or (one == pytest.approx(other) and -1 <= one <= 1)
    reversed_order = rank_agreement(first, [-a for a in first])
    assert reversed_order.kendall in (None, pytest.approx(-1)) and reversed_order.spearman in (None, pytest.approx(-1))
