"""Event loops: running one from synchronous code, and awaiting many answers at once.

Imports nothing of ours; any room may import it.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import uvloop

T = TypeVar("T")


def run_loop(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine to its end on an event loop of uvloop, which is faster than asyncio's, and return its result."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return uvloop.run(work())
    # A notebook already runs an event loop, which cannot be entered twice.
    with ThreadPoolExecutor(max_workers=1) as thread:
        return thread.submit(lambda: uvloop.run(work())).result()


def collect_rarely() -> None:
    """Have this process look for cyclic garbage after 50,000 new objects, not 700: that takes a sixth of a large run's time
    otherwise, since it scans haystacks and items again and again, and finds nothing."""
    gc.set_threshold(50_000)


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
