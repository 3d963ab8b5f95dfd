"""Reads the citations of a bullet, whatever is wrong with them, and writes others in their place. Part of the citations room."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal

from summhay_ray.citations.support_judge import Supports
from summhay_ray.metrics import extract_citations

_BRACKET = re.compile(r"\s*(?:\[([^\[\]]{1,2000})\]|［([^［］]{1,2000})］|【([^【】]{1,2000})】)")
_RANGE = re.compile(r"\d\s*[-－‐‑‒–—―−~～〜]\s*\d")
_SPLIT = re.compile(r"[,;，、；]\s*")
_LIKE_AN_ID = re.compile(r"(?=\S*\d)[\w./:#-]{2,}")
Mode = Literal["both", "drop", "add"]
"""What a repair does: drop citations that nothing supports, add documents that say the bullet, or both."""
_END = re.compile(r"\s*([.!?。！？]?)\s*$")


@dataclass(frozen=True, slots=True)
class Cited:
    """The documents that a bullet cites, and what is wrong with its citations."""

    numbers: tuple[int, ...] = ()
    """Numbers of documents that exist, from 1, sorted, each once."""
    out_of_range: tuple[int, ...] = ()
    """Numbers of documents that do not exist."""
    by_id: int = 0
    """Documents cited by their ids and not by a number."""
    ranges: int = 0
    """Ranges such as `[3-7]`, which cite every document from 3 to 7."""
    unreadable: tuple[str, ...] = ()
    """What stands in brackets like an id, and is no document's."""


def read_cited(bullet: str, ids: Mapping[str, int], n_documents: int) -> Cited:
    """The citations of a bullet. `ids`: document_id -> its number, from 1; a file's name without its ending is an id, too."""
    numbers: set[int] = set()
    outside: set[int] = set()
    named: set[int] = set()
    ranges = 0
    unreadable: list[str] = []
    for found in _BRACKET.finditer(bullet):
        inside = next(filter(None, found.groups()))
        if inside.strip() in ids:
            named.add(ids[inside.strip()])
        elif cited := extract_citations(f"[{inside}]"):
            numbers.update(number for number in cited if 1 <= number <= n_documents)
            outside.update(number for number in cited if not 1 <= number <= n_documents)
            ranges += len(_RANGE.findall(inside))
        else:
            for part in filter(None, map(str.strip, _SPLIT.split(inside))):
                if part in ids:
                    named.add(ids[part])
                elif _LIKE_AN_ID.fullmatch(part):
                    unreadable.append(part)
    return Cited(tuple(sorted(numbers | named)), tuple(sorted(outside)), len(named), ranges, tuple(unreadable))


def rewritten(bullet: str, ids: Mapping[str, int], numbers: Collection[int]) -> str:
    """The bullet with these citations in place of its own, at its end; brackets that cite nothing stay."""

    def without(found: re.Match[str]) -> str:
        inside = next(filter(None, found.groups()))
        parts = [part.strip() for part in _SPLIT.split(inside)]
        cites = inside.strip() in ids or extract_citations(f"[{inside}]") or any(part in ids for part in parts)
        return "" if cites else found[0]

    plain = _BRACKET.sub(without, bullet).rstrip()
    if not numbers:
        return plain
    end = _END.search(plain)
    stop = end[1] if end else ""
    text = plain[: end.start()] if end else plain
    return f"{text} {''.join(f'[{number}]' for number in sorted(numbers))}{stop}"


def is_heading(bullet: str, cited: Cited) -> bool:
    """Whether a bullet is no claim: it cites nothing, and ends with a colon or has no word."""
    ends = bullet.rstrip("* ").endswith((":", "：")) or not re.search(r"\w", bullet)
    return ends and not cited.numbers and not cited.out_of_range


def recited(bullet: str, cited: Cited, free: Supports, place: int, mode: Mode = "both") -> frozenset[int]:
    """The numbers of the documents that a bullet cites after its repair. `place`: of the bullet in `free`, from 0.

    Headings, and bullets in a language of which the free judge can tell nothing, stay as they are.
    """
    own = frozenset(cited.numbers)
    if free.foreign[place] or free.blank[place] or is_heading(bullet, cited):
        return own
    worth = frozenset((free.worth[place].nonzero()[0] + 1).tolist())
    return own & worth if mode == "drop" else own | worth if mode == "add" else worth
