"""Strategies of several calls: the texts of each call, and unusable answers."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from summarize_tasks import build_task

from summhay_ray.llm import RawAnswer, Request
from summhay_ray.outcome import Answer, Outcome, Refusal
from summhay_ray.plugins import UnknownName
from summhay_ray.summarize import Shown, Task, local_models, make_summarizer, render
from summhay_ray.summarize.prompting import NOTES_END, NOTES_MARK
from summhay_ray.summarize.strategies.one_call import heads
from summhay_ray.summarize.strategies.several_calls import chunks, units_of
from summhay_ray.text import count_tokens

pytestmark = pytest.mark.core

SIX = [f"Word number {place} stands here." for place in range(6)]
"""Six tokens each, give or take one."""


def told(strategy: object, task: Task, answer: Callable[[str], str] | None = None) -> tuple[list[str], Outcome[RawAnswer]]:
    """The prompts of a strategy, and its result; the answers are A1, A2, ..."""
    prompts: list[str] = []

    async def ask(request: Request) -> Outcome[RawAnswer]:
        prompts.append(request.prompt)
        text = answer(request.prompt) if answer else f"A{len(prompts)}"
        return Answer(RawAnswer(f"k{len(prompts)}", "m", text, "stop", 1, 0, 1, 0, 1), f"k{len(prompts)}")

    return prompts, asyncio.run(make_summarizer(strategy).summarize(task, ask))  # type: ignore[arg-type]


def numbers(prompt: str) -> list[int]:
    return [int(found) for found in re.findall(r"^(?:Article|Document) (\d+):$", prompt, re.MULTILINE)]


@pytest.mark.parametrize("form", ["bullets", "answer"])
def test_map_reduce_asks_about_each_document_and_once_about_the_answers(form: str) -> None:
    prompts, found = told("map-reduce", replace(build_task(SIX[:3], numbers=[7, 2, 5]), form=form))
    assert [numbers(prompt) for prompt in prompts] == [[7], [2], [5], []]
    assert f"{NOTES_MARK}\nA1\n\nA2\n\nA3\n{NOTES_END}\n" in prompts[-1] and "[" not in prompts[-1].replace("[3][12]", "")
    assert isinstance(found, Answer) and found.value.text == "A4"


def test_answers_beyond_the_budget_are_reduced_in_groups() -> None:
    task = replace(build_task(SIX[:4]), token_budget=12)
    prompts, _ = told("map-reduce", task, lambda prompt: "five words and a stop.")  # Six tokens: two answers fit the budget.
    reduced = [prompt.count("five words") for prompt in prompts[4:]]
    assert reduced == [2, 2, 2]


@pytest.mark.parametrize("name,order", [("refine-high-to-low", [7, 2, 5]), ("refine-l2h", [5, 2, 7])])
def test_refine_shows_each_document_with_the_answer_before_it(name: str, order: list[int]) -> None:
    prompts, found = told(name, build_task(SIX[:3], numbers=[7, 2, 5]))
    assert [numbers(prompt) for prompt in prompts] == [[number] for number in order]
    assert NOTES_MARK not in prompts[0]
    assert f"{NOTES_MARK}\nA1\n{NOTES_END}" in prompts[1] and f"{NOTES_MARK}\nA2\n{NOTES_END}" in prompts[2]
    assert isinstance(found, Answer) and found.value.text == "A3"


@pytest.mark.parametrize("name", ["map-reduce", "refine-high-to-low"])
def test_a_call_without_an_answer_is_what_the_strategy_comes_to(name: str) -> None:
    refusal = Refusal("content_filter", "no")

    async def ask(request: Request) -> Outcome[RawAnswer]:
        return refusal

    assert asyncio.run(make_summarizer(name).summarize(build_task(SIX), ask)) is refusal


@pytest.mark.parametrize("name", ["map-reduce", "refine-high-to-low", "refine-l2h", "truncate-all", "truncate-one"])
@pytest.mark.parametrize("units", ["documents", "chunks"])
def test_where_nothing_was_retrieved_one_call_asks_without_documents(name: str, units: str) -> None:
    options = {} if name.startswith("truncate") else {"units": units}
    prompts, found = told({"strategy": name, **options}, replace(build_task([]), form="answer"))
    assert [numbers(prompt) for prompt in prompts] == [[]] and NOTES_MARK not in prompts[0]
    assert isinstance(found, Answer) and found.value.text == "A1"


@pytest.mark.parametrize("name,calls", [("map-reduce", 3 + 1), ("refine-high-to-low", 3), ("refine-l2h", 3)])
def test_a_document_beyond_the_budget_is_several_units_and_nothing_of_it_is_left_out(name: str, calls: int) -> None:
    text = " ".join(f"word{place}" for place in range(40))
    tokens = count_tokens(text)
    prompts, _ = told(name, replace(build_task([text]), token_budget=tokens // 3 + 4))
    assert len(prompts) == calls and [numbers(prompt) for prompt in prompts[:3]] == [[1]] * 3
    assert all(any(f"word{place}" in prompt for prompt in prompts) for place in range(40))


def test_map_answers_without_a_text_are_no_prompt_of_a_reduction() -> None:
    prompts, found = told("map-reduce", build_task(SIX[:2]), lambda prompt: "<think>nothing</think> ")
    assert len(prompts) == 2 and isinstance(found, Answer) and found.key == "k1"
    answers = iter(["", "One.", "Both."])
    prompts, found = told("map-reduce", build_task(SIX[:2]), lambda prompt: next(answers))
    assert f"{NOTES_MARK}\nOne.\n{NOTES_END}" in prompts[-1] and isinstance(found, Answer) and found.value.text == "Both."


def test_truncate_all_keeps_the_head_and_truncate_one_the_head_of_each() -> None:
    task = replace(build_task(SIX[:3]), token_budget=9)
    each = count_tokens(SIX[0])
    [whole], _ = told("truncate-all", task)
    assert numbers(whole) == [1, 2] and SIX[0] in whole and SIX[1] not in whole  # 6 tokens, then 3
    [parts], _ = told("truncate-one", task)
    assert numbers(parts) == [1, 2, 3] and SIX[0] not in parts
    [more], _ = told({"strategy": "truncate-one", "tokens": 3 * each}, task)
    assert all(text in more for text in SIX[:3])


def test_unused_room_goes_to_the_longer_documents() -> None:
    shown = [Shown(1, "one"), Shown(2, " ".join(["two"] * 40)), Shown(3, " ".join(["three"] * 10))]
    assert [count_tokens(one.text) for one in heads(shown, 30)] == [1, 10, 10]
    assert [count_tokens(one.text) for one in heads(shown, 30, share_unused=True)] == [1, 19, 10]


@given(st.lists(st.text("ab .!\n", max_size=80), max_size=5), st.integers(1, 40))
def test_units_hold_all_of_the_texts_in_order(texts: list[str], tokens: int) -> None:
    shown = [Shown(place, text) for place, text in enumerate(texts, 1)]
    for parts in (chunks(shown, tokens), units_of(shown, "documents", tokens, 1)):
        pieces = [piece for part in parts for piece in part]
        for one in shown:
            said = "".join(piece.text for piece in pieces if piece.number == one.number)
            assert said.split() == one.text.split() or "".join(said.split()) == "".join(one.text.split())
    assert all(count_tokens(piece.text) <= tokens for (piece,) in units_of(shown, "documents", tokens, 1))


def test_chunks_are_as_many_as_the_tokens_ask_for_and_end_with_a_sentence() -> None:
    shown = [Shown(place, " ".join(SIX)) for place in (1, 2)]
    total = 2 * count_tokens(" ".join(SIX))
    found = chunks(shown, total // 3 + 1)
    assert len(found) == 1 + total // (total // 3 + 1) == 3
    assert all(part[-1].text.rstrip().endswith(".") for part in found)
    assert [sorted({piece.number for piece in part}) for part in found] == [[1], [1, 2], [2]]


@pytest.mark.parametrize(
    "entry,message",
    [
        ({"strategy": "map-reduce", "unit": "chunks"}, "did you mean 'units'"),
        ({"strategy": "map-reduce", "units": "pages"}, "units: Input should be 'documents' or 'chunks', found 'pages'"),
        ({"strategy": "truncate-one", "tokens": 0}, "tokens: Input should be greater than or equal to 1"),
        ("map-reduse", "did you mean 'map-reduce'"),
    ],
)
def test_an_option_that_is_none_is_one_line(entry: object, message: str) -> None:
    with pytest.raises(UnknownName, match=message):
        make_summarizer(entry)  # type: ignore[arg-type]


FACTS = [
    "The bridge at Elsin was closed for nine weeks in the spring. Nobody knows why the ferry was late.",
    "Engineers closed the Elsin bridge for nine weeks that spring. The mayor spoke of the harbour wall.",
    "A cafe opened near the old harbour wall in the autumn, its owner said.",
]


@pytest.mark.parametrize("strategy", ["map-reduce", "refine-high-to-low", "refine-low-to-high"])
def test_offline_models_keep_the_citations_through_every_step(strategy: str) -> None:
    model = local_models()["offline/support"]()
    task = build_task(FACTS, numbers=[4, 9, 2], query="How long was the Elsin bridge closed?", subtopic="Closing of the bridge")
    _, found = told(strategy, task, lambda prompt: model.answer(Request("offline/support", prompt)))
    assert isinstance(found, Answer)
    first = found.value.text.splitlines()[0]
    assert "bridge" in first and first.endswith("[4][9]")


@pytest.mark.parametrize("name", ["offline/support", "offline/lead"])
def test_offline_models_write_one_text_where_one_is_asked_for(name: str) -> None:
    task = replace(build_task(FACTS, query="How long was the Elsin bridge closed?"), form="answer", n_words=30)
    text = local_models()[name]().answer(Request(name, render(task)))
    assert "bridge" in text and "\n" not in text and "[" not in text and len(text.split()) <= 30
