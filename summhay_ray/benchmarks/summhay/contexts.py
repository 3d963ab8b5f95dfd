"""Rankings and contexts of a grid's units (paper, sections 5.1 and 5.3)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from summhay_ray import retrieve
from summhay_ray.benchmark import Failed
from summhay_ray.benchmarks.retrieval import no_ranking
from summhay_ray.benchmarks.summhay.cells import Unit
from summhay_ray.records import Context, Haystack, Ranking
from summhay_ray.summarize import ContextPlan, assemble

if TYPE_CHECKING:
    from summhay_ray.benchmarks.summhay.workload import SummHay


Ranker = Callable[[str, str, str], Sequence[retrieve.Ranked]]
"""(haystack, subtopic, retriever) -> the ranking. Raises LookupError where the haystack lacks what the retriever reads."""


def make_context(
    grid: SummHay, haystack: Haystack, unit: Unit, ranked: Ranker
) -> tuple[Context | None, list[Ranking], Failed | None]:
    """A unit's context and its ranking's rows, or (None, [], why not)."""
    try:
        ranking = ranked(unit.haystack_id, unit.subtopic_id, unit.retriever)
        context = _context(grid, haystack, unit, [one.number for one in ranking])
        return context, _rows(haystack, unit, ranking), None
    # The border to a person's own retrievers and orderings: what goes wrong there is a row, and stops no other row.
    except BaseException as error:  # noqa: BLE001
        return None, [], no_ranking(error)


def _context(grid: SummHay, haystack: Haystack, unit: Unit, numbers: Sequence[int]) -> Context:
    whole = grid.is_whole(unit.retriever)
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
            number=int(one.number),
            document_id=haystack.documents[one.number - 1].document_id,
            score=float(one.score),
        )
        for place, one in enumerate(ranking, start=1)
    ]
