"""Retrieval metrics, computed by hand."""

from __future__ import annotations

import math

import pytest

from summhay_ray.metrics import retrieval_scores
from summhay_ray.metrics.retrieval import RetrievalScore

pytestmark = pytest.mark.core
GOLD = {"a": 1.0, "b": 1.0, "c": 1.0}


def test_a_ranking_at_k() -> None:
    # In x a y b, one of the first three is relevant: a is second.
    (score,) = retrieval_scores([(["x", "a", "y", "b"], GOLD)], k=3)
    ideal = 1 + 1 / math.log2(3) + 1 / math.log2(4)
    expected = RetrievalScore(1 / 3, 1 / 3, 1 / 3, (1 / math.log2(3)) / ideal, (1 / 2) / 3, 1 / 2)
    assert vars_of(score) == pytest.approx(vars_of(expected))


def test_precision_is_of_what_is_retrieved_and_ideal_of_all_that_is_relevant() -> None:
    (short,) = retrieval_scores([(["a"], GOLD)], k=3)
    assert (short.precision, short.recall, short.f1, short.ap, short.mrr) == pytest.approx((1, 1 / 3, 1 / 2, 1 / 3, 1))
    assert short.ndcg == pytest.approx(1 / (1 + 1 / math.log2(3) + 1 / math.log2(4)))
    (whole,) = retrieval_scores([(["a"], GOLD)])
    assert whole == short


def test_the_order_given_breaks_ties_and_names_do_not() -> None:
    first, second = retrieval_scores([(["a", "z"], {"a": 1.0}), (["z", "a"], {"a": 1.0})])
    assert (first.mrr, second.mrr) == (1, 0.5)


def test_without_an_order_the_set_alone_counts() -> None:
    (score,) = retrieval_scores([(["a", "x"], GOLD)], ordered=False)
    assert (score.precision, score.recall, score.ndcg, score.ap, score.mrr) == (1 / 2, 1 / 3, None, None, None)


def test_nothing_retrieved_is_nothing_found() -> None:
    assert retrieval_scores([([], GOLD)]) == [RetrievalScore(0, 0, 0, 0, 0, 0)]
    assert retrieval_scores([]) == []


def test_grades_weigh_in_ndcg_alone() -> None:
    (score,) = retrieval_scores([(["a", "b"], {"a": 1.0, "b": 3.0})])
    assert score.ndcg == pytest.approx((1 + 3 / math.log2(3)) / (3 + 1 / math.log2(3)))
    assert score.ap == 1


def test_what_cannot_be_measured_is_refused() -> None:
    with pytest.raises(ValueError, match="ranking 0: the query has no judged document"):
        retrieval_scores([(["a"], {})])
    with pytest.raises(ValueError, match="ranking 0: a document is ranked twice"):
        retrieval_scores([(["a", "a"], GOLD)])


def vars_of(score: RetrievalScore) -> list[float | None]:
    return [getattr(score, name) for name in RetrievalScore.__dataclass_fields__]
