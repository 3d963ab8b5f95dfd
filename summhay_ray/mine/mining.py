"""Part of the mine room: mines a collection of documents, block by block."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from summhay_ray.mine.insights import Compared, Comparing, Evidence, Mined, find_insights
from summhay_ray.mine.reading import Source
from summhay_ray.mine.statements import DocumentClaim, SentenceFacts, Statements

BLOCK = 250
"""Documents that are read, and whose sentences are compared, at once."""
Keep = Callable[[str, Callable[[], bytes]], bytes]
"""(A name, what makes its content) -> the content: made now, or earlier, maybe elsewhere."""
Claims = Mapping[int, Sequence[DocumentClaim]]


class Mining:
    """Mines documents. Blocks can be read, and when all are read compared, one by one, in any process that has the documents.

    Equal documents count once for recurrence (`least`), and all of them are documents of what they say. `claims`: index of a
    document -> its claims, of which insights are made; where it is missing, insights are made of the document's sentences.
    """

    def __init__(
        self, sources: Sequence[Source], least: int, claims: Claims | None = None, keep: Keep = lambda name, make: make()
    ) -> None:
        self._sources, self._least, self._claims, self._keep = sources, least, claims or {}, keep
        first: dict[str, int] = {}
        self._copy_of = [first.setdefault(source.text.strip(), place) for place, source in enumerate(sources)]
        self._distinct = [place for place, kept in enumerate(self._copy_of) if place == kept]
        self.blocks = range(0, len(self._distinct), BLOCK)
        """The number of the first document of each block, among those that are distinct."""

    @property
    def copies(self) -> list[tuple[int, int]]:
        """Pairs (document, earlier one) of equal documents."""
        return [(place, kept) for place, kept in enumerate(self._copy_of) if place != kept]

    def read(self, begin: int) -> SentenceFacts:
        """The facts of the sentences of a block."""

        def make() -> bytes:
            return SentenceFacts.read(self._sources[place].text for place in self._distinct[begin : begin + BLOCK]).to_bytes()

        return SentenceFacts.from_bytes(self._keep(f"read-{begin}", make))

    def compare(self, begin: int) -> Compared:
        """The candidates among the sentences of a block. It reads all blocks."""

        def make() -> bytes:
            return self._comparing.block(begin, begin + BLOCK).to_bytes()

        return Compared.from_bytes(self._keep(f"compared-{begin}", make))

    @functools.cached_property
    def _comparing(self) -> Comparing:
        given = {number: self._claims[place] for number, place in enumerate(self._distinct) if place in self._claims}
        texts = [self._sources[place].text for place in self._distinct]
        return Comparing(Statements(texts, map(self.read, self.blocks), given), self._least)

    def mined(self) -> list[Mined]:
        """The insights that recur, the surest first."""
        same: dict[int, list[int]] = {}
        for place, kept in enumerate(self._copy_of):
            same.setdefault(kept, []).append(place)

        def all_of(evidence: Sequence[Evidence]) -> tuple[Evidence, ...]:
            return tuple(replace(one, document=place) for one in evidence for place in same[self._distinct[one.document]])

        found = find_insights(self._comparing, map(self.compare, self.blocks))
        return [replace(one, evidence=all_of(one.evidence), doubtful=all_of(one.doubtful)) for one in found]


def mine(sources: Sequence[Source], least: int, claims: Claims | None = None) -> tuple[list[Mined], list[tuple[int, int]]]:
    """The insights that recur, the surest first, and pairs (document, earlier one) of equal documents; see `Mining`."""
    mining = Mining(sources, least, claims)
    return mining.mined(), mining.copies
