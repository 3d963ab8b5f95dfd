"""The ranking and the context of each unit (paper, sections 5.1 and 5.3)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from summhay_ray import retrieve
from summhay_ray.benchmark import Failed
from summhay_ray.benchmarks.retrieval import no_ranking
from summhay_ray.benchmarks.summhay.grid.cells import Unit
from summhay_ray.records import Context, Haystack, Ranking
from summhay_ray.summarize import ContextPlan, assemble

if TYPE_CHECKING:
    from summhay_ray.benchmarks.summhay.workload import SummHay


Ranker = Callable[[str, str, str], Sequence[retrieve.Ranked]]
"""(haystack_id, subtopic_id, retriever) -> the ranking. Raises LookupError if the haystack lacks data the retriever needs."""


def make_context(
    grid: SummHay, haystack: Haystack, unit: Unit, ranked: Ranker
) -> tuple[Context | None, list[Ranking], Failed | None]:
    """Rank the documents and assemble the context of a unit.

    Returns (context, rows of the ranking, None), or (None, [], failure).
    """
    try:
        ranking = ranked(unit.haystack_id, unit.subtopic_id, unit.retriever)
        context = _context(grid, haystack, unit, [document.number for document in ranking])
        return context, _rows(haystack, unit, ranking), None
    # User-defined retrievers and orderings run here: an error of theirs becomes a failure row and stops no other row.
    except BaseException as error:  # noqa: BLE001
        return None, [], no_ranking(error)


def _context(grid: SummHay, haystack: Haystack, unit: Unit, numbers: Sequence[int]) -> Context:
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
