"""Topics synthesized in this process, without Ray: the same cells, gateway, ledger and commits, for quick tests."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from inprocess import ledger_and_log

from summhay_ray.grid import Synthesizing, load_synth
from summhay_ray.grid.answering import CellRows
from summhay_ray.grid.synth import open_synth
from summhay_ray.grid.synth_cell import synthesize_cell
from summhay_ray.grid.synthesizing import topic_cell
from summhay_ray.llm import Gateway, Ledger, LedgerService, LocalPort
from summhay_ray.store import Finished, RunStore, Store

SMALL: Mapping[str, Any] = {
    "domain": "news",
    "topics": ["the new tram line in Calaford"],
    "subtopics": 2,
    "insights": 2,
    "documents": 6,
    "words": 120,
    "difficulty": {"least": 2, "documents_per_insight": 3},
    "license": "CC-BY-4.0",
}


def small(**fields: Any) -> Synthesizing:
    """The synthesis of a small spec, some fields replaced; it needs no key."""
    return load_synth({**SMALL, **fields})


def synthesize_all(grid: Synthesizing, store: Store, budget_micros: int | None = None) -> tuple[RunStore, list[CellRows], Ledger]:
    """Synthesize and commit every topic that is not finished."""
    run = open_synth(grid, store)
    ledger, log = ledger_and_log(grid, run, budget_micros)
    finished = {cell for cell, again in run.finished("cell").items() if not again}

    async def work() -> list[CellRows]:
        gateway = Gateway(grid.settings(), LocalPort(LedgerService(ledger), "here"), store.files, log, run.run_id)
        pairs = [(topic_cell(grid.cell_id(topic), topic), topic) for topic in grid.topics]
        left = [(cell, topic) for cell, topic in pairs if cell.cell_id not in finished]
        done = [await synthesize_cell(grid, cell, topic, gateway, store) for cell, topic in left]
        await gateway.close()
        return done

    answered = asyncio.run(work())
    for done in answered:
        if done.haystack is not None:
            run.commit("haystack", [done.haystack])
        if not done.over_budget:
            run.commit("cell", [Finished(done.cell.cell_id, done.rows, done.retry)])
    log.close()
    return run, answered, ledger


def write_files(folder: Path, files: Mapping[str, str]) -> None:
    """Text files by name."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
