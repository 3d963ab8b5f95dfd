"""A topic of four insights, and a model with given answers to its checks."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

from summhay_ray.outcome import Answer, NoAnswer, Outcome
from summhay_ray.synth.checking.verifier import Verifier
from summhay_ray.synth.making.kinds import PlannedDocument, PlannedHaystack, PlannedInsight, PlannedSubtopic, Task, Topic

T = TypeVar("T")
GIVEN = {"topic": "A weekend", "domain": "news", "language": "English"}

TICKET = "A ticket costs 28 pounds of money for adults, and children under 12 come free."
INSURANCE = "Insurance money of 215 pounds is paid to Corvane Mutual."
STEWARDS = "For safety the licence requires 14 stewards on duty on Saturday night."
RESCUE = "Two safety guards from Kelda Mountain Rescue stay on the site all weekend."
HINT = "The licence asks for 14 stewards who are on their feet that evening."
"""Part of STEWARDS, so that the offline check is not sure."""

FILLER = "The path was wet, and nobody had brought a map."


@dataclass
class Model:
    """A model with given answers. `told`: task -> value, outcome, or a function of the input."""

    told: dict[str, Any] = field(default_factory=dict)
    asked: list[tuple[Task, dict[str, Any]]] = field(default_factory=list)

    def model(self, task: Task) -> str:
        return f"model/{task}" if task in self.told else ""

    async def ask(self, task: Task, given: Any, sample: int = 0) -> Outcome[Any]:
        self.asked.append((task, dict(given)))
        await asyncio.sleep(0.01 / len(self.asked))
        value = self.told[task](given) if callable(self.told[task]) else self.told[task]
        return value if isinstance(value, NoAnswer) else Answer(value, f"key{len(self.asked)}")

    def tasks(self) -> list[Task]:
        return [task for task, _ in self.asked]


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


def insight(insight_id: str, text: str, conflicts_with: str = "") -> PlannedInsight:
    return PlannedInsight(insight_id, insight_id.split("-")[0], "Name", text, conflicts_with)


def outline(**texts: str) -> PlannedHaystack:
    """An outline of two subtopics with two insights each. `texts`: id (`s1_i1`) -> another text."""
    usual = {"s1_i1": TICKET, "s1_i2": INSURANCE, "s2_i1": STEWARDS, "s2_i2": RESCUE} | texts
    planned = [insight(name.replace("_", "-"), text) for name, text in usual.items()]
    subtopics = [
        PlannedSubtopic(
            f"s{number}", name, name, "What comes up?", tuple(one for one in planned if one.subtopic_id == f"s{number}")
        )
        for number, name in ((1, "Money"), (2, "Safety"))
    ]
    return PlannedHaystack(Topic("t", "A weekend"), tuple(subtopics))


ALL = outline().insights


def verifier(model: Model | None = None) -> Verifier:
    return Verifier("cell", model or Model(), GIVEN)


def rows(made: Verifier, kind: str) -> list[tuple[str, str, str, str, str]]:
    return [(row.subject, row.object, row.expected, row.found, row.by) for row in made.checks if row.kind == kind]


def document(*insight_ids: str, number: int = 1) -> PlannedDocument:
    return PlannedDocument(f"d{number}", number, insight_ids)
