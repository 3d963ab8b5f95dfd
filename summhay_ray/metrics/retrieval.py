"""How good a ranking is, query by query. Part of the metrics room; trec_eval computes all of it.

Precision, recall and F1 are of the set that is retrieved: precision is the share of the documents retrieved that are relevant, of
however many were asked for. nDCG, AP and MRR are of the order, and are None where a ranking has none. AP is divided by all
relevant documents. Relevance is yes or no, but for nDCG where grades are given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated


@dataclass(frozen=True, slots=True)
class RetrievalScore:
    """What one ranking is worth for one query."""

    precision: Annotated[float, "share of the documents retrieved that are relevant; 0 where none is retrieved"]
    recall: Annotated[float, "share of the relevant documents that are retrieved"]
    f1: Annotated[float, "harmonic mean of the two, 0 where both are"]
    ndcg: Annotated[float | None, "normalized discounted cumulative gain; null where the ranking has no order"]
    ap: Annotated[float | None, "average precision, over all relevant documents; null where the ranking has no order"]
    mrr: Annotated[float | None, "one over the rank of the first relevant document, 0 for none; null without an order"]


def retrieval_scores(
    rankings: Sequence[tuple[Sequence[str], Mapping[str, float]]], k: int | None = None, *, ordered: bool = True
) -> list[RetrievalScore]:
    """One score for each (documents retrieved, best first; document -> how relevant, above 0), in their order.

    `k`: only the first k documents count, and the best ranking that nDCG is held against has k; None: all of them do. Raises
    ValueError for a query without a relevant document, which has no recall, for a grade that is no whole number, and for a
    document that is ranked twice.
    """
    import pytrec_eval

    in_order = ["ndcg" if k is None else f"ndcg_cut_{k}", "map", "recip_rank"] if ordered else []
    measures = ["set_P", "set_recall", "set_F", *in_order]
    gold: dict[str, dict[str, int]] = {}
    runs: dict[str, dict[str, float]] = {}
    for place, (retrieved, relevant) in enumerate(rankings):
        if not any(grade > 0 for grade in relevant.values()):
            raise ValueError(f"ranking {place}: the query has no relevant document, and nothing to measure by")
        if odd := [grade for grade in relevant.values() if not float(grade).is_integer()]:
            raise ValueError(f"ranking {place}: a document is relevant by {odd[0]}; expected whole grades, such as 1 or 2")
        if len(set(retrieved)) < len(retrieved):
            raise ValueError(f"ranking {place}: a document is ranked twice; rank each once")
        gold[str(place)] = {document: int(grade) for document, grade in relevant.items() if grade > 0}
        # Scores that fall by one a rank: trec_eval would break ties by the documents' names.
        runs[str(place)] = {document: -float(rank) for rank, document in enumerate(retrieved[:k])}
    found = pytrec_eval.RelevanceEvaluator(gold, measures).evaluate(runs) if rankings else {}
    no_order = [None] * (3 - len(in_order))
    return [RetrievalScore(*(found[query][measure] for measure in measures), *no_order) for query in gold]
