"""Means of a judge's scores corrected by people's labels of some: prediction-powered inference. Part of the metrics room.

Angelopoulos et al. (2023), Prediction-powered inference, Science 382; with the weight of the judge's scores tuned as in
Angelopoulos, Duchi and Zrnic (2023), PPI++, arXiv:2311.01453. The sample may be drawn with unequal chances (Hajek's estimator).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from summhay_ray.metrics.score_intervals import Z_95
from summhay_ray.metrics.scores_by_system import ByLabels, Corrected, SystemScore

FEWEST = 10
"""Least number of labels of a system by which it is corrected alone; with fewer, by the labels of all systems together."""
_HALF_LABEL, _LEAST = 0.5, 1e-18


@dataclass(frozen=True, slots=True)
class LabelledScore:
    """A labelled item: the judge's score of it, a person's, and how likely it was to be drawn (relative to the others)."""

    judge: float
    people: float
    chance: float = 1.0


def corrected_mean(mean: float, pairs: Sequence[LabelledScore], n_items: int, weight: float | None = None) -> Corrected | None:
    """The mean that people would give, from the judge's `mean` over all `n_items` and the labelled `pairs`; None without pairs.

    weight * mean + the weighted mean of (people - weight * judge). `weight`: by default the one with the least variance, within
    0..1. The interval is Student's t's, with one degree of freedom less than there are labels, and another one less for a weight
    that was chosen by them; where all differences are the same, it is as if one further label were half a label away. Within
    0..1 as scores are.
    """
    if not pairs:
        return None
    shares = [1 / pair.chance for pair in pairs]
    total = math.fsum(shares)
    shares = [share / total for share in shares]
    n = len(pairs)
    free = n - 1 if weight is not None else n - 2
    if weight is None:
        weight = _tuned(pairs, shares, n_items)
    rests = [pair.people - weight * pair.judge for pair in pairs]
    rest = math.fsum(share * one for share, one in zip(shares, rests, strict=True))
    value = min(max(weight * mean + rest, 0.0), 1.0)
    if free < 1:
        return Corrected(value, None, weight, n)
    from scipy import special

    variance = n / free * math.fsum((share * (one - rest)) ** 2 for share, one in zip(shares, rests, strict=True))
    error = math.sqrt(variance) if variance > _LEAST else _HALF_LABEL / (n + 1)
    return Corrected(value, float(special.stdtrit(free, 0.975)) * error, weight, n)


def _tuned(pairs: Sequence[LabelledScore], shares: Sequence[float], n_items: int) -> float:
    """PPI++'s weight: covariance of both over the judge's variance, less where all items are few; 1 if the judge never varies."""
    judge = math.fsum(share * pair.judge for share, pair in zip(shares, pairs, strict=True))
    people = math.fsum(share * pair.people for share, pair in zip(shares, pairs, strict=True))
    spread = math.fsum(share * (pair.judge - judge) ** 2 for share, pair in zip(shares, pairs, strict=True))
    common = math.fsum(share * (pair.judge - judge) * (pair.people - people) for share, pair in zip(shares, pairs, strict=True))
    return min(max(common / spread / (1 + len(pairs) / n_items), 0.0), 1.0) if spread else 1.0


def by_labels(score: SystemScore, coverage: Sequence[LabelledScore], joint: Sequence[LabelledScore], own: bool) -> SystemScore:
    """The score with `coverage_labelled` and `joint_labelled`, and their intervals.

    `own`: the pairs are the system's; else of all systems of the judge, whose error is then taken to be the same for all. Each
    half of an interval is the root of the sum of two squares: the raw half (further queries), and that of the labels.
    """
    if score.coverage is None or not coverage:
        return score
    weight = None if own else 1.0
    found = {
        "coverage": corrected_mean(score.coverage, coverage, score.n_scored, weight),
        "joint": None if score.joint is None else corrected_mean(score.joint, joint, score.n_scored, weight),
    }
    intervals = dict(score.ci)
    for figure, one in found.items():
        if one is not None and one.half is not None:
            raw = getattr(score, figure)
            low, high = score.ci.get(figure, (raw, raw))
            below, above = math.hypot(raw - low, one.half), math.hypot(high - raw, one.half)
            intervals[f"{figure}_labelled"] = (max(one.value - below, 0.0), min(one.value + above, 1.0))
    labels = ByLabels(len(coverage), own, found["coverage"], found["joint"])
    values = [None if one is None else one.value for one in found.values()]
    return replace(score, ci=intervals, labels=labels, coverage_labelled=values[0], joint_labelled=values[1])


def standard_error(one: Corrected) -> float | None:
    """The standard error of a corrected mean, as of a normal distribution with its interval; None of too few labels."""
    return None if one.half is None else one.half / Z_95
