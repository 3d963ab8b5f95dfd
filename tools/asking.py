"""A benchmark of nothing but calls: `kind: asking:Asking`, for what measures runs by the door (see asking_runs.py).

An item asks `first` questions together and then, when all are answered, `then` more. Every question is another one, in the run's
name too, from which the simulated provider draws its faults.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass

from summhay_ray.benchmark import Ask, Benchmark, Item, Model, Rows, Spec, Stage, Table, user

FILLER = "Which of these bullets says what the insight says, and does it say all of it or a part? " * 100


class AskingSpec(Spec):
    """How many items ask how often. `sizes`: characters of a question, one size after the other."""

    model: Model
    items: int = 100
    first: int = 1
    then: int = 0
    sizes: list[int] = [1500]
    distinct: int | None = None
    """Only so many items ask questions of their own; the others ask theirs again."""


@dataclass(frozen=True)
class Said:
    """A row of table `said`: what an item's questions were answered."""

    item: str
    text: str


class Asking(Benchmark[AskingSpec]):
    """Questions without a score."""

    stages = (Stage("first", output_tokens=20, example="yes"), Stage("then", output_tokens=20, example="yes"))
    tables = (Table("said", Said, key=("item",)),)

    def items(self) -> Iterator[Item]:
        for number in range(self.spec.items):
            yield Item(f"{number:06}", model=self.spec.model, data={"asks": number % (self.spec.distinct or self.spec.items)})

    async def answer(self, item: Item, ask: Ask) -> Rows:
        said = []
        size = self.spec.sizes[item.data["asks"] * 7919 % len(self.spec.sizes)]
        for stage, times in (("first", self.spec.first), ("then", self.spec.then)):
            named = [f"{self.spec.name} {item.data['asks']:06} {stage} {number:04}" for number in range(times)]
            questions = [f"{name}: {FILLER}"[: size - 25] + "\nReference Insight: it is." for name in named]
            replies = await asyncio.gather(*(ask(stage, [user(question)]) for question in questions))
            said += [reply.text for reply in replies]
        return {"said": [Said(item.id, " ".join(said))]}
