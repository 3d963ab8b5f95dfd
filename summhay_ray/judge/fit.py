"""Fits `offline/judge` to people's judgments, for `judge-bench --held-out` and `tools/fit_judge.py`."""

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, combinations

from summhay_ray.judge.annotations import AnnotatedSummary
from summhay_ray.judge.offline import Coefficients, Features, Parameters, Rated, features, rating
from summhay_ray.records import COVERAGE_VALUE

STEPS = 20
"""Number of steps in `uncertainties`: one for each 5 % of the insights."""
PENALTY = 10.0
"""Ridge penalty on the weights of standardized features. It has about the strength of a handful of judgments."""
DIGITS = 3
_ROUNDS = 50
_GRID = tuple(step / 100 for step in range(1, 101))


@dataclass(frozen=True, slots=True)
class Measured:
    """An annotated summary and the features of its insights."""

    summary: AnnotatedSummary
    alone: tuple[Features | None, ...]
    together: tuple[Features | None, ...]


def measure(summaries: Sequence[AnnotatedSummary]) -> list[Measured]:
    """Compute the features of every insight, judged alone and together."""
    measured = []
    for summary in summaries:
        texts = [insight.text for insight in summary.insights]
        alone = tuple(feature for text in texts for feature in features([text], summary.bullets))
        measured.append(Measured(summary, alone, tuple(features(texts, summary.bullets))))
    return measured


def fit_parameters(measured: Sequence[Measured]) -> Parameters:
    """Fit all parameters of the judge. Raise ValueError if there are too few judgments."""
    # The feature `lead` needs at least two insights.
    several = [judged for judged in measured if len(judged.together) > 1]
    together = _coefficients([judged.together for judged in several], several)
    doubts = sorted((rating(together, feature).uncertainty for judged in several for feature in judged.together), reverse=True)
    steps = tuple(doubts[round(step * (len(doubts) - 1) / STEPS)] for step in range(STEPS + 1))
    return Parameters(_coefficients([judged.alone for judged in measured], measured), together, steps)


def held_out(measured: Sequence[Measured], together: bool = True) -> list[list[Rated]]:
    """Rate every summary with parameters fitted to all other topics. Raise ValueError if there is only one topic."""
    topics = dict.fromkeys(judged.summary.topic for judged in measured)
    if len(topics) < 2:
        raise ValueError("the file has only one topic; held-out figures need at least two")
    fits = {topic: fit_parameters([judged for judged in measured if judged.summary.topic != topic]) for topic in topics}
    return [rate_features(fits[judged.summary.topic], judged, together) for judged in measured]


def rate_features(parameters: Parameters, measured: Measured, together: bool = True) -> list[Rated]:
    """Return the ratings of a summary's insights with these parameters."""
    if together and len(measured.together) > 1:
        return [rating(parameters.together, feature) for feature in measured.together]
    return [rating(parameters.alone, feature) for feature in measured.alone]


def _coefficients(rows: Sequence[Sequence[Features | None]], measured: Sequence[Measured]) -> Coefficients:
    pairs = [
        (feature.values, coverage)
        for row, judged in zip(rows, measured, strict=True)
        for feature, coverage in zip(row, judged.summary.coverage, strict=True)
        if feature is not None
    ]
    values, people = [value for value, _ in pairs], [coverage for _, coverage in pairs]
    coefficients = fit(values, people)
    partial, full = cut_points([rating(coefficients, Features(0, value)).value for value in values], people)
    return replace(coefficients, partial_from=partial, full_from=full)


def fit(values: Sequence[Sequence[float]], coverage: Sequence[float], penalty: float = PENALTY) -> Coefficients:
    """Fit coefficients to people's `coverage` (0, 0.5, 1) of insights with the features `values`, by penalized maximum
    likelihood.

    It applies Newton's method to two binary questions per insight ("at all?", "fully?"), with a ridge penalty on standardized
    features. Parameters are rounded to three digits. Raises ValueError without data, or if all answers are equal.
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
    """Return the thresholds for PARTIAL and FULL, in hundredths, that agree best with people's `coverage`; the lowest among
    equally good ones.

    Agreement is the correlation of the labels (0, 0.5, 1) with people's, minus the share of insights that would need another
    label for equal label distributions. Correlation alone has many near-equal optima, and some of them hardly use one of the
    labels.
    """
    ordered = sorted(zip(values, coverage, strict=True))
    n = len(ordered)
    ours_sorted, theirs = [value for value, _ in ordered], [person for _, person in ordered]
    sums = [0.0, *accumulate(reversed(theirs))]
    total, squares = sum(theirs), sum(value * value for value in theirs)
    people = [theirs.count(value) for value in COVERAGE_VALUE.values()]
    above = {point: n - bisect_left(ours_sorted, point) for point in _GRID}
    best = (-math.inf, 0.0, 0.0)
    # Computed from the counts and sums above each pair of thresholds.
    for partial, full in combinations(_GRID, 2):
        n_partial, n_full = above[partial], above[full]
        ours = (n_partial + n_full) / 2
        covariance = n * (sums[n_partial] + sums[n_full]) / 2 - ours * total
        variance = (n * ((n_partial - n_full) / 4 + n_full) - ours**2) * (n * squares - total**2)
        counts = (n - n_partial, n_partial - n_full, n_full)
        differing = sum(abs(our - their) for our, their in zip(counts, people, strict=True)) / (2 * n)
        agreement = (covariance / math.sqrt(variance) if variance > 0 else 0.0) - differing
        best = max(best, (agreement, -partial, -full))
    return -best[1], -best[2]
