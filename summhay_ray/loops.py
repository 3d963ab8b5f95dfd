"""Event loops: runs one from synchronous code, awaits many answers concurrently, and batches the calls of many callers.

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
    """No caller waits for the result any more."""


def check_wanted() -> None:
    """Raises Abandoned if the event loop whose `asyncio.to_thread` called this has ended. Call it between batches."""
    if (over := _OVER.get(None)) is not None and over.is_set():
        raise Abandoned


def run_loop(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine to its end on an event loop of uvloop, and return its result. Does not wait for threads that still
    compute."""
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
        # The loop joins its threads when it is closed: give it a new executor first.
        loop.set_default_executor(ThreadPoolExecutor(max_workers=1))


COLLECT_AFTER = 50_000
"""New objects after which a run collects cyclic garbage (`gc.set_threshold`). Python's 700 take a sixth of a large run's time and
find nothing."""


@dataclass(frozen=True, slots=True)
class Ready(Generic[T]):
    """An awaitable whose result is known: awaiting it never suspends. `on_take` is called when the result is taken."""

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
    """The results in order, awaited concurrently: `asyncio.gather` without tasks for `Ready` awaitables."""
    begun = list(work)
    waiting = [call for call in begun if not isinstance(call, Ready)]
    results = iter(await asyncio.gather(*waiting) if len(waiting) > 1 else [await call for call in waiting])
    return [call.take() if isinstance(call, Ready) else next(results) for call in begun]


LONG = 100_000
"""Work on longer texts (in characters) takes 20 ms or more, which is too long for an event loop."""


async def off_loop(letters: int, work: Callable[[], R]) -> R:
    """The result of `work`. If its text is long (`letters` characters), the work runs in a thread."""
    return await asyncio.to_thread(work) if letters > LONG else work()


@dataclass(eq=False)
class Batched(Generic[T, R]):
    """`await batched(item)` returns the item's result of `work(items)`. An error of `work` is raised in every caller of the
    batch.

    Cancelling a caller does not stop the batch: its item is processed, and the result is dropped.
    """

    work: Callable[[list[T]], Awaitable[Sequence[R] | None]]
    """Returns a result for each item, or None for work without results."""
    linger_s: float = 0.0
    """Maximum seconds that the first item waits for enough others."""
    enough: int = 16
    """A batch of this many items does not wait for more."""
    _under_way: int | None = field(init=False, default=None)
    """The number of callers that may bring an item soon; None if unknown."""
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
        """Return when the batches of all items are done. Errors are raised in the callers only."""
        if self._trip is not None:
            await asyncio.wait([self._trip])

    @contextlib.contextmanager
    def under_way(self) -> Iterator[None]:
        """A context in which a caller makes an item. After its first use, a batch waits for more items only while such a context
        is open."""
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
                    # Not `wait_for`: before Python 3.12 it loses a cancellation that arrives together with the event.
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
            # Some callers still wait only if the task itself was cancelled; they must not wait for ever.
            for _, future in [*batch, *self._waiting]:
                future.cancel()
            self._waiting = []
