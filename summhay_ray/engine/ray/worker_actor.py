"""A run's workers as Ray actors, which prepare sources and answer items.

Ray restarts a killed worker and repeats its unfinished batches; answers in the response log are not requested again. Ray drains a
node before it is removed, for example because a spot machine is reclaimed or a cluster shrinks. A worker on that node then
finishes the calls in flight, writes their answers, and ends. Ray starts it again on another node.
"""

import asyncio
import contextlib
import gc
import logging
import os
import socket
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import ray
from ray.autoscaler.v2.sdk import get_cluster_status

from summhay_ray.engine.contract import Workload
from summhay_ray.engine.items import Item
from summhay_ray.engine.ray.ledger_actor import RemoteLedger
from summhay_ray.engine.ray.placement import POOL
from summhay_ray.engine.registry import stored_workload
from summhay_ray.engine.run.execution import DRAIN_S
from summhay_ray.engine.run.queues import COMPUTING_AT_ONCE, ItemResult, Kind, WorkItem, batch_text, read_batch
from summhay_ray.engine.run.worker import Worker, prepare_sources, prepares
from summhay_ray.engine.state.items_left import PREPARED
from summhay_ray.llm import Gateway, Ledger, LedgerPort
from summhay_ray.logs import log_to_stderr
from summhay_ray.loops import COLLECT_AFTER
from summhay_ray.store import LogWriter, NoCredentials, RunStore, Store

log = logging.getLogger(__name__)

BEAT_EVERY_S = 3.0
LEAVE_S = 2.0
LOOK_EVERY_S = 2.0
"""Interval at which a worker checks whether its node is drained. Ray gives the node 30 s."""
DRAINING = "DRAINING"
"""The status of a node that Ray is draining."""
TASKS_AT_ONCE = 100_000
"""Maximum number of concurrent tasks of a worker. It is higher than all queues need, so that no queue waits for another."""


@dataclass(frozen=True, slots=True)
class WorkOrder:
    """What every worker gets about a start. It contains no secrets and nothing large."""

    store_uri: str
    run_id: str
    session: int
    """The number of this start's session."""
    record: Mapping[str, Any]
    """The run's record, with the current spec."""
    workers: int = 1
    """Number of workers that commit."""
    log_level: int = logging.INFO

    @property
    def ledger(self) -> str:
        """The name of the ledger actor: the run, `ledger`, the number of the session."""
        return f"{self.run_id} ledger {self.session}"

    def worker(self, kind: Kind, seat: int | str) -> str:
        """Return the name of a worker actor: the run, the kind, and the worker's number or, in a pool, its Ray id."""
        return f"{self.run_id} {kind} {seat}"


def open_place(order: WorkOrder) -> tuple[RunStore, Workload[Any]]:
    """Return the run and its workload. Raises NoCredentials with the node's name, since other nodes may have credentials."""
    try:
        store = Store(order.store_uri)
        return store.run(order.run_id), stored_workload(store, order.record)
    except NoCredentials as error:
        raise NoCredentials(f"node {socket.gethostname()}: {error}") from None


class WorkerActor:
    """An async actor that answers batches of items."""

    def __init__(self, order: WorkOrder, kind: Kind, seat: int | str) -> None:
        log_to_stderr(order.log_level, order.worker(kind, seat))
        self._order, self._kind, self._seat = order, kind, seat
        self._watching: asyncio.Task[None] | None = None
        self._ending: asyncio.Task[None] | None = None
        self._preparing = ThreadPoolExecutor(max_workers=1)

    def _evicted(self) -> None:
        if self._ending is None:
            log.error("the ledger heard nothing for too long and gave the work to others; finishes the calls in flight, and ends")
            self._ending = asyncio.create_task(self._drain_and_end(1))

    def _beat(self) -> None:
        # Use a separate thread, so that a worker whose event loop is busy for a long time does not seem dead.
        while True:
            self._ledger.act(Ledger.beat)
            time.sleep(BEAT_EVERY_S)

    async def _end_with_node(self) -> None:
        # Use a separate thread, since all threads of the event loop may be busy.
        looking = ThreadPoolExecutor(max_workers=1)
        while not await asyncio.get_running_loop().run_in_executor(looking, node_drains):
            await asyncio.sleep(LOOK_EVERY_S)
        log.warning("Ray drains the node: finishes the calls in flight, and starts again elsewhere")
        await self._drain_and_end(0)

    async def _drain_and_end(self, code: int) -> None:
        try:
            async with asyncio.timeout(DRAIN_S + 2 * LEAVE_S):
                await self.drain()
        finally:
            # End even if draining fails, for example because credentials have expired. Ray restarts the worker.
            os._exit(code)

    async def ready(self) -> None:
        """Start the worker if it has not started. The constructor does not do this, since Ray does not report its errors in full.

        Raises StoreError, OSError.
        """
        if self._watching is not None:
            return
        gc.set_threshold(COLLECT_AFTER)
        order, kind, seat = self._order, self._kind, self._seat
        with logged_errors():
            self._run, self._workload = run, workload = open_place(order)
            self._log = LogWriter(run.store.files, order.session)
            self._ledger = RemoteLedger(ray.get_actor(order.ledger), self._log.writer)
            self._ledger.act(Ledger.hello, f"{kind} {seat}")
            # Start the heartbeats first: on a busy machine, the next steps may take longer than the ledger waits for one.
            threading.Thread(target=self._beat, daemon=True).start()
            settings = workload.models.settings()
            local = workload.models.local if any(model.local for model in settings.values()) else {}
            places = {True: "in the worker", False: "called"}
            models = ", ".join(f"{name} ({places[model.local]})" for name, model in sorted(settings.items()))
            log.info("starts as pid %d on node %s; models: %s", os.getpid(), socket.gethostname(), models or "none")

            def count(numbers: Mapping[str, int]) -> None:
                self._ledger.act(Ledger.count, numbers)

            port = LedgerPort(self._ledger.exchange, self._ledger.listen)
            files, computes = run.store.files, kind == POOL
            self._gateway = Gateway(settings, port, files, self._log, order.run_id, self._evicted, local, count, computes)
            self._worker = Worker(workload, run, self._gateway, self._ledger.commit, count, order.workers)
            if kind == "calling":
                self._gateway.make_transports()
        self._watching = asyncio.create_task(self._end_with_node())

    async def prepare(self, text: str) -> str:
        """Prepare the sources of items (`batch_text`) and commit their rows. Returns the prepared items."""
        await self.ready()
        with logged_errors():
            return batch_text(await self._prepared(read_batch(text)))

    async def _prepared(self, given: Sequence[WorkItem]) -> list[WorkItem]:
        if not prepares(self._workload):
            return [*given]
        sources: dict[str, list[Item]] = {}
        for work in given:
            sources.setdefault(work.item.source, []).append(work.item)
        first = {work.item.source for work in given if work.writes_input}
        prepare = asyncio.get_running_loop().run_in_executor
        works, rows = await prepare(self._preparing, prepare_sources, self._workload, sources, first)
        if rows:
            await self._ledger.commit(await prepare(self._preparing, self._run.write, PREPARED, rows))
        return works

    async def work_here(self, given: Sequence[WorkItem]) -> list[ItemResult]:
        """Prepare and answer items that ask only models in this cluster. Returns when all rows are committed and the ledger was
        informed."""
        await self.ready()
        with logged_errors():
            queues, rooms = self._workload.queues(), dict[str, asyncio.Semaphore]()

            async def one(work: WorkItem) -> list[ItemResult]:
                queue = work.item.queue
                async with rooms.setdefault(queue, asyncio.Semaphore(queues[queue].max_in_flight or COMPUTING_AT_ONCE[1])):
                    return await self._worker.answer([work])

            results = await asyncio.gather(*map(one, await self._prepared(given)))
            # Flush now, since the pool may end this actor before it sends its next message.
            await self._gateway.flush()
            return [result for some in results for result in some]

    async def answer(self, text: str) -> list[ItemResult]:
        """Answer a batch. Returns when its items are committed, except those that the budget stopped."""
        await self.ready()
        with logged_errors():
            return await self._worker.answer(read_batch(text))

    async def close(self) -> None:
        """Send the ledger its last messages, and close the log."""
        if self._watching is None:
            return
        self._watching.cancel()
        await self._gateway.close()
        await asyncio.to_thread(self._log.close)
        log.info("ends: all is done")

    async def drain(self) -> None:
        """Accept no further calls, and finish the calls in flight."""
        if self._watching is None:
            return
        await self._gateway.drain(DRAIN_S)
        await self._worker.commits.settled()
        log.info("stops; the answers that have come are in the store")
        with contextlib.suppress(ray.exceptions.RayError, TimeoutError):
            async with asyncio.timeout(LEAVE_S):
                await self._ledger.act(Ledger.leave)


def start_worker(order: WorkOrder, kind: Kind, seat: int, holds: Mapping[str, float]) -> Any:
    """Start a worker on a node with the resources `holds` (Ray's options). Returns the actor's handle."""
    actor = ray.remote(WorkerActor).options(
        **holds,
        name=order.worker(kind, seat),
        max_restarts=-1,
        max_task_retries=-1,
        max_concurrency=TASKS_AT_ONCE,
        scheduling_strategy="SPREAD",
    )
    return actor.remote(order, kind, seat)


@contextlib.contextmanager
def logged_errors() -> Iterator[None]:
    """Return a context that logs only the class of an error, since the message may quote a prompt. The driver gets the whole
    error."""
    try:
        yield
    except Exception as error:
        log.error("stopped by %s", type(error).__name__)
        raise


def node_drains() -> bool:
    """Return whether Ray drains this process's node; False if unknown."""
    here = ray.get_runtime_context()
    try:
        nodes = get_cluster_status(here.gcs_address).active_nodes
    # The head may be busy or gone, for which Ray has no specific exception. The next check comes soon.
    except Exception:  # noqa: BLE001
        return False
    return any(node.node_id == here.get_node_id() and node.node_status == DRAINING for node in nodes)
