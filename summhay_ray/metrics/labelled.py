"""Means of a judge's scores, corrected by people's labels for a sample: prediction-powered inference.

Angelopoulos et al. (2023), Prediction-powered inference, Science 382; with the weight of the judge's scores tuned as in
Angelopoulos, Duchi and Zrnic (2023), PPI++, arXiv:2311.01453. The sample may be drawn with unequal chances (Hajek's estimator).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from summhay_ray.metrics.score_intervals import Z_95, bounded_interval, unit_means
from summhay_ray.metrics.scores_by_system import ByLabels, Corrected, SystemScore

FEWEST = 10
"""Minimum number of labels for correcting a system."""


@dataclass(frozen=True, slots=True)
class LabelledScore:
    """A labelled item: the judge's score, the person's score, and the (relative) probability with which it was drawn."""

    judge: float
    people: float
    chance: float = 1.0


def corrected_mean(mean: float, pairs: Sequence[LabelledScore], n_items: int) -> Corrected | None:
    """The mean that people would give, from the judge's `mean` over all `n_items` and the labelled `pairs`; None with fewer than
    FEWEST pairs.

    weight * mean + the weighted mean of (people - weight * judge); the weight is the one with the least variance, within 0..1. It
    is 0 (only the labels count) if all labels but one are at the same end of the scale, which is little evidence about the rest.
    The interval is that of `unit_means` with labels as units, with one degree of freedom less because of the weight, within 0..1.
    """
    if len(pairs) < FEWEST:
        return None
    import numpy as np

    shares = [1 / pair.chance for pair in pairs]
    total = math.fsum(shares)
    off_ends = min(sum(pair.people > 0 for pair in pairs), sum(pair.people < 1 for pair in pairs))
    weight = _tuned(pairs, [share / total for share in shares], n_items) if off_ends > 1 else 0.0
    rests = np.array([[pair.people - weight * pair.judge] for pair in pairs])
    weights = np.array([[share] for share in shares])
    found = unit_means(rests * weights, weights, bounds=None)
    spread = float(found.se[0])
    value = min(max(weight * mean + float(found.mean[0]), 0.0), 1.0)
    low, high = bounded_interval(value, 0.0 if math.isnan(spread) else spread, len(pairs), max(1.0, float(found.freedom[0]) - 1))
    return Corrected(value, low, high, weight, len(pairs))


def _tuned(pairs: Sequence[LabelledScore], shares: Sequence[float], n_items: int) -> float:
    """PPI++'s weight: the covariance of both divided by the judge's variance, smaller if there are few items; 1 if the judge's
    scores are constant."""
    judge = math.fsum(share * pair.judge for share, pair in zip(shares, pairs, strict=True))
    people = math.fsum(share * pair.people for share, pair in zip(shares, pairs, strict=True))
    spread = math.fsum(share * (pair.judge - judge) ** 2 for share, pair in zip(shares, pairs, strict=True))
    common = math.fsum(share * (pair.judge - judge) * (pair.people - people) for share, pair in zip(shares, pairs, strict=True))
    return min(max(common / spread / (1 + len(pairs) / n_items), 0.0), 1.0) if spread else 1.0


def by_labels(score: SystemScore, coverage: Sequence[LabelledScore], joint: Sequence[LabelledScore]) -> SystemScore:
    """The score with `coverage_labelled` and `joint_labelled`, and their intervals, from labels of the system itself; unchanged
    with fewer than FEWEST of them. A judge's errors differ by system, so labels of other systems are not used.

    Each half of an interval is the root of the sum of two squares: the raw half (further queries) and the labels' half. Without a
    raw interval there is none: the labels alone would make it too narrow.
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


def standard_error(one: Corrected) -> float:
    """The standard error of a corrected mean: that of a normal distribution with the same interval."""
    return (one.high - one.low) / (2 * Z_95)
