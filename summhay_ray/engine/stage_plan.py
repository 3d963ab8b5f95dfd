"""The plan of one stage."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import polars as pl

from summhay_ray.engine.contract import CallBounds, Workload
from summhay_ray.llm import ModelSettings
from summhay_ray.outcome import MICROS
from summhay_ray.store import AnswerTotals, LogIndex, RunStore


@dataclass
class StagePlan:
    """The plan of one stage and model: calls to make, answers to reuse, and tokens and micro-dollars of the calls.

    If every call is answered once, the actual cost is between `min_micros` and `max_micros`. For the minimum, the provider counts
    fewer tokens than we do, all prompts are cached, and every answer has one token. For the maximum, the provider counts more
    tokens, nothing is cached, and every answer has the maximum length. `usd_micros` is the expected cost, with our token counts
    and without a cache.
    """

    stage: str
    model: str
    calls: int = 0
    reused: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    usd_micros: int = 0
    min_micros: int = 0
    max_micros: int = 0
    cache_read_tokens: int = 0
    """Input tokens that the provider is expected to read from its cache."""
    cache_write_tokens: int = 0
    """Input tokens that the provider is expected to write to its cache."""
    cached_micros: int = 0
    """Expected cost with the cache: tokens that are read from it or written to it cost the cache's rates."""
    spared_tokens: int = 0
    """Input tokens that are saved because a call contains only a part of a text."""
    spared_micros: int = 0
    """The cost of the saved tokens, without a cache."""
    max_calls: int = 0
    """Upper bound of the calls. Questions that depend on unknown answers may turn out to be equal, or may not be asked."""
    minutes: float | None = None
    """Minimum minutes for the expected calls and tokens at the model's rate limits; None without limits."""

    def add(self, **figures: float) -> None:
        """Add figures to the fields of the same names, such as `reused`. Figures that are estimated from a sample have
        fractions."""
        for name, n in figures.items():
            setattr(self, name, getattr(self, name) + n)

    def add_between(self, least: StagePlan, expected: StagePlan, most: StagePlan, share: float) -> None:
        """Add the calls of `expected`, with the bounds of `least` and `most`. `share`: the expected share of these calls that is
        made; if it is below 1, the lower bound is no call, and the upper bound is all calls."""
        self.reused += round(expected.reused)
        cache = ("cache_read_tokens", "cache_write_tokens", "cached_micros")
        for name in ("calls", "input_tokens", "output_tokens", "usd_micros", "spared_tokens", "spared_micros", *cache):
            setattr(self, name, getattr(self, name) + round(getattr(expected, name) * share))
        self.min_micros += round(min(least.min_micros, expected.min_micros)) if share == 1 else 0
        self.max_micros += round(max(most.max_micros, expected.max_micros))
        self.max_calls += round(max(most.calls, expected.calls))

    @property
    def usd(self) -> float:
        """Expected dollars."""
        return self.usd_micros / MICROS

    @property
    def usd_min(self) -> float:
        """Lower bound of the dollars."""
        return self.min_micros / MICROS

    @property
    def usd_max(self) -> float:
        """Upper bound of the dollars."""
        return self.max_micros / MICROS

    def to_json(self) -> dict[str, Any]:
        """Return the stage as JSON."""
        names = ("stage", "model", "calls", "reused", "input_tokens", "output_tokens", "usd", "usd_min", "usd_max", "minutes")
        spared = {"spared_tokens": self.spared_tokens, "usd_spared": self.spared_micros / MICROS}
        cache = {
            "cache_read_tokens": self.cache_read_tokens,
            "cache_write_tokens": self.cache_write_tokens,
            "usd_cached": self.cached_micros / MICROS,
        }
        return {
            **{name: getattr(self, name) for name in names},
            **(cache if self.cache_read_tokens or self.cache_write_tokens else {}),
            **(spared if self.spared_tokens else {}),
        }


@dataclass
class BoundedStage(StagePlan):
    """A stage's expected calls and tokens, with their bounds."""

    min_calls: int = 0
    min_input_tokens: int = 0
    max_input_tokens: int = 0
    min_output_tokens: int = 0
    max_output_tokens: int = 0

    def count(self, bounds: CallBounds, settings: ModelSettings, longest: int) -> None:
        """Add the calls of one item. `longest`: maximum tokens of an answer."""
        for size, prefix in (("expected", ""), ("least", "min_"), ("most", "max_")):
            for name, n in bounds[size].items():
                if (size, name) != ("most", "output_tokens"):
                    setattr(self, prefix + name, getattr(self, prefix + name) + n)
        least, expected, most = bounds["least"], bounds["expected"], bounds["most"]
        self.max_output_tokens += most["calls"] * longest
        self.usd_micros += settings.expected_micros(expected["input_tokens"], expected["output_tokens"])
        # Each call is priced, and rounded up, separately.
        if calls := least["calls"]:
            self.min_micros += calls * max(0, settings.least_micros(least["input_tokens"] // calls) - 1)
        if calls := most["calls"]:
            self.max_micros += calls * settings.worst_micros(-(-most["input_tokens"] // calls), longest)

    def subtract(self, known: AnswerTotals, open_share: float) -> None:
        """Subtract the calls whose answers are stored.

        `known`: the run's answers of this stage. `open_share`: the estimated share of these answers that belongs to unfinished
        items. For the lower bounds, all of them are assumed to belong to unfinished items.
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
        """Return the stage as JSON."""
        bounds = ("min_calls", "max_calls", "min_input_tokens", "max_input_tokens", "min_output_tokens", "max_output_tokens")
        return {**super().to_json(), **{name: getattr(self, name) for name in bounds}}


def bounded_stages(workload: Workload[Any], run: RunStore | None, index: LogIndex, done: Collection[str]) -> list[BoundedStage]:
    """Return calls, tokens, dollars and minutes per stage, for the unfinished items. `done`: the ids of the finished items."""
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
        # Subtract the answers that the run has already paid for unfinished items. The tables give the model of an answer, but not
        # its stage, so the finished items' answers are divided among the stages in proportion.
        totals, nothing = index.totals(run.run_id), AnswerTotals()
        answers, used = Counter[str](), Counter[str]()
        for stage in stages.values():
            answers[stage.model] += totals.get((stage.stage, stage.model), nothing).answers
        if done:
            rows = run.table("raw_answers", sorted(done)).group_by("model").agg(pl.len())
            used.update(dict(rows.iter_rows()))
        for stage in stages.values():
            share = max(0.0, 1 - used[stage.model] / answers[stage.model]) if answers[stage.model] else 0.0
            stage.subtract(totals.get((stage.stage, stage.model), nothing), share)
    for stage in stages.values():
        stage.minutes = settings[stage.model].limits.minutes(stage.calls, stage.input_tokens, stage.output_tokens)
    return [stages[stage.name] for stage in workload.stages if stage.name in stages]
