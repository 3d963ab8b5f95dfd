"""On the wire: an error in a body with status 200 means the same for each task and each transport."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from gateway_room import Room
from recording_server import Recording, recording

from summhay_ray.llm import FREE, ModelSettings, Request, Task
from summhay_ray.llm.bodies import ProviderError, UnreadableAnswer
from summhay_ray.llm.gateway import Transports
from summhay_ray.llm.retry import Decision, decide
from summhay_ray.outcome import Failed
from summhay_ray.routes import Wire

pytestmark = pytest.mark.core

WAYS: list[tuple[Task, str, str]] = [
    ("chat", "openai", "direct"),
    ("chat", "openai", "litellm"),
    ("embed", "openai", "direct"),
    ("embed", "openai", "litellm"),
    ("embed", "voyage", "litellm"),
    ("rerank", "cohere", "direct"),
    ("rerank", "jina_ai", "litellm"),
    ("rerank", "together_ai", "litellm"),
]
EXHAUSTED = {"error": {"message": "You exceeded your current quota", "type": "insufficient_quota", "code": "insufficient_quota"}}
ERRORS: list[tuple[dict[str, Any], Decision]] = [
    (EXHAUSTED, Decision("model", "quota_exhausted")),
    ({"error": "insufficient_quota"}, Decision("model", "quota_exhausted")),
    ({"error": {"message": "slow down", "code": 429}}, Decision("rate_limit", "rate_limit")),
    ({"error": {"message": "slow down", "type": "rate_limit_error"}}, Decision("rate_limit", "rate_limit")),
    ({"error": {"message": "slow down", "code": "429"}}, Decision("rate_limit", "rate_limit")),
    ({"error": {"message": "no credits", "code": 402}}, Decision("model", "payment_required")),
    ({"error": {"message": "no answer from behind", "code": "upstream"}}, Decision("transient", "server_error")),
    ({"error": "no answer from behind"}, Decision("transient", "server_error")),
]
EMPTY = {"chat": {"choices": []}, "embed": {"object": "list", "data": []}, "rerank": {"id": "1", "results": []}}


@pytest.fixture(scope="module")
def server() -> Iterator[Recording]:
    with recording("127.0.0.1") as server:
        yield server


@pytest.fixture(scope="module")
def transports(loop: asyncio.AbstractEventLoop, litellm: Any) -> Iterator[Transports]:
    made = Transports()
    yield made
    loop.run_until_complete(made.close())


Send = Callable[[Any], Exception]


@pytest.fixture(params=WAYS, ids="-".join)
def way(request: pytest.FixtureRequest) -> tuple[Task, str, str]:
    found: tuple[Task, str, str] = request.param
    return found


@pytest.fixture
def send(way: tuple[Task, str, str], server: Recording, transports: Transports, loop: asyncio.AbstractEventLoop) -> Send:
    """`send(body)`: the error of one attempt with this reply."""
    settings, request = settings_of(way, server), asked(way)

    async def attempt() -> None:
        await asyncio.wait_for(transports.of(settings, request.task).send(request, settings, Wire()), 90)

    def sent(body: Any) -> Exception:
        server.seen.clear()
        server.answer = json.dumps(body).encode()
        with pytest.raises(Exception) as raised:
            loop.run_until_complete(attempt())
        assert len(server.seen) == 1
        return raised.value

    return sent


def asked(way: tuple[Task, str, str], text: str = "a prompt") -> Request:
    task, provider, _ = way
    if task == "chat":
        return Request(f"{provider}/m", text, {"max_tokens": 5})
    return Request(f"{provider}/m", (), task=task, inputs=(text, "a text"))


def settings_of(way: tuple[Task, str, str], server: Recording) -> ModelSettings:
    _, provider, transport = way
    return ModelSettings(f"{provider}/m", FREE, None, server.base, None, 60.0, transport=transport)  # type: ignore[arg-type]


def test_an_error_with_status_200_is_decided_as_what_it_is(send: Send, way: tuple[Task, str, str]) -> None:
    for body, decision in ERRORS:
        for more in ({}, EMPTY[way[0]]):
            error = send({**more, **body})
            assert isinstance(error, ProviderError) and decide(error) == decision, body


@pytest.mark.parametrize("way", WAYS[2:], ids="-".join, indirect=True)
def test_a_message_in_place_of_numbers_is_an_error(send: Send, way: tuple[Task, str, str]) -> None:
    for message, kind in (("invalid request: no such model", "transient"), ("monthly quota: insufficient_quota", "model")):
        error = send({"message": message, **EMPTY[way[0]]})
        assert isinstance(error, ProviderError) and message in str(error) and decide(error).kind == kind


def test_an_exhausted_quota_stops_the_model_and_costs_nothing(
    server: Recording, tmp_path: Path, loop: asyncio.AbstractEventLoop, way: tuple[Task, str, str]
) -> None:
    server.seen.clear()
    server.answer = json.dumps({**EXHAUSTED, **EMPTY[way[0]]}).encode()
    room = Room(tmp_path / "store", [settings_of(way, server)], loop)
    try:
        for text in ("first", "second"):
            outcome, _ = room.told(asked(way, text))
            assert isinstance(outcome, Failed) and (outcome.error, outcome.usd_micros) == ("quota_exhausted", 0)
    finally:
        loop.run_until_complete(room.gateway.close())
    assert len(server.seen) == 1


def test_what_is_neither_answer_nor_error_may_be_paid(send: Send, way: tuple[Task, str, str]) -> None:
    for body in ({"data": []}, {"results": None}, ["no"], {"data": [{"index": 0}]}):
        error = send(body)
        assert decide(error).kind == "ambiguous", body
        assert way[2] == "litellm" or isinstance(error, UnreadableAnswer)
