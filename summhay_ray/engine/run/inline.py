"""The inline executor, which executes a run in this process, in one event loop and without Ray.

It sends the first call immediately, which suits small runs, tests and notebooks. It uses the same ledger, log, budget, commits
and tables as a run on a cluster.
"""

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from summhay_ray.engine.items import Item
from summhay_ray.engine.run.batch_queue import BatchQueue
from summhay_ray.engine.run.execution import DRAIN_S, LOOK_EVERY_S, Heartbeat, Work, first_end, run_stoppable, until_stopped
from summhay_ray.engine.run.queues import Dispatcher, WorkItem, queue_settings
from summhay_ray.engine.run.worker import Left, Worker, batches, first_readers, prepare_sources, prepares
from summhay_ray.engine.state.history import ledger_of
from summhay_ray.engine.state.items_left import PREPARED
from summhay_ray.llm import Budgets, Gateway, Ledger, LedgerService
from summhay_ray.loops import Batched
from summhay_ray.store import Finished, LogWriter, Parts, StoreError


@dataclass
class InlineExecution:
    """One start of a run in this process. `engine/ray/executor.py` has the same methods."""

    work: Work
    workers: ClassVar[int] = 1
    """Number of workers."""
    _latest: dict[str, Any] = field(default_factory=dict, init=False)

    def begin(self, heartbeat: Heartbeat, budgets: Budgets) -> None:
        """Take over the run and read its log. Raises StoreError, Superseded."""
        run, settings = self.work.run, self.work.workload.models.settings()
        self._heartbeat = heartbeat
        self._committer = run.committer(heartbeat.session.number)
        limits = {name: model.limits for name, model in settings.items() if not model.local}
        self._service = ledger_of(run, heartbeat.session.number, budgets, limits)
        self._latest = self._service.ledger.snapshot(time.monotonic())

    def snapshot(self) -> dict[str, Any]:
        """Return the ledger's counters, spending and models. May be called from any thread."""
        return dict(self._latest)

    def answer(self, left: Mapping[str, Sequence[Item]]) -> Counter[str]:
        """Answer and commit the remaining items. Returns the counts of committed items, rows and failures.

        Before it ends early (because of another driver, SIGTERM, Ctrl-C or an error), it waits for the calls in flight and stores
        their answers. Raises Superseded, Stopped, and the errors of workers.
        """
        return run_stoppable(lambda: self._run(left))

    def finish(self) -> None:
        """Merge the committed parts into the run's tables. Call this when everything is committed."""
        self._committer.finish()

    async def _run(self, left: Mapping[str, Sequence[Item]]) -> Counter[str]:
        run, workload = self.work.run, self.work.workload
        files, settings = run.store.files, workload.models.settings()
        has_local = any(model.local for model in settings.values())
        local = await asyncio.to_thread(lambda: workload.models.local) if has_local else {}
        log, service = LogWriter(files, self._heartbeat.session.number), self._service

        count: Callable[[Mapping[str, int]], None] = lambda numbers: service.act(Ledger.count, log.writer, numbers)  # noqa: E731
        gateway = Gateway(settings, service.port(log.writer), files, log, run.run_id, local=local, count=count)
        # The lambda must not refer to `self`. The worker is in a reference cycle, which would keep `self` and all items in
        # memory.
        committer = self._committer
        self._commits: Batched[Parts, None] = Batched(lambda parts: asyncio.to_thread(committer.add, parts))
        worker = Worker(workload, run, gateway, self._commits, count)
        queues = queue_settings(workload, Counter(item.queue for items in left.values() for item in items), 1)

        session = self._heartbeat.session.number
        batches = BatchQueue.inline(self.work, session, service) if self.work.has_batches else None
        dispatcher = Dispatcher(queues, lambda kind, number, batch: worker.answer(batch), batches=batches)
        tending = asyncio.create_task(self._tend(service, log.writer, batches))
        try:
            try:
                ending = asyncio.ensure_future(until_stopped(self._heartbeat, asyncio.current_task()))
                first = await asyncio.to_thread(first_readers, workload, run, left)
                async with contextlib.aclosing(self._work_items(left, first)) as blocks:
                    await first_end(asyncio.ensure_future(dispatcher.run(blocks)), [ending])
            except BaseException:
                # The calls in flight are paid for, so wait for their answers and store them.
                service.act(Ledger.stop)
                self._latest = service.act(Ledger.snapshot)
                self.work.stopping(self._latest["in_flight"])
                await gateway.drain(DRAIN_S)
                await worker.commits.settled()
                raise
            finally:
                if batches is not None:
                    await batches.close()
                await gateway.close()
                await asyncio.to_thread(log.close)
        finally:
            tending.cancel()
            self._latest = service.act(Ledger.snapshot)
            # If this fails because the store does not answer, the calls in flight later count as uncertain.
            with contextlib.suppress(StoreError, OSError):
                await service.end()
        return dispatcher.counts

    async def _work_items(self, left: Left, first: Collection[str]) -> AsyncGenerator[Sequence[WorkItem], None]:
        """Yield the work items, a few sources at a time. Commits the prepared rows of a source before its items are answered."""
        workload = self.work.workload
        for batch in batches(left):
            if not prepares(workload):
                yield [WorkItem(item) for items in batch.values() for item in items]
                continue
            works: list[WorkItem] = []
            rows: list[Finished] = []
            # Use a thread per source, so that the run can be stopped between two sources.
            for source, items in batch.items():
                own_works, own_rows = await asyncio.to_thread(prepare_sources, workload, {source: items}, first)
                works += own_works
                rows += own_rows
            if rows:
                await self._commits(await asyncio.to_thread(self.work.run.write, PREPARED, rows))
            yield works

    async def _tend(self, service: LedgerService, worker: str, batches: BatchQueue | None) -> None:
        """Send the worker's heartbeats to the ledger, and update the snapshot."""
        while True:
            service.act(Ledger.beat, worker)
            doing = batches.doing if batches is not None else ""
            self._latest = {**service.act(Ledger.snapshot), **({"doing": doing} if doing else {})}
            # Merging only makes later reads faster. If it fails now, the parts are merged later.
            with contextlib.suppress(StoreError, OSError):
                await asyncio.to_thread(self._committer.compact)
            await asyncio.sleep(LOOK_EVERY_S)
