"""An answer read from a file. Found by name."""

from __future__ import annotations

from typing import ClassVar

from summhay_ray.llm import Ask, RawAnswer, Request
from summhay_ray.outcome import Outcome
from summhay_ray.summarize.base import Task


class Given:
    """The answer that a file holds for the query. No model is called, so retrieval makes no difference."""

    name: ClassVar[str] = "given"

    async def summarize(self, task: Task, ask: Ask) -> Outcome[RawAnswer]:
        """The answer stored under `task.lookup`, or the failure that there is none."""
        return await ask(Request(task.model, task.subtopic.query, task.sampling, sample=task.sample, lookup=task.lookup))
