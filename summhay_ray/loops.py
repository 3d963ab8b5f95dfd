"""Event loops: runs one from synchronous code, and awaits many answers concurrently.

Imports no other module of this package; any module may import it.
"""

import asyncio
import gc
import threading
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import uvloop

T = TypeVar("T")

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


def collect_rarely() -> None:
    """Collect cyclic garbage after 50,000 new objects instead of 700, which takes a sixth of a large run's time and finds
    nothing."""
    gc.set_threshold(50_000)


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


async def together(work: Iterable[Awaitable[T]]) -> list[T]:
    """The results in order, awaited concurrently: `asyncio.gather` without tasks for `Ready` awaitables."""
    begun = list(work)
    waiting = [call for call in begun if not isinstance(call, Ready)]
    found = iter(await asyncio.gather(*waiting) if len(waiting) > 1 else [await call for call in waiting])
    return [call.take() if isinstance(call, Ready) else next(found) for call in begun]
