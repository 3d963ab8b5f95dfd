"""The Ray executor: runs a workload on Ray actors, on this machine or a cluster.

The number of workers changes with the work and the cluster. A worker is added while items wait and the providers accept more
calls. A worker that has been idle for a while is ended. A cluster's autoscaler starts a node for a worker that waits for room,
and releases a node without workers.
"""

import asyncio
import contextlib
import functools
import importlib
import logging
import threading
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from summhay_ray.engine.items import Item
from summhay_ray.engine.ray.ledger_actor import LedgerActor, RemoteLedger
from summhay_ray.engine.ray.metrics import RunMetrics
from summhay_ray.engine.ray.placement import EMBED, Bounds, place, placed
from summhay_ray.engine.ray.pools import Pools
from summhay_ray.engine.ray.worker_actor import WorkOrder, start_worker
from summhay_ray.engine.run.batch_queue import BatchQueue
from summhay_ray.engine.run.execution import DRAIN_S, LOOK_EVERY_S, Heartbeat, Work, first_end, run_stoppable, until_stopped
from summhay_ray.engine.run.queues import Dispatcher, ItemResult, Kind, Pending, WorkerLost, WorkItem, batch_text
from summhay_ray.engine.run.worker import Left, first_readers, work_items_of
from summhay_ray.engine.state.items_left import finished_items, item_counts
from summhay_ray.llm import Budgets, Ledger, LedgerPort
from summhay_ray.logs import asked_level
from summhay_ray.store import LogWriter, n_vector_files

CLOSING_S = 30.0
VECTORS_TOLD_EVERY_S = 2.0
SCALE_EVERY_S = 5.0
IDLE_S = 30.0
USED = 0.8
"""If more than this share of the allowed concurrent calls is in flight, more workers would not help."""


class Workers:
    """The workers of a run. `start` starts a worker of the given kind and number; each kind has its own numbers."""

    def __init__(self, bounds: Mapping[Kind, Bounds], start: Callable[[Kind, int], Any]) -> None:
        self._bounds, self._start = bounds, start
        self._actors = {kind: {seat: start(kind, seat) for seat in range(some.fewest)} for kind, some in bounds.items()}
        self.seats = {kind: set(actors) for kind, actors in self._actors.items()}
        """Kind -> the numbers of the workers that can receive items."""
        self._busy: dict[tuple[Kind, int], float] = {}
        """(Kind, number) of a worker -> the last time when it was busy."""
        self._preparing: Counter[tuple[Kind, int]] = Counter()
        self._pending = Pending()
        self._lost: set[tuple[Kind, int]] = set()
        """Workers from which the ledger gets no heartbeats. They get no items until they are back."""

    def __getitem__(self, place: tuple[Kind, int]) -> Any:
        kind, seat = place
        return self._actors[kind][seat]

    def all(self) -> list[Any]:
        """The workers that can receive items."""
        return [self[kind, seat] for kind, seats in self.seats.items() for seat in seats]

    def prepare(self, text: str) -> tuple[Awaitable[str], int]:
        """Send a batch to the worker with the fewest batches to prepare. Returns the awaitable result and the worker's number."""
        first = self._least_preparing()

        async def prepared(place: tuple[Kind, int]) -> str:
            while True:
                self._preparing[place] += 1
                try:
                    with contextlib.suppress(WorkerLost):
                        done: str = await self._pending.wait(*place, self[place].prepare.remote(text))
                        return done
                finally:
                    self._preparing[place] -= 1
                place = self._least_preparing()

        return asyncio.ensure_future(prepared(first)), first[1]

    def _least_preparing(self) -> tuple[Kind, int]:
        places = ((kind, seat) for kind, seats in self.seats.items() for seat in sorted(seats))
        return min(places, key=self._preparing.__getitem__)

    async def run(self, dispatcher: Dispatcher, snapshot: Callable[[], Awaitable[Mapping[str, Any]]]) -> None:
        """Add and end workers until cancelled. `snapshot`: returns the ledger's snapshot. Raises PlacementError."""
        begun = [actor.ready.remote() for actor in self.all()]
        try:
            async with asyncio.TaskGroup() as beginning:
                beginning.create_task(placed(begun))
                while True:
                    await asyncio.sleep(SCALE_EVERY_S)
                    self._replace_lost(dispatcher, set((await snapshot()).get("lost_workers", ())))
                    growing = {kind: some for kind, some in self._bounds.items() if some.fewest < some.most}
                    for kind, bounds in growing.items():
                        n_known = len(self.seats[kind]) + sum(lost == kind for lost, _ in self._lost)
                        if n_known == len(self._actors[kind]) < bounds.most and await may_grow(kind, dispatcher, snapshot):
                            seat = next(seat for seat in range(bounds.most) if seat not in self._actors[kind])
                            self._actors[kind][seat] = self._start(kind, seat)
                            beginning.create_task(self._open(dispatcher, kind, seat))
                        await self._shrink(kind, dispatcher)
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None

    def _replace_lost(self, dispatcher: Dispatcher, lost: set[str]) -> None:
        """Give the work of lost workers to other workers, if there are any. Workers that are back get items again. `lost`: the
        lost workers, as `KIND NUMBER`."""
        for kind, seats in self.seats.items():
            for seat in sorted(self._actors[kind]):
                is_lost = f"{kind} {seat}" in lost
                if is_lost and seat in seats and len(seats) > 1:
                    seats.remove(seat)
                    self._lost.add((kind, seat))
                    # If its process continues, it ends itself, and Ray restarts it with the same number.
                    self[kind, seat].ready.remote()
                    self._pending.give_up(kind, seat)
                    dispatcher.give_away(kind, seat)
                elif not is_lost and (kind, seat) in self._lost:
                    self._lost.discard((kind, seat))
                    seats.add(seat)
                    dispatcher.pump()

    async def _open(self, dispatcher: Dispatcher, kind: Kind, seat: int) -> None:
        await self[kind, seat].ready.remote()
        self.seats[kind].add(seat)
        dispatcher.pump()

    async def _shrink(self, kind: Kind, dispatcher: Dispatcher) -> None:
        now = time.monotonic()
        for seat in self.seats[kind]:
            idle = not self._preparing[kind, seat] and all(queue.is_idle(seat) for queue in dispatcher.of(kind))
            self._busy[kind, seat] = self._busy.get((kind, seat), now) if idle else now
        idlest = max(self.seats[kind])
        if len(self.seats[kind]) > self._bounds[kind].fewest and now - self._busy[kind, idlest] > IDLE_S:
            self.seats[kind].remove(idlest)
            actor = self._actors[kind].pop(idlest)
            # This fails if the node has disappeared in the meantime.
            with contextlib.suppress(ray.exceptions.RayError):
                await actor.drain.remote()
            ray.kill(actor)


async def may_grow(kind: Kind, dispatcher: Dispatcher, snapshot: Callable[[], Awaitable[Mapping[str, Any]]]) -> bool:
    """Return whether more workers of this kind would help. They do if items wait that ask no provider, or that ask providers
    which accept more concurrent calls."""
    full = [queue for queue in dispatcher.of(kind) if queue.is_full]
    if not all(queue.settings.calls for queue in full):
        return True
    if not full:
        return False
    models = (await snapshot())["models"].values()
    sent, taken = (sum(model[name] for model in models) for name in ("in_flight", "cap"))
    return bool(sent < USED * taken) and not any(model["paused_s"] for model in models)


class RayExecution:
    """One start of a run, on the Ray cluster to which this process is connected; see `InlineExecution`."""

    def __init__(self, work: Work, own_ray: bool, dashboard: str = "") -> None:
        self._work = work
        self._placement = place(work, own_ray, dashboard)
        if self._placement.pools:
            # Import it now, while the actors start, since this takes at least a second.
            threading.Thread(target=importlib.import_module, args=("ray.data",), daemon=True).start()
        self._computing: dict[str, Any] = {}
        wanted, pool = work.workload.spec.resources.get(EMBED), self._placement.pools.get(EMBED)
        if wanted and pool and wanted.gpus > pool.gpus:
            self._computing["warnings"] = [f"resources.{EMBED}: this machine has no GPU; the models ran on CPUs"]

    @property
    def workers(self) -> int:
        """See `InlineExecution`."""
        return sum(bounds.fewest for bounds in self._placement.workers.values())

    def begin(self, heartbeat: Heartbeat, budgets: Budgets) -> None:
        """See `InlineExecution`."""
        workload, run = self._work.workload, self._work.run
        files = run.store.files
        self._heartbeat = heartbeat
        self._order = WorkOrder(
            store_uri=files.uri,
            run_id=run.run_id,
            session=heartbeat.session.number,
            record={**run.record, **workload.current_record},
            workers=sum(some.most for some in self._placement.workers.values())
            + sum(pool.first for pool in self._placement.pools.values()),
            log_level=asked_level() or logging.INFO,
        )
        limits = {model: settings.limits for model, settings in workload.models.settings().items() if not settings.local}
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        # Workers find the actor by its name. A handle in a worker's arguments would be in the object store, and could be lost.
        actor = LedgerActor.options(name=self._order.ledger, scheduling_strategy=here)  # type: ignore[attr-defined]
        order, session = self._order, heartbeat.session.number
        self._ledger = actor.remote((files.uri, run.run_id), session, budgets, limits, order.ledger, order.log_level)
        # The workers' processes start at the same time as the ledger's, and then wait for `ready`.
        placement = self._placement
        self._pools = Pools(workload, self._order, placement.pools)
        self._workers = Workers(
            placement.workers, lambda kind, seat: start_worker(self._order, kind, seat, placement.holds(kind))
        )
        ray.get(self._ledger.begin.remote())
        now = run.at(checked=False)
        done = item_counts(now, self._work.n_items)["done"]
        self._metrics = RunMetrics(run.run_id, self._work.n_items, len(finished_items(now)), done)

    def snapshot(self) -> dict[str, Any]:
        """See `InlineExecution`."""
        numbers: dict[str, Any] = {**ray.get(self._ledger.act.remote(Ledger.snapshot)), **self._computing}
        self._metrics.running(numbers)
        return numbers

    def finish(self) -> None:
        """See `InlineExecution`."""
        over_budget = self.snapshot()["over_budget"]
        ray.get(self._ledger.finish.remote())
        counts = item_counts(self._work.run.at(checked=False), self._work.n_items)
        if counts["done"] + counts["failed"] < counts["total"]:
            waits = self._work.run.batches.all(only_open=True)
            status = "waiting" if waits else "budget" if over_budget else "limited"
        else:
            status = "partial" if counts["failed"] else "done"
        self._metrics.end(status, counts["done"], counts["failed"])

    def answer(self, left: Mapping[str, Sequence[Item]]) -> Counter[str]:
        """See `InlineExecution`."""
        return run_stoppable(lambda: self._run(left))

    async def _run(self, left: Left) -> Counter[str]:
        placement, workers, pools = self._placement, self._workers, self._pools
        first = await asyncio.to_thread(first_readers, placement.workload, self._work.run, left)

        async def send(kind: Kind, worker: int, batch: Sequence[WorkItem]) -> Sequence[ItemResult]:
            results: Sequence[ItemResult] = await workers[kind, worker].answer.remote(batch_text(batch))
            return results

        async def prepared(sources: AsyncGenerator[Left, None]) -> AsyncGenerator[Sequence[WorkItem], None]:
            async with contextlib.aclosing(sources):
                async for some in sources:
                    n_workers = len(workers.all()) or 1
                    async for block in work_items_of(some, placement.workload, workers.prepare, n_workers, first):
                        yield block

        batches = self._batch_queue() if self._work.has_batches else None
        dispatcher = Dispatcher(placement.queues, send, workers.seats, batches)
        work = dispatcher.run(*map(prepared, pools.feeds(left, first)))
        snapshot = functools.partial(self._ledger.act.remote, Ledger.snapshot)
        others = [workers.run(dispatcher, snapshot), until_stopped(self._heartbeat, asyncio.current_task()), self._show_pool()]
        if placement.types is not None:
            others.append(placement.types.watch())
        try:
            await first_end(asyncio.ensure_future(work), [*map(asyncio.ensure_future, others)])
            await _all_of([actor.close.remote() for actor in workers.all()], CLOSING_S)
        except BaseException:
            await self._drain(workers.all())
            self._metrics.interrupted()
            raise
        finally:
            if batches is not None:
                await batches.close()
            self._computing.pop("doing", None)
            self._computing["computing"] = pools.took()
        dispatcher.counts.update(pools.counts)
        return dispatcher.counts

    def _batch_queue(self) -> BatchQueue:
        log = LogWriter(self._work.run.store.files, self._order.session)
        ledger = RemoteLedger(self._ledger, log.writer)
        return BatchQueue(self._work, log.writer, log, LedgerPort(ledger.exchange, ledger.listen), self._ledger.act.remote)

    async def _show_pool(self) -> None:
        """Add the progress of the pool for `Workload.compute` to the snapshots, until cancelled."""
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
        # There are no handles to the actors of pools. So wait until a user's own model in a pool has finished its calls to a
        # provider.
        with contextlib.suppress(ray.exceptions.RayError, TimeoutError):
            async with asyncio.timeout(DRAIN_S):
                while self._placement.pools and (await self._ledger.act.remote(Ledger.snapshot))["in_flight"]:
                    await asyncio.sleep(LOOK_EVERY_S)
        with contextlib.suppress(ray.exceptions.RayError):
            await self._ledger.end.remote()


async def _all_of(references: Sequence[Any], timeout_s: float) -> None:
    """Wait for all references, with a timeout. Ignores their errors, since dead actors cannot answer."""
    waiting = [asyncio.ensure_future(reference) for reference in references]
    if not waiting:
        return
    await asyncio.wait(waiting, timeout=timeout_s)
    for future in waiting:
        future.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
