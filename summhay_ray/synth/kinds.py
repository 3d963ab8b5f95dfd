"""Room synth: what a haystack is planned and written from. All of the room, and the rooms above, may import it.

Terms and figures after Laban et al., "Summary of a Haystack", section 3.2 and appendix A.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

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
"""What a model is asked to do; each has a prompt of its own, and an `Input:` of its own."""


@dataclass(frozen=True, slots=True)
class Topic:
    """What a haystack is to be about."""

    name: str
    """Of the haystack: letters, digits, -, _."""
    topic: str
    participants: tuple[str, ...] = ()
    """The speakers of a conversation; chosen by the domain where empty."""
    context: tuple[str, ...] = ()
    """Texts that give the models ideas (the news domain's seeds); their facts are not part of the truth."""


@dataclass(frozen=True, slots=True)
class Shape:
    """How large a haystack is (section 3.2: 10 subtopics of 5 to 10 insights, 100 documents of 750 words)."""

    subtopics: int = 9
    insights: int = 7
    """Of each subtopic."""
    documents: int = 100
    words: int = 750
    """Of each document, about."""


@dataclass(frozen=True, slots=True)
class Difficulty:
    """What the paper's section 7 asks for: how hard the haystack is made, beyond its size."""

    documents_per_insight: int | None = None
    """Documents that hold an insight, on average; None: what the domain's usual load of a document gives."""
    least: int = 5
    """Documents that hold an insight, at least."""
    spread: float = 0.0
    """How uneven the documents are shared out among insights: 0 (alike) to 1."""
    paraphrase: int = 1
    """0: an insight's own words; 1: its facts in another sentence; 2: other words; 3: its facts spread over several sentences."""
    distractors: int = 0
    """Subtopics beside those that are asked about, whose insights are in the documents as well."""
    conflicts: int = 0
    """Pairs of insights that disagree: each in documents of its own, both of them truth."""
    cross_references: float = 0.0
    """Share of the documents that are dated and refer to an earlier document."""


@dataclass(frozen=True, slots=True)
class PlannedInsight:
    """An insight before its haystack is written."""

    insight_id: str
    subtopic_id: str
    name: str
    text: str
    conflicts_with: str = ""
    """The insight_id of the other side."""


@dataclass(frozen=True, slots=True)
class PlannedSubtopic:
    """A subtopic with its insights. `asked`: it is a query of the haystack; else it distracts."""

    subtopic_id: str
    name: str
    text: str
    query: str
    insights: tuple[PlannedInsight, ...]
    asked: bool = True


@dataclass(frozen=True, slots=True)
class Outline:
    """The truth of a haystack: its subtopics, those that distract last."""

    topic: Topic
    subtopics: tuple[PlannedSubtopic, ...]

    @property
    def insights(self) -> tuple[PlannedInsight, ...]:
        """All insights, in order."""
        return tuple(insight for subtopic in self.subtopics for insight in subtopic.insights)


@dataclass(frozen=True, slots=True)
class PlannedDocument:
    """What a document is to hold. `number` counts from 1; `refers_to` are numbers of documents before it."""

    document_id: str
    number: int
    insight_ids: tuple[str, ...]
    date: str = ""
    """ISO date, empty where documents carry none."""
    refers_to: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Written:
    """A document as it was written and verified. `corrections`: chapters written again, and rounds of editing, in all."""

    planned: PlannedDocument
    text: str
    corrections: int = 0


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a check says. `sure`: no model needs to be asked; `score` is 0 (surely not) to 1; `evidence` quotes the text."""

    found: bool
    sure: bool
    score: float
    evidence: str = ""


@dataclass(frozen=True)
class Synthesized:
    """A haystack that passed its verification: released JSON, and every check that was made, in order."""

    raw: dict[str, Any] = field(repr=False)
    checks: tuple[Check, ...] = field(repr=False)


@dataclass(frozen=True)
class Unverified:
    """No haystack: which stage gave up, and why; the checks made until then."""

    stage: str
    """subtopics, insights, queries, documents or verification; synthesis, where the program itself went wrong."""
    error: str
    message: str
    checks: tuple[Check, ...] = field(default=(), repr=False)
    retryable: bool = False
    usd_micros: int = 0
    key: str = ""
    attempts: int = 0
    kind: Literal["failed", "malformed", "refusal"] = "failed"
    """Of the answer that it hangs on, where it hangs on one."""


Input = Mapping[str, Any]
"""What stands behind `Input:` at the end of a prompt, as JSON."""
