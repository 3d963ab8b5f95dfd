"""The support judges: each gives an opinion on pairs of a bullet and a document, and judges are composed of judges."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from summhay_ray.benchmark import Ask, Failed, ModelSpec, NoReply, semantic_hash
from summhay_ray.benchmarks.support import prompts
from summhay_ray.benchmarks.support.spec import MEANS, SupportSpec, label_of
from summhay_ray.citations import SUPPORT_JUDGE, Supports
from summhay_ray.judge import DEFAULT_SHARE, Named
from summhay_ray.outcome import NoAnswer
from summhay_ray.synth import is_quoted

STAGE = "support"
Pair = tuple[int, int]
"""(place of a bullet in its answer, place of a document), both from 0."""


@dataclass(frozen=True, slots=True)
class Opinion:
    """How surely a document supports a bullet, 0 to 1, by whom, and the sentence that shows it."""

    value: float
    by: str
    evidence: str = ""


Opinions = Mapping[Pair, "Opinion | NoAnswer"]
"""Pair -> the judge's opinion, or why it has none."""


@dataclass(frozen=True, slots=True)
class Case:
    """One answer before its judge."""

    id: str
    bullets: Sequence[str]
    """Without their citations."""
    documents: Sequence[tuple[str, str]]
    free: Supports | None
    """What the free judge says of every pair; None while planning."""


class SupportJudge(Protocol):
    """Judges pairs. While planning, it only asks."""

    async def judge(self, case: Case, pairs: Sequence[Pair], ask: Ask) -> Opinions:
        """An entry for each pair."""
        ...


class Free:
    """The free judge, `offline/support-judge`."""

    async def judge(self, case: Case, pairs: Sequence[Pair], ask: Ask) -> Opinions:
        """See `SupportJudge`."""
        return {} if case.free is None else free_opinions(case.free, pairs)


def free_opinion(free: Supports, bullet: int, document: int) -> Opinion | NoAnswer:
    """The free judge's opinion on a pair."""
    if free.foreign[bullet]:
        return Failed("other_language", "the bullet is in another language than the documents; name a model as the judge")
    if free.blank[bullet]:
        return Failed("no_words", "the bullet cites and says nothing; correct the answer")
    return Opinion(round(float(free.values[bullet, document]), 4), SUPPORT_JUDGE, free.evidence[bullet][document])


def free_opinions(free: Supports, pairs: Sequence[Pair]) -> Opinions:
    """The free judge's opinions."""
    return {pair: free_opinion(free, *pair) for pair in pairs}


class ByModel:
    """A model, asked about one cited document at a time or about all that a bullet cites."""

    def __init__(self, entry: ModelSpec, per_bullet: bool) -> None:
        self._entry, self._per_bullet = entry, per_bullet

    async def judge(self, case: Case, pairs: Sequence[Pair], ask: Ask) -> Opinions:
        """See `SupportJudge`."""
        asked: dict[int, list[int]] = {}
        for bullet, document in pairs:
            asked.setdefault(bullet, []).append(document)
        questions = (
            [self._about_all(case, bullet, documents, ask) for bullet, documents in asked.items()]
            if self._per_bullet
            else [self._about_one(case, pair, ask) for pair in pairs]
        )
        found: dict[Pair, Opinion | NoAnswer] = {}
        for opinions in await asyncio.gather(*questions):
            found |= opinions
        return found

    async def _about_one(self, case: Case, pair: Pair, ask: Ask) -> Opinions:
        text = case.documents[pair[1]][1]
        try:
            reply = await ask(STAGE, prompts.about_one(case.bullets[pair[0]], text), model=self._entry)
            return {pair: self._opinion(case, pair, *prompts.read_one(reply))}
        except NoReply as none:
            return {pair: none.outcome}

    async def _about_all(self, case: Case, bullet: int, documents: Sequence[int], ask: Ask) -> Opinions:
        texts = [case.documents[document][1] for document in documents]
        try:
            reply = await ask(STAGE, prompts.about_all(case.bullets[bullet], texts), model=self._entry)
            said = prompts.read_all(reply, len(documents))
        except NoReply as none:
            return {(bullet, document): none.outcome for document in documents}
        pairs = [(bullet, document) for document in documents]
        return {pair: self._opinion(case, pair, *one) for pair, one in zip(pairs, said, strict=True)}

    def _opinion(self, case: Case, pair: Pair, value: float, quotation: str) -> Opinion:
        """The model's evidence is the document's own words, or else the sentence that the free judge finds."""
        if not quotation or not is_quoted(quotation, case.documents[pair[1]][1]):
            quotation = case.free.evidence[pair[0]][pair[1]] if case.free is not None else ""
        return Opinion(value, self._entry.label, quotation)


class Cascade:
    """The free judge, and another one about the share of an answer's citations that the free judge is least certain of."""

    def __init__(self, asked: SupportJudge, share: float) -> None:
        self._asked, self._share = asked, share

    async def judge(self, case: Case, pairs: Sequence[Pair], ask: Ask) -> Opinions:
        """See `SupportJudge`. What the free judge cannot judge is asked about, too."""
        free = await Free().judge(case, pairs, ask)
        # Rounded up or down by the answer's own content, so that the share holds over all answers.
        n = math.floor(self._share * len(pairs) + int(semantic_hash(case.id)[:8], 16) / 2**32)
        doubts = sorted(pairs, key=lambda pair: (_certainty(free.get(pair)), pair))
        blank = sum(pair in free and not isinstance(free[pair], Opinion) for pair in pairs)
        chosen = doubts[: max(n, blank)]
        return {**free, **await self._asked.judge(case, chosen, ask)}


def _certainty(opinion: Opinion | NoAnswer | None) -> float:
    return abs(opinion.value - 0.5) if isinstance(opinion, Opinion) else -1.0


class Mean:
    """Several judges: the mean of their values. A pair on which one of them has no opinion has none."""

    def __init__(self, name: str, members: Sequence[SupportJudge]) -> None:
        self._name, self._members = name, members

    async def judge(self, case: Case, pairs: Sequence[Pair], ask: Ask) -> Opinions:
        """See `SupportJudge`."""
        given = await asyncio.gather(*(member.judge(case, pairs, ask) for member in self._members))
        return {pair: self._together([one[pair] for one in given]) for pair in pairs if all(pair in one for one in given)}

    def _together(self, given: Sequence[Opinion | NoAnswer]) -> Opinion | NoAnswer:
        opinions = [one for one in given if isinstance(one, Opinion)]
        if len(opinions) < len(given):
            return next(one for one in given if not isinstance(one, Opinion))
        value = math.fsum(one.value for one in opinions) / len(opinions)
        nearest = max(opinions, key=lambda one: one.value if value >= 0.5 else -one.value)
        return Opinion(round(value, 4), self._name, nearest.evidence)


def make_support_judge(named: Named, spec: SupportSpec) -> SupportJudge:
    """The judge of a parsed name."""
    if named.kind == "offline":
        return Free()
    if named.kind == "cascade":
        return Cascade(make_support_judge(named.parts[1], spec), DEFAULT_SHARE if named.share is None else named.share)
    if named.kind in MEANS:
        return Mean(label_of(named), [make_support_judge(part, spec) for part in named.parts])
    return ByModel(spec.entry(named.text), spec.per == "bullet")
