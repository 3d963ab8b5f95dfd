"""The citations of a bullet, and how right they are. Part of the metrics room; imported from `summhay_ray.metrics`."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Literal

Compat = Literal["default", "release"]
"""`release` reads and scores as the released scoring script does; `default` is what README.md describes."""

MAX_RANGE = 10_000
"""How many documents the ranges of one bullet may name; of a range beyond that only the two ends are counted."""

_RELEASE_BRACKET = re.compile(r"\[([\d, ]+)\]")
_DIGITS = re.compile(r"\d+")

_ALIKE = {"[": "［【〔", "]": "］】〕", ",": "，、", ";": "；", "#": "＃", "&": "＆", "-": "－‐‑‒–—―−~～〜"}
_ASCII = str.maketrans({other: plain for plain, others in _ALIKE.items() for other in others})
_BRACKET = re.compile(r"\[([^\[\]]*)\]")
_LABEL = re.compile(
    r"(?<![a-z])(?:articles?|documents?|docs?|conversations?|transcripts?|news|sources?|references?|refs?|and)(?![a-z])[.:]*"
)
_TOKEN = re.compile(r"\d+|[^\d\s]")
# Possessive, so that a long bracket that is no citation costs one pass.
_CITATION = re.compile(r"(?:\d++(?: - \d++)?+|[,;&#]| )*+")
_PIECE = re.compile(r"(\d+)(?: - (\d+))?")

_LONGEST = 18


def extract_citations(bullet: str, compat: Compat = "default") -> tuple[int, ...]:
    """The document numbers that a bullet cites, sorted, each once (section 4.1).

    `release`: every `[...]` of digits, commas and spaces alone. The released script dies on a space inside a number
    (`[1 2]`); here it parts two numbers, as it does by default. `default` reads all that `release` reads, and ranges,
    semicolons, words for a document (`[Articles 3, 5 and 7]`), `#`, and full-width digits and brackets. A range written
    backwards, or past MAX_RANGE, has no certain meaning: its two ends are counted. A bracket with other words in it is no
    citation. Whether the document exists or was shown is not asked here: a citation of it is counted, and is wrong.
    Numbers of more than 18 digits, which no haystack has, stand as 10**18 plus their last 18 digits: distinct, and small
    enough for a table.
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


def citation_scores(cited: Collection[int], gold: Collection[int]) -> tuple[float, float, float]:
    """Precision, recall and F1 of the cited documents against those that contain the insight (section 4.1).

    A share of nothing is 0: no citations have precision 0, an insight in no document has recall 0.
    """
    right = len(set(cited) & set(gold))
    precision = right / len(cited) if cited else 0.0
    recall = right / len(gold) if gold else 0.0
    f1 = 2 * precision * recall / (precision + recall) if right else 0.0
    return precision, recall, f1


def _pieces(inside: str) -> list[tuple[int, int]]:
    """First and last number of each piece of a bracket's inside; nothing where the bracket is no citation."""
    body = " ".join(_TOKEN.findall(_LABEL.sub(" ", inside.lower())))
    if not _CITATION.fullmatch(body):
        return []
    return [(_number(first), _number(last or first)) for first, last in _PIECE.findall(body)]


def _number(digits: str) -> int:
    """The number that `digits` (of any script) write, bounded: Python refuses to read some thousands of digits."""
    tail = int(digits[-_LONGEST:])
    return tail + 10**_LONGEST if any(map(int, digits[:-_LONGEST])) else tail
