"""The ledger on an event loop: wakes itself when the time of a waiting call comes, and workers when there is news.

Part of the llm room. In one process it is used as it is (`LocalPort`); the grid room wraps it into an actor.
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
        """Say something, and hear what there is to know."""
        ...

    async def listen(self) -> News:
        """Hear what there is to know as soon as there is something, at the latest after the roster's `listen_s`."""
        ...


Recover = Callable[[str], Awaitable[None]]
"""Bring what a dead log writer left on its own disk into the store, or make sure that nothing more comes of it."""


class LedgerService:
    """All methods on one event loop. `recover` is asked for the dead of a log that lies far away, `recover_again_s` apart."""

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
        """What a worker says, and what it must know."""
        now = time.monotonic()
        self.ledger.take(worker, message, now)
        return self._answer(worker, now)

    async def listen(self, worker: str) -> News:
        """What a worker must know, once there is something."""
        bell = self._bells.setdefault(worker, asyncio.Event())
        if worker not in self.ledger.touched:
            bell.clear()
            # Not `wait_for`, which before Python 3.12 loses a cancellation that comes with the bell: a worker would never end.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self.ledger.membership.listen_s):
                    await bell.wait()
        now = time.monotonic()
        if worker not in self.ledger.touched:
            self.ledger.tend(now)
        return self._answer(worker, now)

    def sit(self, worker: str, seat: str) -> None:
        """The worker takes the place of one that died."""
        now = time.monotonic()
        self.ledger.sit(worker, seat, now)
        self._ring(now)

    def beat(self, worker: str) -> None:
        """The worker is alive."""
        self.ledger.beat(worker, time.monotonic())

    def leave(self, worker: str) -> None:
        """The worker ends, and has written all that it had to write."""
        now = time.monotonic()
        self.ledger.leave(worker, now)
        self._ring(now)

    def stop(self) -> None:
        """Nothing that costs money is sent any more."""
        self.ledger.stop()
        self._ring(time.monotonic())

    def count(self, numbers: Mapping[str, int]) -> None:
        """Add to the run's counters."""
        self.ledger.count(numbers)

    def snapshot(self) -> dict[str, Any]:
        """Counters, money and models; the driver's sign of life."""
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
        """What takes long (a log that lies far away, the disks of the dead) is done beside the loop."""
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
        # A store that does not answer now is asked again a second later.
        with contextlib.suppress(StoreError, OSError):
            async with self._reading:
                self.ledger.reread(await self._fetch(set()))

    async def _fetch(self, also: Collection[str]) -> Fetched:
        index, but = self.ledger.index, set(self.ledger.purse.writers) - set(also)
        return await asyncio.to_thread(index.fetch, but)

    async def _evict(self, worker: str) -> None:
        writers = self.ledger.membership.writers_of(worker)
        while True:
            # Until it is known what the dead have paid for, nobody may ask for it again.
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
