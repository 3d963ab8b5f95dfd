"""The contract of a summarizer. Imports records, outcome and llm; `summarize/__init__.py` is the door for other rooms.

To add a strategy: put one file into `strategies/` with a class that has a `name` and the method below; a spec names it
with `summarizers: [{model: ..., strategy: NAME}]`, or with `strategy: my_package.my_module:MyStrategy`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from summhay_ray.llm import Ask, RawAnswer
from summhay_ray.outcome import Outcome
from summhay_ray.records import Haystack, Subtopic


@dataclass(frozen=True, slots=True)
class Shown:
    """A document as the model sees it: its number in the haystack and the text that the budget left of it."""

    number: int
    text: str


@dataclass(frozen=True, slots=True)
class Task:
    """One query, its context, and how to ask for the summary."""

    haystack: Haystack
    subtopic: Subtopic
    shown: tuple[Shown, ...]
    model: str
    prompt: str
    """Text of the prompt file; empty for the domain's own prompt."""
    sampling: Mapping[str, Any] = field(default_factory=dict)
    sample: int = 0
    lookup: str = ""


class Summarizer(Protocol):
    """Query and context in, outcome of a summary out; every model call goes through `ask`."""

    name: ClassVar[str]

    async def summarize(self, task: Task, ask: Ask) -> Outcome[RawAnswer]:
        """The raw answer whose lines are the summary (`bullets_of` splits them), or why there is none."""
        ...
