"""The contract of a summarizer. Import it from `summhay_ray.summarize`.

To add a strategy, write a class in `strategies/` that has the members of `Summarizer`. A spec uses it by `strategies: [NAME]` or
`summarizers: [{model: ..., strategy: NAME}]`, where NAME may be `my_package.my_module:MyStrategy`. The parameters of its
constructor are its options: `{strategy: NAME, option: value}`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Protocol

from summhay_ray.llm import Ask, RawAnswer
from summhay_ray.outcome import Outcome
from summhay_ray.records import Haystack, Subtopic

Form = Literal["bullets", "answer"]
"""The form of a summary: bullets with citations, one per requested insight, or one text that answers the query."""

Step = Literal["write", "reduce", "refine"]
"""The purpose of a call: to summarize the documents shown, to merge several summaries, or to refine a summary with more
documents."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A document as the model sees it: its number in the haystack, and its text as far as the budget allows."""

    number: int
    text: str


@dataclass(frozen=True, slots=True)
class Reducer:
    """A model that merges summaries written by another model."""

    model: str
    sampling: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Task:
    """One query, its context, and the settings of the call."""

    haystack: Haystack
    subtopic: Subtopic
    shown: tuple[Shown, ...]
    model: str
    prompt: str
    """Text of the user's prompt file; empty for the built-in prompt of the domain."""
    sampling: Mapping[str, Any] = field(default_factory=dict)
    sample: int = 0
    lookup: str = ""
    token_budget: int | None = None
    """Maximum cl100k tokens of documents that one call may show; None: no limit."""
    form: Form = "bullets"
    n_words: int = 250
    """Maximum number of words of an answer, only for the form `answer`."""
    shares: Literal["nothing", "documents", "prompt"] = "nothing"
    """The beginning that this task's prompt shares with other tasks of the model: its documents, or the whole prompt."""
    step: Step = "write"
    notes: tuple[str, ...] = ()
    """The earlier summaries that a reduce or refine step uses."""
    reducer: Reducer | None = None
    """The model of the reduce steps; None: the task's own model."""


class Summarizer(Protocol):
    """Turns a query and its context into the outcome of a summary. It calls models only through `ask`."""

    name: ClassVar[str]

    async def summarize(self, task: Task, ask: Ask) -> Outcome[RawAnswer]:
        """Return the raw answer whose text is the summary (`bullets_of` splits its lines), or the reason why there is none."""
        ...
