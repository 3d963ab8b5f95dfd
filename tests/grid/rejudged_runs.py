"""A run's summaries judged again in this process, without Ray: the same cells, gateway, ledger and commits."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from inprocess import answer_all, grid_of_fields, ledger_and_log

from summhay_ray.grid.answering import judge_cell
from summhay_ray.grid.rejudged import join_rejudges
from summhay_ray.grid.rejudging import Rejudging, Wish, load_rejudging, rejudging_record
from summhay_ray.llm import Gateway, LedgerService, LocalPort
from summhay_ray.store import Finished, RunStore, Store

N_QUERIES, N_INSIGHTS = 4, 22
PRICE = {"input_per_mtok": 2.5, "output_per_mtok": 10}


def source_run(folder: Path, **fields: Any) -> RunStore:
    """A finished run on the news sample."""
    return answer_all(grid_of_fields(folder, **fields), Store(str(folder / "store")))[0]


def rejudging(run: RunStore, *judges: str, **options: Any) -> Rejudging:
    return load_rejudging(run, Wish(judges, **options))


def judge_all(grid: Rejudging) -> tuple[RunStore, Mapping[str, int]]:
    """Judge and commit every summary; gives the rejudge and the ledger's counters."""
    store = grid.source.store
    run = store.create_run(grid.run_id, rejudging_record(grid))
    join_rejudges(grid.source, grid.run_id)
    ledger, log = ledger_and_log(grid, run)

    async def work() -> None:
        gateway = Gateway(grid.settings(), LocalPort(LedgerService(ledger), "here"), store.files, log, run.run_id)
        for part in grid.slices:
            for cell, summary in part.summaries(grid.source):
                done = await judge_cell(grid, cell, (summary, grid.asked_of(cell.cell_id)), gateway)
                run.commit("cell", [Finished(cell.cell_id, done.rows, done.retry)])
        await gateway.close()

    asyncio.run(work())
    log.close()
    return run, ledger.counts
