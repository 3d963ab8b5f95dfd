"""Room synth: how its models are asked through the gateway, and what the pipeline's stages share. For the room alone.

Each group of tasks has a model of its own, as in the paper (A.1: one model plans and checks, another writes conversations).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, TypeVar

from summhay_ray.llm import Ask, Request
from summhay_ray.outcome import Answer, Malformed, NoAnswer, Outcome, Refusal
from summhay_ray.synth.answers import read
from summhay_ray.synth.base import Asker
from summhay_ray.synth.domains import Domain, template_hash
from summhay_ray.synth.kinds import Difficulty, Input, Shape, Task, Topic
from summhay_ray.synth.prompting import render
from summhay_ray.synth.verify import NotChecked

Group = Literal["outline", "write", "check"]
GROUP_OF: Mapping[Task, Group] = {
    "subtopics": "outline",
    "insights": "outline",
    "conflicting_insight": "outline",
    "query": "outline",
    "document": "write",
    "chapter": "write",
    "edit_document": "write",
    "overlapping_subtopics": "check",
    "duplicate_insights": "check",
    "assign_subtopic": "check",
    "query_leaks": "check",
    "chapter_check": "check",
    "insights_present": "check",
}
TRIES = 3
"""An answer that cannot be read is asked for so often in all."""
AT_ONCE = 32
"""Documents of a haystack, or queries, that are worked on at one time."""
_SAMPLES = 10

T = TypeVar("T")


class ModelAsker:
    """`base.Asker` over the gateway. `asks`, `models` and `sampling` go by group; a group without a model is not asked.

    The sample of a request is `sample * 10 + try`, so that no two of them are one request; a request other than the first
    says so in its input (`attempt`), since a model at temperature 0 answers the same prompt with the same words.
    """

    def __init__(
        self,
        asks: Mapping[Group, Ask],
        domain: Domain,
        models: Mapping[Group, str],
        sampling: Mapping[Group, Mapping[str, Any]],
    ) -> None:
        self._asks, self._domain, self._models, self._sampling = asks, domain, models, sampling

    def model(self, task: Task) -> str:
        """The model of the task's group; empty where it has none."""
        return self._models.get(GROUP_OF[task], "")

    async def ask(self, task: Task, given: Input, sample: int = 0) -> Outcome[Any]:
        """The outcome of at most TRIES answers; `attempts` and `usd_micros` are those of all of them together."""
        attempts = usd_micros = 0
        outcome: Outcome[Any] = Malformed("not_asked", "no answer was asked for")
        for attempt in range(TRIES):
            outcome = await self._once(task, given, sample * _SAMPLES + attempt)
            attempts, usd_micros = attempts + outcome.attempts, usd_micros + outcome.usd_micros
            if not isinstance(outcome, Malformed):
                break
        return replace(outcome, attempts=attempts, usd_micros=usd_micros)

    async def _once(self, task: Task, given: Input, sample: int) -> Outcome[Any]:
        group, template = GROUP_OF[task], self._domain.prompts[task]
        asked = {"task": task, "domain": self._domain.name, "language": self._domain.language, **given}
        if sample:
            asked["attempt"] = sample
        request = Request(
            model=self._models[group],
            messages=render(template, asked),
            sampling=self._sampling.get(group, {}),
            prompt_hash=template_hash(template),
            sample=sample,
        )
        outcome = await self._asks[group](request)
        if not isinstance(outcome, Answer):
            return outcome
        value = read(task, asked, outcome.value.text, outcome.value.finish_reason)
        if isinstance(value, Malformed):
            return replace(value, key=outcome.key, attempts=outcome.attempts, usd_micros=outcome.usd_micros)
        return Answer(value, outcome.key, outcome.attempts, outcome.usd_micros)


@dataclass(frozen=True)
class Job:
    """One haystack to make. `metadata` goes into the released JSON's `topic_metadata.synthesis` as it is (license, ...)."""

    cell_id: str
    topic: Topic
    domain: Domain
    shape: Shape = field(default_factory=Shape)
    difficulty: Difficulty = field(default_factory=Difficulty)
    seed: int = 0
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @property
    def participants(self) -> list[str]:
        """Who speaks: the topic's own, else the domain's."""
        return list(self.topic.participants or self.domain.participants)

    @property
    def given(self) -> dict[str, Any]:
        """What every input says. Another seed asks for another haystack, also of a model that has answered before."""
        return {"topic": self.topic.topic, "domain": self.domain.name, "language": self.domain.language, "seed": self.seed}


class GaveUp(Exception):
    """A stage cannot go on: why, and the outcome that it hangs on where there is one."""

    def __init__(self, stage: str, error: str, message: str, outcome: NoAnswer | None = None) -> None:
        super().__init__(message)
        self.stage, self.error, self.message, self.outcome = stage, error, message, outcome


@dataclass(frozen=True)
class Work:
    """A job and who is asked for it. Adds up what the answers cost, each key once."""

    job: Job
    asker: Asker
    costs: dict[str, int] = field(default_factory=dict)

    @cached_property
    def slots(self) -> asyncio.Semaphore:
        """What bounds the documents, or queries, that are worked on at one time."""
        return asyncio.Semaphore(AT_ONCE)

    def model(self, task: Task) -> str:
        """As `base.Asker` says."""
        return self.asker.model(task)

    async def ask(self, task: Task, given: Input, sample: int = 0) -> Outcome[Any]:
        """As `base.Asker` says."""
        outcome = await self.asker.ask(task, given, sample)
        self.costs[outcome.key] = outcome.usd_micros
        return outcome

    async def need(self, stage: str, task: Task, given: Input, sample: int = 0) -> Any:
        """The answer's value. Raises GaveUp where there is none."""
        outcome = await self.ask(task, {**self.job.given, **given}, sample)
        if isinstance(outcome, Answer):
            return outcome.value
        raise gave_up(stage, task, outcome)


def gave_up(stage: str, task: Task, outcome: NoAnswer) -> GaveUp:
    """That a stage ends for want of an answer; the error's class is the outcome's own."""
    kind = "refused" if isinstance(outcome, Refusal) else "unreadable" if isinstance(outcome, Malformed) else "no answer"
    mend = (
        f"; take another models.{GROUP_OF[task]}{', or reword the topic' if kind == 'refused' else ''}"
        if kind != "no answer"
        else ""
    )
    return GaveUp(stage, outcome.error, f"{task}: {kind}: {outcome.message}{mend}", outcome)


async def all_of(awaitables: list[Awaitable[T]]) -> list[T]:
    """The results in order, once all have ended; else the error of the first in order, whichever failed first."""
    results = await asyncio.gather(*awaitables, return_exceptions=True)
    # A bug is told before a stage that gave up, which may be its consequence.
    errors = [result for result in results if isinstance(result, BaseException)]
    for error in sorted(errors, key=lambda error: isinstance(error, GaveUp | NotChecked)):
        raise error
    return [result for result in results if not isinstance(result, BaseException)]
