"""Local models take the path of paid ones: log, single flight, outcomes. Their errors and missing answers are failures of the
row."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any, ClassVar

import pytest
from gateway_room import Room

from summhay_ray.llm import ModelSettings, Request, find_price, system, user
from summhay_ray.outcome import Answer, Failed, Malformed
from summhay_ray.text import count_tokens

pytestmark = pytest.mark.core


class Echo:
    """Answers with the prompt, or raises the error that the prompt names."""

    name: ClassVar[str] = "offline/echo"
    revision: ClassVar[str] = "1"
    errors: ClassVar[dict[str, Exception]] = {
        "missing": LookupError("the release holds no summary 'x'"),
        "key": KeyError("forgotten"),
        "index": IndexError("list index out of range"),
        "value": ValueError("a mistake\nof the model"),
        "timeout": TimeoutError(),
        "os": ConnectionResetError("connection reset"),
        "stop": StopIteration("nothing comes next"),
        "text": UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates not allowed"),
    }

    def __init__(self) -> None:
        self.asked: list[Request] = []

    def answer(self, request: Request) -> str:
        self.asked.append(request)
        if request.prompt in self.errors:
            raise self.errors[request.prompt]
        return f"{request.model} {request.prompt} {request.lookup}".strip() if request.prompt != "nothing" else ""


class Family(Echo):
    name: ClassVar[str] = "replay/"


@pytest.fixture
def models() -> tuple[Echo, Family]:
    return Echo(), Family()


@pytest.fixture
def local_room(tmp_path: Path, loop: asyncio.AbstractEventLoop, models: tuple[Echo, Family]) -> Room:
    names = ("offline/echo", "offline/unknown", "replay/gpt-4o")
    settings = [ModelSettings(name, find_price(name, None)) for name in names]
    return Room(tmp_path, settings, loop, budget_micros=0, local={model.name: model for model in models})


def ask(room: Room, prompt: str, model: str = "offline/echo", **fields: Any) -> Any:
    return room.one(prompt, model=model, sampling={"max_tokens": 20}, **fields)


def test_an_answer_is_free_counted_logged_and_reused(local_room: Room, models: tuple[Echo, Family]) -> None:
    prompt = "four words are here <|endoftext|> \x00 \u202e"
    outcome, raw = ask(local_room, prompt)
    assert isinstance(outcome, Answer) and raw.text == f"offline/echo {prompt}" and raw.model == "offline/echo"
    assert (raw.input_tokens, raw.output_tokens) == (count_tokens(prompt), count_tokens(raw.text))
    assert (raw.usd_micros, raw.attempts, raw.finish_reason) == (0, 1, "stop")
    assert ask(local_room.again(), prompt) == (outcome, raw) and len(models[0].asked) == 1
    (record,) = local_room.records()
    assert record["kind"] == "answer" and "raw" not in record


def test_a_family_gets_the_whole_name_and_the_lookup(local_room: Room, models: tuple[Echo, Family]) -> None:
    sampling = {"max_tokens": 20, "extra_body": {"revision": "1"}}
    outcome, raw = local_room.one("p", model="replay/gpt-4o", sampling=sampling, lookup='["h", "s"]')
    assert isinstance(outcome, Answer) and raw is not None and raw.text == 'replay/gpt-4o p ["h", "s"]'
    assert sampling == {"max_tokens": 20, "extra_body": {"revision": "1"}} and models[0].asked == []


def test_a_missing_answer_is_a_failure_of_the_row_asked_once(local_room: Room, models: tuple[Echo, Family]) -> None:
    outcome, raw = ask(local_room, "missing")
    assert isinstance(outcome, Failed) and raw is None and len(models[0].asked) == 1
    assert (outcome.error, outcome.attempts, outcome.retryable) == ("missing_answer", 1, False)
    assert outcome.message == "the release holds no summary 'x'"


@pytest.mark.parametrize("prompt", ["key", "index", "value", "timeout", "os", "stop", "text"])
def test_a_mistake_of_the_model_is_named_so_and_not_tried_again(
    local_room: Room, models: tuple[Echo, Family], prompt: str
) -> None:
    outcome, _ = ask(local_room, prompt)
    assert isinstance(outcome, Failed) and len(models[0].asked) == 1
    assert (outcome.error, outcome.attempts, outcome.retryable) == ("local_model_error", 1, False)
    assert outcome.message.startswith(type(models[0].errors[prompt]).__name__) and "\n" not in outcome.message
    assert isinstance(ask(local_room, "fine")[0], Answer)


def test_an_empty_answer_is_malformed(local_room: Room, models: tuple[Echo, Family]) -> None:
    assert isinstance(ask(local_room, "nothing")[0], Malformed) and len(models[0].asked) == 1


def test_an_unknown_local_model_is_given_up(local_room: Room, models: tuple[Echo, Family]) -> None:
    outcome, _ = ask(local_room, "p", "offline/unknown")
    assert isinstance(outcome, Failed) and outcome.error == "model_not_found" and "offline/unknown" in outcome.message
    assert models[0].asked == []


def test_models_answer_one_after_the_other_in_a_thread_beside_the_loop(tmp_path: Path, loop: asyncio.AbstractEventLoop) -> None:
    class Slow(Echo):
        def __init__(self) -> None:
            super().__init__()
            self.released = threading.Event()
            self.threads: set[int] = set()

        def answer(self, request: Request) -> str:
            self.threads.add(threading.get_ident())
            # The loop sets it, while this thread waits.
            assert self.released.wait(60)
            return super().answer(request)

    slow = Slow()
    room = Room(tmp_path, [ModelSettings(Echo.name, find_price(Echo.name, None))], loop, local={Echo.name: slow})
    loop.call_later(0.05, slow.released.set)
    prompts = [str(number) for number in range(20)]
    answered = room.ask(*prompts, model=Echo.name)
    assert [raw and raw.text for _, raw in answered] == [f"offline/echo {prompt}" for prompt in prompts]
    assert [request.prompt for request in slow.asked] == prompts
    assert len(slow.threads) == 1 and threading.get_ident() not in slow.threads


def test_a_conversation_is_answered_once_whatever_n_is(local_room: Room, models: tuple[Echo, Family]) -> None:
    messages = (system("Be brief."), user("p"))
    _, raw = ask(local_room, messages, n=3, logprobs=2)
    (asked,) = models[0].asked
    assert asked.messages == messages and raw.texts == (raw.text,) and raw.logprobs == ""
    assert raw.input_tokens == count_tokens("system:\nBe brief.\n\nuser:\np")


@pytest.mark.usefixtures("litellm")
def test_what_is_taken_off_litellm_is_there_to_be_taken_off() -> None:
    from litellm.litellm_core_utils.litellm_logging import Logging

    # If litellm renames these, nothing breaks, but calls become slower than a bare loop again; then look at this.
    assert Logging.response_cost_calculator() is None
    assert Logging.async_success_handler.__module__ == "summhay_ray.llm.via_litellm"
