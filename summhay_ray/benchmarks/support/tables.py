"""The tables of support judging."""

from dataclasses import dataclass
from typing import Annotated

from summhay_ray.benchmark import Table


@dataclass(frozen=True, slots=True)
class SupportRow:
    """A bullet and a document that it cites, or that supports it, with the judge's opinion on this support."""

    haystack_id: Annotated[str, "the documents that the answer is about: the haystack, or the folder's name"]
    query_id: Annotated[str, "the query; in a haystack, the subtopic's id"]
    system: Annotated[str, "the key of the system that answered, with `#N` for a repeat"]
    bullet: Annotated[int, "number of the bullet, from 1, as in judgments"]
    document_id: Annotated[str, "the document"]
    cited: Annotated[bool, "whether the bullet cites the document"]
    value: Annotated[float | None, "confidence in the support of the bullet, 0 to 1; supported from 0.5 on; null: not judged"]
    verdict: Annotated[
        str, "supported (from 0.5), partly (from 0.25) or not; for a panel, by majority; empty: not judged, see the failures"
    ]
    evidence: Annotated[str, "the sentence of the document that is nearest to the bullet, or the passage that a model read"]
    judge: Annotated[str, "the judge that gave the value; only the free judge judges documents that are not cited"]
    recited: Annotated[bool | None, "whether the bullet cites the document after the repair; null without a repair"] = None
    label: Annotated[str, "the system as tables and reports show it"] = ""
    model: Annotated[str, "the system's summarizer; empty if unknown"] = ""
    retriever: Annotated[str, "the system's retriever; empty if unknown"] = ""
    ordering: Annotated[str, "the order of the documents in the system's contexts; empty if unknown"] = ""


@dataclass(frozen=True, slots=True)
class BulletRow:
    """A bullet, its citations, and their flaws."""

    haystack_id: Annotated[str, "the documents that the answer is about"]
    query_id: Annotated[str, "the query"]
    system: Annotated[str, "the system that answered"]
    bullet: Annotated[int, "number of the bullet, from 1"]
    text: Annotated[str, "the bullet"]
    words: Annotated[int, "its number of words"]
    heading: Annotated[bool, "whether it is not a claim: it cites nothing, and ends with a colon or has no word"]
    cited: Annotated[int, "number of documents that it cites"]
    supported: Annotated[int | None, "how many of them support it; null if any was not judged"]
    uncited: Annotated[int, "number of documents that support it, by the free judge, but are not cited"]
    other_language: Annotated[bool, "whether it is in another language than the documents"]
    out_of_range: Annotated[tuple[int, ...], "cited numbers that no document has"]
    not_shown: Annotated[tuple[str, ...], "cited documents that the system was not shown"]
    ranges: Annotated[int, "number of ranges such as [3-7] among its citations; they cite each document in them"]
    by_id: Annotated[int, "number of documents that it cites by id"]
    unreadable: Annotated[tuple[str, ...], "cited ids that no document has"]


@dataclass(frozen=True, slots=True)
class SupportVote:
    """A panel member's verdict on a citation."""

    haystack_id: Annotated[str, "the documents that the answer is about"]
    query_id: Annotated[str, "the query"]
    system: Annotated[str, "the system that answered"]
    bullet: Annotated[int, "number of the bullet, from 1"]
    document_id: Annotated[str, "the cited document"]
    panel: Annotated[str, "the panel's name"]
    member: Annotated[str, "the member of the panel"]
    value: Annotated[float, "confidence that the document supports the bullet, 0 to 1"]
    verdict: Annotated[str, "supported, partly or not"]
    evidence: Annotated[str, "the sentence that shows it"]
    tied: Annotated[bool, "whether several verdicts have the most votes; of these, the one nearest to the mean value wins"]


_BULLET = ("haystack_id", "query_id", "system", "bullet")
SUPPORTS = Table("supports", SupportRow, (*_BULLET, "document_id"), texts=("evidence",))
BULLETS = Table("support_bullets", BulletRow, _BULLET)
VOTES = Table("support_votes", SupportVote, (*_BULLET, "document_id", "panel", "member"), texts=("evidence",))
