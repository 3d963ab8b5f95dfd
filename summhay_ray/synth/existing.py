"""Part of the synth room, offered at its door: the truth of a haystack that exists, checked offline as in its making.

Checks after Laban et al., appendices A.1.1 to A.1.3: subtopics and insights apart, insights assigned blind, queries that give
nothing away, every insight looked for in every document, no near-copies.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from summhay_ray.haystack import Node, ReleasedFile
from summhay_ray.loops import run_loop
from summhay_ray.outcome import Answer, Outcome
from summhay_ray.records import Check
from summhay_ray.synth.check_rows import OFFLINE
from summhay_ray.synth.checks import ENGLISH
from summhay_ray.synth.kinds import Input, Outline, PlannedDocument, PlannedInsight, PlannedSubtopic, Task, Topic, Written
from summhay_ray.synth.pieces import Piece, comparable, free, reference_of
from summhay_ray.synth.verify import Verifier

T = TypeVar("T")

_NOTHING: dict[Task, Any] = {
    "overlapping_subtopics": (),
    "duplicate_insights": (),
    "assign_subtopic": None,
    "query_leaks": (),
    "insights_present": {},
}


@dataclass(frozen=True, slots=True)
class Held:
    """One check of a haystack that exists."""

    check: Check
    open: bool
    """Whether the offline check is not sure, so that a synthesis would ask its `models.check`."""
    text: str
    """Of the insight that is looked for, or the subtopic or query that is checked; empty for documents."""


class _NoModel:
    """Asks nobody."""

    def model(self, task: Task) -> str:
        """None for any task."""
        return ""

    async def ask(self, task: Task, given: Input, sample: int = 0) -> Outcome[Any]:
        """Is not called where there is no model."""
        raise AssertionError(f"{task} was asked of no model")


class _Questions(_NoModel):
    """Stands where a model would be asked, and says nothing: the rows that name it are those that it was needed for."""

    def model(self, task: Task) -> str:
        """The same for every task."""
        return "open"

    async def ask(self, task: Task, given: Input, sample: int = 0) -> Outcome[Any]:
        """Nothing is named."""
        return Answer(_NOTHING[task])


def verify_haystack(source: ReleasedFile, file: str = "") -> tuple[Held, ...]:
    """Every check of the haystack against what it says of itself, in a fixed order. No model is asked.

    Also of haystacks that were not made here: what a synthesis notes of conflicts, distractors and references is taken
    where it stands. Raises InvalidHaystack where that cannot be read; `file` is its name there.
    """
    truth = _Truth(source, Node(file or source.haystack.name, "", source.raw))
    found, needed = run_loop(lambda: truth.checked(Verifier(*truth.head(_NoModel())))), set()
    for check in run_loop(lambda: truth.checked(Verifier(*truth.head(_Questions())))):
        if check.by != OFFLINE:
            needed.add(_name(check))
    return tuple(Held(check, _name(check) in needed or _is_a_guess(check), truth.text_of(check)) for check in found)


def _is_a_guess(check: Check) -> bool:
    """Whether the row is of a check that no model is asked for, and that does not know."""
    return check.kind == "insight_specific" and 0 < check.score < 1


def _name(check: Check) -> tuple[str, str, str]:
    # Of what is held apart there is one row each, against whichever is nearest.
    return check.kind, check.subject, "" if check.kind.endswith("_distinct") else check.object


class _Truth:
    """What a haystack says of itself."""

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
        other_side = _listed(synthesis, "conflicts", _sides)
        conflicts = {one: other for pair in other_side for one, other in (pair, pair[::-1])}
        distracting = _listed(synthesis, "distractors", lambda node: _distractor(node, conflicts))
        asked = tuple(
            PlannedSubtopic(
                one.subtopic_id,
                one.name,
                one.text,
                one.query,
                tuple(
                    PlannedInsight(
                        insight.insight_id, one.subtopic_id, insight.name, insight.text, conflicts.get(insight.insight_id, "")
                    )
                    for insight in haystack.insights
                    if insight.subtopic_id == one.subtopic_id
                ),
            )
            for one in haystack.subtopics
        )
        self._outline = Outline(Topic(haystack.name, haystack.topic), (*asked, *(one for one, _ in distracting)))
        self._documents = _documents(source, root, [pair for _, held in distracting for pair in held], synthesis is not None)
        self._texts = {one.insight_id: one.text for one in self._outline.insights}

    def head(self, asker: _NoModel) -> tuple[str, _NoModel, Input]:
        """What a verifier is made of."""
        return self._haystack.haystack_id, asker, self._given

    def text_of(self, check: Check) -> str:
        """What a person reads to follow the check."""
        if check.kind in ("document_insight", "query_leak", "subtopic_leak"):
            return self._texts[check.object]
        if check.kind == "subtopic_distinct":
            return next(one.text for one in self._outline.subtopics if one.subtopic_id == check.subject)
        return self._texts.get(check.subject, "") if check.kind.startswith("insight_") else ""

    async def checked(self, verifier: Verifier) -> tuple[Check, ...]:
        """All checks by this verifier."""
        subtopics, insights = self._outline.subtopics, self._outline.insights
        await verifier.subtopics([(one.subtopic_id, one.text) for one in subtopics], 0)
        await verifier.insights(subtopics, 0, drop=False)
        for subtopic in subtopics:
            if subtopic.asked:
                others = [insight for insight in insights if insight.subtopic_id != subtopic.subtopic_id]
                await verifier.query(subtopic, others, 0)
        pieces: dict[int, Piece] = {}
        for planned, text in self._documents:
            found = await verifier.document(planned, text, insights, 0)
            shown = tuple(" ".join(words.split()) for words in found.evidence.values() if words)
            pieces[planned.number] = Piece(Written(planned, text), shown)
        for number, piece in pieces.items():
            for earlier in piece.written.planned.refers_to:
                self._refers(verifier, pieces[number], pieces[earlier])
        await verifier.copies(comparable([*pieces.values()]))
        return verifier.checks

    def _refers(self, verifier: Verifier, piece: Piece, earlier: Piece) -> None:
        ids = (piece.written.planned.document_id, earlier.written.planned.document_id)
        texts = (piece.written.text, "\n".join(free(piece)))
        verifier.reference(ids, texts, reference_of(earlier, self._haystack.participants), 0)


def _listed(synthesis: Node | None, name: str, read: Callable[[Node], T]) -> list[T]:
    found = synthesis.optional(name) if synthesis else None
    return [read(item) for item in found.items()] if found else []


def _sides(node: Node) -> tuple[str, str]:
    sides = node.items("a list of two insight ids", least=2)
    return sides[0].identifier(), sides[1].identifier()


def _distractor(node: Node, conflicts: dict[str, str]) -> tuple[PlannedSubtopic, list[tuple[str, str]]]:
    """The subtopic, and the documents that hold its insights: pairs of ids, document first."""
    subtopic_id, listed = node.entry("subtopic_id").identifier(), node.entry("insights").items()
    insights = tuple(
        PlannedInsight(
            (insight_id := one.entry("insight_id").identifier()),
            subtopic_id,
            "",
            one.entry("insight").text(),
            conflicts.get(insight_id, ""),
        )
        for one in listed
    )
    held = [
        (document.identifier(), insight.insight_id)
        for insight, one in zip(insights, listed, strict=True)
        for document in one.entry("documents").items()
    ]
    return PlannedSubtopic(subtopic_id, "", node.entry("subtopic").text(), "", insights, asked=False), held


def _documents(
    source: ReleasedFile, root: Node, held: Sequence[tuple[str, str]], ours: bool
) -> list[tuple[PlannedDocument, str]]:
    """The documents as planned, each with its text. `held`: document and insight of subtopics that distract."""
    numbers = {one.document_id: one.number for one in source.haystack.documents}
    found = []
    for document, node in zip(source.haystack.documents, root.entry("documents").items(), strict=True):
        metadata = node.optional("document_metadata") if ours else None
        date = metadata.optional("date") if metadata else None
        refers = metadata.optional("refers_to") if metadata else None
        named = refers.items() if refers else []
        for item in named:
            if item.identifier() not in numbers:
                raise item.refuse("the id of a document of the file")
        besides = tuple(insight_id for document_id, insight_id in held if document_id == document.document_id)
        planned = PlannedDocument(
            document.document_id,
            document.number,
            (*document.insight_ids, *besides),
            date.text() if date else "",
            tuple(numbers[item.identifier()] for item in named),
        )
        found.append((planned, document.text))
    return found
