"""Checks an existing haystack offline, with the checks of a synthesis. Imported from `summhay_ray.synth`.

The checks follow Laban et al., appendices A.1.1 to A.1.3: subtopics and insights are distinct, insights are assigned blind to
their subtopics, queries reveal no insight, every document is searched for every insight, and no document is a near-copy.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from summhay_ray.haystack import Node, ReleasedFile
from summhay_ray.loops import run_loop
from summhay_ray.outcome import Outcome
from summhay_ray.records import Check
from summhay_ray.synth.checking.outline_checks import ENGLISH, is_english, lacks_a_fact, same_text
from summhay_ray.synth.checking.verifier import Verifier
from summhay_ray.synth.making import kinds
from summhay_ray.synth.making.documents import Piece, comparable, free, reference_of


@dataclass(frozen=True, slots=True)
class ExistingCheck:
    """One check of an existing haystack."""

    check: Check
    sure: bool
    """Whether the check is based on more than words, which can be paraphrased: the document lacks a number, name or date of the
    insight, the insight has none, two texts are equal, or documents are near-copies."""
    text: str
    """The text of the insight that is searched for, or of the checked subtopic or insight; else empty."""


class _NoModel:
    """An asker without a model."""

    def model(self, task: kinds.Task) -> str:
        return ""

    async def ask(self, task: kinds.Task, given: kinds.Input, sample: int = 0) -> Outcome[Any]:
        """Never called, since no task has a model."""
        raise AssertionError(f"{task} was asked of no model")


def verify_haystack(source: ReleasedFile, file: str = "") -> tuple[ExistingCheck, ...]:
    """Check a haystack of any origin against its own annotations, in a fixed order, without any call.

    Conflicts, distractors and references are used if a synthesis recorded them. Raises InvalidHaystack, which names `file`, if
    these cannot be read.
    """
    truth = _Truth(source, Node(file or source.haystack.name, "", source.raw))
    return tuple(ExistingCheck(check, truth.is_sure(check), truth.text_of(check)) for check in run_loop(truth.check))


class _Truth:
    """The outline and the documents of a haystack, as its annotations describe them."""

    def __init__(self, source: ReleasedFile, root: Node) -> None:
        haystack = source.haystack
        metadata = root.optional("topic_metadata")
        synthesis = metadata.optional("synthesis") if metadata else None
        manner = synthesis.optional("manner") if synthesis else None
        language = manner.optional("language") if manner else None
        self._haystack = haystack
        self._given = {
            "topic": haystack.topic,
            "domain": haystack.domain,
            "language": language.text() if language else ENGLISH,
        }
        conflicts: dict[str, str] = {}
        for node in _entries(synthesis, "conflicts"):
            one, other = (side.identifier() for side in node.items("a list of two insight ids", least=2)[:2])
            conflicts |= {one: other, other: one}
        distracting = [_distractor(node, conflicts) for node in _entries(synthesis, "distractors")]
        asked = tuple(
            kinds.PlannedSubtopic(
                subtopic.subtopic_id,
                subtopic.name,
                subtopic.text,
                subtopic.query,
                tuple(
                    kinds.PlannedInsight(
                        insight.insight_id,
                        subtopic.subtopic_id,
                        insight.name,
                        insight.text,
                        conflicts.get(insight.insight_id, ""),
                    )
                    for insight in haystack.insights
                    if insight.subtopic_id == subtopic.subtopic_id
                ),
            )
            for subtopic in haystack.subtopics
        )
        self._outline = kinds.PlannedHaystack(
            kinds.Topic(haystack.name, haystack.topic), (*asked, *(subtopic for subtopic, _ in distracting))
        )
        self._documents = _documents(source, root, [pair for _, held in distracting for pair in held], synthesis is not None)
        self._texts = {insight.insight_id: insight.text for insight in self._outline.insights}
        self._subtopics = {subtopic.subtopic_id: subtopic.text for subtopic in self._outline.subtopics}
        self._document_texts = {planned.document_id: text for planned, text in self._documents}

    def is_sure(self, check: Check) -> bool:
        """Whether the check is certain; see `ExistingCheck.sure`. In languages other than English, names cannot be recognized."""
        if check.kind == "document_copy":
            return True
        if check.kind in ("insight_distinct", "subtopic_distinct"):
            texts = self._texts if check.kind == "insight_distinct" else self._subtopics
            return check.found == "no" and same_text(texts[check.subject], texts[check.object])
        if not is_english(self._given["language"]):
            return False
        if check.kind == "document_insight":
            return check.found == "no" and lacks_a_fact(self._document_texts[check.subject], self._texts[check.object])
        return check.kind == "insight_specific" and check.score in (0.0, 1.0)

    def text_of(self, check: Check) -> str:
        if check.kind in ("document_insight", "query_leak", "subtopic_leak"):
            return self._texts[check.object]
        if check.kind == "subtopic_distinct":
            return self._subtopics[check.subject]
        return self._texts.get(check.subject, "") if check.kind.startswith("insight_") else ""

    async def check(self) -> tuple[Check, ...]:
        verifier = Verifier(self._haystack.haystack_id, _NoModel(), self._given)
        subtopics, insights = self._outline.subtopics, self._outline.insights
        await verifier.subtopics([(subtopic.subtopic_id, subtopic.text) for subtopic in subtopics], 0)
        await verifier.insights(subtopics, 0, drop=False)
        for subtopic in subtopics:
            if subtopic.asked:
                others = [insight for insight in insights if insight.subtopic_id != subtopic.subtopic_id]
                await verifier.query(subtopic, others, 0)
        pieces: dict[int, Piece] = {}
        for planned, text in self._documents:
            checked = await verifier.document(planned, text, insights, 0)
            shown = tuple(" ".join(words.split()) for words in checked.evidence.values() if words)
            pieces[planned.number] = Piece(kinds.Written(planned, text), shown)
        for piece in pieces.values():
            texts = (piece.written.text, "\n".join(free(piece)))
            for earlier in (pieces[number] for number in piece.written.planned.refers_to):
                ids = (piece.written.planned.document_id, earlier.written.planned.document_id)
                verifier.reference(ids, texts, reference_of(earlier, self._haystack.participants), 0)
        await verifier.copies(comparable([*pieces.values()]))
        return verifier.checks


def _entries(synthesis: Node | None, name: str) -> Sequence[Node]:
    """Return the entries of a list that a synthesis recorded, or none if there was no synthesis."""
    value = synthesis.optional(name) if synthesis else None
    return value.items() if value else []


def _distractor(node: Node, conflicts: dict[str, str]) -> tuple[kinds.PlannedSubtopic, list[tuple[str, str]]]:
    """Return the subtopic, and (document, insight) ids for the documents that contain its insights."""
    subtopic_id, listed = node.entry("subtopic_id").identifier(), node.entry("insights").items()
    insights = tuple(
        kinds.PlannedInsight(
            (insight_id := item.entry("insight_id").identifier()),
            subtopic_id,
            "",
            item.entry("insight").text(),
            conflicts.get(insight_id, ""),
        )
        for item in listed
    )
    held = [
        (document.identifier(), insight.insight_id)
        for insight, item in zip(insights, listed, strict=True)
        for document in item.entry("documents").items()
    ]
    return kinds.PlannedSubtopic(subtopic_id, "", node.entry("subtopic").text(), "", insights, asked=False), held


def _documents(
    source: ReleasedFile, root: Node, held: Sequence[tuple[str, str]], ours: bool
) -> list[tuple[kinds.PlannedDocument, str]]:
    """Return the annotated documents, each with its text.

    `held`: (document, insight) ids for the insights of distracting subtopics. `ours`: whether this package synthesized the
    haystack. Dates and references are read only then.
    """
    numbers = {document.document_id: document.number for document in source.haystack.documents}
    pairs = []
    for document, node in zip(source.haystack.documents, root.entry("documents").items(), strict=True):
        metadata = node.optional("document_metadata") if ours else None
        date = metadata.optional("date") if metadata else None
        refers = metadata.optional("refers_to") if metadata else None
        named = refers.items() if refers else []
        for item in named:
            if item.identifier() not in numbers:
                raise item.refuse("the id of a document of the file")
        distracting = tuple(insight_id for document_id, insight_id in held if document_id == document.document_id)
        planned = kinds.PlannedDocument(
            document.document_id,
            document.number,
            (*document.insight_ids, *distracting),
            date.text() if date else "",
            tuple(numbers[item.identifier()] for item in named),
        )
        pairs.append((planned, document.text))
    return pairs
