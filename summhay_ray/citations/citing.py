"""Reads the citations of a bullet, including faulty ones, and replaces them."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal

from summhay_ray.citations.support_judge import Supports
from summhay_ray.metrics import read_citations

Mode = Literal["both", "drop", "add"]
"""What a repair does: drop unsupported citations, add supporting documents, or both."""
_END = re.compile(r"\s*([.!?。！？]?)\s*$")


@dataclass(frozen=True, slots=True)
class Cited:
    """The documents that a bullet cites, and the faults of its citations."""

    numbers: tuple[int, ...] = ()
    """Numbers of existing documents, from 1, sorted, without repetition."""
    out_of_range: tuple[int, ...] = ()
    """Numbers of documents that do not exist."""
    by_id: int = 0
    """Number of documents cited by id."""
    ranges: int = 0
    """Ranges such as `[3-7]`, which cite every document from 3 to 7."""
    unreadable: tuple[str, ...] = ()
    """Unknown ids, and brackets that look like a citation but were not read."""


def read_cited(bullet: str, ids: Mapping[str, int], n_documents: int) -> Cited:
    """The citations of a bullet. `ids`: document_id -> its number, from 1; a file's name without its ending is an id, too."""
    found = read_citations(bullet, ids)
    inside = tuple(number for number in found.numbers if 1 <= number <= n_documents)
    outside = tuple(number for number in found.numbers if not 1 <= number <= n_documents)
    by_id, ranges = (sum(getattr(group, name) for group in found.groups) for name in ("by_id", "ranges"))
    unread = (one.strip(" \\[]［］【】〔〕") for one in found.unread)
    return Cited(inside, outside, by_id, ranges, (*found.unknown, *unread))


def rewritten(bullet: str, ids: Mapping[str, int], numbers: Collection[int]) -> str:
    """The bullet with its citations replaced by these, at its end; brackets that are not citations stay."""
    done, parts = 0, []
    for group in read_citations(bullet, ids).groups:
        parts.append(bullet[done : group.begin])
        done = group.end
    plain = "".join([*parts, bullet[done:]]).rstrip()
    if not numbers:
        return plain
    end = _END.search(plain)
    stop = end[1] if end else ""
    text = plain[: end.start()] if end else plain
    return f"{text} {''.join(f'[{number}]' for number in sorted(numbers))}{stop}"


def is_heading(bullet: str, cited: Cited) -> bool:
    """Whether a bullet is a heading and not a claim: it has no citation, and ends with a colon or has no word."""
    ends = bullet.rstrip("* ").endswith((":", "：")) or not re.search(r"\w", bullet)
    return ends and not cited.numbers and not cited.out_of_range


def recited(bullet: str, cited: Cited, free: Supports, place: int, mode: Mode = "both") -> frozenset[int]:
    """The numbers of the documents that a bullet cites after its repair. `place`: the bullet's index in `free`, from 0.

    Headings, and bullets in a language that the free judge cannot handle, are unchanged.
    """
    own = frozenset(cited.numbers)
    if free.foreign[place] or free.blank[place] or is_heading(bullet, cited):
        return own
    worth, added = (frozenset((one[place].nonzero()[0] + 1).tolist()) for one in (free.worth, free.added))
    return (own if mode == "add" else own & worth) | (frozenset() if mode == "drop" else added)
