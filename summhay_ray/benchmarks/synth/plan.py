"""What a synthesis will ask and cost, before any call.

What a topic asks depends on what is answered, so there are bounds: the least is a haystack that is right at once, the most one
that needs every regeneration that its domain allows, each after answers that cannot be read. They hold for topics that end
verified; one that fails may end sooner.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from summhay_ray.benchmark import StagePlan
from summhay_ray.benchmarks.synth.spec import GROUPS
from summhay_ray.llm import ModelSettings
from summhay_ray.store import LogIndex, RunStore, Tally
from summhay_ray.synth import Bounds, Group, bounds

if TYPE_CHECKING:
    from summhay_ray.benchmarks.synth.workload import Synth


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


def bounds_of(grid: Synth, run: RunStore | None, index: LogIndex, done: Collection[str]) -> list[StagePlan]:
    """Calls, tokens, dollars and minutes per stage of the topics that are left."""
    stages, left = _stages(grid, done)
    if run is not None and left:
        _subtract(run, index, stages, done)
    models = grid.settings()
    for stage in stages.values():
        stage.minutes = models[stage.model].limits.minutes(stage.calls, stage.input_tokens, stage.output_tokens)
    return [stages[name] for name in GROUPS if name in stages]


def _stages(grid: Synth, done: Collection[str]) -> tuple[dict[Group, SynthStage], int]:
    """Stage -> what its calls come to, and how many topics are left."""
    used, settings = grid.spec.models.used(), grid.settings()
    stages = {name: SynthStage(name, model.model) for name, model in used.items()}
    difficulty, left = grid.spec.difficulty.difficulty(), 0
    for topic in grid.topics:
        if grid.cell_id(topic) in done:
            continue
        left += 1
        found = bounds(topic, grid.domain, grid.shape, difficulty, "check" in used, used["write"].max_tokens)
        for name, stage in stages.items():
            stage.count(found[name], settings[stage.model], used[name].max_tokens)
    return stages, left


def _subtract(run: RunStore, index: LogIndex, stages: Mapping[Group, SynthStage], done: Collection[str]) -> None:
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
