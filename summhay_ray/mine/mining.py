"""Mines a collection of documents, block by block."""

import functools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from summhay_ray.mine.comparing import Compared, Comparing
from summhay_ray.mine.findings import LEAST
from summhay_ray.mine.insights import Evidence, Mined, find_insights
from summhay_ray.mine.reading import Source
from summhay_ray.mine.statements import DocumentClaim, SentenceFacts, Statements, language_of
from summhay_ray.text import LeftOut, ProseStatement, boilerplate, read_prose

MINING_REVISION = 2
"""Part of the identity of runs that mine. Increase it when the same documents give other insights."""
USUAL, ENOUGH, FEW = 3, 15, 5
"""Default minimum number of documents that state an insight. A result has few insights if it has fewer than 15, or fewer than one
for five documents."""
BLOCK = 250
"""Number of documents in a block. One step reads a block, or compares the sentences of a block."""


@dataclass(frozen=True, slots=True)
class Step:
    """A step on a block of documents. `begin` is the index of the block's first document among the distinct documents."""

    name: Literal["read", "compare"]
    begin: int


@dataclass(frozen=True, slots=True)
class ReadText:
    """What mining reads from a document, and what it leaves out."""

    document_id: str
    title: str
    date: str
    """The title and the date, as written in the document."""
    kept: tuple[ProseStatement, ...]
    left_out: tuple[LeftOut, ...]


Keep = Callable[[Step, Callable[[], bytes]], bytes]
"""(step, function) -> the step's result. The function computes it; the result may also come from an earlier computation, possibly
on another machine."""
Claims = Mapping[int, Sequence[DocumentClaim]]


def _made(step: Step, make: Callable[[], bytes]) -> bytes:
    return make()


class Mining:
    """Mines documents. Blocks are read one by one, then compared one by one, in any process that has the documents.

    `least`: minimum number of documents that state an insight; None: `USUAL`, or 2 if `USUAL` gives few insights. Equal documents
    count once towards `least`, but all of them are listed as documents of their insights. `claims`: index of a document -> its
    claims, which become insights. For a document without claims, its sentences become insights.
    """

    def __init__(
        self, sources: Sequence[Source], least: int | None, claims: Claims | None = None, keep: Keep | None = None
    ) -> None:
        self._sources, self._claims, self._keep = sources, claims or {}, keep or _made
        self._may_relax, self.least = least is None, least or USUAL
        self.relaxed = False
        """Whether two documents are enough, because too few insights are in three documents."""
        self._similar: list[int] = []
        first: dict[str, int] = {}
        self._copy_of = [first.setdefault(source.text.strip(), place) for place, source in enumerate(sources)]
        self._distinct = [place for place, kept in enumerate(self._copy_of) if place == kept]
        begins = range(0, len(self._distinct), BLOCK)
        self.reading = [Step("read", begin) for begin in begins]
        self.comparing = [Step("compare", begin) for begin in begins]
        """The steps of all blocks. With claims there are no steps for comparing, since comparing needs the claims, and runs
        here."""

    @property
    def copies(self) -> list[tuple[int, int]]:
        """Return pairs (document, earlier document) of equal documents."""
        return [(place, kept) for place, kept in enumerate(self._copy_of) if place != kept]

    @property
    def commonplaces(self) -> list[str]:
        """Return recurring statements whose words are in very many documents. They are mostly boilerplate, not insights."""
        return [self._all.of.texts[sentence] for sentence in self._all.commonplaces.tolist()]

    @property
    def left_out(self) -> Counter[str]:
        """Return the number of omitted lines by reason; they are not prose."""
        return self._all.of.left_out

    @property
    def n_similar(self) -> int:
        """Number of distinct statements that resemble a statement of another document. Known after `mined`."""
        return len(self._similar)

    def n_incomplete(self) -> int:
        """Number of the statements of `n_similar` whose form shows that they are not findings, such as notes without a subject or
        a verb, or sentences that cannot be understood without their neighbours."""
        return sum(self._all.worth(sentence) < LEAST for sentence in self._similar)

    @property
    def language(self) -> str:
        """The language of the statements; see `language_of`."""
        return language_of(self._all.of.texts)

    @property
    def boilerplate(self) -> list[str]:
        """Statements that are left out because many documents contain them in the same words."""
        return sorted(self._all.of.boilerplate)

    def do(self, step: Step) -> bytes:
        """Compute a step, or return its stored result. All blocks must be read before a block is compared."""
        return self._keep(step, functools.partial(self._read if step.name == "read" else self._compare, step.begin))

    def _read(self, begin: int) -> bytes:
        return SentenceFacts.read(self._sources[place].text for place in self._distinct[begin : begin + BLOCK]).to_bytes()

    def _compare(self, begin: int) -> bytes:
        return self._all.block(begin, begin + BLOCK).to_bytes()

    @functools.cached_property
    def _all(self) -> Comparing:
        given = {number: self._claims[place] for number, place in enumerate(self._distinct) if place in self._claims}
        texts = [self._sources[place].text for place in self._distinct]
        return Comparing(Statements(texts, map(SentenceFacts.from_bytes, map(self.do, self.reading)), given), self.least)

    def mined(self) -> list[Mined]:
        """Return the recurring insights, most certain first."""
        same: dict[int, list[int]] = {}
        for place, kept in enumerate(self._copy_of):
            same.setdefault(kept, []).append(place)

        def all_of(evidence: Sequence[Evidence]) -> tuple[Evidence, ...]:
            return tuple(replace(one, document=place) for one in evidence for place in same[self._distinct[one.document]])

        made = (self._compare(step.begin) if self._claims else self.do(step) for step in self.comparing)
        compared = [Compared.from_bytes(content) for content in made]
        self._similar = [sentence for block in compared for sentence in block.sentences.tolist()]
        found = find_insights(self._all, compared, self.least)
        if self._may_relax and len(found) < min(ENOUGH, len(self._sources) / FEW):
            self.least, self.relaxed = 2, True
            found = find_insights(self._all, compared, self.least)
        return [replace(one, evidence=all_of(one.evidence), doubtful=all_of(one.doubtful)) for one in found]


def mine(sources: Sequence[Source], least: int | None, claims: Claims | None = None) -> tuple[list[Mined], list[tuple[int, int]]]:
    """Return the recurring insights, most certain first, and pairs (document, earlier document) of equal documents; see
    `Mining`."""
    mining = Mining(sources, least, claims)
    return mining.mined(), mining.copies


def text_read(sources: Sequence[Source], document_id: str) -> ReadText | None:
    """Return what mining reads from a document, and what it leaves out; None if there is no such document."""
    place = next((place for place, one in enumerate(sources) if one.document_id == document_id), None)
    if place is None:
        return None
    proses = [read_prose(one.text) for one in sources]
    common = boilerplate([statement.text for statement in one.statements] for one in proses)
    prose = proses[place]
    kept = [one for one in prose.statements if one.text not in common]
    recurring = [LeftOut(one.text, one.line, "boilerplate") for one in prose.statements if one.text in common]
    left_out = sorted([*prose.left_out, *recurring], key=lambda one: one.line)
    return ReadText(document_id, prose.title, prose.date, tuple(kept), tuple(left_out))
