"""Divides documents among calls: cut to a budget, one document per call, or in chunks.

Every piece keeps the number of its document, so that a summary can cite it. Lengths are in cl100k tokens.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from typing import Literal

from summhay_ray.summarize.base import Shown
from summhay_ray.text import count_tokens, first_tokens

Units = Literal["documents", "chunks"]
"""The input of each call of a strategy with several calls: one document, or one chunk."""

CHUNK_TOKENS = 6800
"""Tokens per chunk, as in ODSum's scripts."""

_SENTENCE_END = re.compile(r"[.!?](?=\s)")
_WORD_CUT = re.compile(r"\S+\Z")
_JOINT = "\n\n"


def head(shown: Sequence[Shown], budget: int | None) -> tuple[Shown, ...]:
    """The first documents within the budget, in order; the last may be cut."""
    kept, left = [], math.inf if budget is None else budget
    for document in shown:
        if left <= 0:
            break
        cut = _cut(document, left)
        kept.append(cut)
        # A cut document uses up the budget, even if the cut text is a token shorter.
        left = left - count_tokens(cut.text) if cut is document else 0
    return tuple(kept)


def heads(shown: Sequence[Shown], budget: int | None, share_unused: bool = False) -> tuple[Shown, ...]:
    """The first `budget // n` tokens of each of n documents. `share_unused`: longer documents get the tokens that short ones
    leave."""
    if budget is None or not shown:
        return tuple(shown)
    rooms = [budget // len(shown)] * len(shown)
    if share_unused:
        lengths = [count_tokens(document.text) for document in shown]
        left = budget
        for done, place in enumerate(sorted(range(len(shown)), key=lambda place: lengths[place])):
            rooms[place] = min(lengths[place], left // (len(shown) - done))
            left -= rooms[place]
    return tuple(_cut(document, room) for document, room in zip(shown, rooms, strict=True))


def units_of(shown: Sequence[Shown], units: Units, budget: int | None, chunk_tokens: int) -> list[tuple[Shown, ...]]:
    """The input of each call: one document, or one chunk of all documents. A document beyond the budget becomes several units."""
    if units == "chunks":
        return chunks(shown, chunk_tokens)
    return [(part,) for document in shown for part in _parts(document, budget)]


def chunks(shown: Sequence[Shown], chunk_tokens: int) -> list[tuple[Shown, ...]]:
    """The concatenated documents in at most `1 + tokens // chunk_tokens` chunks of about equal numbers of characters.

    Each chunk is extended to the next end of a sentence, so there may be fewer chunks. A chunk may span documents, as in ODSum's
    scripts. No text is left out.
    """
    article = _JOINT.join(document.text for document in shown)
    n_chunks = 1 + sum(count_tokens(document.text) for document in shown) // chunk_tokens
    length = max(1, math.ceil(len(article) / n_chunks))
    spans, start = [], 0
    while start < len(article):
        ends = _SENTENCE_END.search(article, min(start + length, len(article)) - 1)
        end = ends.end() if ends and start + length < len(article) else len(article)
        spans.append((start, end))
        start = end
    return [tuple(_pieces(shown, start, end)) for start, end in spans] or [tuple(shown)]


def _parts(document: Shown, budget: int | None) -> Iterator[Shown]:
    """The document in parts of at most `budget` tokens, cut between words if possible."""
    text = document.text
    while budget is not None and count_tokens(text) > budget and (part := first_tokens(text, budget)):
        part = part if text[len(part)].isspace() else _WORD_CUT.sub("", part) or part
        yield Shown(document.number, part)
        text = text[len(part) :]
    yield Shown(document.number, text)


def _pieces(shown: Sequence[Shown], start: int, end: int) -> Iterator[Shown]:
    """The pieces of documents between two character offsets of the concatenated documents."""
    at = 0
    for document in shown:
        first, last = max(start - at, 0), min(end - at, len(document.text))
        if first < last and document.text[first:last].strip():
            yield Shown(document.number, document.text[first:last])
        at += len(document.text) + len(_JOINT)


def _cut(document: Shown, room: float) -> Shown:
    if count_tokens(document.text) <= room:
        return document
    return Shown(document.number, first_tokens(document.text, int(room)))
