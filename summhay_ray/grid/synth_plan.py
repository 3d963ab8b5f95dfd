"""What a synthesis will ask and cost, before any call. Part of the grid room; no Ray, no calls.

What a topic asks depends on what is answered, so there are bounds: the least is a haystack that is right at once, the most one
that needs every regeneration that its domain allows, each after answers that cannot be read. They hold for topics that end
verified; one that fails may end sooner.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from summhay_ray.grid.plan import PlanResult, StagePlan, exceeded
from summhay_ray.grid.synth_spec import GROUPS
from summhay_ray.grid.synthesizing import Synthesizing
from summhay_ray.llm import ModelSettings
from summhay_ray.records import MICROS
from summhay_ray.store import LogIndex, RunStore, Store, Tally
from summhay_ray.synth import Bounds, Group, bounds


@dataclass
class SynthStage(StagePlan):
    """A stage of a synthesis: calls and tokens expected, and between which bounds they lie."""

    min_calls: int = 0
    max_calls: int = 0
    min_input_tokens: int = 0
    max_input_tokens: int = 0
    min_output_tokens: int = 0
    max_output_tokens: int = 0

    def count(self, bound: Bounds, settings: ModelSettings, longest: int) -> None:
        """Count one topic. `longest`: tokens that an answer may have."""
        least, expected, most = bound.least, bound.expected, bound.most
        self.calls += expected.calls
        self.min_calls += least.calls
        self.max_calls += most.calls
        self.input_tokens += expected.input_tokens
        self.min_input_tokens += least.input_tokens
        self.max_input_tokens += most.input_tokens
        self.output_tokens += expected.output_tokens
        self.min_output_tokens += least.output_tokens
        self.max_output_tokens += most.calls * longest
        self.usd_micros += settings.expected_micros(expected.input_tokens, expected.output_tokens)
        # Calls are priced, and rounded up, one by one.
        if least.calls:
            self.min_micros += least.calls * max(0, settings.least_micros(least.input_tokens // least.calls) - 1)
        if most.calls:
            self.max_micros += most.calls * settings.worst_micros(-(-most.input_tokens // most.calls), longest)

    def less(self, known: Tally, open_share: float) -> None:
        """Of the run's answers some, and all at the most, are those of topics that are left: none is asked for again."""
        theirs = self.reused = round(known.answers * open_share)
        share = max(0, self.calls - theirs) / self.calls if self.calls else 0.0
        self.calls, self.min_calls = max(0, self.calls - theirs), max(0, self.min_calls - known.answers)
        # What is expected goes down with the calls: none to come cost nothing, however short those were that came.
        for name in ("input_tokens", "output_tokens"):
            least = max(0, getattr(self, f"min_{name}") - getattr(known, name))
            setattr(self, f"min_{name}", least)
            setattr(self, name, max(least, round(getattr(self, name) * share)))
        self.min_micros = max(0, self.min_micros - known.usd_micros)
        self.usd_micros = max(self.min_micros, round(self.usd_micros * share))

    def to_json(self) -> dict[str, Any]:
        """The stage as JSON."""
        bounds = ("min_calls", "max_calls", "min_input_tokens", "max_input_tokens", "min_output_tokens", "max_output_tokens")
        return {**super().to_json(), **{name: getattr(self, name) for name in bounds}}


def plan_synth(grid: Synthesizing, store: Store, budget_usd: float | None = None) -> PlanResult:
    """Calls, tokens, dollars and minutes per stage of the topics that are left. `budget_usd` replaces the spec's."""
    index = LogIndex(store.files)
    index.refresh()
    finished: dict[str, bool] = {}
    run = store.run(grid.run_id) if store.files.exists(f"runs/{grid.run_id}/run.json") else None
    if run is not None:
        finished = run.finished("cell")
    done = {cell for cell, again in finished.items() if not again}
    stages, left = _stages(grid, done)
    if run is not None and left:
        _subtract(run, index, stages, done)
    models = grid.settings()
    for stage in stages.values():
        stage.minutes = models[stage.model].limits.minutes(stage.calls, stage.input_tokens, stage.output_tokens)
    planned: list[StagePlan] = [stages[name] for name in GROUPS if name in stages]
    budget_usd = grid.spec.budget_usd if budget_usd is None else budget_usd
    return PlanResult(
        run=grid.run_id,
        cells=grid.n_cells,
        cells_finished=grid.n_cells - left,
        too_long=0,
        no_context=0,
        stages=planned,
        spent_usd=index.spent(grid.run_id) / MICROS,
        budget_usd=budget_usd,
        warnings=tuple(exceeded(grid, index, planned, budget_usd)),
    )


def _stages(grid: Synthesizing, done: set[str]) -> tuple[dict[Group, SynthStage], int]:
    """Stage -> what its calls come to, and how many topics are left."""
    used, settings = grid.synth.models.used(), grid.settings()
    stages = {name: SynthStage(name, model.model) for name, model in used.items()}
    difficulty, left = grid.synth.difficulty.difficulty(), 0
    for topic in grid.topics:
        if grid.cell_id(topic) in done:
            continue
        left += 1
        found = bounds(topic, grid.domain, grid.shape, difficulty, "check" in used, used["write"].max_tokens)
        for name, stage in stages.items():
            stage.count(found[name], settings[stage.model], used[name].max_tokens)
    return stages, left


def _subtract(run: RunStore, index: LogIndex, stages: Mapping[Group, SynthStage], done: set[str]) -> None:
    """Take off what the run has paid for topics that are left.

    The tables say of an answer which model gave it, not for which stage: the finished topics' answers are taken in proportion.
    """
    told = index.tallies(run.run_id)
    answers: Counter[str] = Counter()
    for stage in stages.values():
        answers[stage.model] += told.get((stage.stage, stage.model), Tally()).answers
    used: Counter[str] = Counter()
    if done:
        rows = run.table("raw_answers", sorted(done)).group_by("model").agg(pl.len())
        used.update(dict(rows.iter_rows()))
    for stage in stages.values():
        share = max(0.0, 1 - used[stage.model] / answers[stage.model]) if answers[stage.model] else 0.0
        stage.less(told.get((stage.stage, stage.model), Tally()), share)
