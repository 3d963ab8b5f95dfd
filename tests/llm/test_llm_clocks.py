"""A machine's clock jumps by an hour: no driver is taken for dead, no call is void, and every limit holds."""

from __future__ import annotations

import ast
import asyncio
import email.utils
import itertools
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import summhay_ray
from summhay_ray.llm import Limits, WorkerMessage
from summhay_ray.llm.bodies import ProviderError
from summhay_ray.llm.ledger import Ledger
from summhay_ray.llm.ledger_messages import Claim, Grant, Settlement
from summhay_ray.llm.ledger_service import LedgerClient, LedgerService
from summhay_ray.llm.retry import decide
from summhay_ray.store import LocalFiles, LogIndex, begin_session, live_sessions
from summhay_ray.store.drivers import Process

pytestmark = pytest.mark.core

HOUR = 3600.0
WALL = {"time.time", "time.time_ns", "datetime.now", "datetime.datetime.now", "datetime.utcnow", "date.today", "time.localtime"}
ROOMS = ("llm", "store", "engine")
READERS = {
    ("llm/retry.py", "datetime.datetime.now"),
    ("store/drivers.py", "time.time"),
    ("store/clean.py", "time.time"),
    ("engine/start.py", "time.time"),
    ("engine/run/batch_queue.py", "time.time"),
}
"""A date in `retry-after` of an answer that has none of its own; when a driver began, which people alone read; how old a file is
that no manifest names, of a run that nobody drives; how old a run's newest money record is, where a user gives an age for its
release; how long a batch waits, of which its provider keeps the time, through any number of starts."""


@pytest.fixture
def jumping(monkeypatch: pytest.MonkeyPatch) -> Callable[[], float]:
    """The machine's clock jumps an hour forward, and back, at each reading."""
    real, jumps = time.time, itertools.cycle([0.0, HOUR, -HOUR])
    monkeypatch.setattr(time, "time", lambda: real() + next(jumps))
    return real


def test_nothing_else_reads_the_clock_that_may_jump() -> None:
    root = Path(summhay_ray.__file__).parent
    found = set()
    for path in (path for room in ROOMS for path in (root / room).rglob("*.py")):
        calls = (node for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.Call))
        found |= {(str(path.relative_to(root)), name) for call in calls if (name := ast.unparse(call.func)) in WALL}
    assert found == READERS


@pytest.mark.parametrize("ours_off_s", [-HOUR, 0.0, HOUR])
def test_a_date_to_retry_after_is_taken_from_the_answers_own(ours_off_s: float) -> None:
    theirs = time.time() + ours_off_s
    headers = {
        "date": email.utils.formatdate(theirs, usegmt=True),
        "retry-after": email.utils.formatdate(theirs + 30, usegmt=True),
    }
    decision = decide(ProviderError(429, "slow down", headers))
    assert (decision.kind, decision.after_s) == ("rate_limit", 30.0)


def test_a_driver_that_beats_is_alive(tmp_path: Path, jumping: Callable[[], float]) -> None:
    # Another machine sees only the heartbeats.
    session = begin_session(files := LocalFiles(tmp_path), "r", True, here=Process("far", "far 1", 7, "9"))
    session.beat()
    heard = beating(session.beat)
    try:
        assert live_sessions(files, [session.number]) and session.superseded() is None
    finally:
        heard()


def beating(beat: Callable[[], None]) -> Callable[[], None]:
    """Beat until the returned function is called."""
    ended = threading.Event()

    def work() -> None:
        while not ended.wait(0.1):
            beat()

    thread = threading.Thread(target=work)
    thread.start()

    def end() -> None:
        ended.set()
        thread.join()

    return end


def test_no_worker_is_evicted_and_no_limit_lets_more_through(tmp_path: Path, jumping: Callable[[], float]) -> None:
    async def grants() -> list[Grant]:
        service = LedgerService(Ledger("r", LogIndex(LocalFiles(tmp_path)), limits={"m": Limits(rpm=6)}), lambda record: None)
        claims = [Claim(f"k{number}", "m", ticket=number) for number in range(20)]
        found = [grant for _, grant in (await service.exchange("w", WorkerMessage(claims))).grants]
        for _ in range(5):
            news = await service.exchange("w", WorkerMessage())
            assert not news.evicted and not news.halted
            service.act(Ledger.snapshot)
            found += [grant for _, grant in news.grants]
        return found

    assert 0 < len(asyncio.run(grants())) < 20


def test_a_worker_in_the_process_of_the_ledger_outlives_a_standstill_of_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene() -> None:
        service = LedgerService(Ledger("r", LogIndex(LocalFiles(tmp_path)), limits={"m": Limits(concurrency=1)}), lambda _: None)
        ended = asyncio.Event()
        client = LedgerClient(service.port("w"), ended.set)
        await client.claim(Claim("first", "m"))
        waiting = asyncio.ensure_future(client.claim(Claim("second", "m")))
        await asyncio.sleep(0.1)
        real = time.monotonic
        monkeypatch.setattr(time, "monotonic", lambda: real() + 120)
        await asyncio.sleep(1.0)
        client.settle(Settlement("first", "m", 0))
        assert (await asyncio.wait_for(waiting, 60)).grant.state == "go" and not ended.is_set()
        await client.close()

    asyncio.run(scene())
