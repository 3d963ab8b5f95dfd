"""The parts that both executors share: the work of a start, the choice of the executor, heartbeats and stopping. Uses no Ray.

The executor in `inline.py` runs in this process, and that in `engine/ray/executor.py` on Ray actors. Both use the same ledger,
log, budget, commits and tables.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from summhay_ray.engine.contract import Workload
from summhay_ray.engine.items import Item
from summhay_ray.errors import UserError
from summhay_ray.loops import run_loop
from summhay_ray.store import BEAT_S, DriverSession, RunStore, StoreError, Superseded

T = TypeVar("T")

LOOK_EVERY_S = 0.25
DRAIN_S = 20.0
"""Maximum time that a stopping run or worker waits for the calls in flight."""

BY_SIGTERM = "stopped by SIGTERM"
BY_REQUEST = "stopped by `summhay stop`"

INLINE_WITHIN_S = 20.0
"""Work that takes less time than this runs inline, since starting a cluster takes about as long."""
CALL_S = 0.004
"""CPU seconds per call in one process, including the work for its item and rows."""
LOCAL_ITEM_S = 0.05
"""Minimum CPU seconds per item of a model that runs in the worker."""


class Stopped(UserError):
    """Raised if the run was stopped by SIGTERM or by `summhay stop`. Its answers are kept."""

    exit_code = 143


@dataclass
class Heartbeat:
    """A driver's session, and what its heartbeat thread (`beating`) reads about it in the store."""

    session: DriverSession
    superseded: str = ""
    """The driver that took over the run; empty if none did."""
    asked_to_stop: bool = False
    """Whether `summhay stop` asked this start to stop."""
    how: str = "stopped"
    """How the session ends: "stopped", unless the run sets this to "done"."""


@contextlib.contextmanager
def beating(session: DriverSession) -> Iterator[Heartbeat]:
    """Return a context that sends heartbeats for the driver's session to the store, and at its end records how the session ended.
    It also looks for takeovers and stop requests."""
    heartbeat, over = Heartbeat(session), threading.Event()

    def beat() -> None:
        while not over.wait(BEAT_S):
            # If the store does not answer, try again with the next beat. Everything that needs the store waits for it anyway.
            with contextlib.suppress(StoreError, OSError):
                session.beat()
                heartbeat.superseded = heartbeat.superseded or session.superseded() or ""
                heartbeat.asked_to_stop = heartbeat.asked_to_stop or session.asked_to_stop()

    thread = threading.Thread(target=beat, name="heartbeat", daemon=True)
    thread.start()
    try:
        yield heartbeat
    finally:
        over.set()
        thread.join()
        # If the store cannot be reached, the missing heartbeats show that the session ended.
        with contextlib.suppress(StoreError, OSError):
            session.end("superseded" if heartbeat.superseded else heartbeat.how)


@dataclass(frozen=True)
class Work:
    """The work of one start of a run."""

    workload: Workload[Any]
    run: RunStore
    left: Mapping[str, Sequence[Item]]
    """Source -> its unfinished items, in the order in which they are answered."""
    note: Callable[[str], None] | None = None
    """Called with a line of text when the run is stopping, and with lines about its batches."""
    n_items: int = 0
    """Number of items of the run, including finished items."""
    detach: bool = False
    """Whether the start ends as soon as only batches are left to wait for."""

    @property
    def has_batches(self) -> bool:
        """Whether the run submits batches, or has open ones."""
        settings = self.workload.models.settings().values()
        return any(model.batch is not None for model in settings) or bool(self.run.batches.all(only_open=True))

    def stopping(self, in_flight: int) -> None:
        """Tell the user that the run is stopping, and for how many calls it still waits."""
        if self.note is not None:
            calls = f"{in_flight} call{'' if in_flight == 1 else 's'}"
            self.note(f"stopping, waiting for {calls} in flight (a second signal stops at once)" if in_flight else "stopping")


def choose(work: Work, executor: str, address: str | None) -> tuple[str, str]:
    """Return the executor (inline or ray) and the reason for it. The reason is empty if the user chose the executor.

    Raises UserError if `executor` and `address` contradict each other.
    """
    if executor == "inline" and address:
        raise UserError("--executor inline runs in this process, and --address names a cluster; leave one of them out")
    if executor != "auto":
        return executor, ""
    if address:
        return "ray", "executor: ray, since an address is given"
    if work.workload.spec.resources:
        return "ray", "executor: ray, since the spec gives resources to actors"
    # Count only computing time, since a cluster does not shorten the time spent waiting for models and rate limits.
    queues, items = work.workload.queues(), [item for left in work.left.values() for item in left]
    seconds = sum(max(CALL_S * (1 + item.size), LOCAL_ITEM_S * queues[item.queue].computes) for item in items)
    n_items = len(items)
    take = "takes" if n_items == 1 else "take"
    estimate = f"{work.workload.counted.phrase(n_items)} {take} about {max(1, round(seconds))} s of computing"
    if seconds <= INLINE_WITHIN_S:
        return "inline", f"executor: inline, since {estimate}, less than a cluster needs to start"
    return "ray", f"executor: ray, since {estimate}"


def hear_sigterm() -> None:
    """Make SIGTERM raise Stopped. Ray and asyncio reset the handler when they end, so this is called again after them."""

    def stop(*_: object) -> None:
        raise Stopped(BY_SIGTERM)

    # Only the main thread receives signals. If this is another thread, as in a notebook, the user can interrupt the run.
    with contextlib.suppress(ValueError):
        signal.signal(signal.SIGTERM, stop)


@contextlib.contextmanager
def hearing_sigterm() -> Iterator[None]:
    """Return a context in which SIGTERM raises Stopped."""
    before = signal.getsignal(signal.SIGTERM)
    hear_sigterm()
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):
            signal.signal(signal.SIGTERM, before)


def run_stoppable(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine that awaits `until_stopped` while it works. Raises Stopped if a second SIGTERM cancelled the coroutine."""
    try:
        return run_loop(work)
    except asyncio.CancelledError:
        raise Stopped(BY_SIGTERM) from None
    finally:
        hear_sigterm()


async def until_stopped(heartbeat: Heartbeat, whole: asyncio.Task[Any] | None) -> None:
    """Wait until the run must stop. Raises Superseded if another driver takes over the run, and Stopped on SIGTERM or a stop
    request.

    Afterwards, another SIGTERM acts like a second Ctrl-C: it cancels `whole`, the task of the run, which waits for its calls.
    """
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    # Only the main thread may handle signals. If this is another thread, as in a notebook, the user can interrupt the run.
    with contextlib.suppress(ValueError, RuntimeError):
        loop.add_signal_handler(signal.SIGTERM, stop.set)
    try:
        while not stop.is_set():
            if heartbeat.asked_to_stop:
                raise Stopped(BY_REQUEST)
            if heartbeat.superseded:
                raise Superseded(f"another driver ({heartbeat.superseded}) took the run over; this one stops, nothing is lost")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_EVERY_S):
                    await stop.wait()
        raise Stopped(BY_SIGTERM)
    finally:
        if whole is not None:
            with contextlib.suppress(ValueError, RuntimeError):
                loop.add_signal_handler(signal.SIGTERM, whole.cancel)


async def first_end(work: asyncio.Future[T], others: Sequence[asyncio.Future[Any]]) -> T:
    """Return the result of `work`, or raise the first error of `work` or `others`. Then cancel the tasks that are still
    running."""
    try:
        waiting = {work, *others}
        while not work.done():
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for future in done:
                future.result()
        return work.result()
    finally:
        for future in (work, *others):
            future.cancel()
        await asyncio.gather(work, *others, return_exceptions=True)
