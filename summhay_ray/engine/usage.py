"""What was planned beside what it came to, and where a budget stopped a run. Part of the engine room; no Ray, no calls.

`runs/<run>/plan.json` is the plan as it stood when the run first started; `runs/<run>/starts/<number>.json` tell of the starts
and `runs/<run>/stops/<number>.json` of those that their budget ended, one after the other. All are written once and never
changed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from summhay_ray.engine.origins import origins_of
from summhay_ray.engine.plan import PlanResult
from summhay_ray.llm import ModelSettings, margins_of
from summhay_ray.outcome import MICROS
from summhay_ray.store import Chain, LogIndex, Purpose, RunStore, StoreError, Tally

_NOTHING_ELSE = "nothing else depends on it"
_PLANNED = ("calls", "reused", "input_tokens", "output_tokens", "usd", "usd_max")
_BOUNDS = ("min_calls", "max_calls", "min_input_tokens", "max_input_tokens", "min_output_tokens", "max_output_tokens", "usd_min")
"""Of a plan that gives bounds, besides."""


def keep_plan(run: RunStore, plan: PlanResult) -> None:
    """Write the plan beside the run's record; the first plan stays."""
    run.store.files.create(_plan_name(run), _bytes(plan.to_json()))


def read_plan(run: RunStore) -> dict[str, Any] | None:
    """The plan as `PlanResult.to_json` gave it, None where the run keeps none. Raises StoreError where it is damaged."""
    files, name = run.store.files, _plan_name(run)
    try:
        read = files.read(name)
    except FileNotFoundError:
        return None
    try:
        content = json.loads(read)
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise StoreError(f"{files.where(name)} is damaged: expected a JSON object; delete it, {_NOTHING_ELSE}")
    return content


@dataclass(frozen=True)
class Reach:
    """How a start reaches its models, as far as a reader of the run must know."""

    margins: Mapping[str, float] = field(default_factory=dict)
    """Model -> its `token_margin`, of those that have one."""
    origins: Mapping[str, str] = field(default_factory=dict)
    """Model -> where it answers."""

    @classmethod
    def of(cls, settings: Mapping[str, ModelSettings]) -> Reach:
        """By a spec's settings."""
        return cls(margins_of(settings), origins_of(settings))

    def told(self) -> dict[str, Any]:
        """As a start's record has it."""
        return {"token_margins": dict(self.margins), "origins": dict(self.origins)}


def keep_start(run: RunStore, tenure: int, budget_usd: float | None, reach: Reach = Reach()) -> None:
    """Tell that the run goes on, and how: what stopped an earlier start does not stand any more."""
    _append(_chain(run, "starts"), {"tenure": tenure, "budget_usd": budget_usd, **reach.told()})


def keep_reach(run: RunStore, reach: Reach) -> None:
    """Tell that the latest start, which has nothing left to ask, is looked at with its models reached in another way."""
    start = latest_start(run)
    if start is not None and latest_reach(run) != reach:
        _append(_chain(run, "starts"), {**start, **reach.told()})


def latest_reach(run: RunStore) -> Reach:
    """How the run's latest start reached its models, as far as it told."""
    start = latest_start(run) or {}
    return Reach(start.get("token_margins", {}), start.get("origins", {}))


def latest_start(run: RunStore) -> dict[str, Any] | None:
    """What `keep_start` told last: `tenure` and `budget_usd`. None for a run that only earlier versions started."""
    newest = _chain(run, "starts").newest()
    return newest[1] if newest else None


def keep_stop(run: RunStore, generation: int, content: Mapping[str, Any]) -> None:
    """Tell why a start of the run ended early: {"status": "budget", "budget_usd": ..., "left": {...}}.

    A start that committed nothing shares its generation with the next one: each has a record of its own.
    """
    _append(_stops(run), {**content, "generation": generation, "commits": run.added()})


def standing_stop(run: RunStore) -> dict[str, Any] | None:
    """The stop that the run still stands at: the latest, where the run was not started, and nothing committed, since."""
    newest = _stops(run).newest()
    if newest is None or newest[1].get("commits") != run.added():
        return None
    start = latest_start(run)
    return newest[1] if start is None or start["tenure"] <= newest[1]["generation"] else None


def latest_budget(run: RunStore) -> float | None:
    """The budget in dollars of the run's latest start, as far as it is known; None where there was none, too.

    Earlier versions do not tell of a start: a run that they stopped at its budget went on with another, which nothing tells.
    """
    if (start := latest_start(run)) is not None:
        budget: float | None = start["budget_usd"]
        return budget
    told = [standing_stop(run)] if _stops(run).latest() else [read_plan(run), run.record.get("spec")]
    return next((one.get("budget_usd") for one in told if one), None)


def usage_of_run(run: RunStore, index: LogIndex) -> list[dict[str, Any]]:
    """Stage and model -> planned beside real: calls, tokens and dollars, what was read from caches and what that saved.

    `planned` is null where the plan did not foresee it; what was reused then is no part of it, as it is no part of `real`. Of a
    run that is planned by bounds it has the least and the most, too.
    """
    planned = {(one["stage"], one["model"]): one for one in (read_plan(run) or {}).get("stages", [])}
    real = index.tallies(run.run_id)
    order = list(run.record.get("stages", ()))
    purposes = sorted({*planned, *real}, key=lambda one: (order.index(one[0]) if one[0] in order else -1, one[1]))
    return [_row(purpose, planned.get(purpose), real.get(purpose, Tally())) for purpose in purposes]


def _row(purpose: Purpose, planned: Mapping[str, Any] | None, real: Tally) -> dict[str, Any]:
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
            "usd": real.usd_micros / MICROS,
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


def _stops(run: RunStore) -> Chain:
    return _chain(run, "stops")


def _chain(run: RunStore, folder: str) -> Chain:
    return Chain(run.store.files, f"runs/{run.run_id}/{folder}", f"delete it and those after it, {_NOTHING_ELSE}")


def _bytes(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content, sort_keys=True, indent=1, allow_nan=False).encode("ascii")
