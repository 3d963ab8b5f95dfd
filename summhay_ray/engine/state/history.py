"""Planned and actual usage of a run, and records of its starts and stops. No Ray, no calls.

`runs/<run>/plan.json` is the plan at the first start. `runs/<run>/starts/<number>.json` record the starts, and
`runs/<run>/stops/<number>.json` those that ended early. All are written once and never changed.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NotRequired, TypeVar

from pydantic import ConfigDict, with_config
from typing_extensions import TypedDict

from summhay_ray.engine.state.money import LeftRecord
from summhay_ray.engine.state.run_warnings import origins_of
from summhay_ray.llm import ModelSettings, margins_of
from summhay_ray.outcome import MICROS
from summhay_ray.store import (
    Amount,
    AnswerTotals,
    Chain,
    Count,
    DamagedRecord,
    Money,
    Purpose,
    RunStore,
    Total,
    read_checked,
    with_hash,
)

T = TypeVar("T")

_NOTHING_ELSE = "nothing else depends on it"
_MEND = f"delete it and those after it, {_NOTHING_ELSE}"
_PLANNED = ("calls", "reused", "input_tokens", "output_tokens", "usd", "usd_max", "minutes")
_BOUNDS = ("min_calls", "max_calls", "min_input_tokens", "max_input_tokens", "min_output_tokens", "max_output_tokens", "usd_min")
"""Fields that only a plan with bounds has."""


class StartRecord(TypedDict):
    """A start of the run. `session`: the number of its driver's session."""

    session: Total
    budget_usd: Amount | None
    token_margins: NotRequired[dict[str, Amount]]
    origins: NotRequired[dict[str, str]]


class StopRecord(TypedDict):
    """Why a start ended early. `commits`: how many parts had been committed."""

    status: Literal["budget", "limited"]
    left: LeftRecord
    session: Total
    commits: Total
    budget_usd: NotRequired[Amount | None]


@with_config(ConfigDict(extra="allow"))
class StageRecord(TypedDict):
    """The plan of one stage and model. Only a plan with bounds has all of these fields."""

    stage: str
    model: str
    calls: Count
    reused: Count
    input_tokens: Count
    output_tokens: Count
    usd: Amount
    usd_min: Amount
    usd_max: Amount
    minutes: Amount | None
    min_calls: NotRequired[Count]
    max_calls: NotRequired[Count]
    min_input_tokens: NotRequired[Count]
    max_input_tokens: NotRequired[Count]
    min_output_tokens: NotRequired[Count]
    max_output_tokens: NotRequired[Count]


@with_config(ConfigDict(extra="allow"))
class PlanRecord(TypedDict):
    """The fields that are read from the plan at the first start, which `PlanResult.to_json` wrote."""

    stages: list[StageRecord]


def has_plan(run: RunStore) -> bool:
    """Whether a plan of the run is stored."""
    return run.store.files.exists(_plan_name(run))


def keep_plan(run: RunStore, plan: Mapping[str, Any]) -> None:
    """Store the run's plan, as `PlanResult.to_json` gives it. An existing plan is kept."""
    run.store.files.create(_plan_name(run), with_hash(plan, indent=1))


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


class History:
    """The records of a run's plan and starts. Each record is read once, on first use; a damaged one counts as missing."""

    def __init__(self, run: RunStore) -> None:
        self._run = run
        self._damaged: list[str] = []

    @functools.cached_property
    def plan(self) -> PlanRecord | None:
        """The plan at the first start, as `PlanResult.to_json` gave it; None if there is none."""
        return self._whole(lambda: _plan(self._run))

    @functools.cached_property
    def start(self) -> StartRecord | None:
        """The latest start; None if there is none."""
        newest = self._whole(_starts(self._run).newest)
        return newest[1] if newest else None

    @functools.cached_property
    def stop(self) -> StopRecord | None:
        """The latest stop, if the run was not started again and nothing was committed since; else None."""
        newest = self._whole(_stops(self._run).newest)
        if newest is None or newest[1]["commits"] != self._run.added():
            return None
        return newest[1] if not self.start or self.start["session"] <= newest[1]["session"] else None

    def damaged(self) -> Sequence[str]:
        """A line for each damaged record. Reads all records."""
        _ = self.plan, self.start, self.stop
        return self._damaged

    def _whole(self, read: Callable[[], T | None]) -> T | None:
        try:
            return read()
        except DamagedRecord as error:
            self._damaged.append(error.flaw)
            return None

    @property
    def reach(self) -> RecordedReach:
        """How the latest start reached its models, as far as it is recorded."""
        return (
            RecordedReach(self.start.get("token_margins", {}), self.start.get("origins", {})) if self.start else RecordedReach()
        )

    @property
    def budget_usd(self) -> float | None:
        """The budget of the latest start; None if it had none or it is unknown."""
        return self.start["budget_usd"] if self.start else None


def keep_start(run: RunStore, session: int, budget_usd: float | None, reach: RecordedReach = RecordedReach()) -> None:
    """Record a start of the run, which invalidates an earlier stop. `session`: the number of its driver's session."""
    _append(_starts(run), {"session": session, "budget_usd": budget_usd, **reach.fields()})


def keep_reach(run: RunStore, reach: RecordedReach) -> None:
    """Record changed endpoints and margins of a run without remaining items."""
    history = History(run)
    if history.start and history.reach != reach:
        _append(_starts(run), {**history.start, **reach.fields()})


def keep_stop(run: RunStore, session: int, content: Mapping[str, Any]) -> None:
    """Record why a start ended early: {"status": "budget", "budget_usd": ..., "left": {...}}.

    `session`: the number of the session that it ends. Every start has its own record, even if it committed nothing.
    """
    _append(_stops(run), {**content, "session": session, "commits": run.added()})


def usage_of_run(
    run: RunStore, plan: PlanRecord | None, real: Mapping[Purpose, AnswerTotals], money: Money
) -> list[dict[str, Any]]:
    """A row for each stage and model: planned and actual calls, tokens and dollars, cached tokens and their savings.

    `planned` is null for a stage and model that the plan lacks. Reused answers do not count as calls on either side. For a plan
    with bounds, `planned` also has the minimum and the maximum.
    """
    planned = {(stage["stage"], stage["model"]): stage for stage in (plan["stages"] if plan else ())}
    order = list(run.record.get("stages", ()))
    every = {*planned, *real, *money.charged}
    purposes = sorted(every, key=lambda purpose: (order.index(purpose[0]) if purpose[0] in order else -1, purpose[1]))
    return [
        _row(purpose, planned.get(purpose), real.get(purpose, AnswerTotals()), money.charged[purpose]) for purpose in purposes
    ]


def _row(purpose: Purpose, planned: Mapping[str, Any] | None, real: AnswerTotals, charged: int) -> dict[str, Any]:
    names = [*_PLANNED, *(_BOUNDS if planned and planned.keys() >= {*_BOUNDS} else ())]
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


def _append(chain: Chain[Any], body: Mapping[str, Any]) -> None:
    number = chain.latest() + 1
    while not chain.append(number, body):
        number += 1


def _plan_name(run: RunStore) -> str:
    return f"runs/{run.run_id}/plan.json"


def _plan(run: RunStore) -> PlanRecord | None:
    files, name = run.store.files, _plan_name(run)
    try:
        content = read_checked(files.read(name), PlanRecord)
    except FileNotFoundError:
        return None
    if content is None:
        flaw = f"{files.where(name)} is damaged: it is not as it was written; delete it, {_NOTHING_ELSE}"
        raise DamagedRecord(flaw, files.uri)
    return content


def _starts(run: RunStore) -> Chain[StartRecord]:
    return Chain(run.store.files, f"runs/{run.run_id}/starts", StartRecord, _MEND)


def _stops(run: RunStore) -> Chain[StopRecord]:
    return Chain(run.store.files, f"runs/{run.run_id}/stops", StopRecord, _MEND)
