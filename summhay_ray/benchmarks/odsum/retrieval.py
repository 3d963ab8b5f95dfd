"""ODSum's retrieval (paper, section 4.1): each retriever's rankings of the collection, and their scores at each k.

The retrievers are those of `summhay_ray.retrieve`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from summhay_ray import retrieve
from summhay_ray.benchmark import Item, Rows
from summhay_ray.benchmarks.odsum.collection import Collection
from summhay_ray.benchmarks.odsum.spec import OdsumSpec
from summhay_ray.benchmarks.odsum.tables import RetrievalRow
from summhay_ray.benchmarks.retrieval import RANKING_TABLES, Retrievers, own_code, ranking_rows
from summhay_ray.metrics import retrieval_scores

RETRIEVE = "retrieve"
"""The stage under which failures of a retriever are recorded."""
Rankings = Mapping[str, Sequence[retrieve.Ranked]]
"""Query id -> its ranking."""


@dataclass(frozen=True, slots=True)
class RankedCollection:
    """A collection, with the rankings by a spec's retrievers."""

    collection: Collection
    retrievers: Retrievers
    spec: OdsumSpec

    def cuts(self, retriever: str) -> Sequence[int | None]:
        """Return the values of k for a retriever. None means that its rankings are never cut: the oracle's, as in the
        release, and those of a retriever that returns all documents."""
        return [None] if retriever in self.retrievers.unordered or self.is_oracle(retriever) else self.spec.k

    def is_oracle(self, retriever: str) -> bool:
        # Stored runs are read without importing the user's code.
        return not own_code([self.retrievers[retriever]]) and isinstance(self.retrievers.retriever(retriever), retrieve.Oracle)

    def rankings(self, retriever: str, planned: bool = False) -> tuple[Rankings, Mapping[str, str]]:
        """Rank the collection for each query; see `rankings_by_query`. The oracle's rankings contain only gold documents."""
        rankings, missing = self.retrievers.rankings_by_query(self.collection.corpus, retriever, planned=planned)
        empty = {name: self.retrievers.nothing_found(retriever, name) for name, ranking in rankings.items() if not ranking}
        missing = {**missing, **{name: why for name, why in empty.items() if why}}
        if self.is_oracle(retriever):
            # Only gold documents belong to the oracle's context.
            rankings = {name: [ranked for ranked in ranking if ranked.score > 0] for name, ranking in rankings.items()}
        return {name: ranking for name, ranking in rankings.items() if name not in missing}, missing

    def rows(self, retriever: str, rankings: Rankings) -> Rows:
        """Return a retriever's rankings as rows: all ranked documents, those shown, and scores at each k."""
        corpus, whole, budget = self.collection.corpus, retriever in self.retrievers.unordered, self.spec.token_budget
        queries = [query for query in corpus.queries if query.query_id in rankings]
        # The summarizer sees the whole of a ranking that is never cut.
        depth = len(corpus.texts) if self.is_oracle(retriever) else max(self.spec.k)
        by_query = [
            ranking_rows(corpus, retriever, query, rankings[query.query_id], whole=whole, token_budget=budget, depth=depth)
            for query in queries
        ]
        rows: Rows = {table.name: [row for rows_of in by_query for row in rows_of[table.name]] for table in RANKING_TABLES}
        judged = [query for query in queries if query.gold]
        measured: list[RetrievalRow] = []
        for k in () if whole else self.spec.k:
            first = [[corpus.document_ids[ranked.number - 1] for ranked in rankings[query.query_id][:k]] for query in judged]
            pairs = [(ids, corpus.grades(query)) for ids, query in zip(first, judged, strict=True)]
            for query, score in zip(judged, retrieval_scores(pairs, k), strict=True):
                figures = (score.precision, score.recall, score.f1, score.ndcg, score.ap, score.mrr)
                measured.append(RetrievalRow(retriever, k, query.query_id, *figures))
        return {**rows, "odsum_retrieval": measured}


def shown_numbers(rankings: Rankings, missing: Mapping[str, str], items: Sequence[Item]) -> dict[str, Any]:
    """Map each item id to `numbers`, the first k documents (all of them without a k), or to `missing`, the reason why there
    is no ranking."""
    own: dict[str, Any] = {}
    for item in items:
        if "summarizer" not in item.data:
            own[item.id] = {"missing": list(missing.values())}
        elif item.data["query_id"] in rankings:
            ranking = rankings[item.data["query_id"]]
            own[item.id] = {"numbers": [ranked.number for ranked in ranking[: item.data["k"]]]}
        else:
            own[item.id] = {"missing": [missing[item.data["query_id"]]]}
    return own
