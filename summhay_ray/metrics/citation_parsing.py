"""Which documents a text cites (section 4.1). Part of the metrics room.

`extract_citations` is the one place where citations are read, for scores and for the repair of citations (room `citations`).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import Literal

Compat = Literal["default", "release"]
"""`release` reads and scores as the released scoring script does; `default` is what README.md describes."""

MAX_RANGE = 10_000
"""Documents that the ranges of one bullet may name in total; of a range beyond that only the two ends count."""

_RELEASE_BRACKET = re.compile(r"\[([\d, ]+)\]")
_DIGITS = re.compile(r"\d+")

_ALIKE = {"[": "［【〔", "]": "］】〕", ",": "，、", ";": "；", "#": "＃", "&": "＆", "-": "－‐‑‒–—―−~～〜"}
_ASCII = str.maketrans({other: plain for plain, others in _ALIKE.items() for other in others})
_BRACKET = re.compile(r"\[([^\[\]]*)\]")
_LABEL = re.compile(
    r"(?<![a-z])(?:articles?|documents?|docs?|conversations?|transcripts?|news|sources?|references?|refs?|and)(?![a-z])[.:]*"
)
_TOKEN = re.compile(r"\d+|[^\d\s]")
# Possessive quantifiers: a long bracket that is not a citation takes one pass.
_CITATION = re.compile(r"(?:\d++(?: - \d++)?+|[,;&#]| )*+")
_PIECE = re.compile(r"(\d+)(?: - (\d+))?")

_LONGEST = 18


# Several insights are often covered by one bullet.
@functools.lru_cache(maxsize=1024)
def extract_citations(bullet: str, compat: Compat = "default") -> tuple[int, ...]:
    """The document numbers that a bullet cites, sorted, each once (section 4.1).

    `release`: every `[...]` of digits, commas and spaces only. The released script crashes on a space between numbers
    (`[1 2]`); here it separates them in both modes. `default` adds ranges, semicolons, words for a document
    (`[Articles 3, 5 and 7]`), `#`, and full-width digits and brackets. Of a range written backwards, or beyond MAX_RANGE, the
    two ends count. A bracket with any other word is not a citation. Citations of documents that do not exist, or were not
    shown, are returned too: they count as wrong.
    A number of more than 18 digits is returned as 10**18 plus its last 18 digits, which is distinct and fits a table.
    """
    found: set[int] = set()
    if compat == "release":
        for inside in _RELEASE_BRACKET.findall(bullet):
            found.update(_number(digits) for digits in _DIGITS.findall(inside))
        return tuple(sorted(found))
    room = MAX_RANGE
    for inside in _BRACKET.findall(bullet.translate(_ASCII)):
        for first, last in _pieces(inside):
            span = last - first + 1
            if 1 <= span <= room:
                found.update(range(first, last + 1))
                room -= span if span > 1 else 0
            else:
                found.update((first, last))
    return tuple(sorted(found))


def by_number(text: str, numbers: Mapping[str, int]) -> str:
    """The text with citations by ids, such as `[a.txt, b.txt]`, as citations by numbers. `numbers`: id -> number.

    A bracket of numbers stays as it is, as does one with anything that is neither a number nor an id.
    """

    def numbered(bracket: re.Match[str]) -> str:
        pieces = [piece.strip() for piece in re.split("[,;]", bracket[1])]
        if all(piece.isdecimal() for piece in pieces) or not all(piece in numbers or piece.isdecimal() for piece in pieces):
            return bracket[0]
        return f"[{', '.join(piece if piece.isdecimal() else str(numbers[piece]) for piece in pieces)}]"

    return _BRACKET.sub(numbered, text)


def _pieces(inside: str) -> list[tuple[int, int]]:
    """(first, last) of each number or range inside a bracket; empty where the bracket is not a citation."""
    body = " ".join(_TOKEN.findall(_LABEL.sub(" ", inside.lower())))
    if not _CITATION.fullmatch(body):
        return []
    return [(_number(first), _number(last or first)) for first, last in _PIECE.findall(body)]


def _number(digits: str) -> int:
    """The value of `digits` (of any script), bounded: Python refuses to parse thousands of digits."""
    tail = int(digits[-_LONGEST:])
    return tail + 10**_LONGEST if any(map(int, digits[:-_LONGEST])) else tail
