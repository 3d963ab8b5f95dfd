"""The status of a stored run: its finished items, its cost, and whether it is running. Makes no calls.

Everything is read from the store, so this works on any machine and while the run is running. A run is running as long as its
driver sends heartbeats (`driver_of`), even if no call ends. The metrics in `engine/ray/metrics.py` show whether such a run is
stalled.
"""

import contextlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from summhay_ray import store as storage
from summhay_ray.engine.contract import Workload
from summhay_ray.engine.plan import plan
from summhay_ray.engine.registry import check_record, find, workload_of
from summhay_ray.engine.state.history import (
    DriverReport,
    History,
    StartRecord,
    StopRecord,
    dollars_of,
    money_of,
    stored_warnings,
    usage_of_run,
)
from summhay_ray.engine.state.items_left import answer_counts, failure_counts, item_counts
from summhay_ray.errors import UserError
from summhay_ray.llm import ExcessTotals, excess_totals
from summhay_ray.plugins import UnknownName
from summhay_ray.sections import html_of

ENDED = ("imported", "done", "partial", "budget", "limited")
"""The statuses of runs that have ended."""


@dataclass(frozen=True)
class StatusResult:
    """The status of a stored run."""

    run: str
    kind: str
    name: str
    status: str
    """running; done; partial (finished, with failures or usage that is not credible); budget (its budget stopped it); limited
    (finished the items that `--limit` allows); waiting (only batches are not finished); interrupted (its driver was stopped or
    died); unfinished (for an unknown reason); imported."""
    cells: Mapping[str, int]
    """The numbers of items: `total`, `done` (without a failure) and `failed`."""
    failures: Mapping[str, int]
    """Class of error -> number of failures."""
    usd: Mapping[str, float | None]
    """Dollars `spent`, `reserved` and `uncertain` (see `Dollars`), the `budget` of the latest start, and the part of the budget
    that is `left`. The last two are null if there is no budget, or if it is unknown."""
    usage: Sequence[Mapping[str, Any]]
    """A row for each stage and model: planned and actual usage, the cached share of the input, and the dollars that the cache
    saved."""
    finish_reasons: Mapping[str, int]
    """Finish reason -> number of answers, without the normal reason `stop`. `length` means that the answer was cut off."""
    damaged: int
    """Number of unreadable records in the store's log. The requests of these records are sent again."""
    tables: Mapping[str, Mapping[str, Any]]
    """Table -> number of rows, and a hash of its sorted rows."""
    stop: Mapping[str, Any] | None = None
    """Why the latest start ended early, and the remaining work; None if it did not end early."""
    left: Mapping[str, Any] | None = None
    """The remaining work: cells, calls (only of remote models, if the run asks any), and expected dollars; calls and usd are null
    if unknown. While the run is running, `seconds` is the time until it ends or its budget is spent. `max_calls` is the maximum
    number of calls, if the work was planned from the store."""
    unit: str = "items"
    """The plural noun for the items that `cells` counts."""
    claims: Sequence[Mapping[str, Any]] = ()
    """A row for each model whose provider reports more usage than was reserved: the reported and the charged tokens and dollars,
    the `token_margin` that would suffice, and whether the model is stopped."""
    driver: str = ""
    """The driver of a running run: `on HOST, pid N`."""
    warnings: Sequence[str] = ()
    """Lines about missing or outdated tables of an ended run, about a log that records less spending than the run's commits, and
    about models whose answers come from another origin."""
    problems: Sequence[str] = ()
    """A line for each missing or damaged file. The tables and figures lack the content of these files."""
    batches: Mapping[str, Any] | None = None
    """The run's batches: how many were `submitted`, are `in_progress` and are `done`. `requests`: the requests of batches in
    progress. `answered`: the answered requests of batches that are done. `oldest`: when the oldest batch in progress was
    submitted (ISO 8601, UTC). None without batches."""
    store_format: int = storage.FORMAT
    """The version of the store's format."""
    began: str = ""
    """When the run was created (ISO 8601, UTC)."""

    def _repr_html_(self) -> str:
        """Render the status in a notebook."""
        done = f"{self.cells['done']} done, {self.cells['failed']} with failures, of {self.cells['total']}"
        head = [("run", f"{self.run} ({self.kind}: {self.name})"), ("status", self.status), ("began", self.began)]
        return html_of([*head, (self.unit, done), ("dollars spent", f"{self.usd['spent']:.6f}")])

    def to_json(self) -> dict[str, Any]:
        """Return the JSON document of `summhay status`."""
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
    """See `StatusResult.status`; `damaged` if the run cannot be read (`summhay status RUN` reports why)."""
    cells: Mapping[str, int] | None
    """See `StatusResult.cells`; None for a damaged run."""
    usd: Mapping[str, float | None] | None
    """See `StatusResult.usd`; None for a damaged run."""
    bytes: int
    """Size of the run's tables and commits in bytes. Answers are not included, since several runs share them."""


def entries(store: storage.Store) -> list[RunEntry]:
    """Return all runs of the store, newest first. Raises StoreError if the log cannot be read."""
    runs, index = [], store.log()
    try:
        # Watch all drivers that have not ended at the same time, since watching takes seconds.
        numbers = [record.number for record in storage.open_sessions(store.files)]
        living_now = storage.live_sessions(store.files, numbers)
        alive = {number: number in living_now for number in numbers}
    except storage.StoreError:
        # A driver's record is damaged. So watch the driver of each run separately.
        alive = {}
    for run_id in store.run_ids():
        size, created = 0, 0.0
        try:
            size, created = store.size(run_id)
            run = store.run(run_id).at()
            check_record(run)
            record, history = run.record, History(run)
            now = _standing(run, _benchmark(record), index, history, alive)
            budget_usd = None if now.status == "imported" else history.budget_usd
            usd = dollars_of(run, money_of(run, index), alive or None).usd(budget_usd)
            name, kind = str(record["name"]), record["kind"]
            runs.append(RunEntry(run_id, name, kind, _when(created), now.status, now.cells, usd, size))
        except UserError:
            runs.append(RunEntry(run_id, "", "", _when(created), "damaged", None, None, size))
    return sorted(runs, key=lambda entry: (entry.created, entry.run), reverse=True)


def _when(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


@dataclass(frozen=True, slots=True)
class _Standing:
    """The state of a run. For the fields, see `StatusResult`."""

    status: str
    cells: Mapping[str, int]
    claims: Sequence[ExcessTotals]
    stop: StopRecord | None = None
    driver: str = ""


def _standing(
    run: storage.RunStore,
    benchmark: type[Workload[Any]] | None,
    index: storage.LogIndex,
    history: History,
    alive: Mapping[int, bool] | None = None,
) -> _Standing:
    """Return the state of the run. `alive`: session -> whether its driver is alive, for sessions that were already watched."""
    total = benchmark.n_items_of(run) if benchmark is not None else run.record["cells"]
    excesses = index.excesses(run.run_id)
    claims = excess_totals(excesses.values(), history.reach.token_margins) if excesses else []
    if benchmark is not None and benchmark.imported:
        return _Standing("imported", {"total": total, "done": total, "failed": 0}, claims)
    cells = item_counts(run, total)
    stop = history.stop if cells["done"] < total else None
    driver, how = driver_of(run, history.start, alive)
    if driver and cells["done"] < cells["total"]:
        state = "running"
    elif cells["done"] == cells["total"]:
        state = "partial" if claims else "done"
    elif stop is not None:
        state = stop["status"]
    elif cells["done"] + cells["failed"] == cells["total"]:
        state = "partial"
    else:
        state = "interrupted" if how in ("stopped", "dead") else "unfinished"
    return _Standing(state, cells, claims, stop, driver)


def status(run: storage.RunStore) -> StatusResult:
    """Return the status of a run. Raises StoreError, for example if its tables cannot be read."""
    check_record(run)
    run = run.at()
    record, history = run.record, History(run)
    answers = answer_counts(run)
    ends = Counter[str]()
    for end, n in answers.select("finish_reason", "n").iter_rows():
        ends[end] += n
    # The benchmark may be a user's own and missing on this machine; the status does not need its code.
    benchmark = _benchmark(record)
    # Read the money before the log. Otherwise answers that arrive in between would seem to be missing from the log.
    money_record, index = run.money.newest(), run.log()
    damaged = [*history.damaged()]
    for kind, digest in sorted(set(() if benchmark is None else benchmark.objects(run))):
        try:
            run.store.get_object(kind, digest)
        except storage.StoreError as error:
            damaged.append(str(error))
    if index.damaged:
        mend = f"run `summhay doctor --store {run.store.uri}`"
        damaged.append(f"{index.damaged} records of the answers' log are damaged: {mend}")
    money = storage.Money.of(money_record, run.run_id, index)
    now = _standing(run, benchmark, index, history)
    open_items = 0 if now.status == "imported" else now.cells["total"] - now.cells["done"] - now.cells["failed"]
    left = None
    if open_items or now.stop:
        left = _work_left(run, benchmark, now, history.start, open_items, bool(damaged) and not now.driver)
    misplaced = []
    if now.status in ENDED and not now.driver and not run.has_tables():
        where = run.store.files.where(f"runs/{run.run_id}/tables")
        misplaced = [f"{where} does not hold the run's current tables; run or import again, which puts them there"]
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
            *misplaced,
            *stored_warnings(run, money, answers, history.reach.origins),
        ),
        problems=damaged,
        batches=run.batches.counts(),
    )


def driver_of(run: storage.RunStore, start: StartRecord | None, alive: Mapping[int, bool] | None = None) -> tuple[str, str]:
    """Return (the driver of the run, empty if it is not running; how its latest start ended, empty if unknown).

    `alive`: see `_standing`.
    """
    if start is None:
        return "", ""
    files, session = run.store.files, start["session"]
    how = storage.how_ended(files, session)
    known = alive or {}
    if how is None and (known[session] if session in known else storage.live_sessions(files, [session])):
        record = storage.read_session(files, session)
        return "" if record is None else record.where, ""
    return "", how or "dead"


def _work_left(
    run: storage.RunStore,
    benchmark: type[Workload[Any]] | None,
    now: _Standing,
    start: StartRecord | None,
    open_items: int,
    damaged: bool,
) -> dict[str, Any]:
    """Return the remaining work. For a damaged run, the work is planned from the intact files, since recorded figures may be
    wrong.

    For other runs, the first of these that exists is used: the record of the last stop, the driver's last report, and a plan if
    the benchmark has bounds.
    """
    unknown = {"cells": open_items, "calls": None, "usd": None}
    if not damaged:
        if now.stop is not None:
            return dict(now.stop["left"])
        if left := left_by_driver(run, start):
            return {**left, "cells": open_items, **({} if now.driver else {"seconds": None})}
    if damaged or (benchmark is not None and benchmark.bounds is not Workload.bounds):
        with contextlib.suppress(UserError):
            return {**plan(workload_of(run), run.store, at=run).left, "cells": open_items}
    return unknown


def left_by_driver(run: storage.RunStore, start: StartRecord | None) -> dict[str, Any] | None:
    """Return the remaining work in the last report of a start's driver; None if there is no report or if it lacks the calls."""
    told = None if start is None else storage.driver_report(run.store.files, start["session"], DriverReport)
    return None if told is None or told["left"]["calls"] is None else {**told["left"]}


def _benchmark(record: Mapping[str, Any]) -> type[Workload[Any]] | None:
    try:
        return find(str(record["kind"]))
    except UnknownName:
        return None
