"""The documents of one haystack with the free support judge's index of them."""

from __future__ import annotations

import functools
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Protocol

from summhay_ray.citations.citing import Cited, Mode, read_cited, recited, rewritten
from summhay_ray.citations.support_judge import SupportIndex, Supports
from summhay_ray.metrics import ids_of

KEPT = 2


class Text(Protocol):
    """A document: its id and its text."""

    @property
    def document_id(self) -> str:
        """Unique among the documents."""

    @property
    def text(self) -> str:
        """Its text."""


class CitedDocuments:
    """Documents in the order in which citations number them, from 1."""

    def __init__(self, documents: Sequence[tuple[str, str]]) -> None:
        """`documents`: (document_id, text) of each."""
        self.documents = documents
        self.ids: Mapping[str, int] = ids_of([document_id for document_id, _ in documents])
        """document_id -> its number; also a file's name without its ending, unless another document has that id."""

    @functools.cached_property
    def _index(self) -> SupportIndex:
        return SupportIndex([text for _, text in self.documents])

    def cited(self, bullets: Sequence[str]) -> list[Cited]:
        """The citations of each bullet."""
        return [read_cited(bullet, self.ids, len(self.documents)) for bullet in bullets]

    def named(self, ids: Sequence[str]) -> Cited:
        """The citations of a bullet, from a list of document ids."""
        known = {self.ids[one] for one in ids if one in self.ids}
        return Cited(tuple(sorted(known)), by_id=len(known), unreadable=tuple(one for one in ids if one not in self.ids))

    def plain(self, bullets: Sequence[str]) -> list[str]:
        """The bullets without their citations."""
        return [rewritten(bullet, self.ids, ()) for bullet in bullets]

    def support(self, bullets: Sequence[str]) -> Supports:
        """The free judge's support of each bullet by each document."""
        return self._index.support(self.plain(bullets))

    def passages(self, bullet: str, document: int, most: int) -> list[str]:
        """See `SupportIndex.passages`."""
        return self._index.passages(bullet, document, most)

    def recite(self, bullets: Sequence[str], mode: Mode = "both") -> tuple[str, ...]:
        """The bullets with their citations repaired by the free judge."""
        cited, free = self.cited(bullets), self.support(bullets)
        after = [recited(text, one, free, place, mode) for place, (text, one) in enumerate(zip(bullets, cited, strict=True))]
        return self.with_citations(bullets, cited, after)

    def with_citations(self, bullets: Sequence[str], cited: Sequence[Cited], after: Sequence[frozenset[int]]) -> tuple[str, ...]:
        """The bullets with the citations `after` a repair; bullets with unchanged citations stay as they are."""
        return tuple(
            rewritten(text, self.ids, numbers) if numbers != frozenset(one.numbers) or one.out_of_range else text
            for text, one, numbers in zip(bullets, cited, after, strict=True)
        )


class CitedCorpora:
    """A thread-safe cache of the most recently used corpora, by name; creating an index takes seconds."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, CitedDocuments] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, name: str, documents: Sequence[Text]) -> CitedDocuments:
        """The corpus of this name, with its index."""
        with self._lock:
            if name not in self._kept:
                self._kept[name] = CitedDocuments([(document.document_id, document.text) for document in documents])
                while len(self._kept) > KEPT:
                    self._kept.popitem(last=False)
            self._kept.move_to_end(name)
            _ = self._kept[name]._index
            return self._kept[name]
