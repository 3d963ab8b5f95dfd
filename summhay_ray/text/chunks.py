"""Splits a text into chunks of limited length at sentence and paragraph ends."""

from __future__ import annotations

import re
from collections.abc import Iterator

from summhay_ray.text.sentences import ABBREVIATIONS
from summhay_ray.text.tokens import count_tokens, first_tokens

_NO_END = "".join(rf"(?<!\b{word}\.)" for word in ABBREVIATIONS)
_PIECE = re.compile(rf".+?(?:\n\s*\n|(?<=[.!?。！？]){_NO_END}[\"'”’)\]]*\s+|\n|\Z)", re.DOTALL)


def chunks(text: str, most_tokens: int) -> list[tuple[int, int]]:
    """(begin, end) offsets of consecutive chunks of at most `most_tokens` cl100k tokens, without surrounding white space.

    A chunk holds as many whole sentences or lines as fit; only a sentence longer than a chunk is cut. The chunks cover every
    word. Raises ValueError for less than one token.
    """
    if most_tokens < 1:
        raise ValueError(f"chunks of {most_tokens} tokens; expected at least 1")
    found: list[tuple[int, int]] = []
    begin, size = 0, 0
    for start, end in _pieces(text, most_tokens):
        length = count_tokens(text[start:end])
        # Joining two texts can add a token.
        if size and (size + length + 1 > most_tokens and count_tokens(text[begin:end].strip()) > most_tokens):
            found.append((begin, start))
            begin, size = start, 0
        size += length
    found.append((begin, len(text)))
    return [bare for begin, end in found if (bare := _bare(text, begin, end))[0] < bare[1]]


def _pieces(text: str, most_tokens: int) -> Iterator[tuple[int, int]]:
    for match in _PIECE.finditer(text):
        start, end = match.span()
        while count_tokens(text[start:end].strip()) > most_tokens:
            step = len(first_tokens(text[start:end], most_tokens)) or 1
            yield start, start + step
            start += step
        if start < end:
            yield start, end


def _bare(text: str, begin: int, end: int) -> tuple[int, int]:
    inside = text[begin:end]
    return begin + len(inside) - len(inside.lstrip()), end - (len(inside) - len(inside.rstrip()))
