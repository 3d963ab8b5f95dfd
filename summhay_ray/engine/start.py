"""Run or resume a workload.

A finished run is only read back. An unfinished run continues with the items that are not committed; answers that are already in
the response log are not paid for again.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import itertools
import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from summhay_ray.engine.contract import Results, Workload, open_run
from summhay_ray.engine.items import ReadOptions
from summhay_ray.engine.plan.plan import PlanResult, plan, rehearse
from summhay_ray.engine.read.doctor import missing_keys
from summhay_ray.engine.read.scoring import results_of
from summhay_ray.engine.run.execution import Execution, Stopped, Work, before_ray, choose, hearing_sigterm
from summhay_ray.engine.run.heartbeat import Heartbeat
from summhay_ray.engine.run.inline import InlineExecution
from summhay_ray.engine.run.progress import Extent, Snapshot, Timeline, Watch
from summhay_ray.engine.spec.own_code import BadBenchmark
from summhay_ray.engine.state.history import RecordedReach, has_plan, keep_plan, keep_reach, keep_start, keep_stop
from summhay_ray.engine.state.items_left import (
    ANSWERS,
    ITEM,
    RunSnapshot,
    RunState,
    answers_used,
    commonest_failure,
    failure_counts,
    item_counts,
    state_of,
)
from summhay_ray.engine.state.money import Dollars, dollars_of, money_of
from summhay_ray.engine.state.run_warnings import origins_in, other_origins, short_log, zero_vectors_in
from summhay_ray.errors import SpecError, UserError
from summhay_ray.llm import FREE, USAGE_NOT_CREDIBLE, Budgets, excess_totals, margins_of
from summhay_ray.logs import quiet_unless_asked
from summhay_ray.outcome import MICROS
from summhay_ray.plugins import Unplannable
from summhay_ray.run_options import RunOptions
from summhay_ray.sections import Section, html_of
from summhay_ray.store import DriverSession, RunStore, Store, begin_session, clean_daily

if TYPE_CHECKING:
    import polars as pl

PLANNED_AFTER_S = 20.0
"""Maximum time that a finished run waits for its plan, which is stored with it."""
MakePlan = Callable[[Callable[[], bool]], PlanResult]
"""Makes a plan. It takes a function that returns True when the plan is no longer wanted."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C was pressed. The message reports the progress and how to continue the run."""


class RunFailed(UserError):
    """The run could not continue; the message gives the reason in one line. Answers are kept, and another start resumes the
    run."""

    exit_code = 1


@dataclass(frozen=True)
class RunResult:
    """The outcome of a run. `calls` counts this start only; its `reused` answers were already paid for."""

    run: str
    kind: str
    status: str
    """done; budget (stopped by its budget; resumable); partial (finished, with failures or with usage that is not credible);
    limited (the items that `limit` allows are finished)."""
    cells: Mapping[str, int]
    """Numbers of items: `total`, `done` (without a failure) and `failed`."""
    calls: Mapping[str, int]
    """Calls of this start: `made`, `reused`, and `failed` (without any answer)."""
    usd: Mapping[str, float | None]
    seconds: float
    results: Results = field(repr=False)
    """The benchmark's scores, sections and fields of the JSON document."""
    unit: str = "items"
    """The word for items in messages."""
    failures: Mapping[str, int] = field(default_factory=dict)
    """Error -> the number of answers that are missing or unusable because of it, counted as in `status` and the report."""
    stopped_models: Mapping[str, str] = field(default_factory=dict)
    doubted: Mapping[str, str] = field(default_factory=dict)
    """Model -> why its usage is not credible, even if the model was not stopped."""
    left: Mapping[str, Any] | None = None
    """The remaining work if the budget or `limit` stopped the run: items (`cells`), calls, and dollars (least, expected, most);
    calls and dollars are null if unknown."""
    tried_again: int = 0
    """The number of failed items that the next start retries."""
    warnings: tuple[str, ...] = ()
    executor: str = ""
    """inline or ray; empty if there was nothing left to do."""
    commonest_failure: Mapping[str, Any] | None = None
    """The most frequent class of failure: `count`, `stage`, `error`, and its most frequent `message`. `earlier` is true if all
    failures are from earlier starts, and the budget stopped this one before it could retry them."""
    example: str = ""
    """The id of a finished item, for `explain`."""
    computing: Mapping[str, float] = field(default_factory=dict)
    """The work of the pool of actors for local models (`Pools.took`); empty without a pool."""
    took_over: str = ""
    """The process from which this start took over the running run, as `on HOST, pid N`; empty if there was none."""

    @property
    def table(self) -> pl.DataFrame:
        """The main table: from the benchmark's own result object, else from the first section. Raises AttributeError."""
        found = getattr(self.results.scores, "table", None)
        frames = [found, *(section.table for section in self.sections)]
        for frame in frames:
            if frame is not None:
                return frame
        raise AttributeError("table")

    @property
    def scores(self) -> Any:
        """The benchmark's own result object."""
        return self.results.scores

    @property
    def sections(self) -> Sequence[Section]:
        """The sections that the terminal and the report show."""
        return self.results.sections

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks about the results, for the closing lines."""
        return self.results.notes

    def _repr_html_(self) -> str:
        """For a notebook: the outcome and the scores."""
        cells, usd = self.cells, self.usd["spent"]
        pairs = [
            ("run", f"{self.run} ({self.kind})"),
            ("status", self.status),
            (self.unit, f"{cells['done']} done, {cells['failed']} with failures, of {cells['total']}"),
            ("calls", f"{self.calls['made']} made, {self.calls['reused']} reused"),
            ("dollars spent", f"{usd:.6f}"),
        ]
        return html_of(pairs, [self.table] if hasattr(self, "table") else [])

    def to_json(self) -> dict[str, Any]:
        """The JSON document of the command."""
        names = (
            "run",
            "kind",
            "status",
            "cells",
            "failures",
            "calls",
            "usd",
            "left",
            "tried_again",
            "seconds",
            "executor",
            "commonest_failure",
        )
        return {
            **{name: getattr(self, name) for name in names},
            "stopped_models": dict(self.stopped_models),
            "warnings": list(self.warnings),
            **({"computing": dict(self.computing)} if self.computing else {}),
            **({"took_over": self.took_over} if self.took_over else {}),
            **self.results.details,
        }


def run(workload: Workload[Any], store: Store, options: RunOptions | None = None) -> RunResult:
    """Run or resume. Raises SpecError, StoreError, RunFailed, Superseded, Stopped."""
    began, options = time.monotonic(), options or {}
    # Check first: a refused run must not create a store.
    if not store.files.exists(f"runs/{workload.run_id}/run.json"):
        check_keys(workload, options)
    store.files.check()
    return Start.of(workload, open_run(workload, store), options, began).result()


def check_keys(workload: Workload[Any], options: RunOptions) -> None:
    """Raises SpecError if this machine makes the calls and lacks a model's key."""
    if options.get("address") is None and (missing := missing_keys(workload)):
        raise SpecError(f"{missing[0]}; nothing was asked")


def budgets_of(workload: Workload[Any], budget_usd: float | None) -> Budgets:
    """The budgets of the run, its stages and its models, rounded down to whole micro-dollars."""
    spec = workload.spec
    return Budgets(
        None if budget_usd is None else _micros(budget_usd),
        {name: _micros(dollars) for name, dollars in spec.stage_budgets_usd.items()},
        {name: _micros(dollars) for name, dollars in spec.model_budgets_usd.items()},
        margins_of(workload.models.settings()),
    )


def _micros(dollars: float) -> int:
    # 0.29 dollars are 289999.99999999994 micro-dollars to a float.
    return math.floor(round(dollars * MICROS, 3))


class _Planning:
    """Makes a plan in a separate thread, and passes it to `keep` once the run has `begun`. Unless `at_once`, it starts only then.

    The thread ends with the block, since a thread in native code would abort the process at its exit.
    """

    def __init__(self, make: MakePlan, keep: Callable[[PlanResult], None] | None = None, at_once: bool = True) -> None:
        self._plan: Future[PlanResult] = Future()
        self._make = make
        self._keep = keep
        self._at_once = at_once
        self._unwanted = threading.Event()
        self._begun = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)

    def __enter__(self) -> _Planning:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def begun(self) -> None:
        """Allow the plan to be stored and shown, since the run was not refused. Output during Ray's start would not be
        visible."""
        self._begun.set()

    def end(self) -> None:
        """Stop planning."""
        self._unwanted.set()
        self._begun.set()
        self._thread.join()

    def _work(self) -> None:
        try:
            if not self._at_once:
                self._begun.wait()
            made = self._make(self._unwanted.is_set)
            if self._keep is not None:
                self._begun.wait()
                if not self._unwanted.is_set():
                    self._keep(made)
            self._plan.set_result(made)
        # The error is raised where the plan is requested.
        except BaseException as error:  # noqa: BLE001
            self._plan.set_exception(error)

    def plan(self) -> PlanResult | None:
        """The plan; None until it is ready."""
        return None if not self._plan.done() or self._plan.exception() is not None else self._plan.result()

    def result(self, patience_s: float | None = None) -> PlanResult | str:
        """The plan; or why none could be made, which does not stop the run. Empty if it is not made within `patience_s`."""
        wait([self._plan], patience_s)
        if not self._plan.done():
            return ""
        try:
            return self._plan.result()
        except Unplannable as error:
            return str(error)
        except UserError as error:
            return f"the run cannot be planned: {error}"
        # Planning runs the benchmark's own code, which may raise anything.
        except BaseException as error:  # noqa: BLE001
            return f"the run cannot be planned: {type(error).__name__}: {' '.join(str(error).split())}"


@dataclass(frozen=True)
class Start:
    """One start of a run: answers what is left and returns the result."""

    workload: Workload[Any]
    run: RunStore
    before: RunSnapshot
    state: RunState
    options: RunOptions
    began: float

    @classmethod
    def of(cls, workload: Workload[Any], run: RunStore, options: RunOptions, began: float) -> Start:
        """A start from the run's present state."""
        before = RunSnapshot(run)
        if options.get("budget") is None:
            options = {**options, "budget": workload.spec.budget_usd}
        return cls(workload, run, before, state_of(workload, before, options.get("limit")), options, began)

    def result(self) -> RunResult:
        """Answer the remaining items, merge the tables for other tools, and return the outcome."""
        run, snapshot = self._answer_rest()
        options = ReadOptions(self.options.get("compat", "default"))
        return self._result(run, results_of(self.workload, run, options), snapshot)

    def _answer_rest(self) -> tuple[RunSnapshot, dict[str, Any]]:
        """Answer the remaining items; returns the updated run and the ledger's last snapshot."""
        reused = answers_used(self.before)
        left = self.state.left()
        if not left:
            keep_reach(self.run, self._reach)
            try:
                if not self.before.has_tables():
                    self.run.end()
            except OSError as error:
                raise _failed(self.run, error, "its tables were not written: ") from error
            return self.before, {"reused": reused}
        worked = self._work(Work(self.workload, self.run, left, self.options.get("note")))
        return RunSnapshot(self.run), {**worked, "reused": worked.get("reused", 0) + reused}

    def _result(self, run: RunSnapshot, results: Results, snapshot: Mapping[str, Any]) -> RunResult:
        """The outcome of the run as it is now. `snapshot`: the ledger's last one."""
        items = item_counts(run, self.state.total)
        index, answers = run.log(), run.table("raw_answers", columns=ANSWERS)
        money = money_of(run, index)
        excesses = excess_totals(index.excesses(self.run.run_id).values(), self._reach.margins)
        finished = "done" if items["done"] == items["total"] and not excesses else "partial"
        left = snapshot.get("left")
        if self.options.get("limit") is not None and not left and not items["failed"] and not excesses and finished != "done":
            finished, left = "limited", _unknown(items["total"] - items["done"])
        not_credible = {
            excess.model: {"error": USAGE_NOT_CREDIBLE, "reason": str(excess)} for excess in excesses if excess.stopped
        }
        reasons: Mapping[str, Mapping[str, str]] = {**snapshot.get("stopped", {}), **not_credible}
        stopped = {model: f"{why['error']}: {why['reason']}" for model, why in reasons.items()}
        others = tuple(f"{excess.model}: {excess}" for excess in excesses if excess.model not in stopped)
        return RunResult(
            run=run.run_id,
            kind=self.workload.kind,
            status="budget" if snapshot.get("left") else finished,
            cells=items,
            calls={name: snapshot.get(name, 0) for name in ("made", "reused", "failed")},
            usd=dollars_of(run, money, alive={}).usd(self.options.get("budget")),
            seconds=round(time.monotonic() - self.began, 3),
            results=results,
            unit=self.workload.counted.items,
            failures=failure_counts(run),
            stopped_models=stopped,
            doubted={excess.model: stopped.get(excess.model, str(excess)) for excess in excesses},
            left=left,
            tried_again=sum(run.finished(ITEM).values()),
            warnings=(
                *results.warnings,
                *snapshot.get("warnings", ()),
                *short_log(run, money),
                *other_origins(origins_in(answers), self._reach.origins),
                *zero_vectors_in(answers),
                *others,
            ),
            executor=snapshot.get("executor", ""),
            took_over=snapshot.get("took_over", ""),
            computing=snapshot.get("computing", {}),
            commonest_failure=_with_earlier(commonest_failure(run), bool(snapshot.get("left")) and not snapshot.get("failures")),
            example=next((item for item, again in run.finished(ITEM).items() if not again), ""),
        )

    def _work(self, work: Work) -> dict[str, Any]:
        """Choose an executor and answer the remaining items; returns the ledger's last snapshot."""
        options = self.options
        executor, why = choose(work, options.get("executor") or self.workload.spec.executor, options.get("address"))
        if why and (note := options.get("note")) is not None:
            note(why)
        check_keys(self.workload, options)
        self._rehearse(work)
        self._tell_start("starting Ray" if executor == "ray" else "starting")
        try:
            snapshot = self._executed(work, executor)
        except (KeyboardInterrupt, Stopped) as error:
            raise self._interrupted(error) from None
        uncleaned = clean_daily(self.run.store.files)
        return {**snapshot, "executor": executor, "warnings": [*snapshot.get("warnings", ()), *uncleaned]}

    def _rehearse(self, work: Work) -> None:
        """Find contradictions in the spec before the first call. Raises UserError."""
        try:
            rehearse(self.workload, self.before, itertools.chain.from_iterable(work.left.values()))
        except UserError as error:
            # A cluster may have other things that are missing here, such as a model's weights.
            if self.options.get("address") is None or isinstance(error, BadBenchmark | SpecError):
                raise

    def _tell_start(self, doing: str) -> None:
        """Show the progress before any worker runs: finished items and dollars spent."""
        if self.options.get("watch") is not None:
            self._teller(self.state, lambda: None)({**self._before_money, "doing": doing})

    def _tell_warnings(self, warnings: Iterable[str]) -> None:
        """Note the plan's warnings while the run can still be stopped: a budget that is too small, answers of another origin."""
        if (note := self.options.get("note")) is not None:
            for warning in warnings:
                note(f"warning: {warning}")

    def _interrupted(self, error: BaseException) -> BaseException:
        """The error for a run that was stopped from outside: how far it got and how to continue it."""
        run = RunSnapshot(self.run)
        items = item_counts(run, self.state.total)
        progress = f"run {run.run_id}, {items['done']} of {self.workload.counted.phrase(items['total'])}"
        message = f"{progress}, {_money_of(run)['spent_micros'] / MICROS:.6f} dollars spent; run the same command again to resume"
        return Stopped(f"{error}: {message}") if isinstance(error, Stopped) else Interrupted(f"stopped: {message}")

    def _executed(self, work: Work, executor: str) -> dict[str, Any]:
        keep = not has_plan(self.run)

        def planned_now(made: PlanResult) -> None:
            self._tell_warnings(made.warnings)
            if keep:
                keep_plan(self.run, made.to_json())

        def make(at: RunSnapshot) -> MakePlan:
            return lambda unwanted: plan(self.workload, at.store, self.options.get("budget"), at, unwanted)

        # A plan prepares and counts every item. That is about as much work as answering it with a local model without generation.
        models = self.workload.models
        wanted = self._paying() or not all(model.local for model in models.settings().values()) or models.generates()
        planning = _Planning(make(self.before) if wanted else _no_plan, planned_now, at_once=executor != "inline")
        with self._executing(work, executor, planning) as execution:
            session = begin_session(self.run.store.files, self.run.run_id, self._paying())
            with Heartbeat(session) as heartbeat:
                keep_start(self.run, session.number, self.options.get("budget"), self._reach)
                if not wanted:
                    self._tell_warnings(self.workload.warnings())
                self._tell_start("reading what is stored")
                execution.begin(heartbeat, budgets_of(self.workload, self.options.get("budget")))
                planning.begun()
                snapshot = self._answered(execution, planning, session)
                execution.finish()
                # A run that finishes long before its plan does not need the plan.
                planned = planning.result(PLANNED_AFTER_S if keep else 0)
                planning.end()
                left, why = self._stopped(make, heartbeat.session.number, snapshot)
                unplanned = dict.fromkeys(line for line in (planned, why) if isinstance(line, str) and line)
                snapshot = {**snapshot, "left": left, "warnings": [*snapshot.get("warnings", ()), *unplanned]}
                snapshot["took_over"] = session.took_over
                heartbeat.how = "done"
        return snapshot

    @contextlib.contextmanager
    def _executing(self, work: Work, executor: str, planning: _Planning) -> Iterator[Execution]:
        """A context with the execution, in which the plan is made.

        The plan describes the run before this start, so that none of this start's calls count as known. With Ray, planning starts
        first, because Ray's start leaves a processor free; inline, it would delay the first call.
        """
        quiet_unless_asked()
        if executor == "inline":
            try:
                with hearing_sigterm(), planning:
                    yield InlineExecution(work)
            except OSError as error:
                raise _failed(self.run, error) from error
            return
        address = self.options.get("address") or "local"
        before_ray(address)
        # Ray is imported only here, since finished and small runs do not need it.
        import ray

        from summhay_ray.engine.ray.executor import RayExecution
        from summhay_ray.engine.ray.session import ray_session

        try:
            with planning, ray_session(address, from_here=not self.workload.inputs.untrusted) as dashboard:
                yield RayExecution(work, self.options.get("address") is None, dashboard)
        except ray.exceptions.RayError as error:
            cause = _innermost(error)
            raise cause if isinstance(cause, BadBenchmark) else _failed(self.run, error) from error

    @functools.cached_property
    def _before_money(self) -> Mapping[str, int]:
        return _money_of(self.before)

    @property
    def _reach(self) -> RecordedReach:
        return RecordedReach.of(self.workload.models.settings())

    def _paying(self) -> bool:
        return any(settings.price != FREE for settings in self.workload.models.settings().values())

    def _answered(self, execution: Execution, planning: _Planning, session: DriverSession) -> dict[str, Any]:
        first = execution.snapshot()
        # Read again now that this start owns the run: an earlier driver may have committed items until then.
        state = self.state.now(RunSnapshot(self.run))
        # The plan covers the whole run. With a `limit`, the remaining time is estimated from the items instead.
        tell = self._teller(state, planning.plan if self.options.get("limit") is None else lambda: None, session)
        tell({**first, "doing": f"starting {execution.workers} workers" if execution.workers > 1 else "preparing"})
        left = state.left()
        with Watch(execution.snapshot, tell):
            # An earlier driver may have finished the run in the meantime.
            counts = execution.answer(left) if left else {}
        snapshot = {**execution.snapshot(), **counts}
        tell({**snapshot, "doing": "writing the tables"})
        return snapshot

    def _stopped(
        self, make: Callable[[RunSnapshot], MakePlan], session: int, snapshot: Snapshot
    ) -> tuple[dict[str, Any] | None, str]:
        """(The remaining work if the budget stopped the run, the reason if it cannot be planned.) Records in the store why the
        run stopped. `make` plans a snapshot of the run."""
        run = RunSnapshot(self.run)
        n_items = self.state.now(run).n_left
        if not n_items:
            return None, ""
        if not snapshot.get("over_budget"):
            if self.options.get("limit") is not None:
                keep_stop(self.run, session, {"status": "limited", "left": _unknown(n_items)})
                return None, ""
            counts = item_counts(run, self.state.total)
            if n_open := counts["total"] - counts["done"] - counts["failed"]:
                # Exit code 4 means that every item is answered or listed as a failure.
                what = f"{n_open} of {self.workload.counted.phrase(counts['total'])} were not answered"
                raise RunFailed(f"run {self.run.run_id} stopped: {what}; what was answered is kept, run again to go on")
            return None, ""
        with _Planning(make(run)) as planning:
            made = planning.result()
        left, why = (_unknown(n_items), made) if isinstance(made, str) else ({**made.left, "cells": n_items}, "")
        keep_stop(self.run, session, {"status": "budget", "budget_usd": self.options.get("budget"), "left": left})
        return left, why

    def _teller(
        self, state: RunState, planned: Callable[[], PlanResult | None], session: DriverSession | None = None
    ) -> Callable[[Snapshot], None]:
        """A function that turns the ledger's snapshots into `Progress`, for `watch` and for the driver's report in the store."""
        sizes = {item.id: item.size for item in state.items()}
        counted = self.workload.counted
        done = [item for item in sizes if item in state.finished]
        extent = Extent(
            run=self.run.run_id,
            unit=counted.items,
            items=len(sizes),
            items_before=len(done),
            table=counted.table,
            rows=sum(sizes.values()) if counted.table else 0,
            rows_before=sum(sizes[item] for item in done) if counted.table else 0,
            budget_usd=self.options.get("budget"),
            models=self.workload.models.settings(),
        )
        timeline = Timeline(extent, self.began, planned)
        watch = self.options.get("watch")

        def tell(snapshot: Snapshot) -> None:
            progress = timeline.progress(snapshot, time.monotonic())
            if session is not None:
                money = {name: snapshot[f"{name}_micros"] for name in Dollars._fields}
                session.told = {"left": progress.left, "money": money}
            if watch is not None:
                watch(progress)

        return tell


def _no_plan(_: object) -> PlanResult:
    raise Unplannable


def _failed(run: RunStore, error: BaseException, what: str = "") -> RunFailed:
    why = what + _cause(error, run.store.files.uri)
    return RunFailed(f"run {run.run_id} stopped: {why}; what was answered is kept, run again to go on")


def _with_earlier(failure: dict[str, Any] | None, earlier: bool) -> dict[str, Any] | None:
    return None if failure is None else {**failure, "earlier": earlier}


def _unknown(n_items: int) -> dict[str, Any]:
    """The remaining work of a run whose calls and cost are not known."""
    return {"cells": n_items, "calls": None, "usd": None}


def _money_of(run: RunSnapshot) -> dict[str, int]:
    """The run's stored money as the fields of a snapshot."""
    return {f"{name}_micros": micros for name, micros in dollars_of(run, money_of(run, run.log()), alive={})._asdict().items()}


def _innermost(error: BaseException) -> BaseException:
    """The exception of a worker inside Ray's wrapper."""
    seen = {id(error)}
    while (inner := getattr(error, "cause", None) or error.__cause__) is not None and id(inner) not in seen:
        seen.add(id(inner))
        error = inner
    return error


def _cause(error: BaseException, store: str) -> str:
    """The innermost error in one line. For a full disk without a file name, the message names `store`."""
    error = _innermost(error)
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"no room is left on the disk of {error.filename or store} ({error.strerror}); make room"
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
