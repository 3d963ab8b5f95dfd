"""Doubles for tests of the pipeline: an asker that answers every task in fixed words, with faults, and a verifier that recognizes
these words."""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from summhay_ray.outcome import Answer, Failed, Outcome
from summhay_ray.records import Check
from summhay_ray.synth import Domain, Shape, Task, Topic, TopicRecipe, load_domain
from summhay_ray.synth.checking.verifier import Compared
from summhay_ray.synth.making.kinds import PlannedDocument, PlannedHaystack, PlannedInsight, PlannedSubtopic

SMALL = Shape(subtopics=4, insights=3, documents=12, words=150)


def domain(method: str = "whole", **changes: Any) -> Domain:
    """The news domain, with changes."""
    values = {name: getattr(load_domain("news"), name) for name in Domain.__dataclass_fields__}
    return Domain(**{**values, "method": method, **changes})


def job(shape: Shape = SMALL, **changes: Any) -> TopicRecipe:
    """A job in the news domain, with changes."""
    given: dict[str, Any] = {"cell_id": "c", "topic": Topic("t", "rain"), "domain": domain(), "seed": 7, "shape": shape}
    return TopicRecipe(**{**given, **changes})


@dataclass
class World:
    """An asker for every task. `faults`: task -> share (0..1) of bad answers; `always`: task -> the failure it always gets."""

    faults: Mapping[str, float] = field(default_factory=dict)
    always: Mapping[str, Failed] = field(default_factory=dict)
    seed: int = 0
    calls: list[tuple[Task, dict[str, Any], int]] = field(default_factory=list)
    busy: int = 0
    busiest: int = 0

    def model(self, task: Task) -> str:
        return "" if task not in self.answers() else f"world/{task}"

    def answers(self) -> dict[str, Any]:
        return {name.removeprefix("_do_"): getattr(self, name) for name in dir(self) if name.startswith("_do_")}

    def count(self, task: str) -> int:
        return sum(one == task for one, *_ in self.calls)

    async def ask(self, task: Task, given: Mapping[str, Any], sample: int = 0) -> Outcome[Any]:
        shown = json.dumps([self.seed, task, dict(given), sample], sort_keys=True)
        key = hashlib.sha256(shown.encode()).hexdigest()
        chance = random.Random(key)
        self.calls.append((task, dict(given), sample))
        self.busy += 1
        self.busiest = max(self.busiest, self.busy)
        # Answers come in another order than the requests.
        for _ in range(chance.randrange(4)):
            await asyncio.sleep(0)
        self.busy -= 1
        if task in self.always:
            return self.always[task]
        return Answer(self.answers()[task](given, chance.random() < self.faults.get(task, 0), chance), key, 1, 10)

    def _do_subtopics(self, given: Any, bad: bool, chance: random.Random) -> Any:
        first = len(given["avoid"])
        named = [f"Theme {first + place}" for place in range(given["n"])]
        return tuple((name, "Theme 0" if bad and place == 0 else name) for place, name in enumerate(named))

    def _do_insights(self, given: Any, bad: bool, chance: random.Random) -> Any:
        first = len(given["avoid"])
        texts = [f"{given['subtopic']} has fact {first + place}." for place in range(given["n"])]
        return tuple(("fact", f"{given['subtopic']} vague" if bad and place == 0 else text) for place, text in enumerate(texts))

    def _do_conflicting_insight(self, given: Any, bad: bool, chance: random.Random) -> Any:
        return ("other", given["insight"] if bad else given["insight"].replace("fact", "feat"))

    def _do_query(self, given: Any, bad: bool, chance: random.Random) -> Any:
        return f"What of {given['subtopic']}?" + (given["avoid"][0] if bad else "")

    def _do_document(self, given: Any, bad: bool, chance: random.Random) -> Any:
        texts = [one["text"] for one in given["insights"]]
        if bad and chance.random() < 0.5:
            texts = texts[1:]
        elif bad:
            texts += given["avoid"][:1]
        opening = f"Number {given['number']} opens. " + "".join(f"See {one['headline']} " for one in given["references"])
        return opening + "\n".join(texts)

    def _do_chapter(self, given: Any, bad: bool, chance: random.Random) -> Any:
        opening = f"Chapter of {given['number']}, {chance.random()}. "
        opening += "".join(f"See {one['headline']} " for one in given["references"])
        return opening + ("" if bad else given["insight"])

    def _do_edit_document(self, given: Any, bad: bool, chance: random.Random) -> Any:
        text = given["document"]
        if bad:
            return text
        for one in given["remove"]:
            text = text.replace(one["text"], "")
        return "\n".join([text, *(one["text"] for one in given["add"])])


@dataclass
class FakeVerifier:
    """A verifier that recognizes the words of `World`. `copied`: the result of each call of `copies`, in order."""

    copied: list[set[str]] = field(default_factory=list)
    rounds: Counter[tuple[str, int]] = field(default_factory=Counter)
    checks: tuple[Check, ...] = ()
    settled: list[tuple[str, int, int]] = field(default_factory=list)

    def __call__(self, *given: Any) -> FakeVerifier:
        return self

    async def subtopics(self, texts: Sequence[tuple[str, str]], round: int, settled: Collection[str] = ()) -> set[str]:
        self.rounds["subtopics", round] += 1
        seen: set[str] = set()
        return {one for one, text in texts if text in seen or seen.add(text)}  # type: ignore[func-returns-value]

    async def insights(self, subtopics: Sequence[PlannedSubtopic], round: int) -> set[str]:
        self.rounds["insights", round] += 1
        return {one.insight_id for subtopic in subtopics for one in subtopic.insights if one.text.endswith("vague")}

    async def query(self, subtopic: PlannedSubtopic, others: Sequence[PlannedInsight], round: int) -> bool:
        self.rounds["query", round] += 1
        assert not {one.subtopic_id for one in others} & {subtopic.subtopic_id}
        return not any(one.text in subtopic.query for one in subtopic.insights)

    async def document(self, planned: PlannedDocument, text: str, insights: Sequence[PlannedInsight], round: int) -> Compared:
        self.rounds["document", round] += 1
        there = {one.insight_id: one.text for one in insights if one.text in text}
        missing = tuple(one for one in planned.insight_ids if one not in there)
        return Compared(missing, tuple(one for one in there if one not in planned.insight_ids), there)

    def reference(self, ids: tuple[str, str], texts: tuple[str, str], named: Mapping[str, str], round: int) -> bool:
        return named["headline"] in texts[0]

    def settle(self, document_id: str, round: int, last: int) -> None:
        self.settled.append((document_id, round, last))

    async def chapter(self, text: str, expected: PlannedInsight, outline: PlannedHaystack, document_id: str, round: int) -> bool:
        self.rounds["chapter", round] += 1
        return expected.text in text

    async def copies(self, texts: Mapping[str, str]) -> set[str]:
        return self.copied.pop(0) if self.copied else set()
