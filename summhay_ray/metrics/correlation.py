"""Correlations of ratings with human scores, with bootstrap intervals.

Ratings of one document are correlated, so the bootstrap resamples documents, each with all of its pairs.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from summhay_ray.metrics.agreement import pearson, rank_agreement
from summhay_ray.metrics.score_intervals import FEWEST_UNITS, QUANTILES_95, SAMPLES, generator

COEFFICIENTS = ("pearson", "spearman", "kendall")
FEWEST = 3
"""Minimum number of systems for a correlation of means: two points are always on a line."""
_ALIKE = 1e-12
FEWEST_WITHIN = 2
"""Minimum number of summaries of a document for `mean_within`. With two, the correlation is 1 or -1: right or wrong order."""


@dataclass(frozen=True, slots=True)
class Correlations:
    """Three coefficients of the same pairs, each from -1 to 1. If they are undefined, all are None, and `reason` gives the
    reason."""

    pearson: float | None
    spearman: float | None
    kendall: float | None
    """tau-b, which accounts for ties on either side."""
    reason: str = ""
    n: int = 0
    """Number of pairs used. Pairs with a None are left out."""


def correlations(ratings: Sequence[float | None], human: Sequence[float | None]) -> Correlations:
    """Return Pearson, Spearman and Kendall's tau-b of ratings with human scores, paired by position. Raises ValueError for
    unequal lengths and for infinite numbers."""
    if len(ratings) != len(human):
        raise ValueError(f"{len(ratings)} ratings against {len(human)} human scores; expected equal lengths")
    pairs = [(a, b) for a, b in zip(ratings, human, strict=True) if a is not None and b is not None]
    first, second = [float(a) for a, _ in pairs], [float(b) for _, b in pairs]
    for name, values in (("a rating", first), ("a score of people", second)):
        if wrong := next((value for value in values if not math.isfinite(value)), None):
            raise ValueError(f"{name} is {wrong}; expected a finite number, or None where there is none")
    n, linear = len(pairs), pearson(first, second)
    if linear is None:
        equal = (name for name, values in (("ratings", first), ("scores of people", second)) if len(set(values)) == 1)
        who, few = " and ".join(equal), f"{n} pair{'' if n == 1 else 's'} with both a rating and a score; a correlation needs two"
        why = f"all {who} are equal" if who else "the numbers differ too little to be correlated"
        return Correlations(None, None, None, few if n < 2 else why, n)
    ranked = rank_agreement(first, second)
    return Correlations(linear, ranked.spearman, ranked.kendall, "", n)


def concordance(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Return Lin's concordance (1989), which is at most 1. It measures agreement in value, not only in order. None without
    pairs, or if all numbers are equal. Raises ValueError for unequal lengths."""
    n = len(first)
    apart = [(a - b) ** 2 for a, b in zip(first, second, strict=True)]
    if not n:
        return None
    means = [math.fsum(values) / n for values in (first, second)]
    spread = math.fsum((a - means[0]) ** 2 + (b - means[1]) ** 2 for a, b in zip(first, second, strict=True)) / n
    chance = spread + (means[0] - means[1]) ** 2
    return round(1 - math.fsum(apart) / n / chance, 12) if chance else None


def mean_within(
    ratings: Sequence[float | None], human: Sequence[float | None], groups: Sequence[Hashable]
) -> tuple[Correlations, int]:
    """Return (mean of the correlations within each group, number of groups), like the averages over documents of SummEval and
    G-Eval. A group counts if it has two pairs and neither side is constant."""
    found = list(_within(ratings, human, groups).values())
    if not found:
        return Correlations(None, None, None, "no document has two summaries whose ratings and whose scores differ"), 0
    linear, ranked, kendall = (math.fsum(getattr(figures, name) for figures in found) / len(found) for name in COEFFICIENTS)
    return Correlations(linear, ranked, kendall, n=sum(figures.n for figures in found)), len(found)


def _within(
    ratings: Sequence[float | None], human: Sequence[float | None], groups: Sequence[Hashable]
) -> Mapping[Hashable, Correlations]:
    """Map each group that counts in `mean_within` to the correlations within it."""
    rows: dict[Hashable, list[int]] = {}
    for row, group in enumerate(groups):
        rows.setdefault(group, []).append(row)
    found = {group: correlations([ratings[row] for row in mine], [human[row] for row in mine]) for group, mine in rows.items()}
    return {group: figures for group, figures in found.items() if figures.n >= FEWEST_WITHIN and figures.pearson is not None}


def between_means(ratings: Sequence[float | None], human: Sequence[float | None], groups: Sequence[Hashable]) -> Correlations:
    """Return the correlation of the groups' means over pairs with both numbers. Groups are systems, as in leaderboards."""
    sums: dict[Hashable, list[tuple[float, float]]] = {}
    for group, a, b in zip(groups, ratings, human, strict=True):
        if a is not None and b is not None:
            sums.setdefault(group, []).append((a, b))
    if len(sums) < FEWEST:
        return Correlations(None, None, None, f"{len(sums)} systems; two always lie on a line, so three are needed", len(sums))
    means = [[math.fsum(values) / len(values) for values in zip(*found, strict=True)] for found in sums.values()]
    return correlations([a for a, _ in means], [b for _, b in means])


class Bootstrap:
    """Bootstrap of the correlations of ratings with one set of human scores. `weights`, of shape (resamples, pairs): how
    often each pair occurs in each resample. All ratings share the resamples, so that differences are paired."""

    def __init__(self, human: Sequence[float], weights: NDArray[np.float64], n_clusters: int) -> None:
        self._human, self._weights, self.n_clusters = np.asarray(human, dtype=np.float64), weights, n_clusters

    @classmethod
    def over(cls, human: Sequence[float], clusters: Sequence[str], seed: int = 0, samples: int = SAMPLES) -> Bootstrap:
        """Draw clusters with replacement, each with all of its pairs. `clusters`: the cluster of each pair. The draws depend
        only on `seed` and the names of the clusters."""
        names, place = _places(clusters)
        drawn = generator(seed, names).multinomial(len(names), np.full(len(names), 1 / len(names)), size=samples)
        return cls(human, drawn[:, place].astype(np.float64), len(names))

    @classmethod
    def halves(
        cls, human: Sequence[float], clusters: Sequence[str], seed: int = 0, splits: int = 200
    ) -> tuple[Bootstrap, Bootstrap]:
        """Split the clusters into random halves, `splits` times: one half for choosing, the other half for measuring."""
        names, place = _places(clusters)
        draw = generator(seed, ["halves", *names])
        first = np.zeros((splits, len(names)))
        for row in first:
            row[draw.permutation(len(names))[: len(names) // 2]] = 1
        chosen = first[:, place]
        return cls(human, chosen, len(names)), cls(human, 1 - chosen, len(names))

    def of(self, ratings: Sequence[float | None]) -> Mapping[str, NDArray[np.float64]]:
        """Map each coefficient to its value in each resample, which is NaN if undefined there."""
        given = np.array([math.nan if rating is None else rating for rating in ratings], dtype=np.float64)
        there = np.isfinite(given)
        x, y, weights = given[there], self._human[there], self._weights[:, there]
        return _coefficients(x, y, weights)

    def within(self, ratings: Sequence[float | None], groups: Sequence[Hashable]) -> Mapping[str, NDArray[np.float64]]:
        """Return the same as `of`, but for `mean_within`. Each group must be inside one cluster."""
        found = _within(ratings, self._human.tolist(), groups)
        first = [next(row for row, other in enumerate(groups) if other == group) for group in found]
        weights = self._weights[:, first]
        with np.errstate(invalid="ignore"):
            return {
                name: weights @ np.array([getattr(figures, name) for figures in found.values()]) / weights.sum(axis=1)
                for name in COEFFICIENTS
            }

    def between(self, ratings: Sequence[float | None], groups: Sequence[Hashable]) -> Mapping[str, NDArray[np.float64]]:
        given = np.array([math.nan if rating is None else rating for rating in ratings], dtype=np.float64)
        names = list(dict.fromkeys(groups))
        member = np.array([[group == name for name in names] for group in groups]) & np.isfinite(given)[:, None]
        count = self._weights @ member
        with np.errstate(invalid="ignore", divide="ignore"):
            x, y = (np.nan_to_num((self._weights * np.nan_to_num(values)) @ member / count) for values in (given, self._human))
        there = (count > 0).astype(np.float64)
        enough = there.sum(axis=1) >= FEWEST
        return {name: np.where(enough, values, np.nan) for name, values in _coefficients(x, y, there).items()}

    def interval(self, values: NDArray[np.float64]) -> tuple[float, float] | None:
        """Return the 95 % interval of resampled values (percentiles). None for fewer than FEWEST_UNITS clusters, if most
        resamples are undefined, or if all values are equal, which does not show the spread."""
        kept = values[np.isfinite(values)]
        if self.n_clusters < FEWEST_UNITS or 2 * len(kept) < len(values) or np.ptp(kept) < _ALIKE:
            return None
        low, high = np.quantile(kept, QUANTILES_95)
        return float(low), float(high)


def _places(clusters: Sequence[str]) -> tuple[list[str], list[int]]:
    """Return (sorted names of the clusters, index of each pair's cluster among them)."""
    names = sorted(set(clusters))
    place = {name: number for number, name in enumerate(names)}
    return names, [place[name] for name in clusters]


def _pearson(x: NDArray[np.float64], y: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the weighted Pearson correlation of each resample. `x`, `y`: shape (pairs,) or (resamples, pairs)."""
    with np.errstate(invalid="ignore", divide="ignore"):
        total = weights.sum(axis=1, keepdims=True)
        dx = x - (weights * x).sum(axis=1, keepdims=True) / total
        dy = y - (weights * y).sum(axis=1, keepdims=True) / total
        xx, yy = (weights * dx * dx).sum(axis=1), (weights * dy * dy).sum(axis=1)
        found = (weights * dx * dy).sum(axis=1) / np.sqrt(xx * yy)
    small = 1e-12 * np.maximum((weights * x * x).sum(axis=1), 1e-300)
    smaller = 1e-12 * np.maximum((weights * y * y).sum(axis=1), 1e-300)
    return np.where((xx > small) & (yy > smaller), np.clip(found, -1, 1), np.nan)


def _coefficients(
    x: NDArray[np.float64], y: NDArray[np.float64], weights: NDArray[np.float64]
) -> Mapping[str, NDArray[np.float64]]:
    """Map each coefficient to its value in each resample."""
    spearman = _pearson(_ranks(x, weights), _ranks(y, weights), weights)
    return {"pearson": _pearson(x, y, weights), "spearman": spearman, "kendall": _kendall(x, y, weights)}


def _ranks(values: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return average ranks in each resample, in which each pair occurs `weights` times. `values`: shape (pairs,) or
    (resamples, pairs)."""
    below, equal = values[..., :, None] < values[..., None, :], values[..., :, None] == values[..., None, :]
    if values.ndim == 1:
        ranks: NDArray[np.float64] = weights @ below + (weights @ equal + 1) / 2
        return ranks
    lower, same = (np.einsum("rj,rji->ri", weights, some) for some in (below, equal))
    return np.asarray(lower + (same + 1) / 2)


def _kendall(x: NDArray[np.float64], y: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    a, b = (np.sign(values[..., :, None] - values[..., None, :]) for values in (x, y))
    products = (a * b, a * a, b * b)
    if x.ndim == 1:
        balance, untied_a, untied_b = (((weights @ signs) * weights).sum(axis=1) for signs in products)
    else:
        balance, untied_a, untied_b = (np.einsum("ri,rij,rj->r", weights, signs, weights) for signs in products)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where((untied_a > 0) & (untied_b > 0), balance / np.sqrt(untied_a * untied_b), np.nan)
