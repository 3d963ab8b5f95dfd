"""Conversations, several answers to one call, and log probabilities, with both transports: sent, billed, stored and read
again."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fake_provider import FakeProvider, completion
from fake_provider import Reply as Told
from gateway_room import KEY, KEY_ENV, PRICE, Room, settings_of
from simulated_provider import in_thread

from summhay_ray.llm import assistant, system, user
from summhay_ray.outcome import Answer, Failed
from summhay_ray.text import count_tokens

pytestmark = pytest.mark.core

TALK = (system("Be brief."), user("Who?"), assistant("Ann."), user("Why?"))
SENT = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Who?"},
    {"role": "assistant", "content": "Ann."},
    {"role": "user", "content": "Why?"},
]
PROMPT = "system:\nBe brief.\n\nuser:\nWho?\n\nassistant:\nAnn.\n\nuser:\nWhy?"
MAX_TOKENS = 20
Make = Callable[..., Room]


@pytest.fixture(params=["direct", "litellm"])
def transport(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_all_is_sent_as_openais_protocol_has_it(room: Room, provider: FakeProvider) -> None:
    room.one(TALK, n=3, logprobs=2)
    (sent,) = provider.requests
    assert sent["messages"] == SENT and (sent["n"], sent["logprobs"], sent["top_logprobs"]) == (3, True, 2)
    provider.requests.clear()
    room.one("alone")
    (sent,) = provider.requests
    assert sent["messages"] == [{"role": "user", "content": "alone"}] and not {"n", "logprobs", "top_logprobs"} & set(sent)


def test_what_a_provider_bills_for_several_answers_is_what_is_charged(
    tmp_path: Path, loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch, transport: str
) -> None:
    monkeypatch.setenv(KEY_ENV, KEY)
    with in_thread(input_price=PRICE.input_per_mtok, output_price=PRICE.output_per_mtok, keys=[KEY]) as served:
        room = Room(tmp_path, [settings_of(served.base, transport=transport)], loop)
        outcome, raw = room.one(TALK, n=3, logprobs=2)
        again = room.again().one(TALK, n=3, logprobs=2)
        (call,) = served.calls()
    text = "fake: Who?\n\nWhy?"
    assert isinstance(outcome, Answer) and raw is not None and raw.texts == (text,) * 3 and raw.text == text
    assert raw.output_tokens == 3 * count_tokens(text) == call["tokens_out"]
    assert raw.input_tokens == count_tokens(PROMPT) == call["tokens_in"]
    assert raw.usd_micros == call["micros"] and room.money == (call["micros"], 0)
    tokens = json.loads(raw.logprobs)
    assert len(tokens) == count_tokens(text) and all(len(token["top_logprobs"]) == 2 for token in tokens)
    assert again == (outcome, raw)


def test_more_answers_than_the_budget_holds_are_not_asked_for(make_room: Make, provider: FakeProvider) -> None:
    # Sixteen spare tokens of the prompt, and three times the longest answer.
    most = (-(-count_tokens(PROMPT) * 3 // 2) + 16) * 2 + 3 * MAX_TOKENS * 10
    outcome, _ = make_room(budget_micros=most - 1).one(TALK, n=3)
    assert isinstance(outcome, Failed) and outcome.error == "budget" and provider.requests == []
    assert isinstance(make_room(budget_micros=most).one(TALK, n=3)[0], Answer)


def test_each_answer_has_the_window_for_itself(make_room: Make, provider: FakeProvider) -> None:
    room = make_room(context_window=count_tokens("a prompt") + MAX_TOKENS)
    assert isinstance(room.one("a prompt", n=5)[0], Answer)


def test_a_provider_that_gives_less_than_was_asked_for_is_kept_as_it_came(room: Room, provider: FakeProvider) -> None:
    outcome, raw = room.one(n=4, logprobs=5)
    assert isinstance(outcome, Answer) and raw is not None
    assert (raw.texts, raw.logprobs) == (("an answer",), "")
    body: Any = completion("fake", Told("one"))
    body["choices"].append({"index": 1, "message": {"role": "assistant", "content": "two"}, "finish_reason": "stop"})
    provider.default = Told(body=body)
    assert room.one("another", n=4)[1].texts == ("one", "two")  # type: ignore[union-attr]
