"""Event loops: running one from synchronous code, awaiting many answers at once, and sparing it other work of the process.

Imports nothing of ours; any room may import it.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import sys
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

T = TypeVar("T")

COLLECT_AFTER = 10_000, 10, 10
"""Thresholds of the garbage collector (Python's default is 700, 10, 10)."""

SWITCH_S = 0.0005
"""Longest time that a thread computes before it yields to another that waits, in seconds (Python's default is 5 ms)."""


def run_loop(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine to its end on an event loop of uvloop, which is faster than asyncio's, and return its result."""
    # Imported here because commands that only read run no loop.
    import uvloop

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return uvloop.run(work())
    # A notebook already runs an event loop, which cannot be entered twice.
    with ThreadPoolExecutor(max_workers=1) as thread:
        return thread.submit(lambda: uvloop.run(work())).result()


@dataclass(frozen=True, slots=True)
class Ready(Generic[T]):
    """An awaitable whose result is known: awaiting it never suspends."""

    result: T

    def __await__(self) -> Generator[None, None, T]:
        yield from ()
        return self.result


async def together(work: Iterable[Awaitable[T]]) -> list[T]:
    """The results in order, awaited at the same time: `asyncio.gather` without a task for what is `Ready`."""
    begun = list(work)
    waiting = [call for call in begun if not isinstance(call, Ready)]
    found = iter(await asyncio.gather(*waiting) if len(waiting) > 1 else [await call for call in waiting])
    return [call.result if isinstance(call, Ready) else next(found) for call in begun]


def collect_rarely() -> None:
    """Make the garbage collector skip all objects that exist now, and run less often from now on.

    Otherwise it takes a sixth of a run's processor time: it scans haystacks and items again and again, and finds nothing.
    """
    # The young objects alone: a full collection takes longer than a small run. Older garbage stays until the objects thaw.
    gc.collect(1)
    gc.freeze()
    gc.set_threshold(*COLLECT_AFTER)


@contextlib.contextmanager
def collecting_rarely() -> Iterator[None]:
    """A context with `collect_rarely`."""
    before = gc.get_threshold()
    collect_rarely()
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


def switch_often() -> None:
    """Let threads that plan, prepare or write rows yield sooner to the event loop, which makes the calls."""
    sys.setswitchinterval(SWITCH_S)


@contextlib.contextmanager
def switching_often() -> Iterator[None]:
    """A context with `switch_often`."""
    before = sys.getswitchinterval()
    switch_often()
    try:
        yield
    finally:
        sys.setswitchinterval(before)
