"""The contract of a summarizer. Imports records, outcome and llm; `summarize/__init__.py` is the door for other rooms.

To add a strategy: put one file into `strategies/` with a class that has a `name` and the method below; a spec names it
with `strategies: [NAME]`, with `summarizers: [{model: ..., strategy: NAME}]`, or as `my_package.my_module:MyStrategy`. What its
constructor takes are its options: `{strategy: NAME, option: value}`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Protocol

from summhay_ray.llm import Ask, RawAnswer
from summhay_ray.outcome import Outcome
from summhay_ray.records import Haystack, Subtopic

Form = Literal["bullets", "answer"]
"""What a summary is: bullets that cite documents, as many as insights are asked for, or one text that answers the query."""

Step = Literal["write", "reduce", "refine"]
"""What a call is for: a summary of the documents shown, one summary of several, or a summary made better by further documents."""


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
    token_budget: int | None = None
    """cl100k tokens of documents that one call may show; None: no limit."""
    form: Form = "bullets"
    n_words: int = 250
    """How long an answer may be, where the form is one."""
    step: Step = "write"
    notes: tuple[str, ...] = ()
    """The summaries that a reduce or refine step starts from."""


class Summarizer(Protocol):
    """Query and context in, outcome of a summary out; every model call goes through `ask`."""

    name: ClassVar[str]

    async def summarize(self, task: Task, ask: Ask) -> Outcome[RawAnswer]:
        """The raw answer whose lines are the summary (`bullets_of` splits them), or why there is none."""
        ...
