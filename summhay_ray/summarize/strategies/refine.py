"""Summarizes the first document, then refines with each further one (ODSum, section 7: refine)."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, ClassVar

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from summhay_ray.llm import Ask, RawAnswer
from summhay_ray.outcome import Answer, Outcome
from summhay_ray.summarize.base import Shown, Task
from summhay_ray.summarize.calls import call
from summhay_ray.summarize.document_pieces import CHUNK_TOKENS, Units, units_of


@dataclass(frozen=True, config=ConfigDict(strict=True, extra="forbid"))
class RefineHighToLow:
    """One call per document or chunk, the best-ranked first. Each call is shown the previous answer."""

    name: ClassVar[str] = "refine-high-to-low"
    from_last: ClassVar[bool] = False
    units: Units = "documents"
    tokens: Annotated[int | None, Field(ge=1)] = None
    """Token budget of a call; None: the run's. A longer document is split into several calls."""
    chunk_tokens: Annotated[int, Field(ge=1)] = CHUNK_TOKENS

    async def summarize(self, task: Task, ask: Ask) -> Outcome[RawAnswer]:
        """The last answer, or the first outcome that is not an answer."""
        first, *rest = self._parts(task)
        found = await call(replace(task, shown=first), ask)
        for part in rest:
            if not isinstance(found, Answer):
                return found
            note = found.value.text
            further = replace(task, shown=part, step="refine", notes=(note,)) if note else replace(task, shown=part)
            found = await call(further, ask)
        return found

    def _parts(self, task: Task) -> list[tuple[Shown, ...]]:
        parts = units_of(task.shown, self.units, self.tokens or task.token_budget, self.chunk_tokens) or [()]
        return parts[::-1] if self.from_last else parts


@dataclass(frozen=True, config=ConfigDict(strict=True, extra="forbid"))
class RefineLowToHigh(RefineHighToLow):
    """Like `RefineHighToLow`, from the last-ranked document to the best."""

    name: ClassVar[str] = "refine-low-to-high"
    from_last: ClassVar[bool] = True
