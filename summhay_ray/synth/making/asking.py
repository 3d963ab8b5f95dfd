"""Asks models through the gateway, and has the parts that the pipeline's stages share.

Each group of tasks has its own model, as in the paper (A.1: one model plans and checks, another writes conversations).
"""

import asyncio
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, TypeVar

from summhay_ray.llm import Ask, Request
from summhay_ray.outcome import Answer, Malformed, NoAnswer, Outcome, Refusal
from summhay_ray.synth.checking.verifier import NotChecked
from summhay_ray.synth.making.domains import Domain
from summhay_ray.synth.making.kinds import Asker, Difficulty, Input, Shape, Task, Topic
from summhay_ray.synth.making.prompting import read_answer, render
from summhay_ray.text import text_hash

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
"""Maximum number of attempts to get an answer that can be parsed."""
AT_ONCE = 32
"""Number of documents, or queries, of a haystack that are processed concurrently."""
_SAMPLES = 10
"""Number of sample indices that are reserved for the attempts of one `ask`."""

T = TypeVar("T")


@dataclass(frozen=True)
class ModelAsker:
    """A `kinds.Asker` that uses the gateway.

    `asks`, `models` and `sampling` have an entry for each group; a group without a model is never asked. A request's sample
    number is `sample * 10 + attempt`. All attempts but the first also have the number in their input (`attempt`), since a model
    at temperature 0 repeats its answer to the same prompt.
    """

    asks: Mapping[Group, Ask]
    domain: Domain
    models: Mapping[Group, str]
    sampling: Mapping[Group, Mapping[str, Any]]

    def model(self, task: Task) -> str:
        """Return the model of the task's group, or an empty string if there is none."""
        return self.models.get(GROUP_OF[task], "")

    async def ask(self, task: Task, given: Input, sample: int = 0) -> Outcome[Any]:
        """Return the outcome after at most TRIES answers. `attempts` and `usd_micros` are totals over these answers."""
        attempts = usd_micros = 0
        outcome: Outcome[Any] = Malformed("not_asked", "no answer was requested")
        for attempt in range(TRIES):
            outcome = await self._ask_once(task, given, sample * _SAMPLES + attempt)
            attempts, usd_micros = attempts + outcome.attempts, usd_micros + outcome.usd_micros
            if not isinstance(outcome, Malformed):
                break
        return replace(outcome, attempts=attempts, usd_micros=usd_micros)

    async def _ask_once(self, task: Task, given: Input, sample: int) -> Outcome[Any]:
        group, template = GROUP_OF[task], self.domain.prompts[task]
        full = {"task": task, "domain": self.domain.name, "language": self.domain.language, **given}
        if sample:
            full["attempt"] = sample
        request = Request(
            model=self.models[group],
            messages=render(template, full),
            sampling=self.sampling.get(group, {}),
            prompt_hash=text_hash(template),
            sample=sample,
        )
        outcome = await self.asks[group](request)
        if not isinstance(outcome, Answer):
            return outcome
        value = read_answer(task, full, outcome.value.text, outcome.value.finish_reason)
        if isinstance(value, Malformed):
            return replace(value, key=outcome.key, attempts=outcome.attempts, usd_micros=outcome.usd_micros)
        return Answer(value, outcome.key, outcome.attempts, outcome.usd_micros)


@dataclass(frozen=True)
class TopicRecipe:
    """The input of one haystack. `metadata`, such as a license, is copied into the file's `topic_metadata.synthesis`."""

    cell_id: str
    topic: Topic
    domain: Domain
    shape: Shape = field(default_factory=Shape)
    difficulty: Difficulty = field(default_factory=Difficulty)
    seed: int = 0
    metadata: Mapping[str, Any] = field(default_factory=dict)
    absent: int = 0
    """Number of queries that no document answers."""

    @property
    def participants(self) -> list[str]:
        """The speakers: the topic's or, if it has none, the domain's."""
        return list(self.topic.participants or self.domain.participants)

    @property
    def input_fields(self) -> dict[str, Any]:
        """The fields of every input. They include the seed, so that a different seed does not reuse stored answers."""
        return {"topic": self.topic.topic, "domain": self.domain.name, "language": self.domain.language, "seed": self.seed}


class GaveUp(Exception):
    """A stage cannot continue. `outcome`: the missing answer that ended it, if any."""

    def __init__(self, stage: str, error: str, message: str, outcome: NoAnswer | None = None) -> None:
        super().__init__(message)
        self.stage, self.error, self.message, self.outcome = stage, error, message, outcome


@dataclass(frozen=True)
class Work:
    """A haystack in the making: its recipe, the asker, and the cost of the answers."""

    recipe: TopicRecipe
    asker: Asker
    costs: dict[str, int] = field(default_factory=dict)
    """Key of an answer -> its cost in millionths of a US dollar."""
    slots: asyncio.Semaphore = field(default_factory=partial(asyncio.Semaphore, AT_ONCE))
    """Limits how many documents, or queries, are processed concurrently."""

    def model(self, task: Task) -> str:
        return self.asker.model(task)

    async def ask(self, task: Task, given: Input, sample: int = 0) -> Outcome[Any]:
        outcome = await self.asker.ask(task, given, sample)
        self.costs[outcome.key] = outcome.usd_micros
        return outcome

    async def need(self, stage: str, task: Task, given: Input, sample: int = 0) -> Any:
        """Return the value of the answer. Raise GaveUp if there is none."""
        outcome = await self.ask(task, {**self.recipe.input_fields, **given}, sample)
        if isinstance(outcome, Answer):
            return outcome.value
        raise gave_up(stage, task, outcome)


def gave_up(stage: str, task: Task, outcome: NoAnswer) -> GaveUp:
    """Return the GaveUp of a stage without an answer. Its `error` is the outcome's."""
    kind = "refused" if isinstance(outcome, Refusal) else "unreadable" if isinstance(outcome, Malformed) else "no answer"
    mend = (
        f"; use another models.{GROUP_OF[task]}{', or reword the topic' if kind == 'refused' else ''}"
        if kind != "no answer"
        else ""
    )
    return GaveUp(stage, outcome.error, f"{task}: {kind}: {outcome.message}{mend}", outcome)


async def all_of(awaitables: list[Awaitable[T]]) -> list[T]:
    """Return the results in order, after all have ended. If several fail, raise the error of the first in this order, not the
    earliest one."""
    results = await asyncio.gather(*awaitables, return_exceptions=True)
    # Bugs come before GaveUp and NotChecked, which they may have caused.
    errors = [result for result in results if isinstance(result, BaseException)]
    for error in sorted(errors, key=lambda error: isinstance(error, GaveUp | NotChecked)):
        raise error
    return [result for result in results if not isinstance(result, BaseException)]
