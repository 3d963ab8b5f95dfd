"""The ranking and the context of each unit (paper, sections 5.1 and 5.4)."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict

from summhay_ray import retrieve
from summhay_ray.benchmark import Ask, Prepared, Rows
from summhay_ray.benchmarks.retrieval import no_ranking
from summhay_ray.benchmarks.summhay.grid.cells import Unit
from summhay_ray.benchmarks.summhay.grid.grid import Grid
from summhay_ray.outcome import Failed
from summhay_ray.records import Context, Haystack, Ranking
from summhay_ray.summarize import ContextPlan, assemble

Ranker = Callable[[str, str, str], Sequence[retrieve.Ranked]]
"""(haystack_id, subtopic_id, retriever) -> the ranking. Raises LookupError if the haystack lacks data the retriever needs."""


class Contexts:
    """The documents shown to the systems of a grid."""

    def __init__(self, grid: Grid) -> None:
        self._grid, self._retrievers, self._haystacks = grid, grid.retrievers, grid.haystacks
        self._ranked = self._ranker(grid.retrievers.rankings)
        self._planned = self._ranker(grid.retrievers.planned_rankings)
        self._local_part = functools.cache(self._compute_local_part)

    def prepared(self, unit: Unit, planned: bool = False) -> Prepared:
        """The ranking and the context of a unit. If its retriever calls a service, `asked` makes them, and this only computes
        the local models' part. `planned`: a context as long as the real one, made without computing vectors."""
        if unit.retriever not in self._retrievers.asking:
            context, rankings, problem = make_context(
                self._grid, self._haystacks[unit.haystack_id], unit, self._planned if planned else self._ranked
            )
            if context is None:
                return Prepared(problem=problem, stage="context")
            cut = self._retrievers.cut_rows(unit.haystack_id, unit.retriever)
            return Prepared({"rankings": rankings, "contexts": [context], **cut}, shared=asdict(context))
        try:
            if not planned:
                self._local_part(unit.haystack_id, unit.retriever)
        # User-defined retrievers run here: any error of theirs becomes a failure row.
        except BaseException as error:  # noqa: BLE001
            return Prepared(problem=no_ranking(error), stage="context")
        return Prepared()

    def _compute_local_part(self, haystack_id: str, retriever: str) -> None:
        self._retrievers.compute_local_part(retrieve.corpus_of(self._haystacks[haystack_id]), retriever)

    def _ranker(self, rankings: Callable[..., Sequence[Sequence[retrieve.Ranked]]]) -> Ranker:
        """A cached function that ranks one query. Retrievers that only rank in batches rank a haystack's queries together."""

        def rank(haystack_id: str, subtopic_id: str, retriever: str) -> Sequence[retrieve.Ranked]:
            corpus = retrieve.corpus_of(self._haystacks[haystack_id])
            (ranking,) = rankings(corpus, retriever, [query for query in corpus.queries if query.query_id == subtopic_id])
            return ranking

        def rank_all(haystack_id: str, retriever: str) -> Mapping[str, Sequence[retrieve.Ranked]]:
            corpus = retrieve.corpus_of(self._haystacks[haystack_id])
            return dict(zip((query.query_id for query in corpus.queries), rankings(corpus, retriever), strict=True))

        singly, at_once = functools.lru_cache(maxsize=64)(rank), functools.lru_cache(maxsize=16)(rank_all)
        return lambda haystack_id, subtopic_id, retriever: (
            singly(haystack_id, subtopic_id, retriever)
            if hasattr(self._retrievers.made(retriever), "rank")
            else at_once(haystack_id, retriever)[subtopic_id]
        )

    async def asked(self, unit: Unit, ask: Ask) -> tuple[Context | None, Rows]:
        """The context of a unit whose retriever calls a service, and its rows; None if it failed: `ask` records the failure."""
        haystack = await self._haystacks.fetch(unit.haystack_id)
        corpus = retrieve.corpus_of(haystack)
        query = next(query for query in corpus.queries if query.query_id == unit.subtopic_id)
        ranking = await self._retrievers.ranking_or_failure(ask, corpus, unit.retriever, query, "context")
        if ranking is None:
            return None, {}
        context, rankings, problem = make_context(self._grid, haystack, unit, lambda *_: ranking)
        if problem is not None:
            ask.fail("context", problem)
        cut = self._retrievers.cut_rows(unit.haystack_id, unit.retriever, unit.subtopic_id)
        return context, {"rankings": rankings, "contexts": [context], **cut} if context is not None else {}


def make_context(
    grid: Grid, haystack: Haystack, unit: Unit, ranked: Ranker
) -> tuple[Context | None, list[Ranking], Failed | None]:
    """Rank the documents and assemble the context of a unit.

    Returns (context, rows of the ranking, None), or (None, [], failure).
    """
    try:
        ranking = ranked(unit.haystack_id, unit.subtopic_id, unit.retriever)
        grid.retrievers.check_found(unit.retriever, unit.subtopic_id, ranking)
        context = _context(grid, haystack, unit, [document.number for document in ranking])
        return context, _rows(haystack, unit, ranking), None
    # User-defined retrievers and orderings run here: an error of theirs becomes a failure row and stops no other row.
    except BaseException as error:  # noqa: BLE001
        return None, [], no_ranking(error)


def _context(grid: Grid, haystack: Haystack, unit: Unit, numbers: Sequence[int]) -> Context:
    whole = grid.retrievers.is_whole(unit.retriever)
    plan = ContextPlan(
        retriever=unit.retriever,
        ordering=unit.ordering,
        token_budget=None if whole else grid.spec.token_budget,
        seed=grid.spec.seed,
        whole=whole,
    )
    return assemble(haystack, unit.subtopic_id, numbers, plan)


def _rows(haystack: Haystack, unit: Unit, ranking: Sequence[retrieve.Ranked]) -> list[Ranking]:
    return [
        Ranking(
            haystack_id=unit.haystack_id,
            subtopic_id=unit.subtopic_id,
            retriever=unit.retriever,
            rank=place,
            number=int(document.number),
            document_id=haystack.documents[document.number - 1].document_id,
            score=float(document.score),
        )
        for place, document in enumerate(ranking, start=1)
    ]
