"""One model call of a strategy, and the text of its answer. Part of the summarize room."""

from __future__ import annotations

from summhay_ray.llm import Ask, RawAnswer, Request
from summhay_ray.outcome import Outcome
from summhay_ray.summarize.base import Task
from summhay_ray.summarize.prompting import render, template_hash


async def call(task: Task, ask: Ask) -> Outcome[RawAnswer]:
    """The model's answer to the prompt of the task's step, or the reason that there is none."""
    request = Request(
        model=task.model,
        messages=render(task),
        sampling=task.sampling,
        prompt_hash=template_hash(task),
        sample=task.sample,
        lookup=task.lookup,
    )
    return await ask(request)


def written(answer: RawAnswer) -> str:
    """The text of an answer without the reasoning before `</think>`."""
    return answer.text.rpartition("</think>")[2].strip()
