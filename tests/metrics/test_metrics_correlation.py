"""Correlations of ratings with people's scores, their intervals, and the choice of method and budget."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from summhay_ray.metrics import Bootstrap, between_means, correlations, mean_within

pytestmark = pytest.mark.core


def test_by_hand() -> None:
    found = correlations([1, 2, 3, 4], [1, 3, 2, 4])
    # Both spread 1.25; products of deviations: 2.25 - .25 - .25 + 2.25 = 4 of 5. Five of six pairs agree and one does not.
    assert found.pearson == pytest.approx(4 / 5) and found.spearman == pytest.approx(4 / 5)
    assert found.kendall == pytest.approx((5 - 1) / 6) and (found.n, found.reason) == (4, "")


@pytest.mark.parametrize(
    ("ratings", "human", "reason"),
    [
        ([], [], "0 pairs with both a rating and a score; a correlation needs two"),
        ([3, None], [1, 2], "1 pair with both a rating and a score; a correlation needs two"),
        ([3, 3, 3], [1, 2, 3], "all ratings are equal"),
        ([1, 2, None], [5, 5, 6], "all scores of people are equal"),
        ([1, 1], [5, 5], "all ratings and scores of people are equal"),
    ],
)
def test_undefined_is_none_and_says_why(ratings: list[float | None], human: list[float | None], reason: str) -> None:
    found = correlations(ratings, human)
    assert (found.pearson, found.spearman, found.kendall, found.reason) == (None, None, None, reason)


def test_what_cannot_be_correlated() -> None:
    with pytest.raises(ValueError, match="2 ratings against 1"):
        correlations([1, 2], [1])
    with pytest.raises(ValueError, match="a rating is nan"):
        correlations([math.nan, 2], [1, 2])


def test_within_documents_and_between_systems() -> None:
    # Document a: same order. b: opposite order. c: two ratings in the same order. d: no information.
    groups = ["a"] * 3 + ["b"] * 3 + ["c"] * 2 + ["d"] * 3
    ratings, human = [1, 2, 3, 1, 2, 3, 1, 2, 1, 2, 3], [1, 2, 3, 3, 2, 1, 1, 2, 5, 5, 5]
    found, n = mean_within(ratings, human, groups)
    assert (found.pearson, found.spearman, found.kendall) == pytest.approx(((1 - 1 + 1) / 3,) * 3)
    assert (n, found.n) == (3, 3 + 3 + 2)
    systems = between_means([1, 3, 2, 2, 5, 5], [1, 1, 2, 2, 4, None], ["x", "x", "y", "y", "z", "z"])
    # Means of the ratings 2, 2, 5 and of the scores 1, 2, 4.
    assert systems.pearson == pytest.approx(correlations([2, 2, 5], [1, 2, 4]).pearson) and systems.n == 3
    assert between_means([1, 2], [1, 2], ["x", "y"]).reason.startswith("2 systems; two always lie on a line")


SMALL = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4), st.sampled_from("abc")), min_size=2, max_size=8)


@given(SMALL)
def test_each_resample_is_correlated_as_if_written_out(rows: list[tuple[int, int, str]]) -> None:
    ratings, human, clusters = ([row[place] for row in rows] for place in range(3))
    boot = Bootstrap.over([float(one) for one in human], [str(one) for one in clusters], samples=20)
    found = boot.of([float(one) for one in ratings])
    for draw, weights in enumerate(boot._weights):
        written: list[Any] = [row for row, n in zip(rows, weights, strict=True) for _ in range(int(n))]
        expected = correlations([row[0] for row in written], [row[1] for row in written])
        for name, values in found.items():
            value = getattr(expected, name)
            assert (math.isnan(values[draw]) and value is None) or values[draw] == pytest.approx(value, abs=1e-9)


ROWS = st.lists(
    st.tuples(st.integers(0, 4), st.integers(0, 4), st.sampled_from("abc"), st.sampled_from("xyzw")), min_size=1, max_size=9
)


@given(ROWS)
def test_levels_of_each_resample_are_correlated_as_if_written_out(rows: list[tuple[int, int, str, str]]) -> None:
    ratings, human, documents, systems = ([row[place] for row in rows] for place in range(4))
    given: list[float | None] = [float(one) or None for one in ratings]
    boot = Bootstrap.over([float(one) for one in human], [str(one) for one in documents], samples=10)
    within, between = boot.within(given, documents), boot.between(given, systems)
    for draw, weights in enumerate(boot._weights):
        # A document that is drawn twice counts as two documents.
        written = [(place, turn) for place, n in enumerate(weights) for turn in range(int(n))]
        values, scores = [given[place] for place, _ in written], [float(human[place]) for place, _ in written]
        mean, _ = mean_within(values, scores, [(documents[place], turn) for place, turn in written])
        means = between_means(values, scores, [systems[place] for place, _ in written])
        for found, expected in ((within, mean), (between, means)):
            for name, drawn in found.items():
                value = getattr(expected, name)
                assert (math.isnan(drawn[draw]) and value is None) or drawn[draw] == pytest.approx(value, abs=1e-9)


def test_an_interval_covers_the_figure_and_depends_on_no_order() -> None:
    draw = np.random.default_rng(3)
    human = draw.normal(size=60)
    ratings, clusters = human + draw.normal(size=60), [f"d{number // 2}" for number in range(60)]
    boot = Bootstrap.over(list(human), clusters)
    found = boot.of(list(ratings))["pearson"]
    one = boot.interval(found)
    assert one is not None and one[0] < correlations(list(ratings), list(human)).pearson < one[1]  # type: ignore[operator]
    order = draw.permutation(60)
    again = Bootstrap.over([human[i] for i in order], [clusters[i] for i in order])
    assert np.allclose(again.of([ratings[i] for i in order])["pearson"], found)
    assert boot.interval(boot.of([1.0] * 60)["kendall"]) is None, "every resample is undefined"
    assert Bootstrap.over([1.0, 2.0], ["d", "d"]).interval(np.zeros(3)) is None, "one document tells nothing of others"


def test_halves_share_no_document_and_leave_none_out() -> None:
    clusters = ["a", "a", "b", "c", "c", "d", "e"]
    first, second = Bootstrap.halves([1.0] * 7, clusters, splits=30)
    for one, other in zip(first._weights, second._weights, strict=True):
        assert list(one + other) == [1.0] * 7
        assert {c for c, w in zip(clusters, one, strict=True) if w}.isdisjoint(
            c for c, w in zip(clusters, other, strict=True) if w
        )
        assert len({c for c, w in zip(clusters, one, strict=True) if w}) == 2
    assert len({tuple(one) for one in first._weights}) > 5
