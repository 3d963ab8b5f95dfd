"""A grid answered in this process, without Ray: the same contexts, gateway, ledger and commits, for quick tests."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from summhay_ray.grid import Grid, load_grid, parse_spec
from summhay_ray.grid.answering import CellRows, answer_cell
from summhay_ray.grid.contexts import make_context, rank
from summhay_ray.grid.lanes import make_gates
from summhay_ray.grid.local import make_local_models
from summhay_ray.grid.opening import open_run
from summhay_ray.llm import Budgets, Gateway, Ledger, LedgerService, LocalPort, register
from summhay_ray.store import Finished, LogIndex, LogWriter, RunStore, Store

SAMPLE = {
    "haystacks": ["sample/news"],
    "retrievers": ["bm25"],
    "token_budget": 1500,
    "summarizers": ["offline/lead"],
    # One call an insight, as of most judges.
    "judges": [{"model": "offline/judge", "strategy": "per_insight"}],
}


def grid_of_fields(folder: Path | None = None, **fields: Any) -> Grid:
    """The grid of a small spec over the news sample, some fields replaced."""
    return load_grid(parse_spec({**SAMPLE, **fields}), folder or Path.cwd())


def ledger_and_log(grid: Grid, run: RunStore, budget_micros: int | None = None) -> tuple[Ledger, LogWriter]:
    """What a run without Ray pays and logs with; the grid's local models are known from here on."""
    register(make_local_models(grid.haystacks.file))
    limits = {model: settings.limits for model, settings in grid.settings().items() if not settings.local}
    files = run.store.files
    return Ledger(run.run_id, LogIndex(files), Budgets(budget_micros), limits), LogWriter(files, f"test-{uuid.uuid4().hex}")


def answer_all(grid: Grid, store: Store, budget_micros: int | None = None) -> tuple[RunStore, list[CellRows], Ledger]:
    """Answer and commit every cell of the grid that is not finished."""
    run = open_run(grid, store)
    ledger, log = ledger_and_log(grid, run, budget_micros)
    finished = {cell for cell, again in run.finished("cell").items() if not again}

    async def work() -> list[CellRows]:
        answered = []
        port = LocalPort(LedgerService(ledger), "here")
        gateway, gates = Gateway(grid.settings(), port, store.files, log, run.run_id), make_gates(grid)
        for unit in grid.units():
            haystack = grid.haystacks[unit.haystack_id]
            context, rankings, problem = make_context(
                grid, haystack, unit, lambda _, subtopic, name, held=haystack: rank(grid, held, subtopic, name)
            )
            assert context is not None, problem
            run.commit("context", [Finished(context.context_id, {"rankings": rankings, "contexts": [context]})])
            for cell in grid.cells_of(unit):
                if cell.cell_id not in finished:
                    answered.append(await answer_cell(grid, cell, context, gateway, gates))
        await gateway.close()
        return answered

    answered = asyncio.run(work())
    for done in answered:
        if not done.over_budget:
            run.commit("cell", [Finished(done.cell.cell_id, done.rows, done.retry)])
    log.close()
    return run, answered, ledger


def rows_of(answered: Sequence[CellRows]) -> Mapping[str, list[Any]]:
    """All rows by table."""
    rows: dict[str, list[Any]] = {}
    for done in answered:
        for table, records in done.rows.items():
            rows.setdefault(table, []).extend(records)
    return rows
