"""The ledger on an event loop: grants waiting calls at their time, writes money records, and wakes workers.

In one process it is used directly; the engine also runs it as an actor.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import time
from collections.abc import Awaitable, Callable
from typing import NamedTuple, TypeVar, TypeVarTuple

from summhay_ray.llm.ledger import Ledger
from summhay_ray.llm.ledger_messages import News, WorkerMessage
from summhay_ray.store import MoneyRecord, StoreError, Superseded

R = TypeVar("R")
Ts = TypeVarTuple("Ts")

AGAIN_S = 1.0
"""Seconds before a retry when the store cannot be reached."""


class LedgerPort(NamedTuple):
    """The ledger as one worker reaches it."""

    exchange: Callable[[WorkerMessage], Awaitable[News]]
    """Sends a message, and returns the worker's news."""
    listen: Callable[[], Awaitable[News]]
    """Returns the worker's news as soon as there is some, and in any case after the membership's `listen_s`."""


class LedgerService:
    """The ledger as a service; call all methods on one event loop. `record`: makes a money record durable, in a thread."""

    def __init__(self, ledger: Ledger, record: Callable[[MoneyRecord], None]) -> None:
        self.ledger = ledger
        self._record = record
        self._recording: asyncio.Task[None] | None = None
        self._evicting: asyncio.Task[None] | None = None
        self._ending = False
        self._bells: dict[str, asyncio.Event] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = float("inf")

    def port(self, worker: str) -> LedgerPort:
        """The connection to this ledger for a worker in the same process."""
        return LedgerPort(functools.partial(self.exchange, worker), functools.partial(self.listen, worker))

    async def exchange(self, worker: str, message: WorkerMessage) -> News:
        """Process a worker's message, and return its news."""
        now = time.monotonic()
        self.ledger.take(worker, message, now)
        return self._collect(worker, now)

    async def listen(self, worker: str) -> News:
        """Return the worker's news once there is some, or after `listen_s`."""
        bell = self._bells.setdefault(worker, asyncio.Event())
        if worker not in self.ledger.touched:
            bell.clear()
            # Not `wait_for`: before Python 3.12 it loses a cancellation that comes with the bell: the worker would never end.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self.ledger.membership.listen_s):
                    await bell.wait()
        now = time.monotonic()
        if worker not in self.ledger.touched:
            self.ledger.tend(now)
        return self._collect(worker, now)

    def _collect(self, worker: str, now: float) -> News:
        news = self.ledger.collect(worker, now)
        self._ring(now)
        return news

    def act(self, verb: Callable[[Ledger, *Ts, float], R], *arguments: *Ts) -> R:
        """Call a method of the ledger, such as `Ledger.beat`, with these arguments and the time, and then process the
        consequences."""
        now = time.monotonic()
        result = verb(self.ledger, *arguments, now)
        self.ledger.tend(now)
        self._ring(now)
        return result

    async def end(self) -> None:
        """Record the end of the session: nothing is granted after it. Raises Superseded, StoreError, OSError."""
        self.ledger.stop(time.monotonic())
        self._ending = True
        if self._recording is not None:
            await asyncio.wait([self._recording])
        await asyncio.to_thread(self._record, self.ledger.account.last_record())

    def _ring(self, now: float) -> None:
        if not self._ending and self._evicting is None and self.ledger.membership.dying:
            self._evicting = asyncio.create_task(self._evict(set(self.ledger.membership.dying)))
        if not self._ending and self._recording is None and (record := self.ledger.account.due(now)) is not None:
            self._recording = asyncio.create_task(self._write(record))
        for worker in self.ledger.to_wake:
            if (bell := self._bells.get(worker)) is not None:
                bell.set()
        self.ledger.to_wake.clear()
        wake_at = self.ledger.next_at
        if wake_at is not None and (wake_at < self._timer_at or self._timer_at <= now):
            if self._timer is not None:
                self._timer.cancel()
            self._timer_at = wake_at
            self._timer = asyncio.get_running_loop().call_later(max(0.0, wake_at - now), self._wake)

    async def _write(self, record: MoneyRecord) -> None:
        while True:
            try:
                await asyncio.to_thread(self._record, record)
                break
            except Superseded:
                self.ledger.stop(time.monotonic())
                return
            except (StoreError, OSError):
                if self._ending:
                    return
                # The same record again: the reply to the first may have been lost.
                await asyncio.sleep(AGAIN_S)
        now = time.monotonic()
        self._recording = None
        self.ledger.recorded(now)
        self._ring(now)

    async def _evict(self, dying: set[str]) -> None:
        # Until the log entries of the dead workers are known, their calls must not be sent again. Only one task reads at a time:
        # entries read by two would count twice.
        while True:
            try:
                fetched = await asyncio.to_thread(self.ledger.index.fetch)
                break
            except (StoreError, OSError):
                await asyncio.sleep(AGAIN_S)
        now = time.monotonic()
        # If the ledger itself was suspended, workers that seemed dead have meanwhile given signs of life.
        for worker in dying & self.ledger.membership.dying:
            self.ledger.evict(worker, fetched, now)
            fetched = ()
        self._evicting = None
        self._ring(now)

    def _wake(self) -> None:
        self._timer, self._timer_at = None, float("inf")
        now = time.monotonic()
        self.ledger.tend(now)
        self._ring(now)
