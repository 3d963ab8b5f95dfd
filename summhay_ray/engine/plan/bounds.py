"""The plan of a benchmark whose calls depend on the answers: bounds for the calls of its unfinished items.

An item's lower bound is its smallest number of calls; its upper bound includes every retry. The bounds hold for items that
succeed; an item that fails may need fewer calls.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from summhay_ray.engine.contract import CallBounds, Workload
from summhay_ray.engine.stage_plan import StagePlan
from summhay_ray.llm import ModelSettings
from summhay_ray.store import AnswerTotals, LogIndex, RunStore


@dataclass
class BoundedStage(StagePlan):
    """A stage's expected calls and tokens, with their bounds."""

    min_calls: int = 0
    min_input_tokens: int = 0
    max_input_tokens: int = 0
    min_output_tokens: int = 0
    max_output_tokens: int = 0

    def count(self, bounds: CallBounds, settings: ModelSettings, longest: int) -> None:
        """Add one item. `longest`: maximum tokens of an answer."""
        least, expected, most = bounds.least, bounds.expected, bounds.most
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

        `known`: the run's answers of this stage. `open_share`: the estimated share of these that belongs to unfinished items. The
        lower bounds assume that all of them do.
        """
        reused = self.reused = round(known.answers * open_share)
        share = max(0, self.calls - reused) / self.calls if self.calls else 0.0
        self.calls, self.min_calls = max(0, self.calls - reused), max(0, self.min_calls - known.answers)
        # Expected tokens and cost shrink in proportion to the calls, and are 0 without calls.
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


def bounded(workload: Workload[Any], run: RunStore | None, index: LogIndex, done: Collection[str]) -> list[BoundedStage]:
    """Calls, tokens, dollars and minutes per stage, for the unfinished items. `done`: the ids of the finished ones."""
    stages: dict[str, BoundedStage] = {}
    settings, left = workload.models.settings(), 0
    for item in workload.items():
        if stages and item.id in done:
            continue
        left += item.id not in done
        for name, (model, bounds) in workload.bounds(item).items():
            stage = stages.setdefault(name, BoundedStage(name, model.model))
            if item.id not in done:
                stage.count(bounds, settings[model.model], model.max_tokens)
    if run is not None and left:
        _subtract_stored(run, index, stages, done)
    for stage in stages.values():
        stage.minutes = settings[stage.model].limits.minutes(stage.calls, stage.input_tokens, stage.output_tokens)
    return [stages[stage.name] for stage in workload.stages if stage.name in stages]


def _subtract_stored(run: RunStore, index: LogIndex, stages: Mapping[str, BoundedStage], done: Collection[str]) -> None:
    """Subtract the answers that the run has already paid for unfinished items.

    The tables give an answer's model, but not its stage: the finished items' answers are divided in proportion.
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
