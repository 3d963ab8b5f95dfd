"""A run's workers as Ray actors: one kind prepares, another answers. Part of the engine room; imports Ray.

A worker that is killed is started again by Ray with the batches that it had not finished; answers that are in the response log
are not asked for again. One that is told to end (SIGTERM) finishes the calls in flight, brings its log to the store, and ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import ray
from numpy.typing import NDArray

from summhay_ray.engine.contract import Item, Workload
from summhay_ray.engine.ledger_actor import RemoteLedger
from summhay_ray.engine.prepared import finished_source, prepared, work_items
from summhay_ray.engine.queues import ItemResult, Kind, batch_text, read_batch
from summhay_ray.engine.registry import stored_workload
from summhay_ray.engine.sigterm import on_notice
from summhay_ray.engine.state import PREPARED
from summhay_ray.engine.worker import Worker
from summhay_ray.llm import Gateway
from summhay_ray.store import Block, Evicted, NoCredentials, RunStore, Store, open_log

BEAT_EVERY_S = 3.0
DRAIN_S = 20.0
"""The longest that a worker which is told to end waits for the calls in flight."""

LEAVE_S = 2.0
COMPUTING_NICENESS = 4
"""Below the workers that call: who computes can wait, a call's answer cannot."""

Batch = dict[str, NDArray[Any]]


@dataclass(frozen=True, slots=True)
class WorkOrder:
    """What every worker of a run is told; no secret, nothing large."""

    store_uri: str
    run_id: str
    driver: int
    """The number of this start of the run."""
    record: Mapping[str, Any]
    """The run's, with the spec as it is this time: limits, endpoints and prices may differ from those that the run began with."""
    workers: int = 1
    """How many commit."""

    @property
    def ledger(self) -> str:
        """The name of the ledger's actor: no other start has this number in this store, and no other store this URI."""
        return f"ledger {self.run_id} {self.driver} {self.store_uri}"


class _Place:
    """What both kinds of worker hold: the run in the store, and its workload."""

    def __init__(self, order: WorkOrder) -> None:
        try:
            self.store = Store(order.store_uri)
            self.run: RunStore = self.store.run(order.run_id)
            self.workload: Workload[Any] = stored_workload(self.store, order.record)
        except NoCredentials as error:
            # The driver's machine may have some: it is this node that lacks them.
            raise NoCredentials(f"node {socket.gethostname()}: {error}") from None

    def prepare(self, sources: Mapping[str, Sequence[Item]]) -> tuple[list[str], Block | None]:
        """A batch's text for each source, and the block of the rows that preparing made, which is not committed yet."""
        rows, texts = [], []
        for source, items in sources.items():
            found = prepared(self.workload, source, items)
            if (one := finished_source(source, found)) is not None:
                rows.append(one)
            texts.append(batch_text(work_items(items, found)))
        return texts, self.run.write(PREPARED, rows) if rows else None


class Preparer:
    """Prepares sources for Ray Data; gives one row a source: its work items, as a batch's text."""

    def __init__(self, order: WorkOrder) -> None:
        self._order = order

    # Not in the constructor, of whose errors Ray tells only that there was one.
    @cached_property
    def _place(self) -> _Place:
        return _Place(self._order)

    @cached_property
    def _ledger(self) -> Any:
        return ray.get_actor(self._order.ledger)

    def __call__(self, batch: Batch) -> Batch:
        sources = {source: _items(text) for source, text in zip(batch["source"], batch["items"], strict=True)}
        texts, block = self._place.prepare(sources)
        if block is not None:
            ray.get(self._ledger.commit.remote(block))
        return {"batch": np.array(texts, dtype=object)}


def _items(text: str) -> list[Item]:
    return [Item(**one) for one in json.loads(text)]


class WorkerActor:
    """An async actor; `answer` returns when the batch's items are committed."""

    def __init__(self, order: WorkOrder, kind: Kind, seat: int) -> None:
        self._order, self._kind, self._seat = order, kind, seat
        self._loop: asyncio.AbstractEventLoop | None = None
        self._draining = False
        self._preparing = ThreadPoolExecutor(max_workers=1)

    def _begin(self) -> None:
        order, kind, seat = self._order, self._kind, self._seat
        self._place = place = _Place(order)
        files, workload = place.store.files, place.workload
        self._log = open_log(files, order.driver, f"{kind}-{seat}")
        self._ledger = RemoteLedger(ray.get_actor(order.ledger), self._log.writer)
        self._ledger.sit(f"{kind} {seat}")
        # Before all that takes time: on a full machine it may be longer than the ledger waits for a sign of life.
        threading.Thread(target=self._beat, daemon=True).start()
        settings = workload.settings()
        local = workload.models_here() if any(one.local for one in settings.values()) else {}
        self._gateway = Gateway(settings, self._ledger, files, self._log, order.run_id, lambda: os._exit(1), local)
        self._worker = Worker(workload, place.run, self._gateway, self._ledger.commit, self._ledger.count, order.workers)
        on_notice(self._end)
        # Last: at a lower priority what is loaded above, some of it while no other thread may work, takes several times as long.
        if kind != "calling":
            os.nice(COMPUTING_NICENESS)

    def _beat(self) -> None:
        # A thread of its own: a long computation in the loop must not look like a death.
        while True:
            self._ledger.beat()
            time.sleep(BEAT_EVERY_S)

    async def ready(self) -> None:
        """Return once the worker has begun; a constructor's errors would not say what is wrong. Raises StoreError, OSError."""
        if self._loop is None:
            self._begin()
            self._loop = asyncio.get_running_loop()

    async def prepare(self, sources: Mapping[str, str]) -> list[str]:
        """Prepare sources for their items (JSON), and commit the rows that this makes; gives a batch's text for each."""
        await self.ready()
        wanted = {source: _items(text) for source, text in sources.items()}
        found, block = await asyncio.get_running_loop().run_in_executor(self._preparing, self._place.prepare, wanted)
        if block is not None:
            await self._ledger.commit(block)
        return found

    async def answer(self, text: str) -> list[ItemResult]:
        """Answer a batch's items; those that the budget stopped are not committed."""
        await self.ready()
        try:
            results = await self._worker.answer(read_batch(text))
        except Evicted:
            # The ledger took this worker for dead, and others have its calls: Ray starts another in its place.
            os._exit(1)
        if self._draining:
            # Ray ends a process that was told to end as soon as it idles: not before its log is in the store.
            await asyncio.Future()
        return results

    async def close(self) -> None:
        """Tell the ledger what is left to tell, and end the log."""
        if self._loop is None:
            return
        await self._gateway.close()
        await asyncio.to_thread(self._log.close)

    async def drain(self) -> None:
        """Take no further call, finish those in flight, and bring the log to the store."""
        if self._loop is None:
            return
        self._draining = True
        await self._gateway.drain(DRAIN_S)
        with contextlib.suppress(ray.exceptions.RayError, TimeoutError):
            async with asyncio.timeout(LEAVE_S):
                await self._ledger.leave()

    def _end(self) -> None:
        try:
            if self._loop is not None:
                asyncio.run_coroutine_threadsafe(self.drain(), self._loop).result(DRAIN_S + 2 * LEAVE_S)
        finally:
            # Whatever hinders it (a store that is away, credentials that have expired): the machine goes, and a sweep may come.
            os._exit(0)
