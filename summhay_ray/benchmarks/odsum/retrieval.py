"""ODSum's retrieval (paper, section 4.1): each retriever's rankings of the collection, and their scores at each k.

The retrievers are those of `summhay_ray.retrieve`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from summhay_ray import retrieve
from summhay_ray.benchmark import Item, Prepared, Rows
from summhay_ray.benchmarks.odsum.collection import Collection
from summhay_ray.benchmarks.odsum.spec import OdsumSpec
from summhay_ray.benchmarks.odsum.tables import RetrievalRow
from summhay_ray.benchmarks.retrieval import RANKING_TABLES, Retrievers, no_ranking, own_code, ranking_rows
from summhay_ray.metrics import retrieval_scores

RETRIEVE = "retrieve"
"""The stage to which items fail when their retriever raises."""
Rankings = Mapping[str, Sequence[retrieve.Ranked]]
"""Query id -> its ranking."""


class RankedCollection:
    """A collection, as a spec's retrievers rank it."""

    def __init__(self, collection: Collection, retrievers: Retrievers, spec: OdsumSpec) -> None:
        self._collection, self._retrievers, self._spec = collection, retrievers, spec

    def cuts(self, retriever: str) -> Sequence[int | None]:
        """The values of k for a retriever. None for one that is never cut: the oracle, which returns every gold document, as
        in the release, and a retriever that returns the whole collection."""
        return [None] if self._retrievers.is_whole(retriever) or self.is_oracle(retriever) else self._spec.k

    def is_oracle(self, retriever: str) -> bool:
        """Whether a retriever ranks by the gold documents."""
        # Stored runs are read without the user's code.
        return not own_code([self._retrievers[retriever]]) and isinstance(self._retrievers.made(retriever), retrieve.Oracle)

    def prepare(self, source: str, items: Sequence[Item]) -> Prepared:
        """The rankings of a retriever for all queries, their scores at each k, and the document numbers per item.

        For a retriever that calls a service, only the vectors and scores of local models.
        """
        if not source:
            return Prepared()
        corpus = self._collection.corpus
        try:
            if source in self._retrievers.asking:
                self._retrievers.compute_local_part(corpus, source)
                return Prepared()
            rankings, missing = self._kept(source)
        # A user-defined retriever may raise anything: that becomes a failure row, and other rows continue.
        except BaseException as error:  # noqa: BLE001
            return Prepared(problem=no_ranking(error), stage=RETRIEVE)
        rows = {**self.rows(source, rankings), **self._retrievers.cut_rows(corpus.corpus_id, source)}
        return Prepared(rows, own=_own(rankings, missing, items))

    def sketch(self, source: str, items: Sequence[Item]) -> Prepared:
        """The document numbers per item for a plan; arbitrary if vectors are not computed yet."""
        if not source or source in self._retrievers.asking:
            return Prepared()
        try:
            rankings, missing = self._kept(source, planned=True)
        # A user-defined retriever may raise anything.
        except BaseException as error:  # noqa: BLE001
            return Prepared(problem=no_ranking(error), stage=RETRIEVE)
        return Prepared(own=_own(rankings, missing, items))

    def _kept(self, retriever: str, planned: bool = False) -> tuple[Rankings, Mapping[str, str]]:
        """See `rankings_by_query`. The oracle's rankings contain only gold documents."""
        rankings, missing = self._retrievers.rankings_by_query(self._collection.corpus, retriever, planned=planned)
        empty = {name: self._retrievers.nothing_found(retriever, name) for name, ranking in rankings.items() if not ranking}
        missing = {**missing, **{name: why for name, why in empty.items() if why}}
        if self.is_oracle(retriever):
            # Only gold documents belong to the oracle's context.
            rankings = {name: [ranked for ranked in ranking if ranked.score > 0] for name, ranking in rankings.items()}
        return {name: ranking for name, ranking in rankings.items() if name not in missing}, missing

    def rows(self, retriever: str, rankings: Rankings) -> Rows:
        """A retriever's ranking as rows: all ranked documents, those shown, and scores at each k."""
        corpus, whole, budget = self._collection.corpus, self._retrievers.is_whole(retriever), self._spec.token_budget
        queries = [query for query in corpus.queries if query.query_id in rankings]
        # A ranking that is never cut is shown whole to the summarizer.
        depth = len(corpus.texts) if self.is_oracle(retriever) else max(self._spec.k)
        by_query = [
            ranking_rows(corpus, retriever, query, rankings[query.query_id], whole=whole, token_budget=budget, depth=depth)
            for query in queries
        ]
        rows: Rows = {table.name: [row for rows_of in by_query for row in rows_of[table.name]] for table in RANKING_TABLES}
        return {**rows, "odsum_retrieval": [] if whole else self._measured(retriever, queries, rankings)}

    def _measured(self, label: str, queries: Sequence[retrieve.Query], rankings: Rankings) -> list[RetrievalRow]:
        corpus = self._collection.corpus
        judged = [query for query in queries if query.gold]
        rows = []
        for k in self._spec.k:
            pairs = [
                ([corpus.document_ids[ranked.number - 1] for ranked in rankings[query.query_id][:k]], corpus.grades(query))
                for query in judged
            ]
            for query, score in zip(judged, retrieval_scores(pairs, k), strict=True):
                rows.append(
                    RetrievalRow(
                        label, k, query.query_id, score.precision, score.recall, score.f1, score.ndcg, score.ap, score.mrr
                    )
                )
        return rows


def _own(rankings: Rankings, missing: Mapping[str, str], items: Sequence[Item]) -> dict[str, Any]:
    """Item id -> `numbers` of the documents that the model sees, or `missing`, the reason that there is no ranking."""
    own: dict[str, Any] = {}
    for item in items:
        if "summarizer" not in item.data:
            own[item.id] = {"missing": list(missing.values())}
        elif item.data["query_id"] in rankings:
            own[item.id] = {"numbers": shown_numbers(rankings[item.data["query_id"]], item)}
        else:
            own[item.id] = {"missing": [missing[item.data["query_id"]]]}
    return own


def shown_numbers(ranking: Sequence[retrieve.Ranked], item: Item) -> list[int]:
    """Numbers of the first k documents for the item's k; all of them without a k."""
    return [ranked.number for ranked in ranking[: item.data["k"]]]
