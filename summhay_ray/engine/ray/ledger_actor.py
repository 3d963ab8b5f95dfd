"""The ledger as a Ray actor, and the workers' client of it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, TypeVarTuple

import ray
from ray.util.metrics import Gauge

from summhay_ray.engine.state.money import ledger_of
from summhay_ray.llm import Batched, Budgets, Ledger, LedgerService, Limits, News, Packed, WorkerMessage
from summhay_ray.logs import log_to_stderr
from summhay_ray.store import Parts, Store, StoreError

log = logging.getLogger(__name__)

R = TypeVar("R")
Ts = TypeVarTuple("Ts")

COMPACT_AGAIN_S = 1.0
METRICS_EVERY_S = 1.0

FIGURES = {
    "calls": "Calls that were answered in this start of the run.",
    "input_tokens": "Tokens that these calls read.",
    "output_tokens": "Tokens of their answers.",
    "retries": "Further attempts of calls in this start.",
    "limited": "Replies with status 429 in this start.",
    "in_flight": "Calls that are being sent.",
    "queued": "Calls that wait for a slot, a rate limit or money.",
    "spent_usd": "Dollars that the run was charged for calls that have ended.",
    "reserved_usd": "Dollars reserved for the worst case of the calls in flight.",
    "uncertain_usd": "The most that calls of the run may have cost whose end nobody knows.",
}
"""The metrics `summhay_NAME` of a run, which each node exports for Prometheus."""


@ray.remote(num_cpus=0, max_concurrency=10_000)
class LedgerActor:
    """One run's ledger and committer. It is async, since listening workers wait in it.

    `place`: the store's URI and the run's id. `session`: the number of this start's session. `name`: the writer's name in the
    log.
    """

    def __init__(
        self,
        place: tuple[str, str],
        session: int,
        budgets: Budgets,
        limits: Mapping[str, Limits],
        name: str,
        log_level: int,
    ) -> None:
        log_to_stderr(log_level, name)
        self._store_uri, self._run_id = place
        self._session, self._budgets, self._limits = session, budgets, limits
        self._service: LedgerService
        self._commits: Batched[Parts, None] = Batched(self._commit_all)
        self._compacting: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        """Take the run over and read the log. Raises Superseded, StoreError."""
        # Not in the constructor, whose errors Ray does not report in full.
        store = Store(self._store_uri)
        self._committer = store.run(self._run_id).committer(self._session)
        self._service = ledger_of(store.run(self._run_id), self._session, self._budgets, self._limits)
        self._exporting = asyncio.create_task(self._export_metrics())
        log.info("starts; the log has been read")

    async def _export_metrics(self) -> None:
        """Export the metrics `summhay_NAME` of the run, tagged with `run` and `model`."""
        gauges = {name: Gauge(f"summhay_{name}", text, ("run", "model")) for name, text in FIGURES.items()}
        while True:
            for model, figures in self._service.ledger.figures(time.monotonic()).items():
                for name, gauge in gauges.items():
                    gauge.set(figures[name], {"run": self._run_id, "model": model})
            await asyncio.sleep(METRICS_EVERY_S)

    async def exchange(self, worker: str, message: Packed) -> Packed:
        return (await self._service.exchange(worker, WorkerMessage.unpacked(message))).packed()

    async def listen(self, worker: str) -> Packed:
        return (await self._service.listen(worker)).packed()

    async def act(self, verb: Callable[[Ledger, *Ts, float], R], *arguments: *Ts) -> R:
        """See `LedgerService`."""
        return self._service.act(verb, *arguments)

    async def commit(self, parts: Parts) -> None:
        """Commit the parts; returns when this is done. Raises Superseded if another driver has taken over the run."""
        await self._commits(parts)

    async def end(self) -> None:
        """Record the end of this start: nothing is granted after it. Raises Superseded, StoreError, OSError."""
        await self._service.end()
        self._exporting.cancel()
        log.info("ends")

    async def finish(self) -> None:
        """Record the end of the run and merge its parts into tables. Call it after the last rows were committed."""
        await self.end()
        if self._compacting is not None:
            self._compacting.cancel()
            await asyncio.gather(self._compacting, return_exceptions=True)
        await asyncio.to_thread(self._committer.finish)

    async def _commit_all(self, parts: Sequence[Parts]) -> list[None]:
        await asyncio.to_thread(self._committer.add, parts)
        if self._compacting is None or self._compacting.done():
            self._compacting = asyncio.create_task(self._compact())
        return [None] * len(parts)

    async def _compact(self) -> None:
        # Merging only saves reads; if it fails now, it happens later.
        with contextlib.suppress(StoreError, OSError):
            while await asyncio.to_thread(self._committer.compact):
                await asyncio.sleep(COMPACT_AGAIN_S)


@dataclass(eq=False)
class RemoteLedger:
    """A worker's client of the ledger actor."""

    actor: Any
    worker: str

    async def exchange(self, message: WorkerMessage) -> News:
        """Send a message; returns the ledger's `News`."""
        return News.unpacked(await self.actor.exchange.remote(self.worker, message.packed()))

    async def listen(self) -> News:
        """Wait for the ledger's next news."""
        return News.unpacked(await self.actor.listen.remote(self.worker))

    async def commit(self, parts: Parts) -> None:
        """Commit parts. If that fails, raises RayError, for example with Superseded as its cause."""
        await self.actor.commit.remote(parts)

    def act(self, verb: Callable[[Ledger, str, *Ts, float], R], *arguments: *Ts) -> Awaitable[R]:
        """Call a method of the ledger for this worker, such as `Ledger.beat`. Waits for the ledger only if it is awaited."""
        answer: Awaitable[R] = self.actor.act.remote(verb, self.worker, *arguments)
        return answer
