"""Correct scores for a judge's measured bias against people, or by people's labels of a sample.

A judge that finds more insights covered than people do raises every system's coverage (paper, appendix A.3: by 5 to 7 points).
The correction for bias makes the fewest assumptions: the mean difference is subtracted, and its uncertainty widens the
interval.

Labels of a sample correct a mean by prediction-powered inference (Angelopoulos et al. 2023, Science 382). The weight of the
judge's scores is tuned as in Angelopoulos, Duchi and Zrnic (2023), PPI++, arXiv:2311.01453. The sample may be drawn with
unequal probabilities (Hajek's estimator).
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase

import numpy as np

from summhay_ray.metrics.score_intervals import Z_95, bounded_interval, unit_means
from summhay_ray.metrics.scores_by_system import ByLabels, Corrected, SystemScore, TakenOff


@dataclass(frozen=True, slots=True)
class JudgeBias:
    """A judge's mean coverage minus people's (labels count 0, 0.5, 1), over insights, as fractions."""

    judge: str
    mean: float
    se: float
    """Standard error of the mean for a new topic. It comes from resampled summaries and the spread between topics."""
    n_insights: int
    n_summaries: int
    names: tuple[str, ...] = ()
    """Other names of the judge, as patterns for `bias_of`. `*` matches anything."""
    summarizers: Mapping[str, float] = field(default_factory=dict)
    """Summarizer -> the mean over its summaries (Table 6)."""
    topics: tuple[float, ...] = ()
    """The mean over the insights of each topic."""
    source: str = ""
    """The data on which the bias was measured."""


def bias_of(judge: str, biases: Iterable[JudgeBias]) -> JudgeBias | None:
    """Find the bias of a judge (a model, or a model and a strategy that is not its default). An exact match of its name comes
    first, then the first match of `names`. Patterns match only default strategies: `*/gpt-4o` does not match `openai/gpt-4o
    blend`."""
    known = list(biases)
    exact = next((bias for bias in known if bias.judge == judge), None)
    patterns = [(bias, name) for bias in known for name in bias.names]
    matches = (bias for bias, name in patterns if judge == name or (" " not in judge and fnmatchcase(judge, name)))
    return exact or next(matches, None)


def corrected(score: SystemScore, bias: JudgeBias | None) -> SystemScore:
    """Correct the score's coverage and joint, with their intervals, and add the bias. Without a known bias, the score is
    unchanged.

    Coverage becomes coverage - bias, clipped to 0..1. Joint is scaled by corrected / raw coverage, since people annotated no
    citations. Each half of an interval is the root of the sum of two squares: the raw half, and 1.96 standard errors of the
    bias (for joint, times joint / coverage). A figure without a raw interval gets none.
    """
    if bias is None or score.coverage is None:
        return score
    coverage = _within(score.coverage - bias.mean)
    # Without any coverage, joint is 0 at any scale, and its interval remains.
    share = coverage / score.coverage if score.coverage else 1.0
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
    """Return the interval around a corrected figure, `middle`. It combines each half of the raw interval with the half-width that
    comes from the bias; see `corrected`.

    `raw`: (raw figure, factor by which the correction scales its interval, raw interval). `other`: the half-width from the bias.
    """
    figure, scale, (low, high) = raw
    below, above = scale * max(figure - low, 0.0), scale * max(high - figure, 0.0)
    return _within(middle - math.hypot(below, other)), _within(middle + math.hypot(above, other))


def _within(value: float) -> float:
    return min(max(value, 0.0), 1.0)


FEWEST = 10
"""Minimum number of labels for correcting a system."""


@dataclass(frozen=True, slots=True)
class LabelledScore:
    """A labelled item: the judge's score, the person's score, and the (relative) probability with which it was drawn."""

    judge: float
    people: float
    chance: float = 1.0


def corrected_mean(mean: float, pairs: Sequence[LabelledScore], n_items: int) -> Corrected | None:
    """Estimate the mean that people would give from the judge's `mean` over all `n_items` and the labelled `pairs`. None with
    fewer than FEWEST pairs.

    The estimate is weight * mean + the weighted mean of (people - weight * judge). The weight, from 0 to 1, is the one with the
    least variance. It is 0 (only the labels count) if all labels but one are at the same end of the scale, which is little
    evidence about the remaining items. The interval is that of `unit_means` with labels as units, within 0..1, and with one
    degree of freedom less because of the weight.
    """
    if len(pairs) < FEWEST:
        return None
    shares = [1 / pair.chance for pair in pairs]
    total = math.fsum(shares)
    off_ends = min(sum(pair.people > 0 for pair in pairs), sum(pair.people < 1 for pair in pairs))
    weight = _tune_weight(pairs, [share / total for share in shares], n_items) if off_ends > 1 else 0.0
    rests = np.array([[pair.people - weight * pair.judge] for pair in pairs])
    weights = np.array([[share] for share in shares])
    found = unit_means(rests * weights, weights, bounds=None)
    spread = float(found.se[0])
    value = min(max(weight * mean + float(found.mean[0]), 0.0), 1.0)
    low, high = bounded_interval(value, 0.0 if math.isnan(spread) else spread, len(pairs), max(1.0, float(found.freedom[0]) - 1))
    return Corrected(value, low, high, weight, len(pairs))


def _tune_weight(pairs: Sequence[LabelledScore], shares: Sequence[float], n_items: int) -> float:
    """Return PPI++'s weight: the covariance of both scores divided by the judge's variance, and smaller if there are few
    items. It is 1 if the judge's scores are constant."""
    judge = math.fsum(share * pair.judge for share, pair in zip(shares, pairs, strict=True))
    people = math.fsum(share * pair.people for share, pair in zip(shares, pairs, strict=True))
    spread = math.fsum(share * (pair.judge - judge) ** 2 for share, pair in zip(shares, pairs, strict=True))
    common = math.fsum(share * (pair.judge - judge) * (pair.people - people) for share, pair in zip(shares, pairs, strict=True))
    return min(max(common / spread / (1 + len(pairs) / n_items), 0.0), 1.0) if spread else 1.0


def by_labels(score: SystemScore, coverage: Sequence[LabelledScore], joint: Sequence[LabelledScore]) -> SystemScore:
    """Add `coverage_labelled` and `joint_labelled`, and their intervals, to the score of the system that people labelled. The
    score is unchanged with fewer than FEWEST labels.

    Each half of an interval is the root of the sum of two squares: the raw half (further queries) and the labels' half. A
    figure without a raw interval gets none.
    """
    if score.coverage is None:
        return score
    found = {
        "coverage": corrected_mean(score.coverage, coverage, score.n_scored),
        "joint": None if score.joint is None else corrected_mean(score.joint, joint, score.n_scored),
    }
    if all(one is None for one in found.values()):
        return score
    intervals, reasons = dict(score.ci), dict(score.ci_reasons)
    for figure, one in found.items():
        if one is not None and figure in score.ci:
            raw, (low, high) = getattr(score, figure), score.ci[figure]
            below, above = math.hypot(raw - low, one.value - one.low), math.hypot(high - raw, one.high - one.value)
            intervals[f"{figure}_labelled"] = (max(one.value - below, 0.0), min(one.value + above, 1.0))
        elif one is not None and figure in reasons:
            reasons[f"{figure}_labelled"] = reasons[figure]
    values = [None if one is None else one.value for one in found.values()]
    labels = ByLabels(len(coverage), found["coverage"], found["joint"])
    return replace(score, ci=intervals, ci_reasons=reasons, labels=labels, coverage_labelled=values[0], joint_labelled=values[1])
