"""Run or resume a grid: the only place that starts Ray. Part of the grid room.

A finished run is read back without starting Ray; an unfinished one goes on with the cells that no commit finishes. What was
asked before is in the response log, so that going on costs nothing twice.
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import polars as pl

from summhay_ray.grid.cells import Grid, grid_record, keep_sources
from summhay_ray.grid.doctor import missing_keys
from summhay_ray.grid.imports import haystack_rows
from summhay_ray.grid.plan import PlanResult, plan_grid
from summhay_ray.grid.planned import keep_plan, keep_stop, read_plan
from summhay_ray.grid.progress import MICROS, Course, Extent, Progress, Snapshot, Watch
from summhay_ray.grid.scoring import ScoreResult, score_run
from summhay_ray.grid.standing import Standing, StillRun, standing_of
from summhay_ray.llm import FREE, Budgets
from summhay_ray.problems import Problem
from summhay_ray.score import Compat, SystemScore
from summhay_ray.store import LogIndex, RunStore, Store

if TYPE_CHECKING:
    from summhay_ray.grid.pipeline import Work


class RunFailed(Problem):
    """The run could not go on; the message says why in one line. What was answered is kept; run again to go on."""

    exit_code = 1


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
    left: Mapping[str, Any] | None = None
    """Where the budget stopped it, what is left: cells, calls, and their dollars at least, expected and at most."""
    warnings: tuple[str, ...] = ()
    """What is odd about the haystacks, and what could not be planned, one line each."""

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
        names = ("run", "status", "cells", "calls", "usd", "left", "seconds")
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
    """Run or resume. `budget_usd` replaces the spec's; `watch` is called about twice a second, in a thread of its own."""
    began = time.monotonic()
    run = open_run(grid, store)
    still = StillRun(run)
    standing = standing_of(grid, still)
    start = _Start(run, grid, standing, budget_usd if budget_usd is not None else grid.spec.budget_usd, began)
    snapshot: dict[str, Any] = {"reused": answers_used(still)}
    if standing.left():
        worked = start.work(address, start.teller(watch))
        snapshot = {**worked, "reused": worked.get("reused", 0) + snapshot["reused"]}
        still = StillRun(run)
    return start.result(still, snapshot, compat)


def open_run(grid: Grid, store: Store) -> RunStore:
    """The run in the store, with its record and its haystacks; created where it is not there."""
    run = store.create_run(grid.run_id, grid_record(grid, keep_sources(grid, store)))
    kept = run.finished("haystack")
    for source in grid.sources:
        if source.haystack.haystack_id not in kept:
            run.commit("haystack", 1, haystack_rows(source), {source.haystack.haystack_id: False})
    return run


def budgets_of(grid: Grid, budget_usd: float | None) -> Budgets:
    """The most that the run, each stage and each model may spend; part of a micro-dollar is not there to be spent."""
    spec = grid.spec
    return Budgets(
        None if budget_usd is None else _micros(budget_usd),
        {name: _micros(dollars) for name, dollars in spec.stage_budgets().items()},
        {name: _micros(dollars) for name, dollars in spec.model_budgets_usd.items()},
    )


def _micros(dollars: float) -> int:
    # 0.29 dollars are 289999.99999999994 micro-dollars to a float.
    return math.floor(round(dollars * MICROS, 3))


class _Planning:
    """A plan that is made in a thread of its own, while Ray starts; `keep` gets it as soon as it is made."""

    def __init__(self, work: Callable[[], PlanResult], keep: Callable[[PlanResult], None] | None = None) -> None:
        self._plan: Future[PlanResult] = Future()
        self._make = work
        self._keep = keep
        threading.Thread(target=self._work, daemon=True).start()

    def _work(self) -> None:
        try:
            plan = self._make()
            if self._keep is not None:
                self._keep(plan)
            self._plan.set_result(plan)
        # The border of the thread: whoever asks for the plan gets the error.
        except Exception as error:  # noqa: BLE001
            self._plan.set_exception(error)

    def result(self) -> PlanResult | str:
        """The plan, or why a person's own code makes it impossible: their cells become failures, and stop no others.

        Raises OSError, Problem.
        """
        try:
            return self._plan.result()
        except (OSError, Problem):
            raise
        # The border to a person's own strategies, which planning asks as the run does.
        except Exception as error:  # noqa: BLE001
            return f"the run cannot be planned: {type(error).__name__}: {' '.join(str(error).split())}"


@dataclass(frozen=True)
class _Start:
    """One start of a run: from its plan to its result."""

    run: RunStore
    grid: Grid
    standing: Standing
    budget_usd: float | None
    began: float

    def work(self, address: str, tell: Callable[[Snapshot], None]) -> dict[str, Any]:
        """Answer what is left; gives the ledger's last snapshot."""
        # Ray is imported where it is needed: a finished run is read back without it.
        import ray

        from summhay_ray.grid.pipeline import Work, ray_session
        from summhay_ray.grid.worker import WorkOrder

        if address == "local" and (missing := missing_keys(self.grid)):
            raise Problem(f"{missing[0]}; nothing was asked")
        order = WorkOrder(
            store_uri=str(self.run.store.files.root),
            run_id=self.run.run_id,
            generation=self.run.next_generation(),
            spec=self.grid.spec.model_dump(mode="json"),
            prompts=dict(self.grid.prompts),
        )
        with _paying(self.run, self.grid):
            # Begun before the ledger, which reads the same log before it answers anybody: no call of this start is in the plan.
            planning = None if read_plan(self.run) else _Planning(self._plan, lambda plan: keep_plan(self.run, plan))
            with ray_session(address, self.grid.names_modules):
                try:
                    snapshot = self._answer(Work(order, self.grid, self.standing.left()), tell)
                except ray.exceptions.RayError as error:
                    message = f"run {self.run.run_id} stopped: {_cause(error)}; what was answered is kept, run again to go on"
                    raise RunFailed(message) from error
            planned = planning.result() if planning else ""
        warnings = [planned] if isinstance(planned, str) and planned else []
        return {**snapshot, "warnings": warnings, **self._stopped(order.generation, snapshot)}

    def _plan(self) -> PlanResult:
        return plan_grid(self.grid, self.run.store, self.budget_usd)

    def _answer(self, work: Work, tell: Callable[[Snapshot], None]) -> dict[str, Any]:
        import ray

        from summhay_ray.grid.pipeline import answer, start_ledger

        ledger = start_ledger(work.order, self.grid, budgets_of(self.grid, self.budget_usd))

        def ask() -> dict[str, Any]:
            snapshot: dict[str, Any] = ray.get(ledger.snapshot.remote())
            return snapshot

        def beat() -> dict[str, Any]:
            # A ledger that is gone is the workers' to tell, who wait for its answers.
            with contextlib.suppress(ray.exceptions.RayError):
                return ask()
            return {}

        tell(ask())
        with Watch(beat, tell):
            counts = answer(work, ledger)
        snapshot = {**ask(), **counts}
        tell(snapshot)
        return snapshot

    def _stopped(self, generation: int, snapshot: Snapshot) -> dict[str, Any]:
        """What is left where the budget stopped the run, kept in the store."""
        if not snapshot.get("over_budget"):
            return {}
        finished = self.run.finished("cell")
        cells = sum(finished.get(cell, True) for cell in self.standing.judgments())
        if not cells:
            return {}
        plan = _Planning(self._plan).result()
        if isinstance(plan, str):
            left: dict[str, Any] = {"cells": cells, "calls": None, "usd": None}
        else:
            left = {"cells": cells, "calls": sum(stage.calls for stage in plan.stages), "usd": dict(plan.usd)}
        keep_stop(self.run, generation, {"status": "budget", "budget_usd": self.budget_usd, "left": left})
        return {"left": left}

    def teller(self, watch: Callable[[Progress], None] | None) -> Callable[[Snapshot], None]:
        """What makes a Progress of a snapshot and shows it."""
        judgments, finished = self.standing.judgments(), self.standing.finished
        extent = Extent(
            run=self.run.run_id,
            cells=len(judgments),
            cells_before=len(judgments.keys() & finished),
            judgments=sum(judgments.values()),
            judgments_before=sum(judgments[cell] for cell in judgments.keys() & finished),
            budget_usd=self.budget_usd,
            models=self.grid.settings(),
        )
        course = Course(extent, self.began)

        def tell(snapshot: Snapshot) -> None:
            if watch is not None:
                watch(course.progress(snapshot, time.monotonic()))

        return tell

    def result(self, run: RunStore, snapshot: Snapshot, compat: Compat) -> RunResult:
        """What the run holds now."""
        cells = cell_counts(run, self.standing.total)
        scores = score_run(run, compat)
        index = LogIndex(run.store.files)
        index.refresh()
        finished = "done" if cells["done"] == cells["total"] else "partial"
        stopped: Mapping[str, Mapping[str, str]] = snapshot.get("stopped", {})
        return RunResult(
            run=run.run_id,
            status="budget" if snapshot.get("left") else finished,
            cells=cells,
            calls={name: snapshot.get(name, 0) for name in ("made", "reused", "failed")},
            usd={"spent": index.spent(run.run_id) / MICROS, "budget": self.budget_usd},
            seconds=round(time.monotonic() - self.began, 3),
            scores=scores,
            stopped_models={model: f"{why['error']}: {why['reason']}" for model, why in stopped.items()},
            left=snapshot.get("left"),
            warnings=(*(warning for source in self.grid.sources for warning in source.warnings), *snapshot.get("warnings", ())),
        )


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
