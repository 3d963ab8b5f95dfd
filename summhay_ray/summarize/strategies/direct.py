"""Room summarize: one prompt with the whole context, one call. Found by name; imports llm, outcome, records and prompting."""

from __future__ import annotations

from typing import ClassVar

from summhay_ray.llm import Ask, RawAnswer, Request
from summhay_ray.outcome import Outcome
from summhay_ray.summarize.base import Task
from summhay_ray.summarize.prompting import render, template_hash


class Direct:
    """The paper's summarizer (section 3.3): the model reads everything at once and answers once."""

    name: ClassVar[str] = "direct"

    async def summarize(self, task: Task, ask: Ask) -> Outcome[RawAnswer]:
        """The model's answer to the one prompt, or why there is none."""
        request = Request(
            model=task.model,
            messages=render(task),
            sampling=task.sampling,
            prompt_hash=template_hash(task),
            sample=task.sample,
            lookup=task.lookup,
        )
        return await ask(request)
