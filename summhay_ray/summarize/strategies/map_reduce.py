"""Summarizes each document, then merges the summaries (ODSum, section 7: map-reduce)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, ClassVar

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from summhay_ray.llm import Ask, RawAnswer
from summhay_ray.outcome import Answer, Outcome
from summhay_ray.summarize.base import Reducer, Task
from summhay_ray.summarize.calls import call
from summhay_ray.summarize.document_pieces import CHUNK_TOKENS, Units, units_of
from summhay_ray.text import count_tokens


@dataclass(frozen=True, config=ConfigDict(strict=True, extra="forbid"))
class MapReduce:
    """One concurrent call per document or chunk, and a call that merges the answers into one summary, by the task's reducer.

    If the answers together exceed the budget, they are first merged in groups. Without documents there is only one call.
    """

    name: ClassVar[str] = "map-reduce"
    units: Units = "documents"
    tokens: Annotated[int | None, Field(ge=1)] = None
    """Token budget of a call; None: the run's. A longer document is split into several calls."""
    chunk_tokens: Annotated[int, Field(ge=1)] = CHUNK_TOKENS

    async def summarize(self, task: Task, ask: Ask) -> Outcome[RawAnswer]:
        """The final merge, or the first outcome that is not an answer."""
        if not task.shown:
            return await call(task, ask)
        budget = self.tokens or task.token_budget
        reducer = task.reducer or Reducer(task.model, task.sampling)
        reducing = replace(task, shown=(), step="reduce", model=reducer.model, sampling=reducer.sampling)
        parts = units_of(task.shown, self.units, budget, self.chunk_tokens)
        found: Sequence[Outcome[RawAnswer]] = await asyncio.gather(*(call(replace(task, shown=part), ask) for part in parts))
        while True:
            if missing := next((one for one in found if not isinstance(one, Answer)), None):
                return missing
            notes = [text for one in found if isinstance(one, Answer) and (text := one.value.text)]
            if not notes:
                return found[0]
            groups = _groups(notes, budget)
            found = await asyncio.gather(*(call(replace(reducing, notes=group), ask) for group in groups))
            if len(groups) == 1:
                return found[0]


def _groups(notes: Sequence[str], budget: int | None) -> list[tuple[str, ...]]:
    """The notes in groups within the budget; a single group if no two neighbouring notes fit together."""
    groups: list[list[str]] = []
    room = 0
    for note in notes:
        length = count_tokens(note)
        if not groups or (budget is not None and length > room):
            groups.append([])
            room = budget or 0
        groups[-1].append(note)
        room -= length
    return [tuple(notes)] if len(groups) == len(notes) else [tuple(group) for group in groups]
