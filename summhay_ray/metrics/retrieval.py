"""Score rankings query by query. trec_eval computes all figures.

Precision, recall and F1 depend on the set of retrieved documents. Precision is the share of these that is relevant, even if
fewer documents were retrieved than requested. nDCG, AP and MRR depend on the order, and are None for an unordered set. AP is
divided by the number of relevant documents. Relevance is binary; only nDCG uses grades, if there are any.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated


@dataclass(frozen=True, slots=True)
class RetrievalScore:
    """The scores of one ranking for one query."""

    precision: Annotated[float, "share of the retrieved documents that are relevant; 0 if none is retrieved"]
    recall: Annotated[float, "share of the relevant documents that are retrieved"]
    f1: Annotated[float, "harmonic mean of precision and recall; 0 if both are 0"]
    ndcg: Annotated[float | None, "normalized discounted cumulative gain; null if the ranking has no order"]
    ap: Annotated[float | None, "average precision, over all relevant documents; null if the ranking has no order"]
    mrr: Annotated[float | None, "reciprocal rank of the first relevant document, 0 for none; null if the ranking has no order"]


@dataclass(frozen=True, slots=True)
class Ranking:
    """The documents retrieved for one query, and the cuts at which they are scored."""

    documents: Sequence[str]
    """Best first."""
    relevant: Mapping[str, float]
    """Document -> its relevance. Documents above 0 are relevant."""
    cuts: Sequence[int | None]
    """At a cut k only the first k documents count, and nDCG is relative to the best ranking of k documents. At None all count."""


def retrieval_scores(
    rankings: Sequence[tuple[Sequence[str], Mapping[str, float]]], k: int | None = None, *, ordered: bool = True
) -> list[RetrievalScore]:
    """Return one score for each (retrieved documents, best first; document -> relevance), in order, at cut `k`. Raises the
    errors of `scores_at_cuts`."""
    found = scores_at_cuts([Ranking(retrieved, relevant, (k,)) for retrieved, relevant in rankings], ordered=ordered)
    return [score for (score,) in found]


def scores_at_cuts(rankings: Sequence[Ranking], *, ordered: bool = True) -> list[list[RetrievalScore]]:
    """Return the scores of each ranking at each of its cuts; 0 if no judged document is relevant, as in trec_eval. Raises
    ValueError for a query without a judged document, for a grade that is not whole, and for a document that is ranked twice."""
    import pytrec_eval

    gold: dict[str, dict[str, int]] = {}
    for place, ranking in enumerate(rankings):
        relevant = ranking.relevant
        if not relevant:
            raise ValueError(f"ranking {place}: the query has no judged document, and nothing to measure by")
        if odd := [grade for grade in relevant.values() if not float(grade).is_integer()]:
            raise ValueError(f"ranking {place}: a document is relevant by {odd[0]}; expected whole grades, such as 1 or 2")
        if len(set(ranking.documents)) < len(ranking.documents):
            raise ValueError(f"ranking {place}: a document is ranked twice; rank each once")
        gold[str(place)] = {document: max(int(grade), 0) for document, grade in relevant.items()}
    measures = ["set_P", "set_recall", "set_F"]
    if ordered:
        depths = {max(k, 1) for ranking in rankings for k in ranking.cuts if k is not None}
        at_depths = ["ndcg_cut." + ",".join(map(str, depths))] if depths else []
        measures += ["map", "recip_rank", "ndcg", *at_depths]
    evaluator = pytrec_eval.RelevanceEvaluator(gold, measures)
    scores: list[list[RetrievalScore]] = [[] for _ in rankings]
    # Each pass takes one cut per query: first every query's first cut, then the second cuts, and so on.
    for turn in range(max((len(ranking.cuts) for ranking in rankings), default=0)):
        cut = {str(place): one.cuts[turn] for place, one in enumerate(rankings) if turn < len(one.cuts)}
        # Use scores that fall by one per rank: trec_eval would break ties by the documents' names.
        runs = {query: dict(zip(rankings[int(query)].documents[:k], itertools.count(0.0, -1.0))) for query, k in cut.items()}
        for query, found in evaluator.evaluate(runs).items():
            k = cut[query]
            # trec_eval does not accept the cut 0, for which all scores are 0.
            ndcg = "ndcg" if k is None else f"ndcg_cut_{max(k, 1)}"
            order = (found[ndcg], found["map"], found["recip_rank"]) if ordered else (None, None, None)
            scores[int(query)].append(RetrievalScore(found["set_P"], found["set_recall"], found["set_F"], *order))
    return scores
