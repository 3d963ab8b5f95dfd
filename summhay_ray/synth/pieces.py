"""Room synth: a written document as the checks see it: what of it carries insights, and what is its own. For the room alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from summhay_ray.synth.asking import GaveUp
from summhay_ray.synth.kinds import Written
from summhay_ray.synth.verify import NotChecked
from summhay_ray.synth.words import parts_of
from summhay_ray.text import plain_words, sentences

FREE = 60
"""Words beside its insights that a document must have for these to tell it from others."""
SHOWN = 5
"""Sentences of evidence for one insight, at most."""
HEADLINE = 200
"""Letters of a first sentence by which a document may be named, at most."""


@dataclass(frozen=True)
class Piece:
    """A written document, and the words of its text that carry insights. `lost`: why there is no text of it yet."""

    written: Written
    evidence: tuple[str, ...] = ()
    lost: GaveUp | NotChecked | None = None


def comparable(pieces: Sequence[Piece]) -> dict[str, str]:
    """Document id -> what of the text tells it from a copy.

    Documents share insights by plan: a copy is one in its other sentences. Of one that has hardly any others it is the whole
    text, and only where another document has the same.
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
    # Who quotes half a document shows no sentence of it.
    shown = [part for words in piece.evidence if len(sentences(words)) <= SHOWN for part in parts_of(words) if part]
    read = [" ".join(sentence.split()) for sentence in sentences(piece.written.text)]
    plain = [f" {' '.join(plain_words(one))} " for one in read]
    return [
        one
        for one, own in zip(read, plain, strict=True)
        if own.strip() and not any(f" {part} " in own or own in f" {part} " for part in shown)
    ]


def reference_of(piece: Piece, participants: Sequence[str]) -> dict[str, str]:
    """How a later document may name this one: its date, and its first sentence that carries no insight."""
    first = next(iter(free(piece)), "")
    headline = next((first.removeprefix(f"{name}:").strip() for name in participants if first.startswith(f"{name}:")), first)
    return {"date": piece.written.planned.date, "headline": headline if len(headline) <= HEADLINE else ""}
