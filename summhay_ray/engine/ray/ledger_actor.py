"""The ledger as a Ray actor, its task that merges a run's parts, and the client through which workers call it."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, TypeVarTuple

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from summhay_ray.engine.ray.metrics import FIGURES, METRICS_EVERY_S, Metrics
from summhay_ray.engine.state.history import ledger_of
from summhay_ray.llm import Budgets, Ledger, LedgerService, Limits, News, Packed, WorkerMessage
from summhay_ray.logs import log_to_stderr
from summhay_ray.loops import Batched
from summhay_ray.store import Parts, Store, StoreError

log = logging.getLogger(__name__)

R = TypeVar("R")
Ts = TypeVarTuple("Ts")


def merge_parts(store_uri: str, run_id: str, session: int, *, final: bool) -> None:
    """Merge the parts of a run that are due or, if `final`, merge all parts into the final tables. Raises Superseded, StoreError,
    OSError.

    It runs as a separate task, so that the ledger only grants calls.
    """
    committer = Store(store_uri).run(run_id).committer(session)
    if final:
        committer.finish()
    while not final and committer.compact():
        continue


@ray.remote(num_cpus=0, max_concurrency=10_000)
class LedgerActor:
    """The ledger and the committer of one run. The actor is async because workers wait in `listen`.

    `place`: the store's URI and the run's id. `session`: the number of this start's session. `name`: the actor's name on stderr.
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
        self._merging: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        """Take over the run and read the log. Raises Superseded, StoreError."""
        # This is not in the constructor, since Ray does not report the constructor's errors in full.
        store = Store(self._store_uri)
        self._committer = store.run(self._run_id).committer(self._session)
        self._service = ledger_of(store.run(self._run_id), self._session, self._budgets, self._limits)
        self._exporting = asyncio.create_task(self._export_metrics())
        log.info("starts; the log has been read")

    async def _export_metrics(self) -> None:
        metrics = Metrics(self._run_id)
        while True:
            for model, figures in self._service.ledger.figures(time.monotonic()).items():
                metrics.show({name: figures[name] for name in FIGURES.keys() & figures.keys()}, model)
            await asyncio.sleep(METRICS_EVERY_S)

    async def exchange(self, worker: str, message: Packed) -> Packed:
        return (await self._service.exchange(worker, WorkerMessage.unpacked(message))).packed()

    async def listen(self, worker: str) -> Packed:
        return (await self._service.listen(worker)).packed()

    async def act(self, verb: Callable[[Ledger, *Ts, float], R], *arguments: *Ts) -> R:
        """See `LedgerService`."""
        return self._service.act(verb, *arguments)

    async def commit(self, parts: Parts) -> None:
        """Commit the parts. Raises Superseded if another driver has taken over the run."""
        await self._commits(parts)

    async def end(self) -> None:
        """Record the end of this start. The ledger grants no calls afterwards. Raises Superseded, StoreError, OSError."""
        await self._service.end()
        self._exporting.cancel()
        log.info("ends")

    async def finish(self) -> None:
        """Record the end of the run and merge its parts into tables. Call this after the last rows were committed."""
        await self.end()
        if self._merging is None:
            # The run has few parts: starting a process for them would take longer.
            await asyncio.to_thread(self._committer.finish)
        else:
            await self._merging
            await self._merge(final=True)

    async def _commit_all(self, parts: Sequence[Parts]) -> None:
        await asyncio.to_thread(self._committer.add, parts)
        if self._committer.is_due() and (self._merging is None or self._merging.done()):
            self._merging = asyncio.create_task(self._merge_some())

    async def _merge_some(self) -> None:
        # Merging only makes later reads faster. If it fails now, the parts are merged later.
        with contextlib.suppress(ray.exceptions.RayError, StoreError, OSError):
            await self._merge(final=False)

    async def _merge(self, *, final: bool) -> None:
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=True)
        merge = ray.remote(merge_parts).options(num_cpus=0, scheduling_strategy=here, name=f"{self._run_id} merging")
        await merge.remote(self._store_uri, self._run_id, self._session, final=final)


@dataclass(eq=False)
class RemoteLedger:
    """The client through which a worker calls the ledger actor."""

    actor: Any
    worker: str

    async def exchange(self, message: WorkerMessage) -> News:
        """Send a message, and return the ledger's reply."""
        return News.unpacked(await self.actor.exchange.remote(self.worker, message.packed()))

    async def listen(self) -> News:
        """Wait for the ledger's next news, and return it."""
        return News.unpacked(await self.actor.listen.remote(self.worker))

    async def commit(self, parts: Parts) -> None:
        """Commit parts. If that fails, raises RayError, whose cause may be Superseded."""
        await self.actor.commit.remote(parts)

    def act(self, verb: Callable[[Ledger, str, *Ts, float], R], *arguments: *Ts) -> Awaitable[R]:
        """Call a method of the ledger for this worker, such as `Ledger.beat`. Await the result only if you need it."""
        answer: Awaitable[R] = self.actor.act.remote(verb, self.worker, *arguments)
        return answer
