"""Writes, verifies and edits the documents of a planned haystack.

Source: Laban et al., "Summary of a Haystack", appendix A.1.3. A conversation is written chapter by chapter, and each chapter is
checked. A news article is written whole. Missing or extraneous insights are fixed by editing. If editing fails, the plan is
corrected to match the text, provided that it stays sound (`plan_flaws`). Documents that are unsound, refused, or copies of others
are written again. The domain's limits, `tries` per chapter and `rounds` of editing, apply to all versions of a document together.
"""

import asyncio
import itertools
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from summhay_ray.outcome import Malformed, Refusal
from summhay_ray.synth.checking.verifier import Compared, NotChecked, Verifier
from summhay_ray.synth.checking.words import parts_of
from summhay_ray.synth.making.asking import GaveUp, Work, all_of
from summhay_ray.synth.making.kinds import Input, PlannedDocument, PlannedHaystack, Written
from summhay_ray.synth.making.outline import seeded
from summhay_ray.synth.making.prompting import numbered
from summhay_ray.text import plain_words, sentences

REWRITES = 2
"""Maximum number of rewrites of a document that is a copy or has an unsound plan."""
LEAST_CHAPTER = 30
"""Minimum words requested for a chapter."""
# Advice for failed documents, at the end of messages.
MEND_COPIES = "use another models.write, or give more insights or fewer documents"
MEND_UNSOUND = "use another models.write, or raise difficulty.documents_per_insight above least"
EMPTY, BOTH_SIDES = "it has no insight", "it has both sides of a conflict"
MENDS = {
    EMPTY: "use another models.write, or raise difficulty.documents_per_insight",
    BOTH_SIDES: "use another models.write, or a smaller difficulty.conflicts",
}
FREE = 60
"""Minimum number of words in a document's sentences without insights. A document with fewer is compared as a whole."""
SHOWN = 5
"""Maximum number of sentences of evidence for an insight. Longer evidence is ignored."""
HEADLINE = 200
"""Maximum length of a first sentence that is used as a headline, in characters."""
BEFORE, EVIDENCE = 600, 400
"""Maximum number of characters shown of the previous chapters, and of the evidence for an insight."""


@dataclass(frozen=True)
class Piece:
    """A written document, with the words of its text that state insights. `lost`: the reason why it has no text yet."""

    written: Written
    evidence: tuple[str, ...] = ()
    lost: GaveUp | NotChecked | None = None


async def write_documents(
    work: Work, verifier: Verifier, outline: PlannedHaystack, planned: Sequence[PlannedDocument]
) -> tuple[Written, ...]:
    """Write the documents, in order. Each plan is corrected to the insights found in the text. Raise GaveUp and NotChecked."""
    writer = _Writer(work, verifier, outline)
    pieces = await writer.write(planned, {}, 0)
    for again in range(1, REWRITES + 2):
        flaws = await _flaws(work, verifier, outline, planned, pieces)
        if not flaws:
            break
        if again > REWRITES:
            raise flaws[min(flaws)]
        bad = set(flaws)
        # A document quotes the first sentence of the documents that it refers to, so it changes with them.
        for document in planned:
            if bad.intersection(document.refers_to):
                bad.add(document.number)
        rewritten = await writer.write([document for document in planned if document.number in bad], pieces, again)
        pieces = {**pieces, **rewritten}
    return tuple(pieces[document.number].written for document in planned)


async def _flaws(
    work: Work,
    verifier: Verifier,
    outline: PlannedHaystack,
    planned: Sequence[PlannedDocument],
    pieces: Mapping[int, Piece],
) -> dict[int, GaveUp | NotChecked]:
    """Return number of each document to rewrite -> the error to raise if no version succeeds."""
    flaws: dict[int, GaveUp | NotChecked] = {number: piece.lost for number, piece in pieces.items() if piece.lost}
    texts = await asyncio.to_thread(comparable, [pieces[document.number] for document in planned if document.number not in flaws])
    copies = await verifier.copies(texts)
    unsound = plan_flaws(
        outline, planned, [pieces[document.number].written for document in planned], work.recipe.difficulty.least
    )
    after = f"after {REWRITES} rewritings ({len(unsound)} such)"
    for number, reason in unsound.items():
        flaws.setdefault(
            number,
            GaveUp("documents", "unsound_truth", f"document {number}: {reason}, {after}; {MENDS.get(reason, MEND_UNSOUND)}"),
        )
    for document in planned:
        if document.document_id in copies:
            message = f"document {document.number} is a near-copy of another after {REWRITES} rewritings; {MEND_COPIES}"
            flaws.setdefault(document.number, GaveUp("verification", "near_copies", message))
    return flaws


def plan_flaws(
    outline: PlannedHaystack, planned: Sequence[PlannedDocument], written: Sequence[Written], least: int
) -> dict[int, str]:
    """Return number of a document -> the reason, in one line, why the insights found in it cannot become its plan.

    A plan is sound if every document has an insight, none has both sides of a conflict, and every insight is in at least `least`
    documents. If an insight is in fewer, the result lists the documents that lost it.
    """
    flaws: dict[int, str] = {}
    other_side = {insight.insight_id: insight.conflicts_with for insight in outline.insights}
    counts = Counter(insight_id for document in written for insight_id in document.planned.insight_ids)
    for plan, document in zip(planned, written, strict=True):
        present = set(document.planned.insight_ids)
        rare = [insight_id for insight_id in plan.insight_ids if insight_id not in present and counts[insight_id] < least]
        if not present:
            flaws[plan.number] = EMPTY
        elif any(other_side.get(insight_id) in present for insight_id in present):
            flaws[plan.number] = BOTH_SIDES
        elif rare:
            flaws[plan.number] = f"it lacks insight {rare[0]}, which is in {counts[rare[0]]} documents and must be in {least}"
    return flaws


class _Writer:
    """Writes the documents of one haystack."""

    def __init__(self, work: Work, verifier: Verifier, outline: PlannedHaystack) -> None:
        self._work, self._verifier, self._outline = work, verifier, outline
        self._insights = {insight.insight_id: insight for insight in outline.insights}
        self._subtopics = {subtopic.subtopic_id: subtopic for subtopic in outline.subtopics}
        # Numbers of rewrites and edits, over all versions of a document. Keys are (document number, insight id) or document
        # number.
        self._tried: Counter[tuple[int, str]] = Counter()
        self._passed: dict[tuple[int, str], str] = {}
        self._edits: Counter[int] = Counter()
        self._rounds: defaultdict[int, Iterator[int]] = defaultdict(itertools.count)
        self._corrected: Counter[int] = Counter()
        domain = work.recipe.domain
        self._method: Callable[[PlannedDocument, Input, int], Awaitable[tuple[str, int]]]
        self._method = self._write_chapters if domain.method == "chapters" else self._write_whole
        self._manner = {
            "genre": domain.genre,
            "tone": domain.tone,
            "participants": work.recipe.participants,
            "paraphrase": work.recipe.difficulty.paraphrase,
        }

    async def write(self, planned: Sequence[PlannedDocument], earlier: Mapping[int, Piece], again: int) -> dict[int, Piece]:
        """Return the written documents by number. A document that refers to others waits for them. `earlier`: documents already
        written; `again`: the number of this rewrite, 0 for the first version."""
        tasks: dict[int, asyncio.Task[Piece]] = {}

        async def one(document: PlannedDocument) -> Piece:
            before = [await tasks[number] if number in tasks else earlier[number] for number in document.refers_to]
            async with self._work.slots:
                try:
                    return await self._piece(document, before, again)
                except (GaveUp, NotChecked) as error:
                    # A refusal or an unreadable answer ends this document, but not the others.
                    if not isinstance(error.outcome, Refusal | Malformed):
                        raise
                    return Piece(Written(document, ""), lost=error)

        for document in planned:
            tasks[document.number] = asyncio.ensure_future(one(document))
        pieces = await all_of(list(tasks.values()))
        return dict(zip(tasks, pieces, strict=True))

    async def _piece(self, planned: PlannedDocument, before: Sequence[Piece], again: int) -> Piece:
        """Write, edit and check the document. `before`: the documents to which it refers."""
        if again:
            # A different order gives a different prompt, since some models answer the same prompt with the same text.
            chance = seeded(self._work.recipe.seed, planned.document_id, again)
            mixed = chance.sample(planned.insight_ids, len(planned.insight_ids))
            planned = replace(planned, insight_ids=tuple(mixed))
        references = [reference_of(piece, self._work.recipe.participants) for piece in before]
        given = {"number": planned.number, "date": planned.date, "references": references, **self._manner}
        text, corrections = await self._method(planned, given, again)
        text, checked, edits = await self._mend(planned, text)
        self._corrected[planned.number] += corrections + edits
        present = [insight_id for insight_id in planned.insight_ids if insight_id not in checked.missing]
        present += [insight_id for insight_id in self._insights if insight_id in checked.extraneous and insight_id not in present]
        shown = tuple(" ".join(words.split()) for words in checked.evidence.values() if words)
        piece = Piece(Written(replace(planned, insight_ids=tuple(present)), text, self._corrected[planned.number]), shown)
        texts = (text, "\n".join(free(piece)))
        refers = tuple(
            earlier.written.planned.number
            for earlier, reference in zip(before, references, strict=True)
            if self._verifier.reference((planned.document_id, earlier.written.planned.document_id), texts, reference, again)
        )
        return replace(piece, written=replace(piece.written, planned=replace(piece.written.planned, refers_to=refers)))

    async def _write_whole(self, planned: PlannedDocument, given: Input, again: int) -> tuple[str, int]:
        """Return the text of a document written whole, and 0 corrections."""
        insights = [self._insights[insight_id] for insight_id in planned.insight_ids]
        # The other insights of these subtopics, including the other sides of conflicts. They slip into a text most easily.
        subtopics = [self._subtopics[subtopic_id] for subtopic_id in dict.fromkeys(one.subtopic_id for one in insights)]
        nearby = [insight for subtopic in subtopics for insight in subtopic.insights if insight not in insights]
        full = {
            **given,
            "insights": numbered(insight.text for insight in insights),
            "words": self._work.recipe.shape.words,
            "context": list(self._work.recipe.topic.context),
            "avoid": [insight.text for insight in nearby],
        }
        return await self._work.need("documents", "document", full, again), 0

    async def _write_chapters(self, planned: PlannedDocument, given: Input, again: int) -> tuple[str, int]:
        """Return the text, and how many chapters were written again.

        A chapter that never passes is left out. If earlier versions have used up its tries, the version of it that passed is
        used. Raises GaveUp if no chapter passes.
        """
        shape, domain = self._work.recipe.shape, self._work.recipe.domain
        words = max(LEAST_CHAPTER, round(shape.words / len(planned.insight_ids)))
        chapters: list[str] = []
        rejected = 0
        for insight_id in planned.insight_ids:
            insight = self._insights[insight_id]
            full = {
                **given,
                "insight": insight.text,
                "subtopic": self._subtopics[insight.subtopic_id].text,
                "before": "\n\n".join(chapters)[-BEFORE:],
                "words": words,
            }
            place = planned.number, insight_id
            passed = self._passed.get(place, "") if self._tried[place] > domain.tries else ""
            while not passed and (attempt := self._tried[place]) <= domain.tries:
                self._tried[place] += 1
                text = await self._work.need("documents", "chapter", full, attempt)
                rejected += int(attempt > 0)
                if await self._verifier.chapter(text, insight, self._outline, planned.document_id, attempt):
                    passed = self._passed[place] = text
            if passed:
                chapters.append(passed)
                given = {**given, "date": "", "references": []}
        if not chapters:
            message = f"document {planned.number}: no chapter introduces its insight after {domain.tries} retries; {MEND_UNSOUND}"
            raise GaveUp("documents", "no_chapter", message, Malformed("no_chapter", message))
        return "\n\n".join(chapters), rejected

    async def _mend(self, planned: PlannedDocument, text: str) -> tuple[str, Compared, int]:
        """Edit the text until it has the planned insights or the rounds are used up. Return the best version, and the number of
        edits."""
        insights, number, edits = self._outline.insights, planned.number, 0
        rounds = self._rounds[number]
        checked = await self._verifier.document(planned, text, insights, round := next(rounds))
        best, best_check, best_round = text, checked, round
        while self._edits[number] < self._work.recipe.domain.rounds and (checked.missing or checked.extraneous):
            self._edits[number] += 1
            try:
                text = await self._edit(planned, text, checked, self._edits[number])
                checked = await self._verifier.document(planned, text, insights, round := next(rounds))
            except (GaveUp, NotChecked) as error:
                # Even without this edit, the text may be usable with a corrected plan.
                if not isinstance(error.outcome, Refusal | Malformed):
                    raise
                break
            edits += 1
            wrong, least = (len(one.missing) + len(one.extraneous) for one in (checked, best_check))
            if wrong <= least:
                best, best_check, best_round = text, checked, round
        if best_round != round:
            self._verifier.settle(planned.document_id, best_round, next(rounds))
        return best, best_check, edits

    async def _edit(self, planned: PlannedDocument, text: str, checked: Compared, sample: int) -> str:
        remove = [
            (self._insights[insight_id].text, checked.evidence.get(insight_id, ""))
            for insight_id in self._insights
            if insight_id in checked.extraneous
        ]
        given: dict[str, Any] = {
            "document": text,
            "remove": [
                {"id": number, "text": insight, "evidence": words[:EVIDENCE]} for number, (insight, words) in enumerate(remove, 1)
            ],
            "add": numbered(
                self._insights[insight_id].text for insight_id in planned.insight_ids if insight_id in checked.missing
            ),
            "words": self._work.recipe.shape.words,
            **self._manner,
        }
        edited: str = await self._work.need("documents", "edit_document", given, sample)
        return edited


def comparable(pieces: Sequence[Piece]) -> dict[str, str]:
    """Return document id -> the part of its text that is compared with others to find copies.

    This part is the sentences without insights, since documents share insights by plan. A document with few such sentences is
    compared as a whole, and only with an identical text.
    """
    whole = Counter(" ".join(piece.written.text.split()) for piece in pieces)
    texts = {}
    for piece in pieces:
        other, text = "\n".join(free(piece)), " ".join(piece.written.text.split())
        if len(plain_words(other)) >= FREE:
            texts[piece.written.planned.document_id] = other
        elif whole[text] > 1:
            texts[piece.written.planned.document_id] = text
    return texts


def free(piece: Piece) -> list[str]:
    # A quotation of half the document does not identify a sentence.
    shown = [part for words in piece.evidence if len(sentences(words)) <= SHOWN for part in parts_of(words) if part]
    listed = [" ".join(sentence.split()) for sentence in sentences(piece.written.text)]
    plain = [f" {' '.join(plain_words(sentence))} " for sentence in listed]
    return [
        sentence
        for sentence, words in zip(listed, plain, strict=True)
        if words.strip() and not any(f" {part} " in words or words in f" {part} " for part in shown)
    ]


def reference_of(piece: Piece, participants: Sequence[str]) -> dict[str, str]:
    """Return the ways in which a later document may name this one: its date, and as `headline` its first sentence without
    insights."""
    first = next(iter(free(piece)), "")
    headline = next((first.removeprefix(f"{name}:").strip() for name in participants if first.startswith(f"{name}:")), first)
    return {"date": piece.written.planned.date, "headline": headline if len(headline) <= HEADLINE else ""}
