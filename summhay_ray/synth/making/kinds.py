"""The data classes of a haystack in the making, and the contract for asking models.

To add a task for models, name it in `Task`, write its prompt in `prompts/`, and parse its answer in `prompting.py`.

Terms and figures follow Laban et al., "Summary of a Haystack", section 3.2 and appendix A.1.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from summhay_ray.outcome import Outcome
from summhay_ray.records import Check

Task = Literal[
    "subtopics",
    "overlapping_subtopics",
    "insights",
    "conflicting_insight",
    "duplicate_insights",
    "assign_subtopic",
    "query",
    "query_leaks",
    "document",
    "chapter",
    "chapter_check",
    "insights_present",
    "edit_document",
]
"""A task for a model. Each task has its own prompt and its own fields of input."""


@dataclass(frozen=True, slots=True)
class Topic:
    """The subject of a haystack."""

    name: str
    """Name of the haystack, made of letters, digits, `-` and `_`."""
    topic: str
    participants: tuple[str, ...] = ()
    """The speakers of a conversation; if empty, the domain's."""
    context: tuple[str, ...] = ()
    """Texts that give the models ideas, such as seed articles in the news domain. Their facts are not part of the truth."""


@dataclass(frozen=True, slots=True)
class Shape:
    """The size of a haystack (section 3.2: 10 subtopics of 5 to 10 insights, 100 documents of 750 words)."""

    subtopics: int = 9
    insights: int = 7
    """Insights per subtopic."""
    documents: int = 100
    words: int = 750
    """Approximate number of words per document."""


@dataclass(frozen=True, slots=True)
class Difficulty:
    """The difficulty of a haystack of a given size. The paper's section 7 asks for such controls."""

    documents_per_insight: int | None = None
    """Average number of documents per insight; None: derived from the domain's `insights_per_document`."""
    least: int = 5
    """Minimum number of documents per insight."""
    spread: float = 0.0
    """How unevenly documents are distributed over insights, from 0 (evenly) to 1."""
    paraphrase: int = 1
    """0: an insight's own words; 1: its facts in another sentence; 2: other words; 3: its facts spread over several sentences."""
    distractors: int = 0
    """Number of subtopics without a query. The documents contain their insights, too."""
    conflicts: int = 0
    """Number of pairs of insights that contradict each other. Both are part of the truth, but no document has both."""
    cross_references: float = 0.0
    """Share of the documents that refer to an earlier document. Above 0, all documents are dated."""


@dataclass(frozen=True, slots=True)
class PlannedInsight:
    """An insight before its haystack is written."""

    insight_id: str
    subtopic_id: str
    name: str
    text: str
    conflicts_with: str = ""
    """The insight_id of the other side of a conflict; empty if there is no conflict."""


@dataclass(frozen=True, slots=True)
class PlannedSubtopic:
    """A subtopic with its insights. `asked`: whether it has a query; if not, it is a distractor."""

    subtopic_id: str
    name: str
    text: str
    query: str
    insights: tuple[PlannedInsight, ...]
    asked: bool = True


@dataclass(frozen=True, slots=True)
class PlannedHaystack:
    """The planned content of a haystack: its subtopics, with the distracting ones last."""

    topic: Topic
    subtopics: tuple[PlannedSubtopic, ...]

    @property
    def insights(self) -> tuple[PlannedInsight, ...]:
        return tuple(insight for subtopic in self.subtopics for insight in subtopic.insights)


@dataclass(frozen=True, slots=True)
class PlannedDocument:
    """The plan of a document. `number` counts from 1; `refers_to`: numbers of earlier documents."""

    document_id: str
    number: int
    insight_ids: tuple[str, ...]
    date: str = ""
    """ISO date; empty if the haystack's documents are not dated."""
    refers_to: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Written:
    """A document, written and verified. `corrections`: number of chapters written again plus rounds of editing."""

    planned: PlannedDocument
    text: str
    corrections: int = 0


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of an offline check. `sure`: whether no model is needed; `score`: 0 (surely not) to 1; `evidence`: a
    quotation."""

    found: bool
    sure: bool
    score: float
    evidence: str = ""


@dataclass(frozen=True)
class Synthesized:
    """A verified haystack: its released JSON, and all checks in order."""

    raw: dict[str, Any] = field(repr=False)
    checks: tuple[Check, ...] = field(repr=False)


@dataclass(frozen=True)
class Unverified:
    """A failed haystack: the stage that gave up, the reason, and the checks made so far."""

    stage: str
    """subtopics, insights, queries, documents or verification; synthesis for an error of the program itself."""
    error: str
    message: str
    checks: tuple[Check, ...] = field(default=(), repr=False)
    retryable: bool = False
    usd_micros: int = 0
    key: str = ""
    attempts: int = 0
    kind: Literal["failed", "malformed", "refusal"] = "failed"
    """The class of the answer that caused the failure; failed if there is no such answer."""


Input = Mapping[str, Any]
"""The JSON object after `Input:` at the end of a prompt."""


class Asker(Protocol):
    """Asks a model to do a task and parses its answer.

    `Answer.value` depends on the task. An index counts from 0 in the input's list, while ids in prompts and answers count from 1.
    subtopics, insights: tuple of (name, text) · conflicting_insight: (name, text) · overlapping_subtopics, duplicate_insights:
    tuple of pairs of indices · assign_subtopic, chapter_check: index, or None · query, document, chapter, edit_document: text ·
    query_leaks: tuple of indices · insights_present: dict of index -> the document's words that show the insight.
    """

    async def ask(self, task: Task, given: Input, sample: int = 0) -> Outcome[Any]:
        """Return the outcome; an answer that cannot be parsed is Malformed. Another `sample` requests another answer. Raise only
        what cannot be recorded: a full disk, a bug."""
        ...

    def model(self, task: Task) -> str:
        """Return the model for the task, or an empty string if there is none. Then `ask` must not be called for this task."""
        ...
