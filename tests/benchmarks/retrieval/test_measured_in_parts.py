"""Rankings are measured in parts: the figures equal those of all at once, and memory does not grow with the rankings."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from frames import Frames

from summhay_ray.benchmarks.retrieval import RANKING_TABLES, rankings, retrieval_by_query, retrieval_table, retrieved_of
from summhay_ray.benchmarks.retrieval.rankings import RankedDocument, RetrievedQuery


def tables() -> Frames:
    """Rankings of eight documents by three retrievers, one of which returns the corpus itself, for four queries of five
    corpora."""
    draw = random.Random(1)
    ranked: list[Any] = []
    retrieved: list[Any] = []
    for corpus in "cabed":
        for retriever in ("bm25", "full", "vector"):
            for query in "2130":
                here, whole = (corpus, query, retriever), retriever == "full"
                numbers = range(1, 9) if whole else draw.sample(range(1, 9), 8)
                ranked += [RankedDocument(*here, rank, number, f"d{number}", 0.5) for rank, number in enumerate(numbers, start=1)]
                gold = () if query == "0" else ("d2", "d5")
                retrieved.append(RetrievedQuery(*here, 8 if whole else 3, 100, not whole, gold, (1.0,) * len(gold)))
    return Frames({table.name: table.frame(rows) for table, rows in zip(RANKING_TABLES, [ranked, retrieved], strict=True)})


def test_rankings_are_measured_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    found, expected, ks = tables(), {"vector": 20, "bm25": 20, "none": 20}, [1, 5]
    whole = retrieval_table(retrieved_of(found, 5), ks, expected)
    by_query = retrieval_by_query(retrieved_of(found, 5), ks).scores
    taken, most = [0], [0]

    def counted() -> Iterator[Any]:
        for one in retrieved_of(found, 5):
            taken[0] += any(one.gold)
            yield one

    real = rankings.scores_at_cuts

    def scores(rankings: Sequence[Any], *, ordered: bool) -> Any:
        most[0] = max(most[0], len(rankings))
        return real(rankings, ordered=ordered)

    monkeypatch.setattr(rankings, "scores_at_cuts", scores)
    monkeypatch.setattr(rankings, "BATCH_SIZE", 4)
    assert retrieval_table(counted(), ks, expected).equals(whole)
    assert taken == [45] and most[0] <= 4
    assert retrieval_by_query(retrieved_of(found, 5), ks).scores.equals(by_query) and by_query.height == 45
    rows = {(row["retriever"], row["k"]): row for row in whole.iter_rows(named=True)}
    assert [*rows] == [*((name, k) for name in ("vector", "bm25", "none") for k in (1, 5, None)), ("full", None)]
    assert rows["full", None] | {"precision": 0.25, "recall": 1.0, "ndcg": None, "n": 15} == rows["full", None]
    assert rows["none", 1] | {"n": 0, "n_expected": 20, "f1": None} == rows["none", 1]
    own = by_query.filter(system="bm25")
    assert own["F1@5"].mean() == pytest.approx(rows["bm25", 5]["f1"]) and own["F1"].mean() == pytest.approx(
        rows["bm25", None]["f1"]
    )
