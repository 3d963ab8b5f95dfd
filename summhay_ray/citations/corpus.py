"""Resolves the citations of bullets to documents, reports faulty citations, and repairs them."""

import functools
import re
import threading
from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from summhay_ray.citations.support_judge import SUPPORTED, SupportIndex, Supports
from summhay_ray.metrics import ids_of, read_citations

Mode = Literal["both", "drop", "add"]
"""A repair drops unsupported citations, adds supporting documents, or does both."""
_END = re.compile(r"\s*([.!?。！？]?)\s*$")
_COPY, _NEAR_COPY = 0.95, 0.85
"""A bullet copies a sentence if their similarity is at least `_COPY`. To such a bullet, a repair adds only documents that have a
sentence of similarity `_NEAR_COPY` or more."""
KEPT = 2
"""Maximum number of corpora in the cache."""


@dataclass(frozen=True, slots=True)
class Cited:
    """The documents that a bullet cites, and the errors in its citations."""

    numbers: tuple[int, ...] = ()
    """Numbers of existing documents, counted from 1, sorted, without duplicates."""
    out_of_range: tuple[int, ...] = ()
    """Numbers of documents that do not exist."""
    by_id: int = 0
    """Number of documents cited by id instead of by number."""
    ranges: int = 0
    """Number of ranges such as `[3-7]`, which cites every document from 3 to 7."""
    unreadable: tuple[str, ...] = ()
    """Unknown ids, and brackets that look like a citation but cannot be parsed."""


class CitedDocuments:
    """The documents of a haystack, numbered from 1 as in citations."""

    def __init__(self, documents: Sequence[tuple[str, str]], numbers_may_be_ids: bool = False) -> None:
        """`documents`: (document_id, text) of each. With `numbers_may_be_ids`, `[2]` cites `2.txt`, whatever its position;
        without it, `[2]` cites the second document."""
        self.documents = documents
        ids = ids_of([document_id for document_id, _ in documents])
        self.ids: Mapping[str, int] = {one: number for one, number in ids.items() if numbers_may_be_ids or not one.isdecimal()}
        """document_id -> document number. A file name without its extension is also a key, unless another document has that
        id."""

    @functools.cached_property
    def index(self) -> SupportIndex:
        """The free judge's index of the documents. Building it takes seconds."""
        return SupportIndex([text for _, text in self.documents])

    def cited(self, bullets: Sequence[str]) -> list[Cited]:
        read, last = [], len(self.documents)
        for found in (read_citations(bullet, self.ids) for bullet in bullets):
            inside = tuple(number for number in found.numbers if 1 <= number <= last)
            outside = tuple(number for number in found.numbers if not 1 <= number <= last)
            by_id, ranges = (sum(getattr(group, name) for group in found.groups) for name in ("by_id", "ranges"))
            unread = (one.strip(" \\[]［］【】〔〕") for one in found.unread)
            read.append(Cited(inside, outside, by_id, ranges, (*found.unknown, *unread)))
        return read

    def named(self, ids: Sequence[str]) -> Cited:
        """Return the citations of a bullet, given as a list of document ids."""
        known = {self.ids[one] for one in ids if one in self.ids}
        return Cited(tuple(sorted(known)), by_id=len(known), unreadable=tuple(one for one in ids if one not in self.ids))

    def plain(self, bullets: Sequence[str]) -> list[str]:
        return [replace_citations(bullet, self.ids, ()) for bullet in bullets]

    def support(self, bullets: Sequence[str]) -> Supports:
        return self.index.support(self.plain(bullets))

    def recite(self, bullets: Sequence[str], mode: Mode = "both") -> tuple[str, ...]:
        cited, free = self.cited(bullets), self.support(bullets)
        after = [
            repair_citations(text, one, free, place, mode) for place, (text, one) in enumerate(zip(bullets, cited, strict=True))
        ]
        return self.apply_citations(bullets, cited, after)

    def apply_citations(self, bullets: Sequence[str], cited: Sequence[Cited], after: Sequence[frozenset[int]]) -> tuple[str, ...]:
        """Return the bullets with the citations in `after`. Bullets whose citations do not change stay as they are."""
        return tuple(
            replace_citations(text, self.ids, numbers) if numbers != frozenset(one.numbers) or one.out_of_range else text
            for text, one, numbers in zip(bullets, cited, after, strict=True)
        )


@dataclass(frozen=True)
class CitedCorpora:
    """A thread-safe cache of the most recently used corpora, by name."""

    _kept: OrderedDict[str, CitedDocuments] = field(default_factory=OrderedDict, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    def of(self, name: str, documents: Sequence[tuple[str, str]]) -> CitedDocuments:
        """Return the corpus of this name with its index; build it if it is not cached. `documents`: (document_id, text) of
        each."""
        with self._lock:
            if name not in self._kept:
                self._kept[name] = CitedDocuments(documents)
                while len(self._kept) > KEPT:
                    self._kept.popitem(last=False)
            self._kept.move_to_end(name)
            _ = self._kept[name].index
            return self._kept[name]


def replace_citations(bullet: str, ids: Mapping[str, int], numbers: Collection[int]) -> str:
    """Remove the bullet's citations and append citations of `numbers`. Brackets that are not citations stay."""
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
    """Whether a bullet is a heading rather than a claim. A heading has no citation, and it ends with a colon or has no word."""
    ends = bullet.rstrip("* ").endswith((":", "：")) or not re.search(r"\w", bullet)
    return ends and not cited.numbers and not cited.out_of_range


def repair_citations(bullet: str, cited: Cited, free: Supports, place: int, mode: Mode = "both") -> frozenset[int]:
    """Return the numbers of the documents that a bullet cites after its repair. `place`: the bullet's index in `free`, from 0.

    A citation stays if its document supports the bullet. Other documents that support the bullet are added. If the bullet copies
    a sentence of a document that it cites, only documents with nearly the same sentence are added. Headings do not change, nor do
    bullets in a language that the free judge cannot handle.
    """
    own = frozenset(cited.numbers)
    if free.foreign[place] or free.blank[place] or is_heading(bullet, cited):
        return own
    supported, copied = free.values[place] >= SUPPORTED, free.copied[place]
    stay = frozenset(((free.worth[place] | supported).nonzero()[0] + 1).tolist())
    kept = own if mode == "add" else own & stay
    added = free.added[place] & supported
    if any(copied[number - 1] >= _COPY for number in kept):
        added &= copied >= _NEAR_COPY
    return kept | (frozenset() if mode == "drop" else frozenset((added.nonzero()[0] + 1).tolist()))
