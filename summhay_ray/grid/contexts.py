"""Rankings and contexts of a grid's units. Part of the grid room; no Ray, no calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from summhay_ray import retrieve
from summhay_ray.grid.cells import Grid, Unit
from summhay_ray.records import Context, Haystack, Ranking
from summhay_ray.summarize import ContextPlan, assemble


def rank(grid: Grid, haystack: Haystack, subtopic_id: str, retriever: str) -> Sequence[retrieve.Ranked]:
    """A retriever's ranking for one query. Raises LookupError where the haystack lacks what it reads."""
    subtopic = next(subtopic for subtopic in haystack.subtopics if subtopic.subtopic_id == subtopic_id)
    return retrieve.make(retriever, grid.spec.seed).rank(subtopic, haystack)


def make_context(
    grid: Grid, haystack: Haystack, unit: Unit, ranked: Callable[[str, str, str], Sequence[retrieve.Ranked]]
) -> tuple[Context | None, list[Ranking], str]:
    """A unit's context and its ranking's rows, or (None, [], why not)."""
    try:
        ranking = ranked(unit.haystack_id, unit.subtopic_id, unit.retriever)
    except LookupError as error:
        return None, [], str(error.args[0])
    whole = retrieve.make(unit.retriever, grid.spec.seed).whole
    plan = ContextPlan(
        retriever=unit.retriever,
        ordering=unit.ordering,
        token_budget=None if whole else grid.spec.token_budget,
        seed=grid.spec.seed,
        whole=whole,
    )
    context = assemble(haystack, unit.subtopic_id, [one.number for one in ranking], plan)
    documents = haystack.documents
    rows = [
        Ranking(
            haystack_id=unit.haystack_id,
            subtopic_id=unit.subtopic_id,
            retriever=unit.retriever,
            rank=place,
            number=one.number,
            document_id=documents[one.number - 1].document_id,
            score=one.score,
        )
        for place, one in enumerate(ranking, start=1)
    ]
    return context, rows, ""
