"""Runs or resumes a workload.

If the run is finished, its results are read from the store. Otherwise it continues with the items that are not committed. Answers
that are already in the response log are not paid for again.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import gc
import itertools
import logging
import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import polars as pl

from summhay_ray.engine.contract import Results, Workload, open_run
from summhay_ray.engine.items import BadBenchmark, ReadOptions
from summhay_ray.engine.plan import PlanResult, plan, rehearse
from summhay_ray.engine.ray.session import Cluster
from summhay_ray.engine.read.control import release
from summhay_ray.engine.read.scoring import results_of
from summhay_ray.engine.run.execution import Stopped, Work, beating, choose, hearing_sigterm
from summhay_ray.engine.run.inline import InlineExecution
from summhay_ray.engine.run.progress import Extent, Snapshot, Timeline, watching
from summhay_ray.engine.state.history import (
    Dollars,
    RecordedReach,
    dollars_of,
    keep_plan,
    keep_reach,
    keep_start,
    keep_stop,
    money_of,
    origins_of,
    plan_file,
    stored_warnings,
)
from summhay_ray.engine.state.items_left import (
    ITEM,
    RunState,
    answer_counts,
    answers_used,
    commonest_failure,
    failure_counts,
    finished_items,
    item_counts,
    state_of,
)
from summhay_ray.errors import SpecError, UserError
from summhay_ray.llm import FREE, USAGE_NOT_CREDIBLE, Budgets, GeneratingModel, excess_totals, find_key, margins_of
from summhay_ray.logs import LOG
from summhay_ray.outcome import MICROS
from summhay_ray.plugins import Unplannable
from summhay_ray.run_options import RunOptions, seconds_of
from summhay_ray.sections import Section, html_of
from summhay_ray.store import RUN, DriverSession, RunStore, Store, begin_session, clean_daily, running_drivers

if TYPE_CHECKING:
    from summhay_ray.engine.ray.executor import RayExecution

    Execution = InlineExecution | RayExecution

_HELD = (
    "{:.6f} dollars of the budget are held by calls that a kill left open; if the provider's bill shows that they cost less: "
    "summhay release {}"
)
PLANNED_AFTER_S = 20.0
"""Maximum time that a finished run waits for its plan, so that the plan is stored with it."""
TAKEOVER_PATIENCE_S = 2.0
"""Seconds that a start waits for a heartbeat of an earlier driver on another machine. A driver sends one each second."""
MakePlan = Callable[[Callable[[], bool]], PlanResult]
"""Makes a plan. Its argument is a function that returns True when the plan is no longer needed."""


class Interrupted(KeyboardInterrupt):
    """Raised after Ctrl-C. The message gives the run's progress and how to resume it."""


class RunFailed(UserError):
    """Raised if the run cannot continue; the message gives the reason in one line. Answers are kept, and another start resumes
    the run."""

    exit_code = 1


@dataclass(frozen=True)
class RunResult:
    """The outcome of a run. `calls` counts this start only; its `reused` answers were already paid for."""

    run: str
    kind: str
    status: str
    """done; budget (its budget stopped it; it can be resumed); partial (finished, with failures or with usage that is not
    credible); limited (finished the items that `limit` allows); waiting (only batches are not finished)."""
    cells: Mapping[str, int]
    """The numbers of items: `total`, `done` (without a failure) and `failed`."""
    calls: Mapping[str, int]
    """The numbers of calls of this start that were `made`, that `reused` a stored answer, and that `failed` (got no answer)."""
    usd: Mapping[str, float | None]
    seconds: float
    results: Results = field(repr=False)
    """The benchmark's scores, sections, and fields for the JSON document."""
    unit: str = "items"
    """The plural noun for items in messages."""
    failures: Mapping[str, int] = field(default_factory=dict)
    """Error -> the number of answers that it made missing or unusable, as in `status` and the report."""
    stopped_models: Mapping[str, str] = field(default_factory=dict)
    doubted: Mapping[str, str] = field(default_factory=dict)
    """Model -> why its reported usage is not credible, including models that were not stopped."""
    left: Mapping[str, Any] | None = None
    """The remaining work if the budget or `limit` stopped the run: items (`cells`), calls, and dollars (least, expected, most).
    Calls and dollars are null if unknown."""
    tried_again: int = 0
    """The number of failed items that the next start retries."""
    warnings: tuple[str, ...] = ()
    executor: str = ""
    """inline or ray; empty if nothing was left to do."""
    commonest_failure: Mapping[str, Any] | None = None
    """The most frequent class of failure: `count`, `stage`, `error`, and its most frequent `message`. `earlier` is true if all
    failures are from earlier starts, because the budget stopped this start before it could retry them."""
    example: str = ""
    """The id of a finished item, for `explain`."""
    computing: Mapping[str, float] = field(default_factory=dict)
    """The work of the pool of actors that run local models (`Pools.took`); empty without a pool."""
    batches: Mapping[str, Any] | None = None
    """See `StatusResult.batches`."""
    took_over: str = ""
    """The previous driver, if this start took the run over from it: `on HOST, pid N`; else empty."""

    @property
    def table(self) -> pl.DataFrame:
        """The main table: `scores.table` if the benchmark's result object has one, else the table of the first section that has
        one. Raises AttributeError if there is none."""
        for frame in (getattr(self.scores, "table", None), *(section.table for section in self.sections)):
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

    def _repr_html_(self) -> str:
        """Render the outcome and the benchmark's first section in a notebook."""
        return self._html(self.sections[:1])

    def _html(self, shown: Sequence[Any]) -> str:
        """Render the outcome as names and values, followed by `shown`."""
        cells, usd = self.cells, self.usd["spent"]
        pairs = [
            ("run", f"{self.run} ({self.kind})"),
            ("status", self.status),
            (self.unit, f"{cells['done']} done, {cells['failed']} with failures, of {cells['total']}"),
            ("calls", f"{self.calls['made']} made, {self.calls['reused']} reused"),
            ("dollars spent", f"{usd:.6f}"),
        ]
        return html_of(pairs, shown)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON document of the command."""
        names = ("run", "kind", "status", "cells", "failures", "calls", "usd", "left", "tried_again", "seconds", "executor")
        return {
            **{name: getattr(self, name) for name in (*names, "commonest_failure")},
            "stopped_models": dict(self.stopped_models),
            "warnings": list(self.warnings),
            **({"computing": dict(self.computing)} if self.computing else {}),
            **({"took_over": self.took_over} if self.took_over else {}),
            **({"batches": dict(self.batches)} if self.batches else {}),
            **self.results.details,
        }


def run(workload: Workload[Any], store: Store, options: RunOptions | None = None, cluster: Cluster | None = None) -> RunResult:
    """Run or resume a workload. `cluster`: the Ray connection to use, which may be open already.

    Raises SpecError, StoreError, RunFailed, Superseded, Stopped.
    """
    began, options = time.monotonic(), options or {}
    age = options.get("release_uncertain")
    age_s = None if age is None else seconds_of(age, "release_uncertain")
    # Check the keys first: a refused run must not create a store.
    if not store.files.exists(f"runs/{workload.run_id}/run.json"):
        check_keys(workload, options)
    store.files.check()
    run = open_run(workload, store)
    if age_s is not None:
        # Release the money only if the newest money record is at least this old.
        note = options.get("note")
        written = [file.written for file in run.store.files.entries(f"runs/{run.run_id}/money")]
        if written and time.time() - max(written) >= age_s and (released := release(run).released) and note is not None:
            note(f"{released:.6f} dollars that a kill had left uncertain are released")
    before = run.at(checked=False)
    if options.get("budget") is None:
        options = {**options, "budget": workload.spec.budget_usd}
    cluster = cluster or Cluster(options.get("address"), from_here=not workload.inputs.untrusted)
    return _Start(workload, run, before, options, cluster, began).result()


def missing_keys(workload: Workload[Any]) -> list[str]:
    """Return a line for each model whose key is not in this machine's environment."""
    models = [(name, find_key(settings)) for name, settings in sorted(workload.models.settings().items()) if not settings.local]
    return [f"{name}: {message}" for name, (key, message) in models if not key]


def check_keys(workload: Workload[Any], options: RunOptions) -> None:
    """Raise SpecError if this machine makes the calls and lacks a model's key."""
    if options.get("address") is None and (missing := missing_keys(workload)):
        raise SpecError(f"{missing[0]}; nothing was asked")


def budgets_of(workload: Workload[Any], budget_usd: float | None) -> Budgets:
    """Return the budgets of the run, its stages and its models, rounded down to whole micro-dollars."""

    def micros(dollars: float) -> int:
        # As a float, 0.29 dollars are 289999.99999999994 micro-dollars.
        return math.floor(round(dollars * MICROS, 3))

    spec = workload.spec
    return Budgets(
        None if budget_usd is None else micros(budget_usd),
        {name: micros(dollars) for name, dollars in spec.stage_budgets_usd.items()},
        {name: micros(dollars) for name, dollars in spec.model_budgets_usd.items()},
        margins_of(workload.models.settings()),
    )


class _Planning:
    """Makes a plan in a separate thread. With `keep`, planning starts when `begun` is set, and the plan is passed to `keep`.

    It must be closed: if the thread is in native code when the process exits, the process aborts.
    """

    def __init__(self, make: MakePlan, keep: Callable[[PlanResult], None] | None = None) -> None:
        self._made: PlanResult | str = ""
        self._make, self._keep = make, keep
        self._unwanted = threading.Event()
        self.begun = threading.Event()
        """Set this when the workers are starting. Then the run was not refused, and planning no longer delays its start."""
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop planning."""
        self._unwanted.set()
        self.begun.set()
        self._thread.join()

    def _work(self) -> None:
        if self._keep is not None:
            self.begun.wait()
        try:
            made = self._make(self._unwanted.is_set)
            if self._keep is not None and not self._unwanted.is_set():
                self._keep(made)
            self._made = made
        except Unplannable as error:
            self._made = str(error)
        except UserError as error:
            self._made = f"the run cannot be planned: {error}"
        # Planning runs the benchmark's own code, which may raise anything.
        except BaseException as error:  # noqa: BLE001
            self._made = f"the run cannot be planned: {type(error).__name__}: {' '.join(str(error).split())}"

    def plan(self) -> PlanResult | None:
        """Return the plan; None if it is not ready."""
        return None if isinstance(self._made, str) else self._made

    def result(self, patience_s: float | None = None) -> PlanResult | str:
        """Wait up to `patience_s` for the plan. Returns the plan, or the reason why it cannot be made, or an empty text after a
        timeout."""
        self._thread.join(patience_s)
        return self._made


@dataclass(frozen=True)
class _Start:
    """One start of a run: answers the remaining items and returns the result."""

    workload: Workload[Any]
    run: RunStore
    before: RunStore
    options: RunOptions
    """The options. If the user gave no budget, they contain the spec's."""
    cluster: Cluster
    began: float

    def result(self) -> RunResult:
        """Answer the remaining items, merge the tables for other tools, and return the outcome."""
        settings, reused = self.workload.models.settings(), answers_used(self.before)
        reach = RecordedReach(margins_of(settings), origins_of(settings))
        total, worked = self._answer_rest(reach)
        if worked is not None:
            if worked["executor"] == "ray":
                # Reference cycles with cancelled tasks of Ray's executor keep the items in memory. Scoring does not need the
                # items.
                gc.collect()
            run, snapshot = self.run.at(checked=False), {**worked, "reused": worked.get("reused", 0) + reused}
        else:
            run, snapshot = self.before, {"reused": reused}
            keep_reach(self.run, reach)
            try:
                if not run.has_tables():
                    self.run.end()
            except OSError as error:
                raise _run_failed(self.run, error, "its tables were not written: ") from error
        results = results_of(self.workload, run, ReadOptions(self.options.get("compat", "default")))
        return self._outcome(run, total, results, snapshot, reach)

    def _outcome(self, run: RunStore, total: int, results: Results, snapshot: Snapshot, reach: RecordedReach) -> RunResult:
        """Return the current outcome of the run. `total`: the run's number of items. `snapshot`: the last snapshot of the
        ledger."""
        items = item_counts(run, total)
        index, answers, units = run.log(), answer_counts(run), run.units(ITEM)
        money = money_of(run, index)
        excesses = excess_totals(index.excesses(self.run.run_id).values(), reach.token_margins)
        finished = "done" if items["done"] == items["total"] and not excesses else "partial"
        left, failure = snapshot.get("left"), commonest_failure(run)
        if failure is not None:
            failure["earlier"] = bool(left) and not snapshot.get("failures")
        batches = run.batches.counts()
        status = "waiting" if batches and batches["in_progress"] else "budget" if left else finished
        if self.options.get("limit") is not None and not left and not items["failed"] and not excesses and finished != "done":
            status, left = "limited", _unknown(items["total"] - items["done"])
        not_credible = {
            excess.model: {"error": USAGE_NOT_CREDIBLE, "reason": str(excess)} for excess in excesses if excess.stopped
        }
        reasons: Mapping[str, Mapping[str, str]] = {**snapshot.get("stopped", {}), **not_credible}
        stopped = {model: f"{why['error']}: {why['reason']}" for model, why in reasons.items()}
        return RunResult(
            run=run.run_id,
            kind=self.workload.kind,
            status=status,
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
            tried_again=int(units["retry"].sum()),
            warnings=(
                *results.warnings,
                *snapshot.get("warnings", ()),
                *(
                    [_HELD.format(money.uncertain[RUN] / MICROS, run.run_id)]
                    if status == "budget" and money.uncertain[RUN]
                    else []
                ),
                *stored_warnings(run, money, answers, reach.origins),
                *(f"{excess.model}: {excess}" for excess in excesses if excess.model not in stopped),
            ),
            executor=snapshot.get("executor", ""),
            took_over=snapshot.get("took_over", ""),
            batches=batches,
            computing=snapshot.get("computing", {}),
            commonest_failure=failure,
            example=next(iter(units.filter(~pl.col("retry"))["unit"].head(1)), ""),
        )

    def _answer_rest(self, reach: RecordedReach) -> tuple[int, dict[str, Any] | None]:
        """Choose an executor and answer the remaining items.

        Returns the run's number of items, and the ledger's last snapshot or None if no item remained. The items are kept in
        memory only until this method returns.
        """
        options, note = self.options, self.options.get("note")
        state = state_of(self.workload, self.before, options.get("limit"))
        left = state.left()
        if not left:
            return state.total, None
        work = Work(self.workload, self.run, left, note, state.total, self.options.get("detach", False))
        executor, why = choose(work, options.get("executor") or self.workload.spec.executor, options.get("address"))
        if note is not None:
            if why:
                note(why)
            for driver in running_drivers(self.run.store.files, self.run.run_id, TAKEOVER_PATIENCE_S):
                note(
                    f"run {self.run.run_id} is running ({driver}): this start takes it over, "
                    "as soon as that driver's calls in flight have ended"
                )
        # Only new runs are checked earlier.
        check_keys(self.workload, options)
        try:
            # Find contradictions in the spec before the first paid call.
            if _needs_plan(self.workload):
                rehearse(self.workload, self.before, itertools.chain.from_iterable(work.left.values()))
        except UserError as error:
            # The cluster may have files that this machine lacks, such as a model's weights.
            if options.get("address") is None or isinstance(error, BadBenchmark | SpecError):
                raise
        self._show_start(state, "starting Ray" if executor == "ray" else "starting")
        try:
            snapshot = self._execute(state, work, executor, reach)
        except (KeyboardInterrupt, Stopped) as error:
            run = self.run.at(checked=False)
            items, spent = item_counts(run, state.total), dollars_of(run, money_of(run, run.log()), alive={}).spent
            progress = f"run {run.run_id}, {items['done']} of {self.workload.counted.phrase(items['total'])}"
            message = f"{progress}, {spent / MICROS:.6f} dollars spent; run the same command again to resume"
            if isinstance(error, Stopped):
                raise Stopped(f"{error}: {message}") from None
            raise Interrupted(f"stopped: {message}") from None
        uncleaned = clean_daily(self.run.store.files)
        return state.total, {**snapshot, "executor": executor, "warnings": [*snapshot.get("warnings", ()), *uncleaned]}

    def _show_start(self, state: RunState, doing: str) -> None:
        """Show the finished items and the dollars spent before any worker runs."""
        if self.options.get("watch") is not None:
            dollars = dollars_of(self.before, money_of(self.before, self.before.log()), alive={})
            money = {f"{name}_micros": micros for name, micros in dollars._asdict().items()}
            self._progress_reporter(state, lambda: None)({**money, "doing": doing})

    def _execute(self, state: RunState, work: Work, executor: str, reach: RecordedReach) -> dict[str, Any]:
        """Answer the items with the executor and merge the tables. Returns the ledger's last snapshot."""
        keep, note = not self.run.store.files.exists(plan_file(self.run)), self.options.get("note") or (lambda _: None)

        def keep_planned(made: PlanResult) -> None:
            # Show the warnings now, while the run can still be stopped: the budget may be too small, or answers have another
            # origin.
            for warning in made.warnings:
                note(f"warning: {warning}")
            if keep:
                keep_plan(self.run, made.to_json())

        paying = any(model.price != FREE for model in self.workload.models.settings().values())
        with self._execution(work, executor, keep_planned if _needs_plan(self.workload) else None) as (execution, planning):
            session = begin_session(self.run.store.files, self.run.run_id, paying)
            with beating(session) as heartbeat:
                keep_start(self.run, session.number, self.options.get("budget"), reach)
                # With a plan, its warnings are noted instead.
                for warning in self.workload.warnings() if planning is None else ():
                    note(f"warning: {warning}")
                self._show_start(state, "reading what is stored")
                execution.begin(heartbeat, budgets_of(self.workload, self.options.get("budget")))
                if planning is not None:
                    planning.begun.set()
                first = execution.snapshot()
                # Read the finished items again now that this start owns the run: an earlier driver may have committed more, or
                # even all.
                state = replace(state, finished=finished_items(self.run.at(checked=False)))
                # The plan covers the whole run, so with a `limit` the remaining time is estimated from the items instead.
                plan_made = planning.plan if planning is not None and self.options.get("limit") is None else lambda: None
                tell = self._progress_reporter(state, plan_made, session)
                tell({**first, "doing": f"starting {execution.workers} workers" if execution.workers > 1 else "preparing"})
                with watching(execution.snapshot, tell):
                    to_do = state.left()
                    counts = execution.answer(to_do) if to_do else {}
                snapshot = {**execution.snapshot(), **counts}
                tell({**snapshot, "doing": "writing the tables"})
                execution.finish()
                planned: PlanResult | str = ""
                if planning is not None:
                    # If the run finishes long before its plan, do not wait for the plan.
                    planned = planning.result(PLANNED_AFTER_S if keep else 0)
                    planning.close()
                left, why = self._record_stop(state.total, heartbeat.session.number, snapshot)
                unplanned = dict.fromkeys(line for line in (planned, why) if isinstance(line, str) and line)
                snapshot = {**snapshot, "left": left, "warnings": [*snapshot.get("warnings", ()), *unplanned]}
                snapshot["took_over"] = session.took_over
                heartbeat.how = "done"
        return snapshot

    @contextlib.contextmanager
    def _execution(
        self, work: Work, executor: str, keep: Callable[[PlanResult], None] | None
    ) -> Iterator[tuple[Execution, _Planning | None]]:
        """Return a context with the execution, and with the planning whose plan is passed to `keep` (None without `keep`).

        The plan describes the run before this start. So the calls of this start do not count as answered.
        """
        # Without any handler, Python itself would print this package's log warnings.
        if not LOG.hasHandlers():
            LOG.addHandler(logging.NullHandler())
        address = self.options.get("address")
        with contextlib.ExitStack() as stack:
            if executor == "inline":
                stack.enter_context(hearing_sigterm())
            planning = None if keep is None else _Planning(self._planner(self.before), keep)
            if planning is not None:
                stack.callback(planning.close)
            if executor == "inline":
                try:
                    yield InlineExecution(work), planning
                except OSError as error:
                    raise _run_failed(self.run, error) from error
                return
            dashboard = stack.enter_context(self.cluster).connect()
            # Import Ray only here, since finished and small runs do not need it.
            from ray.exceptions import RayError

            from summhay_ray.engine.ray.executor import RayExecution

            try:
                yield RayExecution(work, address is None, dashboard), planning
            except RayError as error:
                cause = _innermost(error)
                raise cause if isinstance(cause, BadBenchmark) else _run_failed(self.run, error) from error

    def _planner(self, at: RunStore) -> MakePlan:
        """Return a function that plans the rest of the run from the state `at`."""
        return functools.partial(plan, self.workload, at.store, self.options.get("budget"), at)

    def _record_stop(self, total: int, session: int, snapshot: Snapshot) -> tuple[dict[str, Any] | None, str]:
        """Record in the store why the run stopped.

        Returns (the remaining work if the budget stopped the run or else None, the reason if this work cannot be planned). Raises
        RunFailed if items are left for another reason.
        """
        run = self.run.at(checked=False)
        n_items = total - int((~run.units(ITEM)["retry"]).sum())
        if not n_items:
            return None, ""
        if self.run.batches.all(only_open=True):
            keep_stop(self.run, session, {"status": "waiting", "left": _unknown(n_items)})
            return _unknown(n_items), ""
        if snapshot.get("over_budget"):
            with contextlib.closing(_Planning(self._planner(run))) as planning:
                made = planning.result()
            left, why = (_unknown(n_items), made) if isinstance(made, str) else ({**made.left, "cells": n_items}, "")
            keep_stop(self.run, session, {"status": "budget", "budget_usd": self.options.get("budget"), "left": left})
            return left, why
        if self.options.get("limit") is not None:
            keep_stop(self.run, session, {"status": "limited", "left": _unknown(n_items)})
            return None, ""
        counts = item_counts(run, total)
        if n_open := total - counts["done"] - counts["failed"]:
            # Exit code 4 means that every item is answered or listed as a failure.
            what = f"{n_open} of {self.workload.counted.phrase(total)} were not answered"
            raise RunFailed(f"run {self.run.run_id} stopped: {what}; what was answered is kept, run again to go on")
        return None, ""

    def _progress_reporter(
        self, state: RunState, planned: Callable[[], PlanResult | None], session: DriverSession | None = None
    ) -> Callable[[Snapshot], None]:
        """Return a function that converts the ledger's snapshots to `Progress`, for `watch` and for the driver's report in the
        store."""
        items = [item for some in state.sources.values() for item in some]
        done = [item for item in items if item.id in state.finished]
        counted, watch = self.workload.counted, self.options.get("watch")
        extent = Extent(
            run=self.run.run_id,
            unit=counted.items,
            items=len(items),
            items_before=len(done),
            table=counted.table,
            rows=sum(item.size for item in items) if counted.table else 0,
            rows_before=sum(item.size for item in done) if counted.table else 0,
            budget_usd=self.options.get("budget"),
            models=self.workload.models.settings(),
        )
        timeline = Timeline(extent, self.began, planned)

        def tell(snapshot: Snapshot) -> None:
            progress = timeline.progress(snapshot, time.monotonic())
            if session is not None:
                money = {name: snapshot[f"{name}_micros"] for name in Dollars._fields}
                usd = None if progress.usd_left is None else {"expected": progress.usd_left}
                left = {"calls": progress.calls_left, "usd": usd, "seconds": progress.seconds_left}
                session.told = {"left": left, "money": money}
            if watch is not None:
                watch(progress)

        return tell


def _needs_plan(workload: Workload[Any]) -> bool:
    """Return whether calls cost dollars or much time. If not, a plan is not worthwhile: preparing and counting all items is about
    as much work as answering them with local models."""
    models = workload.models
    return any(
        not known.local or known.price != FREE or isinstance(models.find(name), GeneratingModel)
        for name, known in models.settings().items()
    )


def _unknown(n_items: int) -> dict[str, Any]:
    """Return the remaining work of a run if its calls and cost are unknown."""
    return {"cells": n_items, "calls": None, "usd": None}


def _run_failed(run: RunStore, error: BaseException, what: str = "") -> RunFailed:
    """Return the error of a run that cannot continue, with its innermost cause in one line."""
    error = _innermost(error)
    why = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        why = f"no room is left on the disk of {error.filename or run.store.files.uri} ({error.strerror}); make room"
    return RunFailed(f"run {run.run_id} stopped: {what}{why}; what was answered is kept, run again to go on")


def _innermost(error: BaseException) -> BaseException:
    """Return the exception of a worker from inside Ray's wrappers."""
    seen = {id(error)}
    while (inner := getattr(error, "cause", None) or error.__cause__) is not None and id(inner) not in seen:
        seen.add(id(inner))
        error = inner
    return error
