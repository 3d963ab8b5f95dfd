"""The ordinal logistic model of `offline/judge`, and its fit.

The log-odds of "covered at all" and of "fully covered" are the same weighted sum of the features, with an intercept each. The
model has so few parameters that a person can review them (`offline_judge.json`).
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, combinations

from summhay_ray.records import COVERAGE_VALUE, Coverage

PENALTY = 10.0
"""Ridge penalty on the weights of standardized features: as strong as about a handful of judgments."""
DIGITS = 3
_ROUNDS = 50
_GRID = tuple(step / 100 for step in range(1, 101))


@dataclass(frozen=True, slots=True)
class Chances:
    """The probabilities that a person calls an insight covered at all, and fully covered; `full` is never above `some`."""

    some: float
    full: float

    @property
    def value(self) -> float:
        """The expected coverage, 0..1, with 0 for NO, 0.5 for PARTIAL and 1 for FULL."""
        return (self.some + self.full) / 2

    @property
    def uncertainty(self) -> float:
        """The standard deviation of that coverage, 0..0.5."""
        return math.sqrt(max(0.0, (self.some - self.full) / 4 + self.full - self.value**2))


@dataclass(frozen=True, slots=True)
class Coefficients:
    """The fitted parameters for one set of features, and the thresholds on `Chances.value` for the labels."""

    weights: tuple[float, ...]
    some: float
    """Intercept of "covered at all"; `full`, which is lower, is the intercept of "fully covered"."""
    full: float
    partial_from: float = 0.0
    full_from: float = 0.0

    def chances(self, values: Sequence[float]) -> Chances:
        """The probabilities for an insight with these features."""
        total = math.fsum(weight * value for weight, value in zip(self.weights, values, strict=True))
        return Chances(_logistic(total + self.some), _logistic(total + self.full))

    def coverage(self, value: float) -> Coverage:
        """The label for an expected coverage."""
        if value >= self.full_from:
            return "FULL_COVERAGE"
        return "PARTIAL_COVERAGE" if value >= self.partial_from else "NO_COVERAGE"


def fit(values: Sequence[Sequence[float]], coverage: Sequence[float], penalty: float = PENALTY) -> Coefficients:
    """The penalized maximum-likelihood fit to people's `coverage` (0, 0.5, 1) of insights with features `values`.

    Newton's method on two binary questions per insight ("at all?", "fully?"), with a ridge penalty on standardized features.
    Parameters are rounded to three digits. Raises ValueError without data, or if all answers are equal.
    """
    import numpy as np

    people = np.asarray(coverage, dtype=float)
    if len(people) == 0 or (people >= 0.5).all() or (people < 1).all() or not (people < 0.5).any():
        raise ValueError("there are too few judgments to fit: some must be covered, fully covered, and not covered")
    raw = np.asarray(values, dtype=float)
    mean, spread = raw.mean(axis=0), raw.std(axis=0)
    spread = np.where(spread > 0, spread, 1.0)
    scaled = (raw - mean) / spread
    n, width = scaled.shape
    some, full = np.tile([1.0, 0.0], (n, 1)), np.tile([0.0, 1.0], (n, 1))
    design = np.vstack([np.hstack([scaled, some]), np.hstack([scaled, full])])
    answers = np.concatenate([people >= 0.5, people >= 1.0]).astype(float)
    # A tiny penalty on the intercepts keeps steps finite if the features separate the answers.
    ridge = np.diag([penalty] * width + [1e-3] * 2)
    found = np.zeros(width + 2)
    for _ in range(_ROUNDS):
        chance = 1 / (1 + np.exp(-np.clip(design @ found, -30, 30)))
        slope = design.T @ (answers - chance) - ridge @ found
        step = np.linalg.solve((design * (chance * (1 - chance))[:, None]).T @ design + ridge, slope)
        found += step
        if np.abs(step).max() < 1e-9:
            break
    weights = found[:width] / spread
    shift = float(weights @ mean)
    rounded = [round(float(number), DIGITS) for number in (*weights, found[width] - shift, found[width + 1] - shift)]
    return Coefficients(tuple(rounded[:-2]), rounded[-2], rounded[-1])


def cut_points(values: Sequence[float], coverage: Sequence[float]) -> tuple[float, float]:
    """The thresholds for PARTIAL and FULL, in hundredths, that agree best with people's `coverage`; the lowest of equally good
    ones.

    Agreement is the correlation of the labels (0, 0.5, 1) with people's, minus the share of insights by which the label
    distributions differ: correlation alone has many near-equal optima, some of which hardly use one of the labels.
    """
    _, partial, full = max((agreement, -partial, -full) for agreement, partial, full in _agreements(values, coverage))
    return -partial, -full


def _agreements(values: Sequence[float], coverage: Sequence[float]) -> Iterator[tuple[float, float, float]]:
    """(agreement, partial, full) for every pair of thresholds, from counts and sums above each."""
    ordered = sorted(zip(values, coverage, strict=True))
    n = len(ordered)
    ours_sorted, theirs = [value for value, _ in ordered], [person for _, person in ordered]
    sums = [0.0, *accumulate(reversed(theirs))]
    total, squares = sum(theirs), sum(value * value for value in theirs)
    people = [theirs.count(value) for value in COVERAGE_VALUE.values()]
    above = {point: n - bisect_left(ours_sorted, point) for point in _GRID}
    for partial, full in combinations(_GRID, 2):
        n_partial, n_full = above[partial], above[full]
        ours = (n_partial + n_full) / 2
        covariance = n * (sums[n_partial] + sums[n_full]) / 2 - ours * total
        variance = (n * ((n_partial - n_full) / 4 + n_full) - ours**2) * (n * squares - total**2)
        counts = (n - n_partial, n_partial - n_full, n_full)
        differing = sum(abs(our - their) for our, their in zip(counts, people, strict=True)) / (2 * n)
        yield (covariance / math.sqrt(variance) if variance > 0 else 0.0) - differing, partial, full


def _logistic(total: float) -> float:
    return 1 / (1 + math.exp(-max(-30.0, min(30.0, total))))
