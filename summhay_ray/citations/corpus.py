"""The citations of bullets, faulty ones included: what they cite among the documents of a haystack, and their repair."""

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
"""A bullet copies a sentence if their similarity is at least the first number. A repair then only adds documents with a sentence
whose similarity is at least the second."""
KEPT = 2
"""Corpora that are kept with their indexes."""


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


class CitedDocuments:
    """Documents in the order in which citations number them, from 1."""

    def __init__(self, documents: Sequence[tuple[str, str]], numbers_may_be_ids: bool = False) -> None:
        """`documents`: (document_id, text) of each. `numbers_may_be_ids`: `[2]` cites `2.txt`, wherever that is in the order;
        otherwise, it cites the second document."""
        self.documents = documents
        ids = ids_of([document_id for document_id, _ in documents])
        self.ids: Mapping[str, int] = {one: number for one, number in ids.items() if numbers_may_be_ids or not one.isdecimal()}
        """document_id -> its number; also a file's name without its ending, unless another document has that id."""

    @functools.cached_property
    def index(self) -> SupportIndex:
        """The free judge's index of the documents; making it takes seconds."""
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
        """The citations of a bullet, from a list of document ids."""
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
        """The bullets with the citations `after` a repair; bullets with unchanged citations stay as they are."""
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
        """The corpus of this name, with its index. `documents`: (document_id, text) of each."""
        with self._lock:
            if name not in self._kept:
                self._kept[name] = CitedDocuments(documents)
                while len(self._kept) > KEPT:
                    self._kept.popitem(last=False)
            self._kept.move_to_end(name)
            _ = self._kept[name].index
            return self._kept[name]


def replace_citations(bullet: str, ids: Mapping[str, int], numbers: Collection[int]) -> str:
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


def repair_citations(bullet: str, cited: Cited, free: Supports, place: int, mode: Mode = "both") -> frozenset[int]:
    """The numbers of the documents that a bullet cites after its repair. `place`: the bullet's index in `free`, from 0.

    A citation stays if its document supports the bullet. Others are added if they support it too and, where the bullet copies a
    sentence of a document that it cites, have nearly that sentence. Headings, and bullets in a language that the free judge
    cannot handle, are unchanged.
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
