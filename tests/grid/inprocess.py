"""A grid answered in this process, without Ray: the same contexts, gateway, ledger and commits, for quick tests."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from summhay_ray.grid import Grid, load_grid, parse_spec
from summhay_ray.grid.answering import CellRows, answer_cell
from summhay_ray.grid.contexts import make_context, rank
from summhay_ray.grid.local import make_local_models
from summhay_ray.grid.run import open_run
from summhay_ray.llm import Claim, Gateway, Grant, Ledger, Settlement, register
from summhay_ray.store import LogIndex, LogWriter, RunStore, Store

SAMPLE = {
    "haystacks": ["sample/news"],
    "retrievers": ["bm25"],
    "token_budget": 1500,
    "summarizers": ["offline/lead"],
    "judges": ["offline/judge"],
}


def grid_of_fields(folder: Path | None = None, **fields: Any) -> Grid:
    """The grid of a small spec over the news sample, some fields replaced."""
    return load_grid(parse_spec({**SAMPLE, **fields}), folder or Path.cwd())


class Port:
    """The ledger as a worker reaches it, without the way through Ray."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger

    async def claim(self, claims: list[Claim]) -> Sequence[Grant]:
        return self.ledger.claim("here", claims, time.monotonic())

    async def settle(self, settlements: list[Settlement]) -> Sequence[None]:
        self.ledger.settle("here", settlements, time.monotonic())
        return [None] * len(settlements)

    async def again(self, claim: Claim, pause_s: float) -> float:
        return self.ledger.again(claim.model, claim, time.monotonic(), pause_s)


def answer_all(grid: Grid, store: Store, budget_micros: int | None = None) -> tuple[RunStore, list[CellRows], Ledger]:
    """Answer and commit every cell of the grid that is not finished."""
    run = open_run(grid, store)
    register(make_local_models({source.haystack.haystack_id: source for source in grid.sources}))
    ledger = Ledger(run.run_id, LogIndex(store.files), budget_micros)
    log = LogWriter(store.files, f"test-{uuid.uuid4().hex}")
    gateway = Gateway(grid.settings(), Port(ledger), store.files, log, run.run_id)
    haystacks = {source.haystack.haystack_id: source.haystack for source in grid.sources}
    finished = {cell for cell, again in run.finished("cell").items() if not again}

    async def work() -> list[CellRows]:
        answered = []
        for unit in grid.units():
            haystack = haystacks[unit.haystack_id]
            context, rankings, problem = make_context(
                grid, haystack, unit, lambda _, subtopic, name, held=haystack: rank(grid, held, subtopic, name)
            )
            assert context is not None, problem
            run.commit("context", 1, {"rankings": rankings, "contexts": [context]}, {context.context_id: False})
            for cell in grid.cells_of(unit):
                if cell.cell_id not in finished:
                    answered.append(await answer_cell(grid, cell, haystack, context, gateway))
        return answered

    answered = asyncio.run(work())
    generation = run.next_generation()
    for done in answered:
        if not done.over_budget:
            run.commit("cell", generation, done.rows, {done.cell.cell_id: done.retry})
    log.close()
    return run, answered, ledger


def rows_of(answered: Sequence[CellRows]) -> Mapping[str, list[Any]]:
    """All rows by table."""
    rows: dict[str, list[Any]] = {}
    for done in answered:
        for table, records in done.rows.items():
            rows.setdefault(table, []).extend(records)
    return rows
