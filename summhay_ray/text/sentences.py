"""Splits a text into sentences, and into chunks of limited length at sentence and paragraph ends."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator

from summhay_ray.text.tokens import count_tokens, first_tokens

ABBREVIATIONS = ("Mr", "Ms", "Dr", "St", "No", "vs", "Mrs", "Inc", "Ltd")
"""Abbreviations: their full stop does not end a sentence."""

_BEFORE_ORDINAL = ("am", "im", "vom", "zum", "beim", "der", "dem", "des", "seit")
"""German words before an ordinal number of one or two digits with a full stop ("am 3. Mai")."""
_BREAKS = r"\r\n\v\f\x1c-\x1e\x85\u2028\u2029"
_WIDE_END = re.compile("[。！？]")
_LONGEST = 600
"""Maximum length in characters, about 100 words: longer text lacks sentence ends, and is cut."""


def sentences(text: str, abbreviations: tuple[str, ...] = ABBREVIATIONS) -> list[str]:
    """The sentences of a text in order, stripped. A line break ends a sentence; none is longer than 600 characters.

    The full stop of an abbreviation, or of a German ordinal number after a preposition or article, does not end a sentence.
    """
    lines = _WIDE_END.sub("\\g<0>\n", text)
    return [piece for part in _end(abbreviations).split(lines) for piece in _pieces(part.strip()) if piece]


@functools.cache
def _end(abbreviations: tuple[str, ...]) -> re.Pattern[str]:
    ordinals = [rf"[{word[0].upper()}{word[0]}]{word[1:]} {digits}" for word in _BEFORE_ORDINAL for digits in (r"\d", r"\d\d")]
    none_of_them = "".join(rf"(?<!\b{word}\.\s)" for word in (*abbreviations, *ordinals))
    # A search is fast if the pattern begins with a single class of characters.
    return re.compile(
        rf"\s(?:(?:(?<=[.!?]\s)|(?<=[.!?][\"'”’)\]]\s)){none_of_them}\s*+(?=[^a-z\s])|(?<=[{_BREAKS}])[{_BREAKS}]*)"
    )


def _pieces(sentence: str) -> Iterator[str]:
    start = 0
    while len(sentence) - start > _LONGEST:
        space = sentence.rfind(" ", start + 1, start + _LONGEST)
        end = space if space > 0 else start + _LONGEST
        yield sentence[start:end].strip()
        start = end
    yield sentence[start:].strip()


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
    for start, end in _fitting(text, most_tokens):
        length = count_tokens(text[start:end])
        # Joining two texts can add a token.
        if size and (size + length + 1 > most_tokens and count_tokens(text[begin:end].strip()) > most_tokens):
            found.append((begin, start))
            begin, size = start, 0
        size += length
    found.append((begin, len(text)))
    filled = [(begin, text[begin:end]) for begin, end in found if text[begin:end].strip()]
    return [(begin + len(part) - len(part.lstrip()), begin + len(part.rstrip())) for begin, part in filled]


def _fitting(text: str, most_tokens: int) -> Iterator[tuple[int, int]]:
    """(begin, end) of consecutive sentences or lines; a longer one than `most_tokens` is cut."""
    for match in _PIECE.finditer(text):
        start, end = match.span()
        while count_tokens(text[start:end].strip()) > most_tokens:
            step = len(first_tokens(text[start:end], most_tokens)) or 1
            yield start, start + step
            start += step
        if start < end:
            yield start, end
