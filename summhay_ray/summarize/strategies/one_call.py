"""Strategies with one call or none: the whole context, documents cut to a budget (ODSum, section 7: truncation), and an answer
from a file."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, ClassVar

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from summhay_ray.llm import Ask, RawAnswer, Request
from summhay_ray.outcome import Outcome
from summhay_ray.summarize.base import Shown, Task
from summhay_ray.summarize.prompting import call
from summhay_ray.text import count_tokens, first_tokens


class Direct:
    """The paper's summarizer (section 3.3), which makes one call with the whole context."""

    name: ClassVar[str] = "direct"

    async def summarize(self, task: Task, ask: Ask) -> Outcome[RawAnswer]:
        """Return the model's answer, or the reason why there is none."""
        return await call(task, ask)


class Given:
    """Returns the answer that a file has for the query. No model is called, so retrieval makes no difference."""

    name: ClassVar[str] = "given"

    async def summarize(self, task: Task, ask: Ask) -> Outcome[RawAnswer]:
        """Return the answer stored under `task.lookup`, or a failure if there is none."""
        return await ask(Request(task.model, task.subtopic.query, task.sampling, sample=task.sample, lookup=task.lookup))


@dataclass(frozen=True, config=ConfigDict(strict=True, extra="forbid"))
class TruncateAll:
    """Shows the documents in rank order, cut at the end of the budget."""

    name: ClassVar[str] = "truncate-all"
    tokens: Annotated[int | None, Field(ge=1)] = None
    """Token budget; None: the run's budget."""

    async def summarize(self, task: Task, ask: Ask) -> Outcome[RawAnswer]:
        """Return the model's answer, or the reason why there is none."""
        return await call(replace(task, shown=head(task.shown, self.tokens or task.token_budget)), ask)


@dataclass(frozen=True, config=ConfigDict(strict=True, extra="forbid"))
class TruncateOne:
    """Shows all n documents, each cut to an n-th of the budget."""

    name: ClassVar[str] = "truncate-one"
    tokens: Annotated[int | None, Field(ge=1)] = None
    """Token budget; None: the run's budget."""
    share_unused: bool = False
    """Whether longer documents get the budget that shorter ones do not use. In ODSum's scripts, it stays unused."""

    async def summarize(self, task: Task, ask: Ask) -> Outcome[RawAnswer]:
        """Return the model's answer, or the reason why there is none."""
        return await call(replace(task, shown=heads(task.shown, self.tokens or task.token_budget, self.share_unused)), ask)


def head(shown: Sequence[Shown], budget: int | None) -> tuple[Shown, ...]:
    """Return the first documents within the budget, in order. The last one may be cut."""
    kept, left = [], math.inf if budget is None else budget
    for document in shown:
        if left <= 0:
            break
        cut = _cut(document, left)
        kept.append(cut)
        # A cut document uses up the budget, even if its text has a token less than the rest of the budget.
        left = left - count_tokens(cut.text) if cut is document else 0
    return tuple(kept)


def heads(shown: Sequence[Shown], budget: int | None, share_unused: bool = False) -> tuple[Shown, ...]:
    """Cut each of n documents to `budget // n` tokens. With `share_unused`, longer documents get the tokens that short ones do
    not use."""
    if budget is None or not shown:
        return tuple(shown)
    rooms = [budget // len(shown)] * len(shown)
    if share_unused:
        lengths = [count_tokens(document.text) for document in shown]
        left = budget
        for done, place in enumerate(sorted(range(len(shown)), key=lambda place: lengths[place])):
            rooms[place] = min(lengths[place], left // (len(shown) - done))
            left -= rooms[place]
    return tuple(_cut(document, room) for document, room in zip(shown, rooms, strict=True))


def _cut(document: Shown, room: float) -> Shown:
    if count_tokens(document.text) <= room:
        return document
    return Shown(document.number, first_tokens(document.text, int(room)))
