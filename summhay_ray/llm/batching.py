"""Batches the calls of many callers: items that arrive during one batch share the next one."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")

ENOUGH = 16
"""By default, a batch of this many items does not wait for more."""


class Batched(Generic[T, R]):
    """`await batched(item)` returns the item's result of `work(items)`. An error of `work` is raised in every caller of the
    batch.

    Cancelling a caller does not stop the batch: its item is processed, and the result is dropped.
    """

    def __init__(self, work: Callable[[list[T]], Awaitable[Sequence[R]]], linger_s: float = 0.0) -> None:
        """`linger_s`: maximum seconds that the first item waits for enough others."""
        self._work = work
        self._linger_s = linger_s
        self._full = asyncio.Event()
        self._waiting: list[tuple[T, asyncio.Future[R]]] = []
        self._trip: asyncio.Task[None] | None = None

    async def __call__(self, item: T) -> R:
        future: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, future))
        self.look()
        if self._trip is None or self._trip.done():
            self._trip = asyncio.create_task(self._run())
        return await future

    async def settled(self) -> None:
        """Return when the batches of all items are done. Errors are raised in the callers only."""
        if self._trip is not None:
            await asyncio.wait([self._trip])

    def is_enough(self, waiting: int) -> bool:
        """Whether these are enough items to start a batch without waiting."""
        return waiting >= ENOUGH

    def look(self) -> None:
        """Begin the next batch now if there are enough items."""
        if self.is_enough(len(self._waiting)):
            self._full.set()

    async def _run(self) -> None:
        batch: list[tuple[T, asyncio.Future[R]]] = []
        try:
            while self._waiting:
                if self._linger_s and not self.is_enough(len(self._waiting)):
                    self._full.clear()
                    # Not `wait_for`: before Python 3.12 it loses a cancellation that arrives together with the event.
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(self._linger_s):
                            await self._full.wait()
                batch, self._waiting = self._waiting, []
                await self._travel(batch)
        finally:
            # Some callers still wait only if the task itself was cancelled; they must not wait for ever.
            for _, future in [*batch, *self._waiting]:
                future.cancel()
            self._waiting = []

    async def _travel(self, batch: list[tuple[T, asyncio.Future[R]]]) -> None:
        try:
            results = await self._work([item for item, _ in batch])
            if len(results) != len(batch):
                raise RuntimeError(f"{len(results)} results came back for {len(batch)} items")
        # The callers handle every kind of error.
        except Exception as error:  # noqa: BLE001
            for _, future in batch:
                if not future.done():
                    future.set_exception(error)
            return
        for (_, future), result in zip(batch, results, strict=True):
            if not future.done():
                future.set_result(result)
