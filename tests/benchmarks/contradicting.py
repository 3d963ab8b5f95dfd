"""A benchmark whose spec may name one model twice, and whose questions do not name the entry."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

from summhay_ray.benchmark import Ask, Benchmark, Item, Model, Rows, Spec, Stage, Table


class TwiceSpec(Spec):
    """Models that answer, and further models."""

    models: list[Model]
    others: list[Model] = []


@dataclass(frozen=True)
class Said:
    """An answer."""

    item_id: Annotated[str, "the item"]
    text: Annotated[str, "what was said"]


class Twice(Benchmark[TwiceSpec]):
    """Asks each model three questions."""

    kind = "twice"
    stages = (Stage("ask"),)
    tables = (Table("said", Said, ("item_id",)),)

    def items(self) -> Iterator[Item]:
        for model in self.spec.models:
            for number in range(3):
                yield Item(f"{model.label}/{number}", model=model)

    async def answer(self, item: Item, ask: Ask) -> Rows:
        reply = await ask("ask", f"What is {item.id}?")
        return {"said": [Said(item.id, reply.text)]}
