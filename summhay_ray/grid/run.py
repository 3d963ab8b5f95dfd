"""Run or resume a grid: the only place that starts Ray. Part of the grid room.

A finished run is read back without starting Ray; an unfinished one goes on with the cells that no commit finishes. What was
asked before is in the response log, so that going on costs nothing twice.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from summhay_ray.grid.cells import Grid, grid_record, keep_sources
from summhay_ray.grid.doctor import missing_keys
from summhay_ray.grid.imports import haystack_rows
from summhay_ray.grid.scoring import ScoreResult, score_run
from summhay_ray.llm import FREE
from summhay_ray.problems import Problem
from summhay_ray.score import Compat, SystemScore
from summhay_ray.store import LogIndex, RunStore, Store

PROGRESS_EVERY_S = 0.5
MICROS = 1_000_000


class RunFailed(Problem):
    """The run could not go on; the message says why in one line. What was answered is kept; run again to go on."""

    exit_code = 1


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is: for a live display."""

    run: str
    cells_total: int
    cells_done: int
    judgments_total: int
    judgments: int
    failures: int
    spent_usd: float
    budget_usd: float | None
    seconds: float
    seconds_left: float | None


@dataclass(frozen=True)
class RunResult:
    """What became of a run. `calls` are of this time alone; `reused` answers were paid before, or by another cell."""

    run: str
    status: str
    """done, budget (stopped at it; resumable), or partial (finished, with failures listed)."""
    cells: Mapping[str, int]
    calls: Mapping[str, int]
    usd: Mapping[str, float | None]
    seconds: float
    scores: ScoreResult = field(repr=False)
    stopped_models: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    """What is odd about the haystacks, one line each."""

    @property
    def systems(self) -> list[SystemScore]:
        """The pooled scores of every system."""
        return self.scores.systems

    @property
    def table(self) -> pl.DataFrame:
        """One row a system."""
        return self.scores.table

    def to_json(self) -> dict[str, Any]:
        """The JSON document of `summhay run`."""
        names = ("run", "status", "cells", "calls", "usd", "seconds")
        scores = self.scores.to_json()
        return {
            **{name: getattr(self, name) for name in names},
            "stopped_models": dict(self.stopped_models),
            "systems": scores["systems"],
            "position_sensitivity": scores["position_sensitivity"],
        }


def run_grid(
    grid: Grid,
    store: Store,
    budget_usd: float | None,
    address: str = "local",
    watch: Callable[[Progress], None] | None = None,
    compat: Compat = "default",
) -> RunResult:
    """Run or resume. `budget_usd` replaces the spec's; `watch` is called about twice a second."""
    started = time.monotonic()
    run = open_run(grid, store)
    budget = budget_usd if budget_usd is not None else grid.spec.budget_usd
    budget_micros = None if budget is None else round(budget * MICROS)
    finished = frozenset(cell for cell, again in run.finished("cell").items() if not again)
    units = [unit for unit in grid.units() if any(cell.cell_id not in finished for cell in grid.cells_of(unit))]
    todo = sum(1 for unit in units for cell in grid.cells_of(unit) if cell.cell_id not in finished)
    snapshot: dict[str, Any] = {"reused": answers_used(run)}
    if todo:
        tell = _watcher(run, grid, finished, budget, watch, started)
        worked = _work(run, grid, (units, finished, todo), budget_micros, address, tell)
        snapshot = {**worked, "reused": worked.get("reused", 0) + snapshot["reused"]}
    return _result(run, grid, snapshot, budget, started, compat)


def open_run(grid: Grid, store: Store) -> RunStore:
    """The run in the store, with its record and its haystacks; created where it is not there."""
    run = store.create_run(grid.run_id, grid_record(grid, keep_sources(grid, store)))
    kept = run.finished("haystack")
    for source in grid.sources:
        if source.haystack.haystack_id not in kept:
            run.commit("haystack", 1, haystack_rows(source), {source.haystack.haystack_id: False})
    return run


def _work(
    run: RunStore,
    grid: Grid,
    todo: tuple[list[Any], frozenset[str], int],
    budget_micros: int | None,
    address: str,
    tell: Callable[[Mapping[str, Any]], None],
) -> dict[str, Any]:
    # Ray is imported where it is needed: a finished run is read back without it.
    import ray

    from summhay_ray.grid.pipeline import ray_session, start_ledger, stream
    from summhay_ray.grid.worker import WorkOrder

    if address == "local" and (missing := missing_keys(grid)):
        raise Problem(f"{missing[0]}; nothing was asked")
    units, finished, n_cells = todo
    order = WorkOrder(
        store_uri=str(run.store.files.root),
        run_id=run.run_id,
        generation=run.next_generation(),
        spec=grid.spec.model_dump(mode="json"),
        prompts=dict(grid.prompts),
    )
    with _paying(run, grid), ray_session(address, grid.names_modules):
        ledger = start_ledger(order, grid, budget_micros)
        ended = threading.Event()

        def watching() -> None:
            while not ended.wait(PROGRESS_EVERY_S):
                tell(ray.get(ledger.snapshot.remote()))

        thread = threading.Thread(target=watching, daemon=True)
        thread.start()
        try:
            for _ in stream(order, units, finished, n_cells, grid, ledger):
                pass
        except ray.exceptions.RayError as error:
            message = f"run {run.run_id} stopped: {_cause(error)}; what was answered is kept, run again to go on"
            raise RunFailed(message) from error
        finally:
            ended.set()
            thread.join()
        snapshot: dict[str, Any] = ray.get(ledger.snapshot.remote())
        tell(snapshot)
        return snapshot


@contextlib.contextmanager
def _paying(run: RunStore, grid: Grid) -> Iterator[None]:
    """One run at a time pays for answers in a store: two would not see each other's calls in flight, nor what they spend."""
    if all(settings.price == FREE for settings in grid.settings().values()):
        yield
        return
    with run.store.files.lock("log/.paying") as held:
        if not held:
            raise Problem(f"store {run.store.uri!r}: another run is paying for answers in it; wait for its end, then run again")
        yield


def _cause(error: BaseException) -> str:
    """The innermost error in one line: Ray wraps what a worker raised in errors of its own."""
    seen = {id(error)}
    while (inner := getattr(error, "cause", None) or error.__cause__) is not None and id(inner) not in seen:
        seen.add(id(inner))
        error = inner
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"


def _watcher(
    run: RunStore,
    grid: Grid,
    finished: frozenset[str],
    budget: float | None,
    watch: Callable[[Progress], None] | None,
    started: float,
) -> Callable[[Mapping[str, Any]], None]:
    judgments = _judgments(grid)
    total, before = len(judgments), len(judgments.keys() & finished)
    judgments_before = sum(judgments[cell] for cell in judgments.keys() & finished)

    def tell(snapshot: Mapping[str, Any]) -> None:
        if watch is None:
            return
        done = snapshot.get("cells_done", 0)
        seconds = time.monotonic() - started
        watch(
            Progress(
                run=run.run_id,
                cells_total=total,
                cells_done=before + done,
                judgments_total=sum(judgments.values()),
                judgments=judgments_before + snapshot.get("judgments", 0),
                failures=snapshot.get("failures", 0),
                spent_usd=snapshot.get("spent_micros", 0) / MICROS,
                budget_usd=budget,
                seconds=seconds,
                seconds_left=seconds / done * (total - before - done) if done else None,
            )
        )

    return tell


def _judgments(grid: Grid) -> dict[str, int]:
    """Cell -> how many judgments it holds when it is finished without a failure."""
    insights = {
        (source.haystack.haystack_id, subtopic.subtopic_id): len(source.haystack.insights_of(subtopic.subtopic_id))
        for source in grid.sources
        for subtopic in source.haystack.subtopics
    }
    judges = len(grid.spec.judges)
    return {cell.cell_id: insights[cell.unit.haystack_id, cell.unit.subtopic_id] * judges for cell in grid.cells()}


def _result(
    run: RunStore, grid: Grid, snapshot: Mapping[str, Any], budget: float | None, started: float, compat: Compat
) -> RunResult:
    cells = cell_counts(run, sum(1 for _ in grid.cells()))
    scores = score_run(run, compat)
    index = LogIndex(run.store.files)
    index.refresh()
    finished = "done" if cells["done"] == cells["total"] else "partial"
    return RunResult(
        run=run.run_id,
        status="budget" if snapshot.get("over_budget") else finished,
        cells=cells,
        calls={name: snapshot.get(name, 0) for name in ("made", "reused", "failed")},
        usd={"spent": index.spent(run.run_id) / MICROS, "budget": budget},
        seconds=round(time.monotonic() - started, 3),
        scores=scores,
        stopped_models=snapshot.get("stopped", {}),
        warnings=tuple(warning for source in grid.sources for warning in source.warnings),
    )


def cell_counts(run: RunStore, total: int) -> dict[str, int]:
    """Cells of the run: all, those with every answer, those with a failure."""
    committed = run.finished("cell")
    failed = set(run.table("failures")["cell_id"].to_list()) & set(committed)
    return {"total": total, "done": len(committed) - len(failed), "failed": len(failed)}


def answers_used(run: RunStore) -> int:
    """How many answers the run's rows stand on: one a summary, judgment or failure that came from a model."""
    keys = [run.table(table).filter(pl.col("key") != "")["key"].len() for table in ("summaries", "judgments")]
    failures = run.table("failures").filter((pl.col("key") != "") & (pl.col("kind") != "failed"))
    seen = set(run.table("judgments")["key"].to_list())
    return sum(keys) + sum(key not in seen for key in failures["key"].to_list())
