"""The mining steps that ask a model: where comparing words leaves doubt, or where a model writes a better insight."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from summhay_ray.benchmark import Ask, NoReply, Unreadable, read_json
from summhay_ray.benchmarks.mine import prompts
from summhay_ray.benchmarks.mine.spec import MineModels
from summhay_ray.mine import WORDS, DocumentClaim, Evidence, Grouped, Mined, Source, may_be_one, merged
from summhay_ray.synth import is_quoted, leak

CUT = 80
"""Maximum characters of an insight in a message."""
INSIGHTS_A_QUESTION = 40
"""Maximum number of insights in one question to the check model."""
_CLAIM = ("statement", "words")


@dataclass(frozen=True, slots=True)
class AskedSteps:
    """Asks the spec's models about the documents of a folder. An unreadable reply fails only its own step."""

    models: MineModels
    sources: Sequence[Source]
    ask: Ask

    async def claims(self) -> dict[int, list[DocumentClaim]]:
        """Return each document's claims, as far as the model supports them with a quotation. A document without an answer
        keeps its sentences."""
        claims: dict[int, list[DocumentClaim]] = {}

        async def read(place: int, source: Source) -> None:
            try:
                reply = await self.ask("claim", prompts.claim(source.text), model=self.models.claim)
                rows = read_json(reply, kind=list)
                if not all(isinstance(row, dict) and {str} == {type(row.get(name)) for name in _CLAIM} for row in rows):
                    raise Unreadable(reply, "a list of objects with the texts statement and words")
                listed = [DocumentClaim(*(" ".join(row[name].split()) for name in _CLAIM)) for row in rows]
                # Drop claims whose quotation is not in the document.
                claims[place] = [claim for claim in listed if claim.text and is_quoted(claim.words, source.text)]
            except NoReply as none:
                self._fail("claim", source.document_id, none)

        await asyncio.gather(*(read(place, source) for place, source in enumerate(self.sources)))
        return {} if self.ask.planning else claims

    async def join_same(self, mined: Sequence[Mined], least: int) -> list[Mined]:
        """Join the insights that the group model considers the same, and return those found in enough documents."""
        groups: list[list[int]] = []

        async def compare(places: Sequence[int]) -> None:
            try:
                reply = await self.ask("group", prompts.group([mined[place].text for place in places]), model=self.models.group)
                numbers = range(1, len(places) + 1)
                said = read_json(reply, kind=list)
                if not all(isinstance(row, list) and row and all(number in numbers for number in row) for row in said):
                    raise Unreadable(reply, f"a list of lists of numbers from 1 to {len(places)}")
                groups.extend([places[number - 1] for number in row] for row in said)
            except NoReply as none:
                self._fail("group", mined[places[0]].text, none)

        await asyncio.gather(*map(compare, await asyncio.to_thread(may_be_one, mined)))
        return merged(mined, sorted(groups), least)

    async def check_uncertain(self, mined: Sequence[Mined], least: int) -> list[Mined]:
        """Ask the check model about the uncertain insights. Returns the insights, most certain first."""
        unsure: dict[int, list[int]] = {}
        for place, one in enumerate(mined):
            for found in (*(found for found in one.evidence if not found.sure), *one.doubtful):
                unsure.setdefault(found.document, []).append(place)
        decided: dict[tuple[int, int], tuple[str, str]] = {}

        async def read(document: int, places: Sequence[int]) -> None:
            text, listed = self.sources[document].text, [mined[place].text for place in places]
            try:
                reply = await self.ask("check", prompts.check(text, listed), model=self.models.check)
                numbers = [str(number) for number in range(1, len(places) + 1)]
                said = read_json(reply, *numbers)
                if not all(isinstance(said[number], str) for number in numbers):
                    raise Unreadable(reply, "a string for each number")
                for number, place in zip(numbers, places, strict=True):
                    words = said[number].strip()
                    # If the document does not contain the quotation, the pair stays uncertain.
                    if not words or is_quoted(words, text):
                        decided[place, document] = words, reply.key
            except NoReply as none:
                self._fail("check", f"{self.sources[document].document_id}, {mined[places[0]].text}", none)

        blocks = [
            (document, places[begin : begin + INSIGHTS_A_QUESTION])
            for document, places in sorted(unsure.items())
            for begin in range(0, len(places), INSIGHTS_A_QUESTION)
        ]
        await asyncio.gather(*(read(*block) for block in blocks))
        if self.ask.planning:
            return list(mined)
        checked = [self._decided(place, one, decided) for place, one in enumerate(mined)]
        enough = [place for place, one in enumerate(checked) if len(one.evidence) >= least]
        enough.sort(key=lambda place: -checked[place].confidence)
        number = {place: position for position, place in enumerate(enough)}
        return [
            replace(checked[place], opposites=tuple(number[other] for other in checked[place].opposites if other in number))
            for place in enough
        ]

    def _decided(self, place: int, one: Mined, decided: Mapping[tuple[int, int], tuple[str, str]]) -> Mined:
        """Apply the model's decisions to an insight. `decided`: (location of the insight, document) -> the words that state
        it (empty if none do), and the key of the answer."""
        assert self.models.check is not None
        label = self.models.check.label
        evidence: list[Evidence] = []
        doubtful: list[Evidence] = []
        for found in sorted((*one.evidence, *one.doubtful), key=lambda found: found.document):
            words, key = decided.get((place, found.document), ("", ""))
            if not key:
                (evidence if found in one.evidence else doubtful).append(found)
            elif words:
                evidence.append(replace(found, text=words, by=label, key=key))

        def mean(listed: Sequence[Evidence]) -> float:
            return sum(1.0 if found.by != WORDS else found.score for found in listed) / max(1, len(listed))

        confidence = min(1.0, one.confidence * mean(evidence) / mean(one.evidence))
        return replace(one, evidence=tuple(evidence), doubtful=tuple(doubtful), confidence=round(confidence, 4))

    async def reword(self, mined: Sequence[Mined]) -> list[Mined]:
        async def word(one: Mined) -> Mined:
            try:
                shown = [found.text for found in sorted(one.evidence, key=lambda found: -found.score)[:5]]
                reply = await self.ask("insight", prompts.insight(shown), model=self.models.insight)
                if not (text := " ".join(reply.text.split())):
                    raise Unreadable(reply, "one sentence")
                return replace(one, text=text)
            except NoReply as none:
                self._fail("insight", one.text, none)
                return one

        worded = await asyncio.gather(*map(word, mined))
        texts: set[str] = set()
        kept = []
        for old, new in zip(mined, worded, strict=True):
            # If a model gives two insights the same words, both keep their original sentences: ids are hashes of the texts.
            kept.append(old if new.text in texts else new)
            texts.add(new.text)
        return kept

    async def asked_for(self, grouped: Sequence[Grouped], mined: Sequence[Mined]) -> list[Grouped]:
        async def word(group: Grouped) -> Grouped:
            try:
                listed = [mined[place].text for place in group.places]
                reply = await self.ask("query", prompts.query(group.text, listed), model=self.models.query)
                query = " ".join(reply.text.split())
                if not query:
                    raise Unreadable(reply, "one question")
                if any(leak(query, text, group.text).found for text in listed):
                    raise Unreadable(reply, "a question that gives none of its insights away")
                return replace(group, query=query)
            except NoReply as none:
                self._fail("query", group.text, none)
                return group

        return list(await asyncio.gather(*map(word, grouped)))

    def _fail(self, stage: str, about: str, none: NoReply) -> None:
        """Record a failure together with its subject. The folder is a single item, so similar failures would otherwise become
        one row."""
        self.ask.fail(stage, replace(none.outcome, message=f"{about[:CUT]}: {none.outcome.message}"))
