"""What a run asks of an executor: one start, from its ledger to its last commit. Part of the engine room; no Ray.

`inline.py` keeps it in this process, `on_ray.py` on actors. Both have the same ledger, log, budget, commits and tables.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from summhay_ray.engine.contract import Item, Workload
from summhay_ray.engine.heartbeat import Heartbeat
from summhay_ray.errors import UserError
from summhay_ray.llm import Budgets
from summhay_ray.store import RunStore, Superseded

T = TypeVar("T")

LOOK_EVERY_S = 0.25
BY_SIGTERM = "stopped by SIGTERM"
BY_REQUEST = "stopped by `summhay stop`"

INLINE_WITHIN_S = 20.0
"""About what a cluster needs to stand and to be quicker: work that is over before that is done in this process."""
CALL_S = 0.004
"""CPU seconds of a call, its item and its rows, in one process."""
LOCAL_ITEM_S = 0.05
"""The same of an item of a model that runs in the worker."""


class Stopped(UserError):
    """Somebody ended the run by SIGTERM, or by `summhay stop`; what was answered is kept."""

    exit_code = 143


@dataclass(frozen=True)
class Work:
    """What is to be done in one start of a run, and for whom."""

    workload: Workload[Any]
    run: RunStore
    left: Mapping[str, Sequence[Item]]
    """Source -> its unfinished items, in the order in which they are to be asked."""
    note: Callable[[str], None] | None = None
    """Told in a line that the run stops, and what for it waits."""

    def stopping(self, in_flight: int) -> None:
        """Somebody ends the run; so many calls are on their way."""
        if self.note is not None:
            calls = f"{in_flight} call{'' if in_flight == 1 else 's'}"
            self.note(f"stopping, waiting for {calls} in flight (again: at once)" if in_flight else "stopping")

    def in_queues(self) -> Counter[str]:
        """Queue -> its unfinished items."""
        return Counter(item.queue for items in self.left.values() for item in items)


class Execution(Protocol):
    """One start of a run on an executor."""

    name: str

    @property
    def seats(self) -> Mapping[str, int]:
        """Kind of worker -> how many."""
        ...

    def begin(self, heartbeat: Heartbeat, budgets: Budgets) -> None:
        """Take the run over and read the log. Raises StoreError, Superseded."""
        ...

    def snapshot(self) -> dict[str, Any]:
        """Counters, money and models, as the ledger has them; any thread may ask."""
        ...

    def answer(self, left: Mapping[str, Sequence[Item]]) -> Counter[str]:
        """Answer and commit all items that are left; gives how many were committed.

        Whatever ends it early (another driver, SIGTERM, Ctrl-C, an error), the calls in flight are waited for, and what they
        gave is in the store. Raises Superseded, Stopped, and what hindered the workers.
        """
        ...

    def finish(self) -> None:
        """All is committed: leave few large parts."""
        ...


def seconds_inline(work: Work) -> float:
    """About how long the work takes in one process, its models' answers and limits not counted."""
    queues = work.workload.queues()
    items = [item for left in work.left.values() for item in left]
    return sum(LOCAL_ITEM_S if queues[item.queue].computes else CALL_S * (1 + item.size) for item in items)


def choose(work: Work, executor: str, address: str | None) -> tuple[str, str]:
    """(inline or ray, why it was taken; empty where a person said it). Raises UserError where what was said cannot be."""
    if executor == "inline" and address:
        raise UserError("--executor inline runs in this process, and --address names a cluster; leave one of them out")
    if executor != "auto":
        return executor, ""
    if address:
        return "ray", "executor: ray, since an address is given"
    if work.workload.spec.resources:
        return "ray", "executor: ray, since the spec gives resources to actors"
    seconds, n_items = seconds_inline(work), sum(map(len, work.left.values()))
    told = f"{n_items} {work.workload.counted.items} take about {max(1, round(seconds))} s of computing"
    if seconds <= INLINE_WITHIN_S:
        return "inline", f"executor: inline, since {told}, less than a cluster needs to start"
    return "ray", f"executor: ray, since {told}"


def hear_sigterm() -> None:
    """SIGTERM is an exception from now on, as Ctrl-C is; Ray's and asyncio's own ends take it away again."""

    def stop(*_: object) -> None:
        raise Stopped(BY_SIGTERM)

    # Only the main thread may hear signals; in a notebook's the person interrupts it.
    with contextlib.suppress(ValueError):
        signal.signal(signal.SIGTERM, stop)


@contextlib.contextmanager
def hearing_sigterm() -> Iterator[None]:
    """While the block runs, SIGTERM raises Stopped."""
    before = signal.getsignal(signal.SIGTERM)
    hear_sigterm()
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):
            signal.signal(signal.SIGTERM, before)


async def told_to_end(heartbeat: Heartbeat) -> None:
    """Raises Superseded where another driver has taken the run over, or Stopped when SIGTERM or a request to stop comes."""
    stop = asyncio.Event()
    # Only the main thread may hear signals; in a notebook the person interrupts it.
    with contextlib.suppress(ValueError, RuntimeError):
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    while True:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LOOK_EVERY_S):
                await stop.wait()
        if stop.is_set():
            # A second one ends the waiting, as a second Ctrl-C does.
            with contextlib.suppress(ValueError, RuntimeError):
                asyncio.get_running_loop().remove_signal_handler(signal.SIGTERM)
                hear_sigterm()
            raise Stopped(BY_SIGTERM)
        if heartbeat.asked_to_stop:
            raise Stopped(BY_REQUEST)
        if heartbeat.superseded:
            raise Superseded(f"another driver ({heartbeat.superseded}) took the run over; this one stops, nothing is lost")


async def first_end(work: asyncio.Future[T], others: Sequence[asyncio.Future[Any]]) -> T:
    """The work's result, or the error of whatever ends first with one; nothing is left running."""
    try:
        waiting = {work, *others}
        while not work.done():
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for one in done:
                one.result()
        return work.result()
    finally:
        for one in (work, *others):
            one.cancel()
        await asyncio.gather(work, *others, return_exceptions=True)


def own_modules() -> None:
    """A person's own modules are looked for where the person stands, too."""
    if (here := os.getcwd()) not in sys.path:
        sys.path.append(here)
