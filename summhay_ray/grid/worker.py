"""The actors of a run: contexts are made by one kind, summaries written, judged and scored by another. Part of the grid room.

Rows come and go as JSON text in one column, since a cell's rows go to the store and not through Ray. A worker that is killed
is started again by Ray with the same batch; answers that are in the response log are not asked for again.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
import uuid
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from summhay_ray import retrieve
from summhay_ray.grid.actors import RemoteLedger
from summhay_ray.grid.answering import CellRows, answer_cell
from summhay_ray.grid.cells import Cell, Grid, Unit, grid_of
from summhay_ray.grid.contexts import Problem, make_context, rank
from summhay_ray.grid.local import make_local_models
from summhay_ray.llm import Gateway, register
from summhay_ray.outcome import Failed
from summhay_ray.records import Context, Haystack, Ranking
from summhay_ray.store import LogWriter, RunStore, Store

COMMIT_EVERY_S = 2.0
CELLS_AT_ONCE = 1000
"""Of remote models: calls at once are bounded by each model's concurrency."""

Batch = dict[str, NDArray[Any]]


@dataclass(frozen=True, slots=True)
class WorkOrder:
    """What every worker of a run is told; no secret, nothing large."""

    store_uri: str
    run_id: str
    generation: int
    spec: Mapping[str, Any]
    """As it is this time: limits, endpoints and prices may differ from those that the run began with."""
    prompts: Mapping[str, str]


class _Room:
    """What both kinds of worker hold: the run's store and grid."""

    def __init__(self, order: WorkOrder) -> None:
        self.order = order
        self.store = Store(order.store_uri)
        self.run: RunStore = self.store.run(order.run_id)
        self.grid: Grid = grid_of(self.store, {**self.run.record, "spec": order.spec, "prompts": order.prompts})
        self.haystacks: Mapping[str, Haystack] = {s.haystack.haystack_id: s.haystack for s in self.grid.sources}


class ContextWorker:
    """Ranks the documents for each query and makes the contexts; gives one row for each unfinished cell."""

    def __init__(self, order: WorkOrder, finished: frozenset[str]) -> None:
        self._room = _Room(order)
        self._finished = finished
        self._ranked = lru_cache(maxsize=64)(self._rank)

    def __call__(self, batch: Batch) -> Batch:
        rows: dict[str, list[Any]] = {"rankings": [], "contexts": [], "failures": []}
        units: dict[str, bool] = {}
        out: list[str] = []
        for text in batch["unit"]:
            unit = Unit(**json.loads(text))
            cells = [cell for cell in self._room.grid.cells_of(unit) if cell.cell_id not in self._finished]
            context, rankings, problem = self.make(unit)
            for cell in cells:
                out.append(json.dumps({"cell": asdict(cell), "context": context and asdict(context), "problem": problem}))
            rows["rankings"].extend(rankings)
            if context is not None:
                rows["contexts"].append(context)
            units["/".join(asdict(unit).values())] = False
        self._room.run.commit("context", self._room.order.generation, rows, units)
        return {"cell": np.array(out, dtype=object)}

    def make(self, unit: Unit) -> tuple[Context | None, list[Ranking], Problem | None]:
        """The unit's context and ranking, or why there is none."""
        return make_context(self._room.grid, self._room.haystacks[unit.haystack_id], unit, self._ranked)

    def _rank(self, haystack_id: str, subtopic_id: str, retriever: str) -> Sequence[retrieve.Ranked]:
        return rank(self._room.grid, self._room.haystacks[haystack_id], subtopic_id, retriever)


class CellWorker:
    """Answers cells: many at once, each committed within seconds of its last judgment."""

    def __init__(self, order: WorkOrder, ledger: Any) -> None:
        self._room = _Room(order)
        name = f"{order.run_id}-{uuid.uuid4().hex[:16]}"
        self._ledger = RemoteLedger(ledger, name)
        self._log = LogWriter(self._room.store.files, name)
        register(make_local_models({source.haystack.haystack_id: source for source in self._room.grid.sources}))
        self._loop = asyncio.new_event_loop()
        self._gateway = Gateway(self._room.grid.settings(), self._ledger, self._room.store.files, self._log, order.run_id)
        # Local models compute and never wait: one cell after the other is finished, and committed, sooner.
        computing = all(model.local for model in self._room.grid.settings().values())
        self._room_for_cells = asyncio.Semaphore(1 if computing else CELLS_AT_ONCE)
        threading.Thread(target=self._beat, daemon=True).start()

    def _beat(self) -> None:
        # A thread of its own: a long computation in the loop must not look like a death.
        while True:
            self._ledger.beat()
            time.sleep(1.0)

    def __call__(self, batch: Batch) -> Batch:
        receipts = self._loop.run_until_complete(self._answer([json.loads(text) for text in batch["cell"]]))
        return {"receipt": np.array(receipts, dtype=object)}

    async def _answer(self, orders: Sequence[Mapping[str, Any]]) -> list[str]:
        waiting = {asyncio.ensure_future(self._within(self._cell(order))) for order in orders}
        ready: list[CellRows] = []
        receipts: list[str] = []
        last = time.monotonic()
        try:
            while waiting:
                done, waiting = await asyncio.wait(waiting, timeout=COMMIT_EVERY_S, return_when=asyncio.FIRST_COMPLETED)
                ready.extend(task.result() for task in done)
                if ready and (not waiting or time.monotonic() - last >= COMMIT_EVERY_S):
                    receipts.extend(self._commit(ready))
                    ready, last = [], time.monotonic()
        finally:
            for task in waiting:
                task.cancel()
        return receipts

    async def _within(self, answering: Awaitable[CellRows]) -> CellRows:
        async with self._room_for_cells:
            return await answering

    async def _cell(self, order: Mapping[str, Any]) -> CellRows:
        cell = Cell(**{**order["cell"], "unit": Unit(**order["cell"]["unit"])})
        if order["context"] is None:
            failed = CellRows(cell)
            error, message = order["problem"]
            failed.fail("context", Failed(error, message, retryable=True))
            return failed
        fields = order["context"]
        context = Context(**{**fields, "numbers": tuple(fields["numbers"])})
        haystack = self._room.haystacks[cell.unit.haystack_id]
        return await answer_cell(self._room.grid, cell, haystack, context, self._gateway)

    def _commit(self, ready: Sequence[CellRows]) -> list[str]:
        rows: dict[str, list[Any]] = {}
        units: dict[str, bool] = {}
        for done in ready:
            if done.over_budget:
                continue
            units[done.cell.cell_id] = done.retry
            for table, records in done.rows.items():
                rows.setdefault(table, []).extend(records)
        if units:
            self._room.run.commit("cell", self._room.order.generation, rows, units)
        failures = [row for done in ready if not done.over_budget for row in done.rows.get("failures", [])]
        self._ledger.count(
            {
                "cells_done": len(units),
                "cells_failed": len({row.cell_id for row in failures}),
                "judgments": len(rows.get("judgments", [])),
                "failures": len(failures),
            }
        )
        return [json.dumps({"cell_id": done.cell.cell_id, "over_budget": done.over_budget}) for done in ready]
