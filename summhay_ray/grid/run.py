"""Run or resume a grid: the only place that starts Ray. Part of the grid room.

A finished run is read back without starting Ray; an unfinished one goes on with the cells that no commit finishes. What was
asked before is in the response log, so that going on costs nothing twice.
"""

from __future__ import annotations

import contextlib
import math
import os
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import polars as pl

from summhay_ray.grid.cells import Grid
from summhay_ray.grid.doctor import missing_keys
from summhay_ray.grid.keeping import Keeping
from summhay_ray.grid.opening import open_run
from summhay_ray.grid.plan import PlanResult, plan_grid
from summhay_ray.grid.planned import keep_plan, keep_start, keep_stop, read_plan
from summhay_ray.grid.progress import ByCalls, Course, Extent, Progress, Snapshot, Watch
from summhay_ray.grid.scoring import ScoreResult, score_run
from summhay_ray.grid.standing import Standing, StillRun, standing_of
from summhay_ray.grid.synthesizing import Synthesizing
from summhay_ray.llm import FREE, Budgets
from summhay_ray.problems import Problem
from summhay_ray.records import MICROS
from summhay_ray.score import Compat, SystemScore
from summhay_ray.store import LogIndex, RunStore, Store, StoreError, begin, has_ended, pack, seal_rest

PLANNING_NICENESS = 10
PLANNED_AFTER_S = 20.0
"""The longest that a run which is done waits for its own plan."""

if TYPE_CHECKING:
    from summhay_ray.grid.placing import Work
    from summhay_ray.grid.worker import WorkOrder


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
    store.files.check()
    run = open_run(grid, store)
    # From here on the store's copies are read: a file that is edited or goes away meanwhile changes nothing.
    grid = grid.from_store(store)
    still = StillRun(run)
    budget_usd = budget_usd if budget_usd is not None else grid.spec.budget_usd
    start = Start(run, grid, standing_of(grid, still), budget_usd, began)
    return start.result(*start.finished(still, address, watch), compat)


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
        self._made = threading.Event()
        self._plan.add_done_callback(lambda _: self._made.set())
        self._make = work
        self._keep = keep
        threading.Thread(target=self._work, daemon=True).start()

    def _work(self) -> None:
        # The run's own work goes first.
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), PLANNING_NICENESS)
        try:
            plan = self._make()
            if self._keep is not None:
                self._keep(plan)
            self._plan.set_result(plan)
        # The border of the thread: whoever asks for the plan gets the error.
        except Exception as error:  # noqa: BLE001
            self._plan.set_exception(error)

    def calls(self) -> int | None:
        """The calls that are planned and the answers that are to be reused; None until there is a plan."""
        if not self._made.is_set() or self._plan.exception() is not None:
            return None
        return sum(stage.calls + stage.reused for stage in self._plan.result().stages)

    def result(self, patience_s: float | None = None) -> PlanResult | str:
        """The plan, or why a person's own code makes it impossible: their cells become failures, and stop no others.

        Empty where it is not made within `patience_s`. Raises OSError, Problem.
        """
        if not self._made.wait(patience_s):
            return ""
        try:
            return self._plan.result()
        except (OSError, Problem):
            raise
        # The border to a person's own strategies, which planning asks as the run does.
        except Exception as error:  # noqa: BLE001
            return f"the run cannot be planned: {type(error).__name__}: {' '.join(str(error).split())}"


@dataclass(frozen=True)
class Start:
    """One start of a run: from its plan to its result."""

    run: RunStore
    grid: Grid
    standing: Standing
    budget_usd: float | None
    began: float

    def finished(
        self, still: StillRun, address: str, watch: Callable[[Progress], None] | None
    ) -> tuple[StillRun, dict[str, Any]]:
        """The run after what is left of it was answered, and the ledger's last snapshot. `still`: the run before."""
        reused = self.used(still)
        if not self.standing.left():
            return still, {"reused": reused}
        worked = self.work(address, watch)
        return StillRun(self.run), {**worked, "reused": worked.get("reused", 0) + reused}

    def used(self, still: StillRun) -> int:
        """How many answers the run's rows stand on."""
        return answers_used(still)

    def work(self, address: str, watch: Callable[[Progress], None] | None) -> dict[str, Any]:
        """Answer what is left; gives the ledger's last snapshot."""
        # Ray is imported where it is needed: a finished run is read back without it.
        # A thread of Ray Data's that outlives our session must not begin another.
        os.environ.setdefault("RAY_ENABLE_AUTO_CONNECT", "0")
        import ray

        from summhay_ray.grid.pipeline import ray_session
        from summhay_ray.grid.placing import place

        if address == "local" and (missing := missing_keys(self.grid)):
            raise Problem(f"{missing[0]}; nothing was asked")
        with ray_session(address, self.grid.names_modules):
            work = place(self.grid, self.standing.left(), address == "local")
            tenure = begin(
                self.run.store.files, self.run.run_id, self._paying(), {str(kind): n for kind, n in work.seats.items()}
            )
            try:
                with Keeping(tenure) as keeping:
                    keep_start(self.run, tenure.number, self.budget_usd)
                    snapshot = self._work(work, keeping, watch)
                    keeping.how = "done"
            except ray.exceptions.RayError as error:
                message = f"run {self.run.run_id} stopped: {_cause(error)}; what was answered is kept, run again to go on"
                raise RunFailed(message) from error
        self._pack()
        return snapshot

    def _pack(self) -> None:
        # Nothing depends on it but the number of reads: what is not packed now is packed by the next start.
        with contextlib.suppress(StoreError, OSError):
            pack(self.run.store.files)

    def _paying(self) -> bool:
        return any(settings.price != FREE for settings in self.grid.settings().values())

    @property
    def _near(self) -> bool:
        return self.run.store.files.folder is not None

    def _work(self, work: Work, keeping: Keeping, watch: Callable[[Progress], None] | None) -> dict[str, Any]:
        import ray

        from summhay_ray.grid.pipeline import start_ledger, sweep_nodes
        from summhay_ray.grid.worker import WorkOrder

        files = self.run.store.files
        if not self._near:
            sweep_nodes(files.uri)
            for number in keeping.tenure.record.earlier:
                if has_ended(files, number):
                    seal_rest(files, number)
            self._pack()
        order = WorkOrder(
            store_uri=files.uri,
            run_id=self.run.run_id,
            tenure=keeping.tenure.number,
            spec=self.grid.spec.model_dump(mode="json"),
            prompts=dict(self.grid.prompts),
            workers=sum(work.seats.values()),
        )
        # Begun before the ledger, which reads the same log before it answers anybody: no call of this start is in the plan.
        keep = None if read_plan(self.run) else lambda plan: keep_plan(self.run, plan)
        in_calls = isinstance(self.grid, Synthesizing)
        planning = _Planning(self.plan, keep) if keep or in_calls else None
        if planning and in_calls and watch:
            watch = ByCalls("topics", planning.calls, watch)
        ledger = start_ledger(order, self.grid, budgets_of(self.grid, self.budget_usd), keeping.tenure.told)
        snapshot = self._answer(work, order, ledger, keeping, watch)
        ray.get(ledger.finish.remote())
        # A run that is done so much sooner than its plan needs none.
        planned = planning.result(PLANNED_AFTER_S) if planning else ""
        warnings = [planned] if isinstance(planned, str) and planned else []
        return {**snapshot, "warnings": warnings, **self._stopped(order.tenure, snapshot)}

    def plan(self) -> PlanResult:
        """What is left to ask."""
        return plan_grid(self.grid, self.run.store, self.budget_usd)

    def _answer(
        self, work: Work, order: WorkOrder, ledger: Any, keeping: Keeping, watch: Callable[[Progress], None] | None
    ) -> dict[str, Any]:
        import ray

        from summhay_ray.grid.pipeline import answer

        def ask() -> dict[str, Any]:
            snapshot: dict[str, Any] = ray.get(ledger.snapshot.remote())
            return snapshot

        def beat() -> dict[str, Any]:
            # A ledger that is gone is the workers' to tell, who wait for its answers.
            with contextlib.suppress(ray.exceptions.RayError):
                return ask()
            return {}

        first = ask()
        # The ledger has the run: what another start committed until then is finished, and nothing of it comes any more.
        standing = standing_of(self.grid, StillRun(self.run))
        tell = replace(self, standing=standing).teller(watch)
        tell(first)
        left = standing.left()
        with Watch(beat, tell):
            # An earlier driver may have finished the run meanwhile.
            counts = {} if not left else answer(replace(work, left=left), order, ledger, lambda: keeping.superseded)
        snapshot = {**ask(), **counts}
        tell(snapshot)
        return snapshot

    def _stopped(self, tenure: int, snapshot: Snapshot) -> dict[str, Any]:
        """What is left where the budget stopped the run, kept in the store."""
        if not snapshot.get("over_budget"):
            return {}
        finished = self.run.finished("cell")
        cells = sum(finished.get(cell, True) for cell in self.standing.judgments())
        if not cells:
            return {}
        plan = _Planning(self.plan).result()
        if isinstance(plan, str):
            left: dict[str, Any] = {"cells": cells, "calls": None, "usd": None}
        else:
            left = {"cells": cells, "calls": sum(stage.calls for stage in plan.stages), "usd": dict(plan.usd)}
        keep_stop(self.run, tenure, {"status": "budget", "budget_usd": self.budget_usd, "left": left})
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
    """How many answers the run's rows stand on, cell by cell: one may judge several insights."""
    used = [run.table(table).select("cell_id", "key") for table in ("summaries", "judgments")]
    used.append(run.table("failures").filter(pl.col("kind") != "failed").select("cell_id", "key"))
    return pl.concat(used).filter(pl.col("key") != "").n_unique()
