"""Compare systems of SummHay runs by the judges' scores, with and without the judges' bias against people."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import polars as pl

from summhay_ray.benchmark import ByQuery
from summhay_ray.benchmarks.summhay.judges import check_judged, judge_of_record, judges_of
from summhay_ray.benchmarks.summhay.scores import ScoreResult, score_run
from summhay_ray.comparison import MOST_PAIRS, RunScores, Side, SystemComparison, Values, compare_pairs, compare_runs, every_pair
from summhay_ray.errors import UserError
from summhay_ray.metrics import Z_95, Compat, Over, PairedDifference, Resampling, column_of
from summhay_ray.store import RunStore

FIGURES = {"joint": "joint", "coverage": "coverage", "citation": "citation_f1"}
"""Figure that is compared -> its column in the means per query (`ScoreResult.queries`)."""


def compare_systems(
    runs: Sequence[RunStore],
    systems: Sequence[str] = (),
    judges: Sequence[str] = (),
    compat: Compat = "default",
    seed: int = 0,
    over: Over = "haystacks",
) -> SystemComparison:
    """Compare systems on the queries that both answered, as `compare_runs` does.

    `judges`: one judge, or one for each run; by default the runs' judge of record.
    """
    for run in runs:
        check_judged(run)
    chosen, warnings = judges_compared(runs, judges)
    results = [score_run(run.at(), compat, judge=judge) for run, judge in zip(runs, chosen, strict=True)]
    for result in results:
        if not any(system.n_scored for system in result.systems):
            raise UserError(f"{result.run} has no judgment scored by {result.judge} yet; nothing to compare")
    compared = compare_runs([_Judged(result, result.judge) for result in results], systems, seed, over)
    return replace(compared, warnings=[*compared.warnings, *warnings])


class _Judged(RunScores):
    """The figures per query of a run's systems, by one judge."""

    def __init__(self, result: ScoreResult, judge: str) -> None:
        self._scores = {
            system.system: system for system in result.systems if system.judge == judge and system.coverage is not None
        }
        rows = result.queries.filter((pl.col("judge") == judge) & pl.col("system").is_in(list(self._scores)))
        named = {name: pl.col(column) for name, column in FIGURES.items()}
        frame = rows.select("system", cluster="haystack_id", query="subtopic_id", **named)
        super().__init__(result.run, ByQuery(frame, dict.fromkeys(FIGURES, "%"), "haystack"))
        self.judge = judge
        self._bias = result.biases.get(judge)

    @property
    def systems(self) -> Mapping[str, str]:
        """See `RunScores`. The other name is COLUMN_MODEL, as in the tables of scores."""
        return {
            name: f"{column_of(system.retriever, system.ordering)}_{system.model}"
            for name, system in sorted(self._scores.items())
            if name in super(_Judged, self).systems
        }

    def side(self, system: str) -> Side:
        return Side(self.run, system, self._scores[system].model, self.judge)

    def corrected(
        self, figure: str, system: str, other: RunScores, other_system: str, values: Values, resampling: Resampling
    ) -> PairedDifference | None:
        """The difference after subtracting the judges' bias, as `metrics.bias.corrected` does for one system.

        The judge's mean bias is subtracted from coverage; joint is scaled in proportion. The uncertainty of the bias widens the
        interval; with the same bias on both sides, only the part that does not cancel does. None for citation or an unknown bias.
        """
        if figure == "citation" or not isinstance(other, _Judged) or self._bias is None or other._bias is None:
            return None
        known = self._bias, other._bias
        if figure == "joint":
            factors = self._share(system), other._share(other_system)
            scaled = [value * factor for value, factor in zip(values, factors, strict=True)]
            joints = self._scores[system], other._scores[other_system]
            slopes = [(system.joint or 0.0) / system.coverage if system.coverage else 0.0 for system in joints]
        else:
            scaled = [value - bias.mean for value, bias in zip(values, known, strict=True)]
            slopes = [1.0, 1.0]
        paired = resampling.difference(*scaled)
        if paired is None or paired.low is None or paired.high is None:
            return paired
        moved = [slope * bias.se for slope, bias in zip(slopes, known, strict=True)]
        extra = Z_95 * (abs(moved[0] - moved[1]) if known[0] == known[1] else math.hypot(*moved))
        middle = paired.difference
        return replace(
            paired, low=middle - math.hypot(middle - paired.low, extra), high=middle + math.hypot(paired.high - middle, extra)
        )

    def _share(self, system: str) -> float:
        """The factor by which subtracting the bias scales a system's coverage; 1 if the bias is unknown."""
        coverage = self._scores[system].coverage or 0.0
        return max(0.0, min(1.0, coverage - self._bias.mean)) / coverage if self._bias and coverage else 1.0


def all_pairs(result: ScoreResult, judge: str, seed: int = 0) -> SystemComparison | None:
    """Every pair of a run's systems by one judge, compared by joint; None for fewer than two systems or too many pairs."""
    return every_pair(_Judged(result, judge), seed, ("joint",))


def against_ideal(
    result: ScoreResult, judge: str, ideals: Sequence[str], others: Sequence[str], seed: int = 0
) -> SystemComparison | None:
    """Every figure of the systems with the retrievers `ideals`, each against those of the same model with a retriever of
    `others`; None without such pairs."""
    judged = _Judged(result, judge)
    own = sorted(
        (system for system in result.systems if system.judge == judge and system.system in judged.systems),
        key=lambda system: system.system,
    )
    pairs = [
        ((0, ideal.system), (0, other.system))
        for ideal in own
        for other in own
        if ideal.retriever in ideals and other.retriever in others and ideal.model == other.model
    ]
    return compare_pairs([judged], pairs, seed) if 0 < len(pairs) <= MOST_PAIRS else None


def judges_compared(runs: Sequence[RunStore], wanted: Sequence[str] = ()) -> tuple[list[str], list[str]]:
    """(The judge whose scores are compared, for each run; warnings). `wanted`: one judge, or one for each run.

    By default the runs' judge of record. Where they have different ones, one that all have is taken instead, and the warning
    says so. Raises UserError for an unknown judge, or if the runs share none.
    """
    if wanted:
        asked = list(wanted) * len(runs) if len(wanted) == 1 else wanted
        return [judge_of_record(run, judge) for run, judge in zip(runs, asked, strict=False)], []
    own = [judge_of_record(run) for run in runs]
    if len(set(own)) == 1:
        return own, []
    told = "; ".join(f"{run.run_id}: {judge}" for run, judge in zip(runs, own, strict=True))
    known = [[judged.judge for judged in judges_of(run)] for run in runs]
    shared = [judge for judge in (*own, *known[0]) if all(judge in judges for judges in known)]
    if shared:
        return [shared[0]] * len(runs), [f"judged by {shared[0]}, as both runs are; their own judges differ ({told})"]
    raise UserError(f"the runs share no judge ({told}); name one for each with --judges A B, or judge them alike with rejudge")
