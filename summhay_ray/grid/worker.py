"""The actors of a run: contexts are made by one kind, summaries written, judged and scored by another. Part of the grid room.

Everything of a cell happens in one event loop; its rows go to the store as a block, and the ledger's actor makes blocks count.
A worker that is killed is started again by Ray with the orders that it had not finished; answers that are in the response log
are not asked for again. One that is told to end (SIGTERM) finishes the calls in flight, brings its log to the store, and ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import ray
from numpy.typing import NDArray

from summhay_ray import retrieve
from summhay_ray.grid.actors import RemoteLedger
from summhay_ray.grid.answering import CellRows, answer_cell, judge_cell
from summhay_ray.grid.cells import Cell, Grid, Unit
from summhay_ray.grid.contexts import Problem, make_context, rank
from summhay_ray.grid.lanes import Kind, Packet, Receipt, make_gates, read_order
from summhay_ray.grid.local import make_local_models
from summhay_ray.grid.notices import on_notice
from summhay_ray.grid.rejudging import stored_grid
from summhay_ray.grid.synth_cell import synthesize_cell
from summhay_ray.grid.synth_topics import topic_from
from summhay_ray.grid.synthesizing import Synthesizing
from summhay_ray.llm import Gateway, register
from summhay_ray.outcome import Failed
from summhay_ray.records import Context, Ranking, Summary
from summhay_ray.store import Buried, Finished, RunStore, Store, open_log

COMMIT_EVERY_S = 2.0
CELLS_A_COMMIT = 64
WORKERS_A_SECOND = 16
"""Commits a second over all workers, at most: with more of them each waits longer, and its blocks are larger."""

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
    tenure: int
    """The number of this start of the run."""
    spec: Mapping[str, Any]
    """As it is this time: limits, endpoints and prices may differ from those that the run began with."""
    prompts: Mapping[str, str]
    workers: int = 1
    """How many commit."""

    @property
    def ledger(self) -> str:
        """The name of the ledger's actor: no other start has this number in this store, and no other store this URI."""
        return f"ledger {self.run_id} {self.tenure} {self.store_uri}"


class _Room:
    """What both kinds of worker hold: the run's store and grid."""

    def __init__(self, order: WorkOrder) -> None:
        self.order = order
        self.store = Store(order.store_uri)
        self.run: RunStore = self.store.run(order.run_id)
        self.grid: Grid = stored_grid(self.store, {**self.run.record, "spec": order.spec, "prompts": order.prompts})


class ContextWorker:
    """Ranks the documents for each query and makes the contexts; gives one row a unit: its context, or why there is none."""

    def __init__(self, order: WorkOrder) -> None:
        self._order = order
        self._ranked = lru_cache(maxsize=64)(self._rank)

    # Not in the constructor, of whose errors Ray tells only that there was one.
    @cached_property
    def _room(self) -> _Room:
        return _Room(self._order)

    @cached_property
    def _ledger(self) -> Any:
        return ray.get_actor(self._order.ledger)

    def __call__(self, batch: Batch) -> Batch:
        finished: list[Finished] = []
        out: list[str] = []
        for text in batch["unit"]:
            unit = Unit(**json.loads(text))
            context, rankings, problem = self.make(unit)
            out.append(json.dumps({"unit": asdict(unit), "context": context and asdict(context), "problem": problem}))
            rows: dict[str, list[Any]] = {"rankings": rankings, "contexts": [] if context is None else [context]}
            finished.append(Finished("/".join(asdict(unit).values()), rows))
        ray.get(self._ledger.commit.remote(self._room.run.write("context", finished)))
        return {"unit": np.array(out, dtype=object)}

    def make(self, unit: Unit) -> tuple[Context | None, list[Ranking], Problem | None]:
        """The unit's context and ranking, or why there is none."""
        return make_context(self._room.grid, self._room.grid.haystacks[unit.haystack_id], unit, self._ranked)

    def _rank(self, haystack_id: str, subtopic_id: str, retriever: str) -> Sequence[retrieve.Ranked]:
        return rank(self._room.grid, self._room.grid.haystacks[haystack_id], subtopic_id, retriever)


class Commits:
    """Commits cells together: when 64 are ready, after two seconds, or when no other cell is under way; one commit at a time."""

    def __init__(self, commit: Callable[[Sequence[CellRows]], Awaitable[None]], every_s: float = COMMIT_EVERY_S) -> None:
        self._commit = commit
        self._every_s = every_s
        self._under_way = 0
        self._ready: list[tuple[CellRows, asyncio.Future[None]]] = []
        self._full = asyncio.Event()
        self._trip: asyncio.Task[None] | None = None

    @contextlib.contextmanager
    def under_way(self) -> Iterator[None]:
        """While a cell is being answered: a commit may wait for it."""
        self._under_way += 1
        try:
            yield
        finally:
            self._under_way -= 1
            self._look()

    async def keep(self, done: CellRows) -> None:
        """Return when the cell is committed. Raises what the commit raised, for every cell of it."""
        kept: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._ready.append((done, kept))
        self._look()
        if self._trip is None or self._trip.done():
            self._trip = asyncio.create_task(self._run())
        await kept

    def _look(self) -> None:
        if len(self._ready) >= CELLS_A_COMMIT or not self._under_way:
            self._full.set()

    async def _run(self) -> None:
        while self._ready:
            self._full.clear()
            self._look()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._full.wait(), self._every_s)
            batch, self._ready = self._ready, []
            try:
                await self._commit([done for done, _ in batch])
            # The border between a commit and its cells: whatever went wrong is theirs to raise.
            except Exception as error:  # noqa: BLE001
                for _, kept in batch:
                    if not kept.done():
                        kept.set_exception(error)
                continue
            for _, kept in batch:
                if not kept.done():
                    kept.set_result(None)


class CellWorker:
    """Answers cells: as many at once as come. An async actor; `answer` returns when the order's cells are committed."""

    def __init__(self, order: WorkOrder, kind: Kind, seat: int) -> None:
        self._order, self._kind, self._seat = order, kind, seat
        self._loop: asyncio.AbstractEventLoop | None = None
        self._draining = False

    def _begin(self) -> None:
        order, kind, seat = self._order, self._kind, self._seat
        self._room = _Room(order)
        files, grid = self._room.store.files, self._room.grid
        self._log = open_log(files, order.tenure, f"{kind}-{seat}")
        self._ledger = RemoteLedger(ray.get_actor(order.ledger), self._log.writer)
        self._ledger.sit(f"{kind} {seat}")
        # Before all that takes time: on a full machine it may be longer than the ledger waits for a sign of life.
        threading.Thread(target=self._beat, daemon=True).start()
        if kind == "computing" or any(settings.local for settings in grid.settings().values()):
            register(make_local_models(grid.haystacks.file))
        self._gateway = Gateway(grid.settings(), self._ledger, files, self._log, order.run_id, lambda: os._exit(1))
        self._gates = make_gates(grid)
        self._commits = Commits(self._commit, max(COMMIT_EVERY_S, order.workers / WORKERS_A_SECOND))
        on_notice(self._end)
        # Last: at a lower priority what is loaded above, some of it while no other thread may work, takes several times as long.
        if kind == "computing":
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

    async def answer(self, text: str) -> list[Receipt]:
        """Answer an order's cells; those that the budget stopped are not committed."""
        await self.ready()
        tasks = [self._cell(packet, cell) for packet in read_order(text) for cell in packet.cells]
        try:
            receipts = list(await asyncio.gather(*tasks))
        except Buried:
            # The ledger took this worker for dead, and others have its calls: Ray starts another in its place.
            os._exit(1)
        if self._draining:
            # Ray ends a process that was told to end as soon as it idles: not before its log is in the store.
            await asyncio.Future()
        return receipts

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

    async def _cell(self, packet: Packet, cell: Cell) -> Receipt:
        with self._commits.under_way():
            done = await self._rows(packet, cell)
        if not done.over_budget:
            await self._commits.keep(done)
        return Receipt(cell.cell_id, done.over_budget, len(done.rows.get("judgments", ())), len(done.rows.get("failures", ())))

    async def _rows(self, packet: Packet, cell: Cell) -> CellRows:
        if packet.topic is not None:
            assert isinstance(self._room.grid, Synthesizing)
            return await synthesize_cell(self._room.grid, cell, topic_from(packet.topic), self._gateway, self._room.store)
        if packet.summary is not None:
            summary = Summary(**{**packet.summary, "bullets": tuple(packet.summary["bullets"])})
            return await judge_cell(self._room.grid, cell, (summary, packet.asked or {}), self._gateway, self._gates)
        if packet.context is None:
            failed = CellRows(cell)
            error, message = packet.problem or ("no_context", "the unit has no context")
            failed.fail("context", Failed(error, message, retryable=True))
            return failed
        context = Context(**{**packet.context, "numbers": tuple(packet.context["numbers"])})
        return await answer_cell(self._room.grid, cell, context, self._gateway, self._gates)

    async def _commit(self, ready: Sequence[CellRows]) -> None:
        if haystacks := [done.haystack for done in ready if done.haystack is not None]:
            # First: a topic that counts as done has its haystack.
            await self._ledger.commit(await asyncio.to_thread(self._room.run.write, "haystack", haystacks))
        finished = [Finished(done.cell.cell_id, done.rows, done.retry) for done in ready]
        await self._ledger.commit(await asyncio.to_thread(self._room.run.write, "cell", finished))
        failures = [row for done in ready for row in done.rows.get("failures", ())]
        judgments = sum(len(done.rows.get("judgments", ())) for done in ready)
        numbers = {"cells_done": len(finished), "judgments": judgments, "failures": len(failures)}
        self._ledger.count({**numbers, "cells_failed": len({row.cell_id for row in failures})})
