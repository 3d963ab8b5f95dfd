"""Tools for event loops: run one from synchronous code, await many answers concurrently, and batch the calls of many callers.

Imports no other module of this package; any module may import it.
"""

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import uvloop

T = TypeVar("T")
R = TypeVar("R")

_OVER: ContextVar[threading.Event] = ContextVar("over")


class Abandoned(Exception):
    """Raised if no caller waits for the result any more."""


def check_wanted() -> None:
    """Raise Abandoned if the event loop that started this thread by `asyncio.to_thread` has ended. Call this between batches of
    work."""
    if (over := _OVER.get(None)) is not None and over.is_set():
        raise Abandoned


def run_loop(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine on an event loop of uvloop, and return its result. Does not wait for threads that are still computing."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return uvloop.run(_leaving_threads(work))
    # A notebook already runs an event loop, which cannot be entered twice.
    with ThreadPoolExecutor(max_workers=1) as thread:
        return thread.submit(lambda: uvloop.run(_leaving_threads(work))).result()


async def _leaving_threads(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    loop, threads, over = asyncio.get_running_loop(), ThreadPoolExecutor(), threading.Event()
    loop.set_default_executor(threads)
    _OVER.set(over)
    try:
        return await work()
    finally:
        over.set()
        threads.shutdown(wait=False, cancel_futures=True)
        # The loop joins its executor's threads when it is closed, so give it a new executor first.
        loop.set_default_executor(ThreadPoolExecutor(max_workers=1))


COLLECT_AFTER = 50_000
"""Number of new objects after which a run collects cyclic garbage (`gc.set_threshold`). With Python's default of 700, this takes
a sixth of a large run's time and finds nothing."""


@dataclass(frozen=True, slots=True)
class Ready(Generic[T]):
    """An awaitable whose result is known, so that awaiting it never suspends. `on_take` is called when the result is taken."""

    result: T
    on_take: Callable[[], None] | None = None

    def take(self) -> T:
        if self.on_take is not None:
            self.on_take()
        return self.result

    def __await__(self) -> Generator[None, None, T]:
        yield from ()
        return self.take()


async def gather(work: Iterable[Awaitable[T]]) -> list[T]:
    """Await concurrently, and return the results in order. Like `asyncio.gather`, but without tasks for `Ready` awaitables."""
    begun = list(work)
    waiting = [call for call in begun if not isinstance(call, Ready)]
    results = iter(await asyncio.gather(*waiting) if len(waiting) > 1 else [await call for call in waiting])
    return [call.take() if isinstance(call, Ready) else next(results) for call in begun]


LONG = 100_000
"""If a text has more characters than this, work on it takes at least 20 ms, which is too long for an event loop."""


async def off_loop(letters: int, work: Callable[[], R]) -> R:
    """Return the result of `work`. If its text is long (`letters` characters), the work runs in a thread."""
    return await asyncio.to_thread(work) if letters > LONG else work()


@dataclass(eq=False)
class Batched(Generic[T, R]):
    """Batches calls: `await batched(item)` returns the item's result of `work(items)`. If `work` raises, every caller of the
    batch gets the error.

    Cancelling a caller does not stop the batch. The caller's item is processed, and its result is dropped.
    """

    work: Callable[[list[T]], Awaitable[Sequence[R] | None]]
    """Returns a result for each item, or None for work without results."""
    linger_s: float = 0.0
    """Maximum seconds for which the first item waits until there are enough items."""
    enough: int = 16
    """Number of items with which a batch does not wait for more."""
    _under_way: int | None = field(init=False, default=None)
    """Number of callers that may soon add an item; None if unknown."""
    _full: asyncio.Event = field(init=False, default_factory=asyncio.Event)
    _waiting: list[tuple[T, asyncio.Future[R]]] = field(init=False, default_factory=list)
    _trip: asyncio.Task[None] | None = field(init=False, default=None)

    async def __call__(self, item: T) -> R:
        future: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, future))
        self._look()
        if self._trip is None or self._trip.done():
            self._trip = asyncio.create_task(self._run())
        return await future

    async def settled(self) -> None:
        """Wait until the batches of all items are done. Errors are raised only in the callers."""
        if self._trip is not None:
            await asyncio.wait([self._trip])

    @contextlib.contextmanager
    def under_way(self) -> Iterator[None]:
        """Return a context in which a caller prepares an item. After its first use, batches wait for more items only while a
        context is open."""
        self._under_way = (self._under_way or 0) + 1
        try:
            yield
        finally:
            self._under_way -= 1
            self._look()

    def _look(self) -> None:
        """Begin the next batch now if there are enough items."""
        if len(self._waiting) >= self.enough or self._under_way == 0:
            self._full.set()
        else:
            self._full.clear()

    async def _run(self) -> None:
        batch: list[tuple[T, asyncio.Future[R]]] = []
        try:
            while self._waiting:
                self._look()
                if self.linger_s and not self._full.is_set():
                    # Do not use `wait_for`, which before Python 3.12 may lose a cancellation that arrives together with the
                    # event.
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(self.linger_s):
                            await self._full.wait()
                batch, self._waiting = self._waiting, []
                try:
                    results: Sequence[Any] | None = await self.work([item for item, _ in batch])
                    results = [None] * len(batch) if results is None else results
                    if len(results) != len(batch):
                        raise RuntimeError(f"{len(results)} results came back for {len(batch)} items")
                # The callers handle every kind of error.
                except Exception as error:  # noqa: BLE001
                    for _, future in batch:
                        if not future.done():
                            future.set_exception(error)
                else:
                    for (_, future), result in zip(batch, results, strict=True):
                        if not future.done():
                            future.set_result(result)
        finally:
            # If this task was cancelled, some callers still wait. Cancel them, since they would wait forever.
            for _, future in [*batch, *self._waiting]:
                future.cancel()
            self._waiting = []
