"""The one-prompt strategy, and names of strategies and models."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from summarize_tasks import build_task

from summhay_ray.llm import Ask, RawAnswer, Request
from summhay_ray.outcome import Answer, Outcome, Refusal
from summhay_ray.plugins import UnknownName
from summhay_ray.summarize import Task, local_models, make_summarizer, prompt_identity, render

pytestmark = pytest.mark.core

RAW = RawAnswer("k", "m", "- a [1]", "stop", 1, 0, 1, 0, 1)


class Mine:
    """A strategy in a user's own module."""

    name = "mine"

    async def summarize(self, task: Task, ask: Ask) -> Outcome[RawAnswer]:
        raise NotImplementedError


def test_one_request_with_every_field_of_the_task() -> None:
    asked: list[Request] = []
    answer: Outcome[RawAnswer] = Answer(RAW, "k")

    async def ask(request: Request) -> Outcome[RawAnswer]:
        asked.append(request)
        return answer

    task: Task = replace(
        build_task(prompt="[DOCUMENTS] [QUERY]"), model="openai/gpt-4o", sampling={"temperature": 0}, sample=3, lookup="summary_x"
    )
    assert asyncio.run(make_summarizer().summarize(task, ask)) == answer
    prompt_hash = prompt_identity("[DOCUMENTS] [QUERY]")
    assert asked == [Request("openai/gpt-4o", render(task), {"temperature": 0}, prompt_hash, 3, "summary_x")]


def test_what_is_no_answer_passes_unchanged() -> None:
    refusal = Refusal("content_filter", "no")

    async def ask(request: Request) -> Outcome[RawAnswer]:
        return refusal

    assert asyncio.run(make_summarizer("direct").summarize(build_task(), ask)) is refusal


def test_strategies_by_name_and_by_path() -> None:
    assert make_summarizer("direct").name == "direct"
    assert isinstance(make_summarizer(f"{__name__}:Mine"), Mine)


@pytest.mark.parametrize("name", ["dirct", "no.such.module:Class", f"{__name__}:Nobody", ""])
def test_unknown_strategies_are_refused(name: str) -> None:
    with pytest.raises(UnknownName):
        make_summarizer(name)


def test_a_misspelt_strategy_is_answered_with_the_nearest() -> None:
    with pytest.raises(UnknownName, match="did you mean 'direct'"):
        make_summarizer("dirct")


def test_local_models_by_the_name_that_a_spec_writes() -> None:
    models = local_models()
    assert sorted(models) == ["offline/lead", "offline/match", "offline/names", "offline/order", "offline/support"]
    assert all(model.name == name for name, model in models.items())
