"""The status of a stored run: finished items, cost, and whether it is running. No Ray, no calls.

Everything is read from the store, so it works on any machine and during the run.
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from summhay_ray.engine.contract import Workload
from summhay_ray.engine.plan.plan import plan
from summhay_ray.engine.registry import check_record, find, workload_of
from summhay_ray.engine.state.history import History, StartRecord, StopRecord, usage_of_run
from summhay_ray.engine.state.items_left import ANSWERS, RunSnapshot, failure_counts, item_counts
from summhay_ray.engine.state.money import ToldRecord, dollars_of, money_of
from summhay_ray.engine.state.run_warnings import damaged_log, lost_inputs, origins_in, other_origins, short_log, zero_vectors_in
from summhay_ray.errors import UserError
from summhay_ray.llm import ExcessTotals, excess_totals
from summhay_ray.plugins import UnknownName
from summhay_ray.sections import html_of
from summhay_ray.store import (
    FORMAT,
    WATCH_S,
    LogIndex,
    RunStore,
    Store,
    StoreError,
    ask_to_stop,
    has_ended,
    how_ended,
    living,
    open_sessions,
    read_session,
    told_by,
)

ENDED = ("imported", "done", "partial", "budget", "limited")
"""The statuses of runs that have come to an end."""
POLL_EVERY_S = 0.25
STOPS_WITHIN_S = 60.0
"""A driver notices a stop request within 2 s, and may then wait 20 s for the calls in flight."""


@dataclass(frozen=True)
class StatusResult:
    """The status of a stored run."""

    run: str
    kind: str
    name: str
    status: str
    """running; done; partial (finished, with failures or usage that is not credible); budget (its budget stopped it); limited
    (a first look at some of its items); interrupted (its driver was stopped or died); unfinished (for an unknown reason);
    imported."""
    cells: Mapping[str, int]
    """Numbers of items: `total`, `done` (without a failure) and `failed`."""
    failures: Mapping[str, int]
    """Class of error -> number of rows."""
    usd: Mapping[str, float | None]
    """Dollars `spent`, `reserved` and `uncertain` (see `Dollars`), the `budget` of the latest start, which is null if it had none
    or it is unknown, and what is `left` of it."""
    usage: Sequence[Mapping[str, Any]]
    """A row for each stage and model: planned and actual usage, cached share of the input, dollars saved by the cache."""
    finish_reasons: Mapping[str, int]
    """Finish reason -> number of answers, without the usual `stop`; `length` means a cut answer."""
    damaged: int
    """Records of the store's log that cannot be read. Their questions are asked again."""
    tables: Mapping[str, Mapping[str, Any]]
    """Table -> number of rows, and a hash of its sorted rows."""
    stop: Mapping[str, Any] | None = None
    """Why the latest start ended early, and the remaining work; None if it did not end early."""
    left: Mapping[str, Any] | None = None
    """The remaining work: cells, calls (of remote models, if the run asks any), and expected dollars; calls and usd are null if
    unknown. `seconds`, while the run is running: the time until the run ends or its budget is spent. `max_calls`, if it was
    planned from the store: the maximum number of calls."""
    unit: str = "items"
    """The word for the items that `cells` counts."""
    claims: Sequence[Mapping[str, Any]] = ()
    """A row for each model whose provider reports more usage than was reserved: the reported and charged tokens and dollars, the
    sufficient `token_margin`, and whether the model is stopped."""
    driver: str = ""
    """The driver of a running run: `on HOST, pid N`."""
    warnings: Sequence[str] = ()
    """One line each: an ended run with misplaced tables, a log that records less spending than the run's commits, and models
    whose answers come from another origin."""
    problems: Sequence[str] = ()
    """A line for each missing or damaged file. Tables and figures here lack its content."""
    store_format: int = FORMAT
    """The version of the store's format."""
    began: str = ""
    """When the run was created (ISO 8601, UTC)."""

    def _repr_html_(self) -> str:
        """For a notebook."""
        done = f"{self.cells['done']} done, {self.cells['failed']} with failures, of {self.cells['total']}"
        head = [("run", f"{self.run} ({self.kind}: {self.name})"), ("status", self.status), ("began", self.began)]
        return html_of([*head, (self.unit, done), ("dollars spent", f"{self.usd['spent']:.6f}")])

    def to_json(self) -> dict[str, Any]:
        """The JSON document of `summhay status`."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class RunEntry:
    """One run in a list of the store's runs."""

    run: str
    name: str
    kind: str
    created: str
    """When the run was created (ISO 8601, UTC)."""
    status: str
    """Like `StatusResult.status`; damaged if the run cannot be read (`summhay status RUN` reports why)."""
    cells: Mapping[str, int] | None
    """Numbers of items, like `StatusResult.cells`; None for a damaged run."""
    usd: Mapping[str, float | None] | None
    """As `StatusResult.usd`."""
    bytes: int
    """Size of its tables and commits. Answers are not included: they belong to the store."""


def entries(store: Store) -> list[RunEntry]:
    """All runs of the store, newest first. Raises StoreError if the log cannot be read."""
    runs, index = [], store.log()
    alive = _watched(store)
    for run_id in store.run_ids():
        size, created = 0, 0.0
        try:
            size, created = store.size(run_id)
            runs.append(_entry(store.run(run_id).at(), index, alive, _when(created), size))
        except UserError:
            runs.append(RunEntry(run_id, "", "", _when(created), "damaged", None, None, size))
    return sorted(runs, key=lambda entry: (entry.created, entry.run), reverse=True)


def _watched(store: Store) -> dict[int, bool]:
    """Session that has not ended -> whether its driver is alive. All are watched at the same time."""
    try:
        numbers = [record.number for record in open_sessions(store.files)]
        alive = living(store.files, numbers)
    except StoreError:
        # If a driver's record is damaged, each run looks for its own driver.
        return {}
    return {number: number in alive for number in numbers}


def _when(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def _entry(run: RunStore, index: LogIndex, alive: Mapping[int, bool], created: str, size: int) -> RunEntry:
    check_record(run)
    record, history = run.record, History(run)
    now = _standing(run, _benchmark(record), index, history, alive)
    usd = dollars_of(run, money_of(run, index), alive or None).usd(None if now.status == "imported" else history.budget_usd)
    return RunEntry(run.run_id, str(record["name"]), record["kind"], created, now.status, now.cells, usd, size)


@dataclass(frozen=True, slots=True)
class _Standing:
    """The state of a run; the fields are those of `StatusResult`."""

    status: str
    cells: Mapping[str, int]
    claims: Sequence[ExcessTotals]
    stop: StopRecord | None = None
    driver: str = ""


def _standing(
    run: RunStore,
    benchmark: type[Workload[Any]] | None,
    index: LogIndex,
    history: History,
    alive: Mapping[int, bool] | None = None,
) -> _Standing:
    """The state of the run. `alive`: session -> whether its driver is alive, for sessions that were watched already."""
    total = benchmark.n_items_of(run) if benchmark is not None else run.record["cells"]
    excesses = index.excesses(run.run_id)
    claims = excess_totals(excesses.values(), history.reach.margins) if excesses else []
    if benchmark is not None and benchmark.imported:
        return _Standing("imported", {"total": total, "done": total, "failed": 0}, claims)
    cells = item_counts(run, total)
    stop = history.stop if cells["done"] < total else None
    driver, how = _driver(run, history.start, alive)
    state = _state(cells, stop, driver, how)
    return _Standing("partial" if state == "done" and claims else state, cells, claims, stop, driver)


def status(run: RunStore) -> StatusResult:
    """The status of a run. Raises StoreError, for example where its tables cannot be read."""
    check_record(run)
    run = RunSnapshot(run.at())
    record, history = run.record, History(run)
    answers = run.table("raw_answers", columns=ANSWERS)
    ends = Counter(answers["finish_reason"].to_list())
    # The status does not need the benchmark's code, which may be a user's own and missing here.
    benchmark = _benchmark(record)
    lost = [] if benchmark is None else lost_inputs(run, benchmark.objects(run))
    index = run.log()
    money = money_of(run, index)
    now = _standing(run, benchmark, index, history)
    open_items = 0 if now.status == "imported" else now.cells["total"] - now.cells["done"] - now.cells["failed"]
    damaged = [*history.damaged(), *lost, *damaged_log(run.store, index)]
    left = None
    if open_items or now.stop:
        left = _left(run, benchmark, now, history.start, open_items, bool(damaged) and not now.driver)
    created = next(
        (file.written for file in run.store.files.entries(f"runs/{run.run_id}") if file.name.endswith("/run.json")), 0.0
    )
    return StatusResult(
        run=run.run_id,
        began=_when(created),
        kind=record["kind"],
        name=str(record["name"]),
        status=now.status,
        cells=now.cells,
        failures=failure_counts(run),
        usd=dollars_of(run, money).usd(None if now.status == "imported" else history.budget_usd),
        usage=usage_of_run(run, history.plan, index.totals(run.run_id), money),
        finish_reasons={reason: number for reason, number in sorted(ends.items()) if reason != "stop"},
        damaged=index.damaged,
        tables=run.digests(),
        stop=now.stop,
        left=left,
        unit=benchmark.counted.items if benchmark is not None else "items",
        claims=[asdict(claim) for claim in now.claims],
        driver=now.driver,
        warnings=(
            *_without_tables(run, now),
            *short_log(run, money),
            *other_origins(origins_in(answers), history.reach.origins),
            *zero_vectors_in(answers),
        ),
        problems=damaged,
    )


def _without_tables(run: RunStore, now: _Standing) -> list[str]:
    if now.status not in ENDED or now.driver or run.has_tables():
        return []
    where = run.store.files.where(f"runs/{run.run_id}/tables")
    return [f"{where} does not hold the run's current tables; run or import again, which puts them there"]


def _driver(run: RunStore, start: StartRecord | None, alive: Mapping[int, bool] | None = None) -> tuple[str, str]:
    """(The driver of the run, empty if it is not running; how its latest start ended, empty if unknown.)

    `alive`: see `_standing`.
    """
    if start is None:
        return "", ""
    files, session = run.store.files, start["session"]
    how = how_ended(files, session)
    known = alive or {}
    if how is None and (known[session] if session in known else living(files, [session])):
        record = read_session(files, session)
        return "" if record is None else record.where, ""
    return "", how or "dead"


def stop(run: RunStore, wait_s: float = STOPS_WITHIN_S) -> str:
    """Ask the run's driver to stop, wait until it has (with its calls in flight answered), and return it: `on HOST, pid N`.

    Raises UserError if the run is not running, if its driver dies meanwhile, or if it has not stopped within `wait_s` seconds.
    """
    start = History(run).start
    driver, _ = _driver(run, start)
    if not driver or start is None:
        raise UserError(f"run {run.run_id} is not running; nothing to stop")
    files, session, until = run.store.files, start["session"], time.monotonic() + wait_s
    ask_to_stop(files, session)
    while not has_ended(files, session):
        if not living(files, [session], WATCH_S) and not has_ended(files, session):
            raise UserError(f"run {run.run_id}: its driver ({driver}) gives no sign of life; run again to go on, nothing is lost")
        if time.monotonic() > until:
            raise UserError(
                f"run {run.run_id}: its driver ({driver}) was asked to stop, and has not in {wait_s:.0f} s; look again"
            )
        time.sleep(POLL_EVERY_S)
    return driver


def _state(cells: Mapping[str, int], stop: StopRecord | None, driver: str, how: str) -> str:
    """The status of a run that is not imported."""
    open_items = cells["total"] - cells["done"] - cells["failed"]
    if driver and cells["done"] < cells["total"]:
        return "running"
    if cells["done"] == cells["total"]:
        return "done"
    if stop is not None:
        return stop["status"]
    if not open_items:
        return "partial"
    return "interrupted" if how in ("stopped", "dead") else "unfinished"


def _left(
    run: RunStore,
    benchmark: type[Workload[Any]] | None,
    now: _Standing,
    start: StartRecord | None,
    open_items: int,
    damaged: bool,
) -> dict[str, Any]:
    """The remaining work. For a damaged run it is planned from the remaining files, since its recorded figures are wrong.

    Otherwise it is the record of the last stop, else the driver's last report, else the benchmark's bounds.
    """
    unknown = {"cells": open_items, "calls": None, "usd": None}
    if not damaged:
        if now.stop is not None:
            return dict(now.stop["left"])
        if left := _left_by_driver(run, start):
            return {**left, "cells": open_items, **({} if now.driver else {"seconds": None})}
    if damaged or (benchmark is not None and benchmark.bounds is not Workload.bounds):
        with contextlib.suppress(UserError):
            return {**plan(workload_of(run), run.store, at=run).left, "cells": open_items}
    return unknown


def _left_by_driver(run: RunStore, start: StartRecord | None) -> dict[str, Any] | None:
    """The remaining work in the last report of a start's driver; None if there is no report or it lacks the calls."""
    told = None if start is None else told_by(run.store.files, start["session"], ToldRecord)
    return None if told is None or told["left"]["calls"] is None else {**told["left"]}


def left_of_going(store: Store, run_id: str) -> dict[str, Any] | None:
    """The remaining work in the driver's report of a running run; None if it is not running or there is no report yet."""
    run = RunStore(store, run_id)
    start = History(run).start
    return _left_by_driver(run, start) if _driver(run, start)[0] else None


def _benchmark(record: Mapping[str, Any]) -> type[Workload[Any]] | None:
    try:
        return find(str(record["kind"]))
    except UnknownName:
        return None
