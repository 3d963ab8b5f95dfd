"""One call, with documents cut to a budget (ODSum, section 7: truncation)."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, ClassVar

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from summhay_ray.llm import Ask, RawAnswer
from summhay_ray.outcome import Outcome
from summhay_ray.summarize.base import Task
from summhay_ray.summarize.calls import call
from summhay_ray.summarize.document_pieces import head, heads


@dataclass(frozen=True, config=ConfigDict(strict=True, extra="forbid"))
class TruncateAll:
    """Documents in rank order, cut at the end of the budget."""

    name: ClassVar[str] = "truncate-all"
    tokens: Annotated[int | None, Field(ge=1)] = None
    """Token budget; None: the run's."""

    async def summarize(self, task: Task, ask: Ask) -> Outcome[RawAnswer]:
        """The model's answer, or the reason for its absence."""
        return await call(replace(task, shown=head(task.shown, self.tokens or task.token_budget)), ask)


@dataclass(frozen=True, config=ConfigDict(strict=True, extra="forbid"))
class TruncateOne:
    """Each of n documents, cut to an n-th of the budget."""

    name: ClassVar[str] = "truncate-one"
    tokens: Annotated[int | None, Field(ge=1)] = None
    """Token budget; None: the run's."""
    share_unused: bool = False
    """Whether longer documents get the part of the budget that shorter ones leave; ODSum's scripts leave it unused."""

    async def summarize(self, task: Task, ask: Ask) -> Outcome[RawAnswer]:
        """The model's answer, or the reason for its absence."""
        return await call(replace(task, shown=heads(task.shown, self.tokens or task.token_budget, self.share_unused)), ask)
