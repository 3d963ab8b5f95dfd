"""The direct transport over real HTTP: the sent body, the reply, and the key, which goes to nobody else."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from fake_provider import FakeProvider, Reply
from gateway_room import KEY, KEY_ENV, PRICE, Room

from summhay_ray.llm import Limits, ModelSettings, Request
from summhay_ray.llm.bodies import ProviderError
from summhay_ray.llm.direct import DirectTransport
from summhay_ray.llm.keys import NoKey
from summhay_ray.llm.request import Reply as Told
from summhay_ray.llm.retry import decide
from summhay_ray.outcome import Answer, Failed
from summhay_ray.routes import NoRoute, Wire

pytestmark = pytest.mark.core

SENT_KEY = "KEY_OF_THE_CALL"
Make = Callable[..., Room]
Send = Callable[..., Told]


@pytest.fixture
def send(provider: FakeProvider, loop: asyncio.AbstractEventLoop) -> Iterator[Send]:
    """`send(prompt=..., model=..., sampling=..., key=..., base=...)`: one call of the transport."""
    made: list[DirectTransport] = []

    async def call(prompt: str, model: str, sampling: dict[str, Any], key: str | None, base: str, wire: Wire) -> Told:
        if not made:
            made.append(DirectTransport())
        settings = ModelSettings(model, PRICE, None, base, SENT_KEY, timeout_s=60.0, limits=Limits(), transport="direct")
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(SENT_KEY, key or "")
            return await made[0].send(Request(model, prompt, sampling), settings, wire)

    def sent(
        prompt: str = "a prompt",
        model: str = "openai/fake",
        sampling: dict[str, Any] | None = None,
        key: str | None = KEY,
        base: str | None = None,
        wire: Wire | None = None,
    ) -> Told:
        known = {"max_tokens": 20} if sampling is None else sampling
        return loop.run_until_complete(call(prompt, model, known, key, provider.base if base is None else base, wire or Wire()))

    yield sent
    for transport in made:
        loop.run_until_complete(transport.close())


SENT = {"model": "fake", "messages": [{"role": "user", "content": "a prompt"}]}


@pytest.mark.parametrize(
    ("sampling", "sent"),
    [
        ({}, {"max_tokens": 2000}),
        ({"max_tokens": 7, "temperature": 0.5, "seed": 3}, {"max_tokens": 7, "temperature": 0.5, "seed": 3}),
        ({"max_completion_tokens": 7}, {"max_completion_tokens": 7}),
        (
            {"max_tokens": 7, "extra_body": {"top_k": 5, "guided": {"a": [1]}}},
            {"max_tokens": 7, "top_k": 5, "guided": {"a": [1]}},
        ),
        ({"max_tokens": 7, "extra_body": None}, {"max_tokens": 7}),
        (
            {"max_tokens": 7, "response_format": {"type": "json_object"}},
            {"max_tokens": 7, "response_format": {"type": "json_object"}},
        ),
    ],
)
def test_the_body_is_what_was_asked_for_and_no_more(
    send: Send, provider: FakeProvider, sampling: dict[str, Any], sent: dict[str, Any]
) -> None:
    before = json.dumps(sampling)
    send(sampling=sampling)
    assert provider.requests == [{**SENT, **sent}] and json.dumps(sampling) == before


@pytest.mark.parametrize(
    ("model", "effort", "sent"),
    [
        ("openai/o1", {}, {"model": "o1", "max_completion_tokens": 9}),
        ("openai/o3-mini", {}, {"model": "o3-mini", "max_completion_tokens": 9}),
        ("openai/gpt-5-nano", {}, {"model": "gpt-5-nano", "max_completion_tokens": 9}),
        ("openai/gpt-5.1", {}, {"model": "gpt-5.1", "max_completion_tokens": 9, "temperature": 0}),
        ("openai/gpt-5.1", {"reasoning_effort": "low"}, {"model": "gpt-5.1", "max_completion_tokens": 9}),
        ("openai/gpt-5-chat-latest", {}, {"model": "gpt-5-chat-latest", "max_tokens": 9, "temperature": 0}),
        ("openai/gpt-4o", {}, {"model": "gpt-4o", "max_tokens": 9, "temperature": 0}),
        ("hosted_vllm/org/o1-like", {}, {"model": "org/o1-like", "max_tokens": 9, "temperature": 0}),
        ("org/model", {}, {"model": "org/model", "max_tokens": 9, "temperature": 0}),
    ],
)
def test_length_and_temperature_are_as_the_model_takes_them(
    send: Send, provider: FakeProvider, model: str, effort: dict[str, str], sent: dict[str, Any]
) -> None:
    send(model=model, sampling={"max_tokens": 9, "temperature": 0, **effort})
    assert provider.requests == [{**SENT, **sent, **effort}]


def test_an_answer_beside_an_error_is_an_answer(send: Send, provider: FakeProvider) -> None:
    message = {"role": "assistant", "content": "all is well"}
    provider.default = Reply(body={"choices": [{"message": message, "finish_reason": "stop"}], "error": {"code": 429}})
    assert send().text == "all is well"


@pytest.mark.parametrize(
    ("error", "words"),
    [
        ({"message": "too hot", "code": "x1"}, "HTTP 400: too hot; x1"),
        ({"detail": "too cold"}, "HTTP 400: too cold"),
        ({"nothing": "known"}, 'HTTP 400: {"error": {"nothing": "known"}}'),
    ],
)
def test_an_error_contains_the_providers_message(send: Send, provider: FakeProvider, error: dict[str, Any], words: str) -> None:
    provider.default = Reply(status=400, error=error, headers={"Retry-After": "3"})
    with pytest.raises(ProviderError) as caught:
        send()
    assert str(caught.value) == words and caught.value.headers["retry-after"] == "3"


def test_the_key_is_sent_as_it_is_or_not_at_all(send: Send, provider: FakeProvider) -> None:
    provider.default = Reply(status=400, echo_key=True)
    with pytest.raises(ProviderError, match=f"Bearer {KEY} given"):
        send()
    with pytest.raises(ProviderError, match="bad credentials  given"):
        send(key=None)
    with pytest.raises(NoKey, match="holds more than a key"):
        send(key="sk-1\r\nX-Evil: 1")


def test_what_never_left_and_what_was_lost_on_its_way_differ(send: Send, provider: FakeProvider) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        wires = [Wire(), Wire(), Wire()]
        with pytest.raises(aiohttp.ClientConnectorError) as refused:
            send(base=f"http://127.0.0.1:{taken.getsockname()[1]}/v1", wire=wires[0])
    provider.default = Reply(drop=True)
    with pytest.raises(aiohttp.ServerDisconnectedError) as lost:
        send(wire=wires[1])
    with pytest.raises(NoRoute) as wrong:
        send(base="nowhere", wire=wires[2])
    decisions = [decide(one.value, wire) for one, wire in zip((refused, lost, wrong), wires, strict=True)]
    assert [decision.kind for decision in decisions] == ["transient", "ambiguous", "model"]
    assert [wire.sent for wire in wires] == [False, True, False]
    assert len(provider.requests) == 1


def test_a_dropped_call_is_not_sent_again_behind_our_back(send: Send, provider: FakeProvider) -> None:
    send()
    provider.replies.append(Reply(drop=True))
    # The connection of the first call is kept: a client with its own retries would use it here.
    with pytest.raises(aiohttp.ServerDisconnectedError):
        send("b")
    assert provider.prompts == {"a prompt": 1, "b": 1}


@pytest.mark.parametrize("content", [KEY, f"  {KEY}\n"])
def test_a_key_from_a_file_is_sent_and_is_nowhere(
    make_room: Make, provider: FakeProvider, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: str
) -> None:
    room = make_room()
    path = tmp_path / "key"
    path.write_text(content, encoding="utf-8")
    monkeypatch.delenv(KEY_ENV)
    monkeypatch.setenv(f"{KEY_ENV}_FILE", str(path))
    provider.replies.extend([Reply(status=400, echo_key=True), Reply(f"your key is {KEY}")])
    failed, _ = room.one("a")
    answered, raw = room.one("b")
    # If the key had not been sent, the echo would have nothing to hide.
    assert isinstance(failed, Failed) and "bad credentials Bearer *** given" in failed.message
    assert isinstance(answered, Answer) and raw is not None and raw.text == "your key is ***"
    told = [room.on_disk().decode(), repr(failed), repr(answered), json.dumps(room.ledger.snapshot(0.0))]
    assert not [text for text in told if KEY in text]


def test_a_key_file_that_cannot_be_read_stops_the_model_before_anything_is_sent(
    make_room: Make, provider: FakeProvider, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    room = make_room()
    monkeypatch.delenv(KEY_ENV)
    monkeypatch.setenv(f"{KEY_ENV}_FILE", str(tmp_path / "absent"))
    outcome, _ = room.one()
    assert isinstance(outcome, Failed) and (outcome.error, outcome.retryable) == ("authentication", True)
    assert f"{KEY_ENV}_FILE names" in outcome.message and "FileNotFoundError" in outcome.message
    assert provider.requests == [] and room.money == (0, 0) and decide(NoKey("x")).kind == "model"
