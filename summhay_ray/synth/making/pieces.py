"""Divides a written document into sentences with and without insights, for the checks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from summhay_ray.synth.checking.verifier import NotChecked
from summhay_ray.synth.checking.words import parts_of
from summhay_ray.synth.making.asking import GaveUp
from summhay_ray.synth.making.kinds import Written
from summhay_ray.text import plain_words, sentences

FREE = 60
"""A document with fewer words than this in its sentences without insights is compared as a whole."""
SHOWN = 5
"""Maximum sentences of evidence for an insight; longer evidence is ignored."""
HEADLINE = 200
"""Maximum length of a first sentence that is used as a headline, in characters."""


@dataclass(frozen=True)
class Piece:
    """A written document with the words of its text that carry insights. `lost`: why it has no text yet."""

    written: Written
    evidence: tuple[str, ...] = ()
    lost: GaveUp | NotChecked | None = None


def comparable(pieces: Sequence[Piece]) -> dict[str, str]:
    """Document id -> the part of its text in which copies are looked for.

    Documents share insights by plan, so copies are searched for in the other sentences. A document with few of these is compared
    as a whole, and only with an identical text.
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
    """The sentences of a document that carry no insight."""
    # A quotation of half the document identifies no sentence.
    shown = [part for words in piece.evidence if len(sentences(words)) <= SHOWN for part in parts_of(words) if part]
    listed = [" ".join(sentence.split()) for sentence in sentences(piece.written.text)]
    plain = [f" {' '.join(plain_words(sentence))} " for sentence in listed]
    return [
        sentence
        for sentence, words in zip(listed, plain, strict=True)
        if words.strip() and not any(f" {part} " in words or words in f" {part} " for part in shown)
    ]


def reference_of(piece: Piece, participants: Sequence[str]) -> dict[str, str]:
    """The ways a later document may name this one: its date, and as `headline` its first sentence without insights."""
    first = next(iter(free(piece)), "")
    headline = next((first.removeprefix(f"{name}:").strip() for name in participants if first.startswith(f"{name}:")), first)
    return {"date": piece.written.planned.date, "headline": headline if len(headline) <= HEADLINE else ""}
