"""One prompt with the whole context, one call."""

from __future__ import annotations

from typing import ClassVar

from summhay_ray.llm import Ask, RawAnswer
from summhay_ray.outcome import Outcome
from summhay_ray.summarize.base import Task
from summhay_ray.summarize.calls import call


class Direct:
    """The paper's summarizer (section 3.3): one call that shows the whole context."""

    name: ClassVar[str] = "direct"

    async def summarize(self, task: Task, ask: Ask) -> Outcome[RawAnswer]:
        """The model's answer, or the reason for its absence."""
        return await call(task, ask)
