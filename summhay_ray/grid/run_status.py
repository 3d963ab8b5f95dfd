"""How a stored run stands: what is done, what it cost, whether somebody is at it. Part of the grid room; no Ray, no calls.

Everything is read from the store, so that it works while the run goes on, and from another machine.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from summhay_ray.grid.planned import latest_budget, latest_start, standing_stop, usage_of_run
from summhay_ray.grid.rejudging import KIND as REJUDGE
from summhay_ray.grid.rejudging import source_of
from summhay_ray.grid.run import cell_counts
from summhay_ray.grid.synth_plan import plan_synth
from summhay_ray.grid.synthesizing import KIND as SYNTH
from summhay_ray.grid.synthesizing import stored_synthesizing
from summhay_ray.records import MICROS
from summhay_ray.store import LogIndex, RunStore, how_ended, is_alive, read_tenure


@dataclass(frozen=True)
class StatusResult:
    """How a stored run stands."""

    run: str
    kind: str
    name: str
    status: str
    """running; else done, partial (finished, with failures), budget (unfinished since its budget stopped it), interrupted
    (unfinished since its driver was ended), unfinished (nothing tells why), imported."""
    cells: Mapping[str, int]
    failures: Mapping[str, int]
    """Class of error -> rows."""
    usd: Mapping[str, float | None]
    """Spent so far, and the budget of the latest start, null where it had none or nothing tells."""
    usage: Sequence[Mapping[str, Any]]
    """A row for each stage and model: planned (of a synthesis with its bounds) beside real, cached share of the input, dollars
    that the cache saved."""
    finish_reasons: Mapping[str, int]
    """Why answers ended other than by stopping -> how many: `length` are cut answers."""
    damaged: int
    """Records of the store's log that cannot be read; what they paid for is asked again."""
    tables: Mapping[str, Mapping[str, Any]]
    """Table -> rows and hash of its sorted rows."""
    untold_usd: float = 0.0
    """What workers that are at it, or were killed, may have spent beyond that: the store hears of it every two seconds."""
    stop: Mapping[str, Any] | None = None
    """Where the run stands still: what its budget left to do."""
    left: Mapping[str, Any] | None = None
    """What is left to do: cells, calls, and their dollars expected; calls and usd are null where nothing tells."""
    driver: str = ""
    """Of a run that is running: who drives it, `on HOST, pid N`."""

    def to_json(self) -> dict[str, Any]:
        """The JSON document of `summhay status`."""
        return asdict(self)


def status(run: RunStore) -> StatusResult:
    """Read how the run stands."""
    record = run.record
    failures = Counter(run.table("failures")["error"].to_list())
    ends = Counter(run.table("raw_answers")["finish_reason"].to_list())
    stop, driver = None, ""
    if record["kind"] == "import":
        n_cells = run.table("summaries").height
        cells, state, budget, open_cells = {"total": n_cells, "done": n_cells, "failed": 0}, "imported", None, 0
    else:
        # A run that is judged may get more summaries.
        total = source_of(run).table("summaries").height if record["kind"] == REJUDGE else record["cells"]
        cells = cell_counts(run, total)
        budget = latest_budget(run)
        open_cells = cells["total"] - cells["done"] - cells["failed"]
        stop = standing_stop(run) if open_cells else None
        driver, how = _driver(run)
        state = _state(cells, stop, driver, how)
    index = LogIndex(run.store.files)
    index.refresh()
    return StatusResult(
        run=run.run_id,
        kind=record["kind"],
        name=_name(record),
        status=state,
        cells=cells,
        failures=dict(sorted(failures.items())),
        usd={"spent": (index.spent(run.run_id) - index.untold(run.run_id)) / MICROS, "budget": budget},
        untold_usd=index.untold(run.run_id) / MICROS,
        usage=(usage := usage_of_run(run, index)),
        finish_reasons={reason: number for reason, number in sorted(ends.items()) if reason != "stop"},
        damaged=index.damaged,
        tables=run.digests(),
        stop=stop,
        left=_left(run, open_cells, stop, usage) if open_cells else None,
        driver=driver,
    )


def _driver(run: RunStore) -> tuple[str, str]:
    """(who drives the run, empty where nobody does; how its latest start ended, empty where nothing tells)."""
    start = latest_start(run)
    if start is None:
        return "", ""
    files, tenure = run.store.files, start["tenure"]
    how = how_ended(files, tenure)
    if how is None and is_alive(files, tenure) and (record := read_tenure(files, tenure)) is not None:
        return record.told(), ""
    return "", how or "dead"


def _state(cells: Mapping[str, int], stop: Mapping[str, Any] | None, driver: str, how: str) -> str:
    """How a run stands that is not imported."""
    open_cells = cells["total"] - cells["done"] - cells["failed"]
    if driver and cells["done"] < cells["total"]:
        return "running"
    if not open_cells:
        return "partial" if cells["failed"] else "done"
    if stop is not None:
        return str(stop.get("status", "unfinished"))
    return "interrupted" if how in ("stopped", "dead") else "unfinished"


def _left(run: RunStore, open_cells: int, stop: Mapping[str, Any] | None, usage: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What is left to do of a run: as its stop tells, else as planned less what was made."""
    if stop is not None:
        return dict(stop.get("left") or {})
    if run.record["kind"] == SYNTH and (grid := stored_synthesizing(run.store, run.record)).run_id == run.run_id:
        plan = plan_synth(grid, run.store)
        return {"cells": open_cells, "calls": sum(stage.calls for stage in plan.stages), "usd": dict(plan.usd)}
    rows = [row for row in usage if row["planned"] is not None]
    if not rows:
        return {"cells": open_cells, "calls": None, "usd": None}
    calls, usd = (sum(max(0, row["planned"][name] - row["real"][name]) for row in rows) for name in ("calls", "usd"))
    return {"cells": open_cells, "calls": calls, "usd": {"expected": usd}}


def _name(record: Mapping[str, Any]) -> str:
    if record["kind"] == "grid":
        return str(record["spec"]["name"])
    return str(record.get("name") or ", ".join(entry["name"] for entry in record["haystacks"]))
