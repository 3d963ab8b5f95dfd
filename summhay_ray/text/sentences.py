"""Splits a text into sentences."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator

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
