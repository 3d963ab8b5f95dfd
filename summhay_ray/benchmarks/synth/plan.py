"""The planned calls and cost of a synthesis, before any call.

The calls for a topic depend on the answers, so there are bounds. The lower bound is a haystack that is right at once; the upper
bound needs every retry that its domain allows, each after answers that cannot be parsed. The bounds hold for topics that end
verified; one that fails may end sooner.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from summhay_ray.benchmark import AnswerTotals, LogIndex, ModelSettings, RunStore, StagePlan
from summhay_ray.benchmarks.synth.recipe import Recipe
from summhay_ray.benchmarks.synth.spec import GROUPS
from summhay_ray.synth import Bounds, Group, bounds


@dataclass
class SynthStage(StagePlan):
    """A stage of a synthesis: expected calls and tokens, with their bounds."""

    min_calls: int = 0
    min_input_tokens: int = 0
    max_input_tokens: int = 0
    min_output_tokens: int = 0
    max_output_tokens: int = 0

    def count(self, bound: Bounds, settings: ModelSettings, longest: int) -> None:
        """Add one topic. `longest`: most tokens of an answer."""
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
        # Each call is priced, and rounded up, separately.
        if least.calls:
            self.min_micros += least.calls * max(0, settings.least_micros(least.input_tokens // least.calls) - 1)
        if most.calls:
            self.max_micros += most.calls * settings.worst_micros(-(-most.input_tokens // most.calls), longest)

    def subtract(self, known: AnswerTotals, open_share: float) -> None:
        """Subtract stored answers, which are not requested again.

        `known`: the run's answers of this stage; `open_share`: the estimated share of them that belongs to unfinished topics. The
        lower bounds assume that all of them do.
        """
        reused = self.reused = round(known.answers * open_share)
        share = max(0, self.calls - reused) / self.calls if self.calls else 0.0
        self.calls, self.min_calls = max(0, self.calls - reused), max(0, self.min_calls - known.answers)
        # Expected tokens and cost shrink in proportion to the calls, to 0 if there are none.
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


def bounds_of(recipe: Recipe, run: RunStore | None, index: LogIndex, done: Collection[str]) -> list[StagePlan]:
    """Calls, tokens, dollars and minutes per stage, for the unfinished topics. `done`: cells of the finished ones."""
    stages, left = _stages(recipe, done)
    if run is not None and left:
        _subtract(run, index, stages, done)
    models = recipe.models.settings()
    for stage in stages.values():
        stage.minutes = models[stage.model].limits.minutes(stage.calls, stage.input_tokens, stage.output_tokens)
    return [stages[name] for name in GROUPS if name in stages]


def _stages(recipe: Recipe, done: Collection[str]) -> tuple[dict[Group, SynthStage], int]:
    """The plan of each stage, and the number of unfinished topics."""
    used, settings = recipe.spec.models.used(), recipe.models.settings()
    stages = {name: SynthStage(name, model.model) for name, model in used.items()}
    difficulty, left = recipe.spec.difficulty.difficulty(), 0
    for topic in recipe.topics:
        if recipe.cell_id(topic) in done:
            continue
        left += 1
        bounded = bounds(topic, recipe.domain, recipe.shape, difficulty, "check" in used, used["write"].max_tokens)
        for name, stage in stages.items():
            stage.count(bounded[name], settings[stage.model], used[name].max_tokens)
    return stages, left


def _subtract(run: RunStore, index: LogIndex, stages: Mapping[Group, SynthStage], done: Collection[str]) -> None:
    """Subtract the answers that the run has already paid for unfinished topics.

    The tables give an answer's model, but not its stage: the finished topics' answers are divided in proportion.
    """
    totals = index.totals(run.run_id)
    answers: Counter[str] = Counter()
    for stage in stages.values():
        answers[stage.model] += totals.get((stage.stage, stage.model), AnswerTotals()).answers
    used: Counter[str] = Counter()
    if done:
        rows = run.table("raw_answers", sorted(done)).group_by("model").agg(pl.len())
        used.update(dict(rows.iter_rows()))
    for stage in stages.values():
        share = max(0.0, 1 - used[stage.model] / answers[stage.model]) if answers[stage.model] else 0.0
        stage.subtract(totals.get((stage.stage, stage.model), AnswerTotals()), share)
