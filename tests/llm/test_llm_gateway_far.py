"""One call over a store far away: answers that are on their way, that never come, that are one's own; and the worker's end."""

from __future__ import annotations

import asyncio
import errno
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_provider import OUTPUT_TOKENS, PROMPT_TOKENS, FakeProvider
from far_desk import FarRoom, die, spooled
from gateway_room import KEY, KEY_ENV, close_all, request, settings_of

from summhay_ray.llm import Limits, attempts, gateway
from summhay_ray.llm.recent import RecentAnswers
from summhay_ray.outcome import Answer, Failed
from summhay_ray.store import spool

pytestmark = pytest.mark.core

REAL = PROMPT_TOKENS * 2 + OUTPUT_TOKENS * 10
Make = Callable[..., FarRoom]


@pytest.fixture
def make_far(
    provider: FakeProvider, loop: asyncio.AbstractEventLoop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Make]:
    monkeypatch.setenv(KEY_ENV, KEY)
    monkeypatch.setenv("SUMMHAY_SPOOL", str(tmp_path / "spool"))
    monkeypatch.setattr(attempts, "BACKOFF_S", 0.01)
    # What lies here stays here until it is flushed, however slow the machine.
    monkeypatch.setattr(spool, "AGE_S", 600.0)

    def make(budget_micros: int | None = None, **changes: Any) -> FarRoom:
        return FarRoom(tmp_path / "store", [settings_of(provider.base, **changes)], loop, budget_micros)

    yield make
    close_all(loop)


async def until(true: Callable[[], bool]) -> None:
    while not true():
        await asyncio.sleep(0.005)


def test_an_answer_that_another_has_just_got_is_waited_for(make_far: Make, provider: FakeProvider) -> None:
    room = make_far()
    other, log = room.worker()

    async def scene() -> None:
        first, raw = await room.gateway.complete(request())
        assert raw is not None and spooled(room.files)
        late = asyncio.ensure_future(other.complete(request()))
        await asyncio.sleep(0.1)
        assert not late.done()
        await asyncio.to_thread(room.log.flush)
        second, same = await late
        assert isinstance(second, Answer) and same == raw

    room.run(scene())
    assert len(provider.requests) == 1 and room.money == (REAL, 0)


def test_ones_own_answer_is_read_from_here(make_far: Make, provider: FakeProvider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway, "RecentAnswers", lambda: RecentAnswers(letters=0))
    room, reads = make_far(), []
    _, raw = room.one()
    room.files.before = lambda operation, name: reads.append(name) if operation == "read_range" else None
    outcome, same = room.one()
    assert isinstance(outcome, Answer) and same == raw and raw is not None and reads == []
    room.log.flush()
    assert room.one()[1] == raw and len(reads) == 1
    assert len(provider.requests) == 1 and room.money == (REAL, 0)


def test_an_answer_that_never_comes_is_a_failure_to_be_tried_again(
    make_far: Make, provider: FakeProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateway, "SHIPPED_WITHIN_S", 0.1)
    room = make_far()
    other, _ = room.worker()
    room.one()
    die(room.log, disk_too=True)
    outcome, raw = room.run(other.complete(request()))
    assert isinstance(outcome, Failed) and raw is None
    assert (outcome.error, outcome.retryable, outcome.key, outcome.usd_micros) == ("answer_lost", True, request().key, 0)
    assert "\n" not in outcome.message and len(provider.requests) == 1


def kinds(room: FarRoom) -> dict[str, int]:
    found: dict[str, int] = {}
    for record in room.records():
        found[record["kind"]] = found.get(record["kind"], 0) + 1
    return found


async def begun(room: FarRoom, provider: FakeProvider, n: int, in_flight: int) -> list[asyncio.Task[Any]]:
    """`n` calls, so many of them at the provider, whose answers are held back until a drain has begun."""
    provider.held = True
    tasks = [asyncio.ensure_future(room.gateway.complete(request(f"prompt {number}"))) for number in range(n)]
    await until(lambda: provider.in_flight == in_flight)
    return tasks


async def drained(room: FarRoom, provider: FakeProvider) -> None:
    """The worker ends, and what is at the provider is answered."""
    draining = asyncio.ensure_future(room.gateway.drain(60.0))
    await asyncio.sleep(0.05)
    provider.held = False
    await draining


async def end(tasks: list[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def test_a_worker_that_ends_finishes_what_is_in_flight_and_sends_nothing_more(make_far: Make, provider: FakeProvider) -> None:
    # Two slots, and four calls granted ahead of them.
    room = make_far(limits=Limits(concurrency=2))

    async def scene() -> None:
        tasks = await begun(room, provider, 6, 2)
        # All six are announced before they may be sent.
        await until(lambda: room.ledger.snapshot(0.0)["in_flight"] == 6)
        await asyncio.sleep(0.05)
        await drained(room, provider)
        assert sum(task.done() for task in tasks) == 2 and len(provider.requests) == 2
        late = asyncio.ensure_future(room.gateway.complete(request("later")))
        await asyncio.sleep(0.2)
        assert not late.done() and sum(task.done() for task in tasks) == 2 and len(provider.requests) == 2
        await end([*tasks, late])

    room.run(scene())
    assert kinds(room) == {"intent": 6, "answer": 2, "void": 4}
    assert [record["usd_micros"] for record in room.records() if record["kind"] == "void"] == [0] * 4
    assert room.index().spent("run") == 2 * REAL == room.ledger.account.spent() and room.ledger.account.reserved() == 0
    assert room.ledger.counts["made"] == 2 and room.ledger.counts["failed"] == 0
    assert spooled(room.files) == []
    with pytest.raises(ValueError, match="closed"):
        room.log.append([{"kind": "intent"}])


@pytest.mark.parametrize("begun_s", [0.05, 0.2])
def test_calls_that_wait_at_the_ledger_when_a_worker_ends_harm_nobody(
    make_far: Make, provider: FakeProvider, monkeypatch: pytest.MonkeyPatch, begun_s: float
) -> None:
    # Quiet is seen before the last trip, which brings leave for calls that waited at the ledger.
    monkeypatch.setattr(gateway, "DRAIN_LOOK_S", 0.001)
    room = make_far(limits=Limits(concurrency=2))
    append, close, closing = room.log.append, room.gateway._client.close, []

    def slowly(records: Any) -> Any:
        time.sleep(0.1 * len(closing))
        return append(records)

    async def last_trip() -> None:
        closing.append(1)
        await close()

    monkeypatch.setattr(room.log, "append", slowly)
    monkeypatch.setattr(room.gateway._client, "close", last_trip)

    async def scene() -> None:
        tasks = await begun(room, provider, 40, 2)
        await asyncio.sleep(begun_s)
        await drained(room, provider)
        await asyncio.sleep(0.1)
        ended = [task for task in tasks if task.done()]
        assert [task.exception() for task in ended if task.exception()] == []
        assert len(ended) == len(provider.requests) <= 4
        await end(tasks)

    room.run(scene())
    told = kinds(room)
    assert told["intent"] == told["answer"] + told["void"]
    assert room.index().spent("run") == told["answer"] * REAL and spooled(room.files) == []


def test_a_call_that_outlasts_the_patience_stays_charged(make_far: Make, provider: FakeProvider) -> None:
    room = make_far()

    async def scene() -> None:
        provider.held = True
        task = asyncio.ensure_future(room.gateway.complete(request()))
        await until(lambda: provider.in_flight == 1)
        await room.gateway.drain(0.05)
        assert not task.done()
        await end([task])
        provider.held = False

    room.run(scene())
    (intent,) = room.records()
    assert intent["kind"] == "intent" and room.index().spent("run") == intent["usd_micros"]
    room.run(asyncio.sleep(1.0))


def test_a_paid_call_whose_answer_found_no_room_stays_charged_when_its_worker_ends(
    make_far: Make, provider: FakeProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = make_far()
    append = room.log.append

    def full(records: Any) -> Any:
        if any(record["kind"] == "answer" for record in records):
            raise OSError(errno.ENOSPC, "No space left on device")
        return append(records)

    monkeypatch.setattr(room.log, "append", full)

    async def scene() -> None:
        with pytest.raises(OSError, match="No space left"):
            await room.gateway.complete(request())
        # What is shipped leaves room for the records of the worker's end.
        await room.gateway.drain(5.0)

    room.run(scene())
    (intent,) = room.records()
    assert intent["kind"] == "intent" and len(provider.requests) == 1
    assert room.index().spent("run") == intent["usd_micros"] >= REAL
