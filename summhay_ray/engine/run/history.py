"""Planned and real usage of a run, and records of its starts and stops. Part of the engine room; no Ray, no calls.

`runs/<run>/plan.json` is the plan at the first start. `runs/<run>/starts/<number>.json` record the starts, and
`runs/<run>/stops/<number>.json` those that ended early. All are written once and never changed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from summhay_ray.engine.plan.plan import PlanResult
from summhay_ray.engine.run.origins import origins_of
from summhay_ray.llm import ModelSettings, margins_of
from summhay_ray.outcome import MICROS
from summhay_ray.store import AnswerTotals, Chain, DamagedRecord, LogIndex, Purpose, RunStore, read_checked, with_hash

T = TypeVar("T")

_NOTHING_ELSE = "nothing else depends on it"
_PLANNED = ("calls", "reused", "input_tokens", "output_tokens", "usd", "usd_max", "minutes")
_BOUNDS = ("min_calls", "max_calls", "min_input_tokens", "max_input_tokens", "min_output_tokens", "max_output_tokens", "usd_min")
"""Further fields of a plan that gives bounds."""


def keep_plan(run: RunStore, plan: PlanResult) -> None:
    """Store the run's plan. If there is one already, it stays."""
    run.store.files.create(_plan_name(run), with_hash(plan.to_json(), indent=1))


def read_plan(run: RunStore) -> dict[str, Any] | None:
    """The stored plan, as `PlanResult.to_json` gave it; None if there is none that can be read."""
    return _whole(lambda: _plan(run))


def damaged_records(run: RunStore) -> list[str]:
    """A line for each damaged record of the plan, the latest start and the latest stop; other functions take it for missing."""
    lines = []
    for read in (lambda: _plan(run), _starts(run).newest, _stops(run).newest):
        try:
            read()
        except DamagedRecord as error:
            lines.append(str(error))
    return lines


def _whole(read: Callable[[], T | None]) -> T | None:
    try:
        return read()
    except DamagedRecord:
        return None


def _plan(run: RunStore) -> dict[str, Any] | None:
    files, name = run.store.files, _plan_name(run)
    try:
        read = files.read(name)
    except FileNotFoundError:
        return None
    content = read_checked(read)
    if content is None:
        raise DamagedRecord(f"{files.where(name)} is damaged: it is not as it was written; delete it, {_NOTHING_ELSE}")
    return content


@dataclass(frozen=True)
class RecordedReach:
    """How a start reaches its models; recorded with the start."""

    margins: Mapping[str, float] = field(default_factory=dict)
    """Model -> its `token_margin`, for models that have one."""
    origins: Mapping[str, str] = field(default_factory=dict)
    """Model -> the origin of its answers, such as the endpoint."""

    @classmethod
    def of(cls, settings: Mapping[str, ModelSettings]) -> RecordedReach:
        """The reach that a spec's settings describe."""
        return cls(margins_of(settings), origins_of(settings))

    def fields(self) -> dict[str, Any]:
        """The fields of a start's record."""
        return {"token_margins": dict(self.margins), "origins": dict(self.origins)}


def keep_start(run: RunStore, session: int, budget_usd: float | None, reach: RecordedReach = RecordedReach()) -> None:
    """Record a start of the run. An earlier stop no longer stands. `session`: the number of its driver's session."""
    _append(_starts(run), {"session": session, "budget_usd": budget_usd, **reach.fields()})


def keep_reach(run: RunStore, reach: RecordedReach) -> None:
    """Record a changed reach for a run that has nothing left to ask."""
    start = latest_start(run)
    if start is not None and latest_reach(run) != reach:
        _append(_starts(run), {**start, **reach.fields()})


def latest_reach(run: RunStore) -> RecordedReach:
    """How the run's latest start reached its models, as far as it is recorded."""
    start = latest_start(run) or {}
    return RecordedReach(start.get("token_margins", {}), start.get("origins", {}))


def latest_start(run: RunStore) -> dict[str, Any] | None:
    """The latest record of `keep_start` (`session`: its number; `budget_usd`, ...); None if there is none that can be read."""
    newest = _whole(_starts(run).newest)
    return newest[1] if newest else None


def keep_stop(run: RunStore, session: int, content: Mapping[str, Any]) -> None:
    """Record why a start ended early: {"status": "budget", "budget_usd": ..., "left": {...}}.

    `session`: the number of the session that it ends. Every start has its own record, even if it committed nothing.
    """
    _append(_stops(run), {**content, "session": session, "commits": run.added()})


def standing_stop(run: RunStore) -> dict[str, Any] | None:
    """The latest stop, if the run was not started and nothing was committed since; else None."""
    newest = _whole(_stops(run).newest)
    if newest is None or newest[1].get("commits") != run.added():
        return None
    start = latest_start(run)
    return newest[1] if start is None or start["session"] <= newest[1]["session"] else None


def latest_budget(run: RunStore) -> float | None:
    """The budget of the run's latest start, in dollars; None if it had none or it is unknown."""
    return (latest_start(run) or {}).get("budget_usd")


def usage_of_run(run: RunStore, index: LogIndex) -> list[dict[str, Any]]:
    """A row for each stage and model: planned and real calls, tokens and dollars, cached tokens and what they saved.

    `planned` is null for a stage and model that the plan does not have. Neither side counts reused answers as calls. For a run
    that is planned by bounds, `planned` also has the least and the most.
    """
    planned = {(stage["stage"], stage["model"]): stage for stage in (read_plan(run) or {}).get("stages", [])}
    real, record = index.totals(run.run_id), run.money.newest()
    charged = Counter(record.charged if record is not None else {})
    order = list(run.record.get("stages", ()))
    every = {*planned, *real, *charged}
    purposes = sorted(every, key=lambda purpose: (order.index(purpose[0]) if purpose[0] in order else -1, purpose[1]))
    return [_row(purpose, planned.get(purpose), real.get(purpose, AnswerTotals()), charged[purpose]) for purpose in purposes]


def _row(purpose: Purpose, planned: Mapping[str, Any] | None, real: AnswerTotals, charged: int) -> dict[str, Any]:
    names = [*_PLANNED, *(name for name in _BOUNDS if planned and _BOUNDS[0] in planned)]
    return {
        "stage": purpose[0],
        "model": purpose[1],
        "planned": None if planned is None else {name: planned[name] for name in names},
        "real": {
            "calls": real.answers,
            "input_tokens": real.input_tokens,
            "cached_tokens": real.cached_tokens,
            "output_tokens": real.output_tokens,
            "usd": (real.usd_micros + charged) / MICROS,
        },
        "cached_share": real.cached_tokens / real.input_tokens if real.input_tokens else None,
        "saved_usd": real.saved_micros / MICROS,
    }


def _append(chain: Chain, body: Mapping[str, Any]) -> None:
    number = chain.latest() + 1
    while not chain.append(number, body):
        number += 1


def _plan_name(run: RunStore) -> str:
    return f"runs/{run.run_id}/plan.json"


def _starts(run: RunStore) -> Chain:
    return _chain(run, "starts")


def _stops(run: RunStore) -> Chain:
    return _chain(run, "stops")


def _chain(run: RunStore, folder: str) -> Chain:
    return Chain(run.store.files, f"runs/{run.run_id}/{folder}", f"delete it and those after it, {_NOTHING_ELSE}")
