"""Corrects scores for a judge's measured bias against people.

A judge that finds more insights covered than people do raises every system's coverage (paper, appendix A.3: by 5 to 7 points).
The correction makes the fewest assumptions: the mean difference is subtracted, and its uncertainty widens the interval.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase

from summhay_ray.metrics.score_intervals import Z_95
from summhay_ray.metrics.scores_by_system import SystemScore, TakenOff


@dataclass(frozen=True, slots=True)
class JudgeBias:
    """A judge's mean coverage minus people's (labels count 0, 0.5, 1), over insights; fractions."""

    judge: str
    mean: float
    se: float
    """Standard error of the mean for a new topic: from resampled summaries and the spread between topics."""
    n_insights: int
    n_summaries: int
    names: tuple[str, ...] = ()
    """Other names of the judge, as patterns for `bias_of`; `*` matches anything."""
    summarizers: Mapping[str, float] = field(default_factory=dict)
    """Summarizer -> the mean over its summaries (Table 6)."""
    topics: tuple[float, ...] = ()
    """The mean over the insights of each topic."""
    source: str = ""
    """The data on which it was measured."""


def bias_of(judge: str, biases: Iterable[JudgeBias]) -> JudgeBias | None:
    """The bias of a judge: an exact match of its name first, else the first match of one of the `names`.

    `judge` is the model, followed by a blank and the strategy unless that is the model's default. Patterns match only judges with
    the default strategy: `*/gpt-4o` does not match `openai/gpt-4o blend`.
    """
    known = list(biases)
    exact = next((bias for bias in known if bias.judge == judge), None)
    return exact or next((bias for bias in known if any(_matches(judge, name) for name in bias.names)), None)


def _matches(judge: str, name: str) -> bool:
    return judge == name or (" " not in judge and fnmatchcase(judge, name))


def corrected(score: SystemScore, bias: JudgeBias | None) -> SystemScore:
    """The score with corrected coverage and joint, their intervals, and the bias; unchanged if the bias is unknown.

    Coverage becomes coverage - bias, clipped to 0..1. People annotated only coverage, so citation scores are unchanged;
    joint, the mean of coverage times citation, is scaled by corrected / raw coverage.
    Each half of an interval is the root of the sum of two squares: the raw half, and 1.96 standard errors of the bias (for
    joint, times joint / coverage). A figure without a raw interval gets none: the bias alone would make it too narrow.
    Raw figures and intervals are unchanged.
    """
    if bias is None or score.coverage is None:
        return score
    coverage = _within(score.coverage - bias.mean)
    share = coverage / score.coverage if score.coverage else 0.0
    joint = None if score.joint is None else _within(score.joint * share)
    intervals, reasons = dict(score.ci), dict(score.ci_reasons)
    reasons |= {f"{figure}_corrected": reasons[figure] for figure in ("coverage", "joint") if figure in reasons}
    if "coverage" in score.ci:
        intervals["coverage_corrected"] = _interval(coverage, (score.coverage, 1.0, score.ci["coverage"]), Z_95 * bias.se)
    if "joint" in score.ci and joint is not None and score.joint is not None:
        moved = Z_95 * bias.se * score.joint / score.coverage if score.coverage else 0.0
        intervals["joint_corrected"] = _interval(joint, (score.joint, share, score.ci["joint"]), moved)
    taken = TakenOff(bias.judge, bias.mean, bias.se, bias.source)
    figures = replace(score, coverage_corrected=coverage, joint_corrected=joint, bias=taken)
    return replace(figures, ci=intervals, ci_reasons=reasons)


def _interval(middle: float, raw: tuple[float, float, tuple[float, float]], other: float) -> tuple[float, float]:
    """The interval around `middle`. `raw`: (figure, scale, interval); `other`: the half-width to combine with both halves."""
    figure, scale, (low, high) = raw
    below, above = scale * max(figure - low, 0.0), scale * max(high - figure, 0.0)
    return _within(middle - math.hypot(below, other)), _within(middle + math.hypot(above, other))


def _within(value: float) -> float:
    return min(max(value, 0.0), 1.0)
