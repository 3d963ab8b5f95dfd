"""The ledger on an event loop: wakes itself when the time of a waiting call comes, and workers when there is news.

Part of the llm room. In one process it is used as it is (`LocalPort`); the grid room wraps it into an actor.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Mapping
from typing import Any, Protocol

from summhay_ray.llm.ledger import Ledger
from summhay_ray.llm.messages import Message, News

LISTEN_S = 0.5
"""The longest that a worker listens in vain: it learns that the ledger is alive."""


class LedgerPort(Protocol):
    """The ledger as a worker reaches it."""

    async def exchange(self, message: Message) -> News:
        """Say something, and hear what there is to know."""
        ...

    async def listen(self) -> News:
        """Hear what there is to know as soon as there is something, at the latest after `LISTEN_S`."""
        ...


class LedgerService:
    """All methods on one event loop."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self._bells: dict[str, asyncio.Event] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = float("inf")

    async def exchange(self, worker: str, message: Message) -> News:
        """What a worker says, and what it must know."""
        now = time.monotonic()
        self.ledger.take(worker, message, now)
        return self._answer(worker, now)

    async def listen(self, worker: str) -> News:
        """What a worker must know, once there is something."""
        bell = self._bells.setdefault(worker, asyncio.Event())
        if worker not in self.ledger.touched:
            bell.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(bell.wait(), LISTEN_S)
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

    async def exchange(self, message: Message) -> News:
        """See `LedgerPort`."""
        return await self._service.exchange(self._worker, message)

    async def listen(self) -> News:
        """See `LedgerPort`."""
        return await self._service.listen(self._worker)
