"""One model call of a strategy, and the final text of its answer."""

from __future__ import annotations

from dataclasses import replace

from summhay_ray.llm import Ask, RawAnswer, Request
from summhay_ray.outcome import Answer, Malformed, Outcome
from summhay_ray.summarize.base import Task
from summhay_ray.summarize.prompting import render, template_hash
from summhay_ray.text import UnusableAnswer, without_thinking


async def call(task: Task, ask: Ask) -> Outcome[RawAnswer]:
    """The model's answer to the prompt of the task's step, or the reason for its absence."""
    request = Request(
        model=task.model,
        messages=render(task),
        sampling=task.sampling,
        prompt_hash=template_hash(task),
        sample=task.sample,
        lookup=task.lookup,
    )
    return final(await ask(request))


def final(outcome: Outcome[RawAnswer]) -> Outcome[RawAnswer]:
    """The outcome without the model's thinking in its text; Malformed if the thinking does not end."""
    if not isinstance(outcome, Answer):
        return outcome
    raw = outcome.value
    try:
        return replace(outcome, value=replace(raw, text=without_thinking(raw.text)))
    except UnusableAnswer as error:
        return Malformed(error.error, str(error), raw.key, raw.attempts, raw.usd_micros)
