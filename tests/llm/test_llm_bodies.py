"""Endless bodies over real HTTP with both transports: one malformed row each, little memory, and no other call waits."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_provider import FakeProvider, Reply
from gateway_room import KEY, KEY_ENV, Room, request, settings_of
from hostile_server import BODIES, HostileServer

from summhay_ray.llm import gateway
from summhay_ray.llm import model_settings as models
from summhay_ray.llm.request import Sampling, most_bytes
from summhay_ray.loops import LONG
from summhay_ray.outcome import Answer, Malformed
from summhay_ray.text import count_tokens

pytestmark = pytest.mark.core

ENDLESS = ("endless", "endless_error")


def worst(prompt: str) -> int:
    """The reservation of a call, in micro-dollars."""
    return settings_of("").worst_micros(count_tokens(prompt), 20)


@pytest.fixture(scope="module", params=["direct", pytest.param("litellm", marks=pytest.mark.soak)])
def scene(request: pytest.FixtureRequest) -> Iterator[tuple[HostileServer, dict[str, Any]]]:
    """The server after a process has requested every body, and the report of this process."""
    here = Path(__file__)
    with HostileServer() as server:
        command = [sys.executable, str(here.with_name("hostile_client.py")), server.base, request.param, *BODIES, *ENDLESS]
        environment = {**os.environ, "PYTHONPATH": str(here.parents[2]), KEY_ENV: KEY}
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env=environment)
        assert done.returncode == 0, done.stderr
        yield server, json.loads(done.stdout)


Scene = tuple[HostileServer, dict[str, Any]]


@pytest.mark.parametrize("word", ["gzip", "zlib", "deflate", "ten_mib", "endless"])
def test_an_answer_over_the_limit_is_one_malformed_row(scene: Scene, word: str) -> None:
    server, told = scene
    for n in range(2):
        kind, error, message, attempts, charged = told[word][f"{word} {n}"]
        assert (kind, error, attempts) == ("Malformed", "answer_too_large", 1)
        assert str(most_bytes(Sampling({"max_tokens": 20}))) in message and "max_answer_bytes" in message
        assert charged == worst(f"{word} {n}") and server.prompts[f"{word} {n}"] == 1


def test_meanwhile_every_answer_of_another_model_arrives(scene: Scene) -> None:
    _, told = scene
    honest = {prompt: ended[0] for word in (*BODIES, *ENDLESS) for prompt, ended in told[word].items() if "beside" in prompt}
    assert len(honest) == 3 * len((*BODIES, *ENDLESS)) and set(honest.values()) == {"Answer"}


def test_their_memory_is_bounded(scene: Scene) -> None:
    # Without a limit, one of the bodies takes more than 1.5 GB.
    assert scene[1]["grown_mb"] < 200


@pytest.mark.parametrize("word", ["endless_error", "gzip_error"])
def test_an_errors_body_is_cut(scene: Scene, word: str) -> None:
    server, told = scene
    for n in range(2):
        kind, error, message, attempts, charged = told[word][f"{word} {n}"]
        assert (kind, error, attempts, charged) == ("Failed", "bad_request", 1, 0) and len(message) < 3000
        assert server.prompts[f"{word} {n}"] == 1


def test_nothing_packed_is_asked_for_and_what_comes_packed_is_read(scene: Scene) -> None:
    server, told = scene
    assert server.accepted == {"identity"}
    assert [told[word][f"{word} 0"][0] for word in ("honest_gzip", "honest_deflate")] == ["Answer", "Answer"]


@pytest.mark.parametrize("word", ["brotli", "brackets"])
def test_what_cannot_be_read_is_asked_for_twice_at_most(scene: Scene, word: str) -> None:
    server, told = scene
    kind, _, _, attempts, charged = told[word][f"{word} 0"]
    assert (kind, attempts, charged) == ("Failed", 2, 2 * worst(f"{word} 0")) and server.prompts[f"{word} 0"] == 2


Make = Callable[..., Room]


@pytest.mark.parametrize("transport", ["direct", "litellm"])
def test_the_field_raises_the_limit_and_a_later_run_asks_again(make_room: Make, provider: FakeProvider, transport: str) -> None:
    provider.default = Reply("b" * 5000)
    room = make_room(transport=transport, max_answer_bytes=4096, timeout_s=50.0)  # The first call imports litellm.
    small, raw = room.one()
    assert isinstance(small, Malformed) and (small.error, small.retryable, raw) == ("answer_too_large", True, None)
    assert "4096 bytes" in small.message and room.records() == []
    assert room.money == (small.usd_micros, 0) and small.usd_micros == worst("a prompt")
    large = room.again(settings=[settings_of(provider.base, transport=transport, max_answer_bytes=8192)])
    assert isinstance(large.one()[0], Answer) and len(provider.requests) == 2


def test_an_earlier_round_is_part_of_what_a_malformed_answer_cost(make_room: Make, provider: FakeProvider) -> None:
    provider.replies.extend([Reply(drop=True), Reply("b" * 5000)])
    outcome, _ = make_room(max_answer_bytes=4096).one()
    assert isinstance(outcome, Malformed) and outcome.attempts == 2 and len(provider.requests) == 2
    assert outcome.usd_micros == 2 * worst("a prompt")


def others_first(room: Room, begun: threading.Event, ended: threading.Event, prompt: str) -> Any:
    """The outcome of a prompt whose text is counted until three other prompts are answered."""

    async def scene() -> Any:
        long = asyncio.ensure_future(room.gateway.complete(request(prompt)))
        while not begun.is_set():
            await asyncio.sleep(0.001)
        for n in range(3):
            assert isinstance((await room.gateway.complete(request(f"other {n}")))[0], Answer)
        ended.set()
        return (await long)[0]

    return room.run(scene())


def test_others_are_answered_while_a_long_answer_is_counted(
    room: Room, provider: FakeProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, ended, real = threading.Event(), threading.Event(), gateway.written

    def waiting(known: Any, reply: Any, *others: Any) -> Any:
        if len(reply.text) > LONG:
            begun.set()
            assert ended.wait(20), "on the loop: nothing else goes on"
        return real(known, reply, *others)

    monkeypatch.setattr(gateway, "written", waiting)
    provider.replies.append(Reply("a" * 2 * LONG))
    assert isinstance(others_first(room, begun, ended, "a prompt"), Answer)


def test_a_drain_waits_for_an_answer_that_is_being_counted(
    room: Room, provider: FakeProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, ended, real = threading.Event(), threading.Event(), gateway.written

    def waiting(*given: Any) -> Any:
        begun.set()
        assert ended.wait(20)
        return real(*given)

    monkeypatch.setattr(gateway, "written", waiting)
    provider.replies.append(Reply("a" * 2 * LONG))

    async def scene() -> None:
        asking = asyncio.ensure_future(room.gateway.complete(request()))
        while not begun.is_set():
            await asyncio.sleep(0.001)
        draining = asyncio.ensure_future(room.gateway.drain(30.0))
        for _ in range(10):
            await asyncio.sleep(gateway.DRAIN_LOOK_S)
        assert not draining.done()
        ended.set()
        await asyncio.gather(asking, draining)

    room.run(scene())
    assert len(room.records()) == 1


def test_others_are_answered_while_a_long_prompt_is_counted(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, ended, real = threading.Event(), threading.Event(), models.count_tokens

    def waiting(text: str) -> int:
        if len(text) > LONG:
            begun.set()
            assert ended.wait(20), "on the loop: nothing else goes on"
        return real(text)

    monkeypatch.setattr(models, "count_tokens", waiting)
    assert isinstance(others_first(room, begun, ended, "a word " * LONG), Answer)


@pytest.mark.parametrize(
    ("transport", "usage"), [("direct", None), pytest.param("litellm", Reply().usage, marks=pytest.mark.soak)]
)
def test_two_million_letters_that_are_allowed_are_an_answer(
    make_room: Make, provider: FakeProvider, transport: str, usage: Any
) -> None:
    provider.default = Reply("a" * 2_000_000, usage=usage)
    outcome, raw = make_room(transport=transport, max_answer_bytes=2**21, timeout_s=50.0).one()
    assert isinstance(outcome, Answer) and raw is not None and len(raw.text) == 2_000_000


def test_a_deep_body_is_an_answer_or_a_failure(scene: Scene) -> None:
    server, told = scene
    assert told["nested"]["nested 0"][0] in ("Answer", "Failed") and server.prompts["nested 0"] <= 2


@pytest.mark.parametrize("depth", [3, 400])
def test_of_a_deep_body_the_text_is_kept(room: Room, provider: FakeProvider, depth: int) -> None:
    body = {"choices": [{"message": {"content": "an answer"}, "finish_reason": "stop"}]}
    provider.default = Reply(body=json.dumps(body)[:-1] + ', "x": ' + "[" * depth + "]" * depth + "}")
    assert isinstance(room.one()[0], Answer)
    assert ("raw" in room.records()[-1], room.records()[-1].get("raw") is not None) == (True, depth == 3)


def test_the_limit_grows_with_what_is_asked_for() -> None:
    assert most_bytes(Sampling({"max_tokens": 1000})) == 2**20 + 32_000
    assert most_bytes(Sampling({})) == 2**20 + 64_000 and most_bytes(Sampling({"max_tokens": 1000}), n=3) == 2**20 + 96_000
    assert most_bytes(Sampling({"max_tokens": 1000}), logprobs=20) > 2**20 + 1000 * 21 * 200
