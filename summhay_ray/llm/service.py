"""The ledger on an event loop: acts when the time of a waiting call comes, and wakes workers when there is news.

Part of the llm room. In one process it is used directly (`LocalPort`); the engine also runs it as an actor.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping
from typing import Any, Protocol

from summhay_ray.llm.ledger import Ledger
from summhay_ray.llm.messages import News, WorkerMessage
from summhay_ray.store import Fetched, StoreError


class LedgerPort(Protocol):
    """The ledger as a worker reaches it."""

    async def exchange(self, message: WorkerMessage) -> News:
        """Send a message, and return the worker's news."""
        ...

    async def listen(self) -> News:
        """Return the worker's news as soon as there is some, and in any case after the membership's `listen_s`."""
        ...


Recover = Callable[[str], Awaitable[None]]
"""Brings what a dead log writer left on its own disk into the store, or makes sure that it can write no more."""


class LedgerService:
    """The ledger as a service; call all methods on one event loop.

    With a remote log, `recover` is called for each log writer of a dead worker; after a failure again, every `again_s` seconds.
    """

    def __init__(self, ledger: Ledger, recover: Recover | None = None, again_s: float = 2.0) -> None:
        self.ledger = ledger
        self._recover = recover
        self._again_s = again_s
        self._reading = asyncio.Lock()
        self._aside: set[asyncio.Task[None]] = set()
        self._recovering: set[str] = set()
        self._bells: dict[str, asyncio.Event] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = float("inf")

    async def exchange(self, worker: str, message: WorkerMessage) -> News:
        """Process a worker's message, and return its news."""
        now = time.monotonic()
        self.ledger.take(worker, message, now)
        return self._answer(worker, now)

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
        return self._answer(worker, now)

    def sit(self, worker: str, seat: str) -> None:
        """Give the worker a seat; its previous holder is evicted."""
        now = time.monotonic()
        self.ledger.sit(worker, seat, now)
        self._ring(now)

    def beat(self, worker: str) -> None:
        """Note a sign of life from the worker."""
        self.ledger.beat(worker, time.monotonic())

    def leave(self, worker: str) -> None:
        """Evict a worker that ends and has written everything."""
        now = time.monotonic()
        self.ledger.leave(worker, now)
        self._ring(now)

    def stop(self) -> None:
        """Grant no more calls that cost money."""
        self.ledger.stop()
        self._ring(time.monotonic())

    def count(self, numbers: Mapping[str, int]) -> None:
        """Add to the run's counters."""
        self.ledger.count(numbers)

    def snapshot(self) -> dict[str, Any]:
        """The current counters, money and models. Each call is a sign of life of the driver."""
        now = time.monotonic()
        numbers = self.ledger.snapshot(now)
        self.ledger.tend(now)
        self._ring(now)
        return numbers

    def _answer(self, worker: str, now: float) -> News:
        news = self.ledger.collect(worker, now)
        self._ring(now)
        return news

    def _ring(self, now: float) -> None:
        self._look_aside()
        for worker in self.ledger.touched:
            bell = self._bells.get(worker)
            if bell is not None:
                bell.set()
        wake_at = self.ledger.next_at
        if wake_at is not None and (wake_at < self._timer_at or self._timer_at <= now):
            if self._timer is not None:
                self._timer.cancel()
            self._timer_at = wake_at
            self._timer = asyncio.get_running_loop().call_later(max(0.0, wake_at - now), self._wake)

    def _look_aside(self) -> None:
        """Start slow work outside the loop: reading a remote log, recovering the records of dead workers."""
        for worker in self.ledger.membership.dying - self._recovering:
            self._recovering.add(worker)
            self._start(self._evict(worker))
        if self.ledger.due and not self._reading.locked():
            self.ledger.due = False
            self._start(self._reread())

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._aside.add(task)
        task.add_done_callback(self._aside.discard)

    async def _reread(self) -> None:
        # If the store does not answer now, the log is read again a second later.
        with contextlib.suppress(StoreError, OSError):
            async with self._reading:
                self.ledger.reread(await self._fetch(set()))

    async def _fetch(self, also: Collection[str]) -> Fetched:
        index, but = self.ledger.index, set(self.ledger.account.writers) - set(also)
        return await asyncio.to_thread(index.fetch, but)

    async def _evict(self, worker: str) -> None:
        writers = self.ledger.membership.writers_of(worker)
        while True:
            # Until it is known what the dead worker paid for, its calls must not be sent again.
            with contextlib.suppress(StoreError, OSError):
                for writer in writers:
                    if self._recover is not None:
                        await self._recover(writer)
                async with self._reading:
                    fetched = await self._fetch(writers)
                    now = time.monotonic()
                    self.ledger.recovered(worker, fetched, now)
                break
            await asyncio.sleep(self._again_s)
        self._recovering.discard(worker)
        self._ring(now)

    def _wake(self) -> None:
        self._timer, self._timer_at = None, float("inf")
        now = time.monotonic()
        self.ledger.tend(now)
        self._ring(now)


class LocalPort:
    """A worker's way to a ledger in the same process."""

    def __init__(self, service: LedgerService, worker: str) -> None:
        self._service = service
        self._worker = worker

    async def exchange(self, message: WorkerMessage) -> News:
        """See `LedgerPort`."""
        return await self._service.exchange(self._worker, message)

    async def listen(self) -> News:
        """See `LedgerPort`."""
        return await self._service.listen(self._worker)
