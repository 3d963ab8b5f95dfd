"""The Ray executor: a run on actors, on this machine or a cluster. Imports Ray."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
import threading
from collections import Counter
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from summhay_ray.engine.items import Item
from summhay_ray.engine.ray.ledger_actor import LedgerActor
from summhay_ray.engine.ray.placement import EMBED, place, result_of
from summhay_ray.engine.ray.pools import Pools
from summhay_ray.engine.ray.scaling import Workers
from summhay_ray.engine.ray.worker_actor import WorkOrder, start_worker
from summhay_ray.engine.run.execution import DRAIN_S, LOOK_EVERY_S, Work, first_end, run_stoppable, until_stopped
from summhay_ray.engine.run.heartbeat import Heartbeat
from summhay_ray.engine.work.prepared import Left, work_items_of
from summhay_ray.engine.work.queues import Dispatcher, ItemResult, Kind, WorkItem, batch_text
from summhay_ray.llm import Budgets, Ledger
from summhay_ray.logs import asked_level
from summhay_ray.store import n_vector_files

CLOSING_S = 30.0
VECTORS_TOLD_EVERY_S = 2.0


class RayExecution:
    """One start of a run on the Ray cluster that this process is connected to; see `Execution`."""

    name = "ray"

    def __init__(self, work: Work, own_ray: bool, dashboard: str = "") -> None:
        self._work = work
        self._placement = place(work, own_ray, dashboard)
        if self._placement.pools:
            # This takes a second or more, while the actors start.
            threading.Thread(target=importlib.import_module, args=("ray.data",), daemon=True).start()
        self._computing: dict[str, Any] = {}
        wanted, pool = work.workload.spec.resources.get(EMBED), self._placement.pools.get(EMBED)
        if wanted and pool and wanted.gpus > pool.gpus:
            self._computing["warnings"] = [f"resources.{EMBED}: this machine has no GPU; the models ran on CPUs"]

    @property
    def workers(self) -> int:
        """See `Execution`."""
        return sum(bounds.fewest for bounds in self._placement.workers.values())

    def begin(self, heartbeat: Heartbeat, budgets: Budgets) -> None:
        """See `Execution`."""
        workload, run = self._work.workload, self._work.run
        files = run.store.files
        self._heartbeat = heartbeat
        self._order = WorkOrder(
            store_uri=files.uri,
            run_id=run.run_id,
            session=heartbeat.session.number,
            record=self._work.record,
            workers=sum(some.most for some in self._placement.workers.values())
            + sum(pool.first for pool in self._placement.pools.values()),
            log_level=asked_level() or logging.INFO,
        )
        limits = {model: settings.limits for model, settings in workload.models.settings().items() if not settings.local}
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        # Workers find the actor by name: a handle in a worker's arguments would be in the object store, and could be lost.
        actor = LedgerActor.options(name=self._order.ledger, scheduling_strategy=here)  # type: ignore[attr-defined]
        order, session = self._order, heartbeat.session.number
        self._ledger = actor.remote((files.uri, run.run_id), session, budgets, limits, order.ledger, order.log_level)
        # The workers' processes start in parallel with the ledger's, and wait for `ready`.
        placement = self._placement
        self._pools = Pools(workload, self._order, placement.pools)
        self._workers = Workers(
            placement.workers, lambda kind, seat: start_worker(self._order, kind, seat, placement.holds(kind))
        )
        ray.get(self._ledger.begin.remote())

    def snapshot(self) -> dict[str, Any]:
        """See `Execution`."""
        numbers: dict[str, Any] = ray.get(self._ledger.act.remote(Ledger.snapshot))
        return {**numbers, **self._computing}

    def finish(self) -> None:
        """See `Execution`."""
        ray.get(self._ledger.finish.remote())

    def answer(self, left: Mapping[str, Sequence[Item]]) -> Counter[str]:
        """See `Execution`."""
        return run_stoppable(lambda: self._run(left))

    async def _run(self, left: Left) -> Counter[str]:
        placement, workers, pools = self._placement, self._workers, self._pools

        async def send(kind: Kind, worker: int, batch: Sequence[WorkItem]) -> Sequence[ItemResult]:
            results: Sequence[ItemResult] = await workers[kind, worker].answer.remote(batch_text(batch))
            return results

        async def snapshot() -> Mapping[str, Any]:
            numbers: Mapping[str, Any] = await self._ledger.act.remote(Ledger.snapshot)
            return numbers

        async def prepared(sources: AsyncGenerator[Left, None]) -> AsyncGenerator[Sequence[WorkItem], None]:
            async with contextlib.aclosing(sources):
                async for some in sources:
                    async for block in work_items_of(some, placement.workload, workers.prepare, len(workers.all()) or 1):
                        yield block

        dispatcher = Dispatcher(placement.queues, send, workers.seats)
        work = dispatcher.run(*map(prepared, pools.feeds(left)))
        others = [workers.run(dispatcher, snapshot), until_stopped(self._heartbeat, asyncio.current_task()), self._tell_pool()]
        if placement.types is not None:
            others.append(placement.types.watch())
        try:
            await first_end(asyncio.ensure_future(work), [*map(asyncio.ensure_future, others)])
            await _all_of([actor.close.remote() for actor in workers.all()], CLOSING_S)
        except BaseException:
            await self._drain(workers.all())
            raise
        finally:
            self._computing.pop("doing", None)
            self._computing["computing"] = pools.took()
        dispatcher.counts.update(pools.counts)
        return dispatcher.counts

    async def _tell_pool(self) -> None:
        """Show in the progress how far the pool for `Workload.compute` is, until cancelled."""
        files, pools = self._work.run.store.files, self._pools
        before = await asyncio.to_thread(n_vector_files, files) if EMBED in self._placement.pools else 0
        while True:
            await asyncio.sleep(VECTORS_TOLD_EVERY_S)
            self._computing.pop("doing", None)
            if pools.n_computed < pools.n_parts:
                new = await asyncio.to_thread(n_vector_files, files) - before
                done = f"computing: {pools.n_computed} of {pools.n_parts} parts"
                self._computing["doing"] = f"{done}, {new} blocks of texts embedded" if new else done

    async def _drain(self, actors: Sequence[Any]) -> None:
        with contextlib.suppress(ray.exceptions.RayError):
            await self._ledger.act.remote(Ledger.stop)
            self._work.stopping((await self._ledger.act.remote(Ledger.snapshot))["in_flight"])
        await _all_of([actor.drain.remote() for actor in actors], DRAIN_S + CLOSING_S / 2)
        # There are no handles to the actors of pools: a user's own model that asks a provider must end its calls itself.
        with contextlib.suppress(ray.exceptions.RayError, TimeoutError):
            async with asyncio.timeout(DRAIN_S):
                while self._placement.pools and (await self._ledger.act.remote(Ledger.snapshot))["in_flight"]:
                    await asyncio.sleep(LOOK_EVERY_S)
        with contextlib.suppress(ray.exceptions.RayError):
            await self._ledger.end.remote()


async def _all_of(references: Sequence[Any], timeout_s: float) -> None:
    """Wait for all references, with a timeout. Their errors are ignored, since dead actors cannot answer."""
    waiting = [asyncio.ensure_future(result_of(reference)) for reference in references]
    if not waiting:
        return
    await asyncio.wait(waiting, timeout=timeout_s)
    for future in waiting:
        future.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
