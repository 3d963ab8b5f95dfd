"""The inline executor: a run in this process, on one event loop, without Ray. Part of the engine room.

It suits small runs, tests and notebooks, since the first call is sent at once. It uses the same ledger, log, budget, commits and
tables as a run on a cluster.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any

from summhay_ray.engine.contract import Item
from summhay_ray.engine.execution import (
    DRAIN_S,
    LOOK_EVERY_S,
    SPENDING_EVERY_S,
    SWEEP_PATIENCE_S,
    Work,
    first_end,
    hear_sigterm,
    until_stopped,
)
from summhay_ray.engine.heartbeat import Heartbeat
from summhay_ray.engine.prepared import batches, finished_source, prepared, prepares, work_items
from summhay_ray.engine.queues import Dispatcher, ItemResult, Kind, WorkItem, queue_settings
from summhay_ray.engine.state import PREPARED
from summhay_ray.engine.worker import Worker
from summhay_ray.llm import Batched, Budgets, Gateway, Ledger, LedgerService, LocalPort
from summhay_ray.loops import run_loop
from summhay_ray.store import Block, Finished, LogIndex, StoreError, has_ended, open_log, pack, seal_rest, sweep

SEAT = "inline"


class InlineExecution:
    """One start of a run in this process; see `Execution`."""

    name = "inline"
    seats: Mapping[str, int] = {SEAT: 1}

    def __init__(self, work: Work) -> None:
        self._work = work
        self._latest: dict[str, Any] = {}
        self._committed_at = float("-inf")

    def begin(self, heartbeat: Heartbeat, budgets: Budgets) -> None:
        """See `Execution`."""
        run, files, settings = self._work.run, self._work.run.store.files, self._work.workload.settings()
        if files.folder is None:
            self._recover(heartbeat)
        self._heartbeat = heartbeat
        self._committer = run.committer(heartbeat.session.number, heartbeat.session.where)
        limits = {name: model.limits for name, model in settings.items() if not model.local}
        index = LogIndex(files)
        index.know(run.run_id, self._committer.spent)
        self._ledger = Ledger(run.run_id, index, budgets, limits, probing=True)
        self._latest = self._ledger.snapshot(time.monotonic())

    def snapshot(self) -> dict[str, Any]:
        """See `Execution`."""
        return dict(self._latest)

    def answer(self, left: Mapping[str, Sequence[Item]]) -> Counter[str]:
        """See `Execution`."""
        try:
            return run_loop(lambda: self._run(left))
        finally:
            hear_sigterm()

    def finish(self) -> None:
        """See `Execution`."""
        self._committer.finish()

    async def _run(self, left: Mapping[str, Sequence[Item]]) -> Counter[str]:
        run, workload = self._work.run, self._work.workload
        files, settings = run.store.files, workload.settings()
        has_local = any(model.local for model in settings.values())
        local = await asyncio.to_thread(workload.models_here) if has_local else {}
        log = open_log(files, self._heartbeat.session.number, f"{SEAT}-0")
        service = LedgerService(self._ledger)
        gateway = Gateway(settings, LocalPort(service, log.writer), files, log, run.run_id, local=local)
        self._commits: Batched[Block | None, None] = Batched(self._add)
        worker = Worker(workload, run, gateway, self._commits, service.count)
        queues = queue_settings(workload, Counter(item.queue for items in left.values() for item in items), 1)

        async def send(_: Kind, __: int, batch: Sequence[WorkItem]) -> Sequence[ItemResult]:
            return await worker.answer(batch)

        dispatcher = Dispatcher(queues, send)
        tending = asyncio.create_task(self._tend(service, log.writer))
        try:
            try:
                ending = asyncio.ensure_future(until_stopped(self._heartbeat))
                async with contextlib.aclosing(self._work_items(left)) as blocks:
                    await first_end(asyncio.ensure_future(dispatcher.run(blocks)), [ending])
            except BaseException:
                # The calls in flight are paid for: wait for their answers and keep them.
                service.stop()
                self._latest = service.snapshot()
                self._work.stopping(self._latest["in_flight"])
                await gateway.drain(DRAIN_S)
                raise
            finally:
                await gateway.close()
                await asyncio.to_thread(log.close)
        finally:
            tending.cancel()
            self._latest = service.snapshot()
            # However the run ended, the next start must know what was spent.
            with contextlib.suppress(StoreError, OSError):
                await self._add([None])
        return dispatcher.counts

    async def _work_items(self, left: Mapping[str, Sequence[Item]]) -> AsyncGenerator[Sequence[WorkItem], None]:
        """The work items, some sources at a time. The prepared rows of a source are committed before its items are answered."""
        workload = self._work.workload
        for batch in batches(left):
            if not prepares(workload):
                yield [WorkItem(item) for items in batch.values() for item in items]
                continue
            rows: list[Finished] = []
            works: list[WorkItem] = []
            for source, items in batch.items():
                ready = await asyncio.to_thread(prepared, workload, source, items)
                works += work_items(items, ready)
                if (finished := finished_source(source, ready)) is not None:
                    rows.append(finished)
            if rows:
                await self._commits(await asyncio.to_thread(self._work.run.write, PREPARED, rows))
            yield works

    async def _add(self, blocks: Sequence[Block | None]) -> list[None]:
        self._committed_at = time.monotonic()
        await asyncio.to_thread(self._committer.add, [block for block in blocks if block is not None], self._ledger.spent())
        return [None] * len(blocks)

    async def _tend(self, service: LedgerService, worker: str) -> None:
        """Keep the run's only worker alive for the ledger, update the snapshot, and commit what was spent."""
        while True:
            service.beat(worker)
            self._latest = service.snapshot()
            if time.monotonic() - self._committed_at > SPENDING_EVERY_S:
                # Commit the spending even if there is no block; if the store does not answer, a later commit has it.
                with contextlib.suppress(StoreError, OSError):
                    await self._commits(None)
            await asyncio.sleep(LOOK_EVERY_S)

    def _recover(self, heartbeat: Heartbeat) -> None:
        """For a remote store: upload the logs that dead starts left on this disk, since their answers were paid for."""
        files = self._work.run.store.files
        sweep(files, SWEEP_PATIENCE_S, None)
        for number in heartbeat.session.record.earlier:
            if has_ended(files, number):
                seal_rest(files, number)
        with contextlib.suppress(StoreError, OSError):
            pack(files)
