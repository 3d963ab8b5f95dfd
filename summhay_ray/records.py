"""The records of the benchmark: frozen, typed dataclasses. Any module may import this one. It imports no other module of this
package.

Each persisted field is ``Annotated[type, "its meaning in one line"]``. `summhay_ray.store.Table` derives the columns of every
table, and `schemas/*.json`, from these annotations, so that a field and its meaning are defined in one place. Figures are
fractions (0..1), money is integer micro-dollars, and document numbers count from 1. The terms are those of Laban et al., "Summary
of a Haystack" (SummHay), sections 3 and 4.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Literal

Coverage = Literal["NO_COVERAGE", "PARTIAL_COVERAGE", "FULL_COVERAGE"]
COVERAGE_VALUE: Mapping[str, float] = {"NO_COVERAGE": 0.0, "PARTIAL_COVERAGE": 0.5, "FULL_COVERAGE": 1.0}

OTHER = "other"
NUGGET_WEIGHTS: Mapping[str, Mapping[str, float]] = {
    "all": {"vital": 1.0, "okay": 1.0, OTHER: 1.0},
    "vital": {"vital": 1.0},
    "weighted": {"vital": 1.0, "okay": 0.5},
}
"""Nugget score of TREC RAG -> importance of a nugget -> the nugget's weight (`metrics.nugget_scores`). OTHER: any other
importance, or none."""

SYSTEM_NAMES = ("system", "label", "model", "retriever", "ordering")
"""The columns that identify a row's system, in every table that has them."""


def column_of(retriever: str, ordering: str) -> str:
    """Return a column heading for the way in which a system gets its documents: `bm25`, `full bottom`."""
    return retriever if ordering == "given" else f"{retriever} {ordering}"


def system_label(retriever: str, ordering: str, model: str) -> str:
    """Return a system's name for people: `bm25 + openai/gpt-5.4`, `full bottom + openai/gpt-5.4`. For its key, see
    `haystack.system_key`."""
    return f"{column_of(retriever, ordering)} + {model}"


Gold = Mapping[str, frozenset[int] | None]
"""insight_id -> numbers of the documents that contain the insight, empty if none does; None if unknown."""


@dataclass(frozen=True, slots=True)
class Insight:
    """A specific fact that is repeated across the documents of a haystack (section 3.2)."""

    haystack_id: Annotated[str, "content hash of the haystack"]
    subtopic_id: Annotated[str, "the subtopic to which the insight belongs"]
    insight_id: Annotated[str, "identifier, unique within the haystack"]
    position: Annotated[int, "place within its subtopic, from 0"]
    name: Annotated[str, "short name; empty if the source has none"]
    text: Annotated[str, "the insight as one statement, which a summary must contain"]
    importance: Annotated[str, "importance of a nugget: vital, okay or another word; empty if the source has none"] = ""


@dataclass(frozen=True, slots=True)
class Subtopic:
    """One theme of a haystack and the query about it; each query belongs to one subtopic (section 3.3)."""

    haystack_id: Annotated[str, "content hash of the haystack"]
    subtopic_id: Annotated[str, "identifier, unique within the haystack"]
    position: Annotated[int, "place within the haystack, from 0"]
    name: Annotated[str, "short name; empty if the source has none"]
    text: Annotated[str, "the subtopic as a phrase"]
    query: Annotated[str, "the question that a summary must answer"]
    absent: Annotated[
        bool, "whether no document says anything about it, so that the right answer says that nothing is reported"
    ] = False

    @property
    def search_text(self) -> str:
        """The text for retrieval: the query and the subtopic, joined by a space, as in the release."""
        return f"{self.query} {self.text}"


@dataclass(frozen=True, slots=True)
class Document:
    """One document of a haystack."""

    haystack_id: Annotated[str, "content hash of the haystack"]
    document_id: Annotated[str, "identifier, unique within the haystack"]
    number: Annotated[int, "place in the haystack, from 1; summaries cite this number in every ordering of the context"]
    text: Annotated[str, "the document's text in the source"]
    insight_ids: Annotated[tuple[str, ...], "the insights that the document contains, which are the gold for citations"]


@dataclass(frozen=True)
class Haystack:
    """All documents of one topic, with the gold data. The tuples become separate tables."""

    haystack_id: Annotated[str, "content hash of the whole source"]
    name: Annotated[str, "file name of the source without its extension, or the name of a sample"]
    topic_id: Annotated[str, "identifier of the topic; empty if the source has none"]
    topic: Annotated[str, "the subject of all documents"]
    domain: Annotated[str, "conversation, news or generic; determines the prompt and the word for a document"]
    participants: Annotated[tuple[str, ...], "the speakers of a conversation; empty for other domains"]
    documents: tuple[Document, ...] = field(repr=False)
    subtopics: tuple[Subtopic, ...] = field(repr=False)
    insights: tuple[Insight, ...] = field(repr=False)
    released_scores: Mapping[str, Mapping[str, Mapping[str, float]]] = field(default_factory=dict, repr=False)
    """subtopic_id -> retriever name -> document_id -> score, as stored in the source."""
    nuggets: bool = field(default=False, repr=False)
    """Whether the insights are nuggets. For a nugget without references, it is unknown which documents contain it."""

    def insights_of(self, subtopic_id: str) -> tuple[Insight, ...]:
        """Return the insights of one subtopic, in their order."""
        return tuple(insight for insight in self.insights if insight.subtopic_id == subtopic_id)

    @functools.cached_property
    def gold(self) -> Gold:
        """The gold documents of each insight; None if the haystack has no gold documents, and for a nugget without references."""
        if not self.contained:
            return {insight.insight_id: None for insight in self.insights}
        numbers: dict[str, set[int]] = {insight.insight_id: set() for insight in self.insights}
        for document in self.documents:
            for insight_id in document.insight_ids:
                numbers[insight_id].add(document.number)
        return {insight_id: frozenset(own) if own or not self.nuggets else None for insight_id, own in numbers.items()}

    @functools.cached_property
    def contained(self) -> frozenset[str]:
        """The insights that are in at least one document."""
        return frozenset(insight_id for document in self.documents for insight_id in document.insight_ids)

    def oracle_scores(self, subtopic_id: str) -> list[int]:
        """Return the number of the subtopic's insights in each document, in document order (section 5.1)."""
        wanted = {insight.insight_id for insight in self.insights_of(subtopic_id)}
        return [len(wanted.intersection(document.insight_ids)) for document in self.documents]


@dataclass(frozen=True, slots=True)
class Ranking:
    """One document's rank in a retriever's result for a query (section 5.1)."""

    haystack_id: Annotated[str, "content hash of the haystack"]
    subtopic_id: Annotated[str, "the query's subtopic"]
    retriever: Annotated[str, "the retriever's name in the spec"]
    rank: Annotated[int, "place in the ranking, from 1; documents with equal scores are in document order"]
    number: Annotated[int, "document number in the haystack, from 1"]
    document_id: Annotated[str, "document identifier"]
    score: Annotated[float, "the retriever's relevance score"]


@dataclass(frozen=True, slots=True)
class Context:
    """The documents that a model is shown for one query, and their order."""

    context_id: Annotated[str, "hash of haystack, subtopic, retriever, ordering, token budget and seed"]
    haystack_id: Annotated[str, "content hash of the haystack"]
    subtopic_id: Annotated[str, "the query's subtopic"]
    retriever: Annotated[str, "the retriever's name in the spec"]
    ordering: Annotated[str, "order of the documents; `given` for the ranking of a retriever"]
    numbers: Annotated[tuple[int, ...], "document numbers, in the order in which they are shown"]
    n_tokens: Annotated[int, "cl100k tokens of the shown documents, without headers and instructions"]
    last_tokens: Annotated[int | None, "tokens of the last document that are shown, if the budget cut it; else null"]


@dataclass(frozen=True, slots=True)
class Summary:
    """A bullet-point summary with citations, which is the answer of one cell of the grid (section 3.3)."""

    cell_id: Annotated[str, "hash of the cell: haystack, query, retriever, ordering, summarizer, repeat"]
    haystack_id: Annotated[str, "content hash of the haystack"]
    subtopic_id: Annotated[str, "the query's subtopic"]
    system: Annotated[str, "the release's key for retriever, ordering and model"]
    retriever: Annotated[str, "the retriever's name in the spec"]
    ordering: Annotated[str, "order of the documents in the context"]
    model: Annotated[str, "the summarizer's name in the spec"]
    repeat: Annotated[int, "sample index of the cell, from 0"]
    context_id: Annotated[str, "the context that the model was shown; empty for an imported summary"]
    key: Annotated[str, "the raw answer from which the bullets come; empty for an imported summary"]
    bullets: Annotated[tuple[str, ...], "non-empty lines of the summary, stripped; judges number them from 1"]
    label: Annotated[str, "the system's name in tables and reports, such as `full bottom + openai/gpt-5.4`"] = ""

    def __post_init__(self) -> None:
        # The label is derived from the other fields, so no caller passes it.
        object.__setattr__(self, "label", system_label(self.retriever, self.ordering, self.model))


@dataclass(frozen=True, slots=True)
class Judgment:
    """A judge's unchanged verdict on one insight in one summary (section 4.1). Scoring decides how it counts."""

    cell_id: Annotated[str, "the cell whose summary was judged"]
    judge: Annotated[str, "the judge's name in the spec"]
    insight_id: Annotated[str, "the reference insight"]
    position: Annotated[int, "place among the judgments of the summary, from 0"]
    key: Annotated[str, "the raw answer from which the verdict comes; empty for an imported judgment"]
    coverage: Annotated[str, "NO_COVERAGE, PARTIAL_COVERAGE or FULL_COVERAGE, or the judge's word if it is another one"]
    bullet_id: Annotated[str, 'the bullet that covers the insight, in the judge\'s words, as JSON: 3, "3", "NA", [1, 2]']
    value: Annotated[float | None, "expected coverage (0..1), if the judge gives one in addition to its label; else null"] = None
    uncertainty: Annotated[float | None, "standard deviation of the expected coverage; null if the judge gives none"] = None


@dataclass(frozen=True, slots=True)
class Vote:
    """The usable verdict of one member of a panel on one insight in one summary."""

    cell_id: Annotated[str, "the cell whose summary was judged"]
    judge: Annotated[str, "the judge's name in the spec"]
    insight_id: Annotated[str, "the reference insight"]
    position: Annotated[int, "place among the judgments of the summary, from 0"]
    panel: Annotated[str, "the panel, which is the judge or a part of it"]
    member: Annotated[str, "the name of the panel's member"]
    key: Annotated[str, "the raw answer from which the verdict comes"]
    coverage: Annotated[str, "NO_COVERAGE, PARTIAL_COVERAGE or FULL_COVERAGE"]
    bullet_id: Annotated[str, "the bullet that covers the insight, as JSON"]
    value: Annotated[float, "expected coverage (0..1): the member's value, else the value of its label"]
    uncertainty: Annotated[float | None, "standard deviation of the expected coverage; null if the member gives none"]
    tied: Annotated[bool, "whether several labels have the most votes; the one nearest to the mean value is then used"]


@dataclass(frozen=True, slots=True)
class Score:
    """The scores of one insight in one summary by one judge (section 4.1). If the insight is not covered, the citation fields are
    null."""

    cell_id: Annotated[str, "the cell whose summary was judged"]
    judge: Annotated[str, "the judge's name in the spec"]
    insight_id: Annotated[str, "the reference insight"]
    position: Annotated[int, "place among the judgments of the summary, from 0"]
    coverage: Annotated[float, "0, 0.5 or 1"]
    bullet: Annotated[int | None, "the bullet that covers the insight, from 1"]
    cited: Annotated[tuple[int, ...], "document numbers that the bullet cites, sorted, without duplicates"]
    gold: Annotated[tuple[int, ...], "numbers of the documents that contain the insight, sorted"]
    citation_precision: Annotated[float | None, "share of the cited documents that contain the insight"]
    citation_recall: Annotated[float | None, "share of the documents with the insight that are cited"]
    citation_f1: Annotated[float | None, "citation score: harmonic mean of precision and recall"]
    joint: Annotated[float | None, "coverage times citation score; 0 if the insight is not covered, null without gold documents"]
    system: Annotated[str, "key of the summary's system, as in the released files"] = ""
    label: Annotated[str, "the system's name in tables and reports"] = ""
    model: Annotated[str, "the name of the system's summarizer in the spec"] = ""
    retriever: Annotated[str, "the name of the system's retriever in the spec"] = ""
    ordering: Annotated[str, "the order of the documents in the system's contexts"] = ""

    def of(self, summary: Summary) -> Score:
        """Return the score with the names of the summary's system."""
        return replace(self, **{name: getattr(summary, name) for name in SYSTEM_NAMES})


@dataclass(frozen=True, slots=True)
class AbsentAnswer:
    """A judge's verdict on an answer to a query that no document answers. Other figures leave these queries out."""

    cell_id: Annotated[str, "the cell whose summary was judged"]
    judge: Annotated[str, "the judge's name in the spec"]
    key: Annotated[str, "the raw answer from which the verdict comes; empty for a summary without bullets, which claims nothing"]
    invents: Annotated[
        float, "1 if the answer claims anything, 0 if it only says that nothing is reported; for a panel, the mean"
    ]
    bullet: Annotated[int | None, "the first bullet that makes a claim, from 1, if the judge names one"]


@dataclass(frozen=True, slots=True)
class Failure:
    """An answer that is missing or unreadable. It is recorded, and never scored."""

    cell_id: Annotated[str, "the cell in which it happened"]
    stage: Annotated[
        str,
        "context, summarize or judge; for a synthesis, subtopics, insights, queries, documents or verification; empty if the "
        "program itself failed",
    ]
    judge: Annotated[str, "the judge's name in the spec; empty before judging"]
    insight_id: Annotated[str, "the insight that was judged; empty before judging"]
    kind: Annotated[str, "refusal, malformed or failed"]
    error: Annotated[str, "class of the error: context_window, missing_answer, unusable_bullet, ..."]
    message: Annotated[str, "what is wrong, in one line"]
    key: Annotated[str, "key of the raw answer or the request; empty if no request was made"]
    attempts: Annotated[int, "HTTP attempts made"]
    usd_micros: Annotated[int, "cost in millionths of a dollar"]
    model: Annotated[str, "the model that was asked; empty if none was, or if it is unknown"] = ""


@dataclass(frozen=True, slots=True)
class Check:
    """One check during the synthesis of a haystack, with its evidence (appendices A.1.1 to A.1.3)."""

    cell_id: Annotated[str, "the haystack's cell of the synthesis"]
    position: Annotated[int, "place among the checks of the haystack, from 0"]
    kind: Annotated[
        str,
        "subtopic_distinct, subtopic_leak, insight_specific, insight_conflict, insight_distinct, insight_subtopic, query_leak, "
        "chapter_insight, document_insight, document_reference or document_copy",
    ]
    round: Annotated[
        int, "0 for the first check; each later round checks a correction; a document gets the result of its last round"
    ]
    subject: Annotated[str, "id of the checked subtopic, insight or document"]
    object: Annotated[str, "id of the subtopic, insight or document with which it is compared; empty if there is none"]
    expected: Annotated[str, "the result that the plan expects: yes, no, or an id"]
    found: Annotated[str, "the result of the check: yes, no, or an id"]
    by: Annotated[str, "who checked: offline, or the name of a model"]
    score: Annotated[float, "confidence of the offline check in its result, 0 to 1"]
    evidence: Annotated[str, "the evidence: a quotation, or the model's words; empty if the check found nothing"]
    key: Annotated[str, "the raw answer from which it comes; empty for an offline check"]


@dataclass(frozen=True, slots=True)
class CitedAnswer:
    """An answer whose bullets (or sentences) cite documents, as `[3]` or `[DOCUMENT_ID]`."""

    haystack_id: str
    """The name of the answer's documents in `CitedAnswers.documents`."""
    query_id: str
    system: str
    """The system that answered. If a query has several answers, they must have different systems."""
    bullets: tuple[str, ...]
    shown: tuple[str, ...] | None = None
    """Ids of the documents that the system was shown; None if unknown."""
    label: str = ""
    """The system's name for people; by default `system`."""
    model: str = ""
    retriever: str = ""
    ordering: str = ""
    """This and the two fields above are the system's parts, if known."""
    error: str = ""
    """Why the answer is unreadable; empty if it is readable."""
    cited: tuple[tuple[str, ...], ...] | None = None
    """The ids of the documents that each bullet cites, if the answer lists them; None: the bullets are searched for citations."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "label", self.label or self.system)


@dataclass(frozen=True, slots=True)
class CitedAnswers:
    """The input of `summhay support`: answers, and the documents that they may cite."""

    documents: Mapping[str, Sequence[tuple[str, str]]]
    """Name -> (document_id, text) of each document, in the order of the numbers in citations, from 1."""
    answers: Sequence[CitedAnswer]
