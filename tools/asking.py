"""A benchmark that only makes calls: `kind: asking:Asking`, for measuring runs from outside (see asking_runs.py).

An item asks `first` questions concurrently. When all of them are answered, it asks `then` more. All questions differ, even
between runs with different names, since the simulated provider draws its faults from the question.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass

from summhay_ray.benchmark import Ask, Benchmark, Item, Model, Rows, Spec, Stage, Table, user

FILLER = "Which of these bullets says what the insight says, and does it say all of it or a part? " * 100


class AskingSpec(Spec):
    """The number of items, and of their questions. `sizes`: lengths of questions in characters, used in turn."""

    model: Model
    items: int = 100
    first: int = 1
    then: int = 0
    sizes: list[int] = [1500]
    distinct: int | None = None
    """Number of items with their own questions; the other items repeat these."""


@dataclass(frozen=True)
class Said:
    """A row of table `said`: the answers to an item's questions."""

    item: str
    text: str


class Asking(Benchmark[AskingSpec]):
    """Asks questions, and computes no score."""

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
