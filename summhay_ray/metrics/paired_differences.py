"""Differences of systems on the same queries, with tests and intervals at a family-wise error rate.

Each pair of systems has a paired t statistic of the differences on its queries. Holm's correction (1979) of the pairs' p-values
decides which pairs differ: in 95 % of tables no pair is wrongly reported to differ, for any dependence between pairs.

`over="queries"`: queries vary within their haystacks; results hold for further queries of these haystacks. `over="haystacks"`:
whole haystacks vary, with the variance and degrees of freedom of Bell and McCaffrey (2002); results hold for other haystacks.
If a side of a pair lacks more than LITTLE of its expected values, the pair differs only if it also differs with the missing
values at their worst for either side. docs/how-to/compare.md gives the measured error rates.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from summhay_ray.metrics.score_intervals import FEWEST_UNITS, between_clusters, strata_of, within_strata

Floats = NDArray[np.float64]
Places = NDArray[np.intp]

LEVEL, POWER = 0.05, 0.8
LITTLE, INCOMPLETE = 0.02, 0.1
"""Limits for the share of answers or judgments that a system lacks. Up to LITTLE, its pairs are compared on the existing
values. Above LITTLE, they are also compared with the missing values at their worst. Above INCOMPLETE, the system is not
ranked, and its pairs are a separate family."""
MOST_QUERIES = 10_000_000
"""From this number on, `queries_needed` is null: such a difference is too small to detect."""
_TIE = 1e-9
_CELLS = 4_000_000
"""Approximate number of values in memory at a time."""

Over = Literal["queries", "haystacks"]
"""The population to which the results generalize: further queries of the given haystacks, or other haystacks."""


@dataclass(frozen=True)
class Observed:
    """The scores of systems by query: arrays (queries, systems), NaN where no score is expected."""

    values: Floats
    """The scores. An expected score that is missing is NaN, too."""
    least: Floats
    """The scores, with the worst possible score for missing values. Equal to `values` if none is missing."""
    most: Floats
    """The scores, with the best possible score for missing values."""
    missing: Floats
    """Array (systems): the share of each system's expected values that are missing."""

    @classmethod
    def whole(cls, values: Floats) -> Observed:
        """Return scores without missing values: a NaN means that no score was expected."""
        return cls(values, values, values, np.zeros(values.shape[1]))

    @property
    def incomplete(self) -> NDArray[np.bool_]:
        """(systems): whether each system lacks more than INCOMPLETE."""
        flags: NDArray[np.bool_] = self.missing > INCOMPLETE + _TIE
        return flags


class Paired:
    """Queries on which systems are compared. `haystacks`: the haystack of each query. `over`: by default `haystacks` if there
    are at least FEWEST_UNITS of them, else `queries`."""

    def __init__(self, haystacks: Sequence[str], over: Over | None = None) -> None:
        n = len(set(haystacks))
        enough: Over = "haystacks" if n >= FEWEST_UNITS else "queries"
        self.over: Over = (over or enough) if n > 1 else "queries"
        self._order, self._strata, self._clusters = strata_of(list(haystacks))

    def differences(
        self, observed: Observed, pairs: Sequence[tuple[int, int]], extra: Floats | None = None, most: float = math.inf
    ) -> pl.DataFrame:
        """Compare all pairs. Returns one row per pair: A's figure minus B's on the queries that both answered, as fractions.

        `pairs`: columns of A and B. `extra`: standard errors that do not come from the queries, one per pair. `most`: the
        largest possible difference.

        - `n_queries`, `n_haystacks`, `over`: the data of the comparison. All other columns are null without a common query.
        - `a`, `b`, `difference`: means over these queries, with equal weights, and A's minus B's.
        - `worst_low`, `worst_high`: the difference with missing values at their worst for A, and for B; null if neither side
          lacks more than LITTLE.
        - `low`, `high`: Bonferroni's simultaneous 95 % interval or, for a pair that differs only by Holm's correction, the
          interval at Holm's level: it excludes 0 exactly if the pair differs. With `worst_low`, it covers all possible missing
          values.
        - `se`, `freedom`: standard error and its degrees of freedom; over haystacks the error is never below the one over
          queries.
        - `p`: two-sided, for this pair alone, on the existing values.
        - `p_adjusted`: Holm's, for `n_pairs`: all pairs of complete systems or, as a separate family, all pairs with an
          incomplete one. With `worst_low`, it is for the largest p that missing values allow. 1 if p is null.
        - `effect`: Cohen's d for paired values: mean of the differences per query, divided by their standard deviation.
        - `wins`, `ties`, `losses`: queries on which A is above B, equal to B, below B.
        - `detectable`: smallest true difference that these queries show with 80 % power, among as many pairs.
        - `queries_needed`: total number of queries that would show the observed difference with that power; null if it is too
          small.

        Uncertainties are null with too few queries. They are also null for systems that are equal on every query, since that
        does not prove a zero width.
        """
        from scipy import special

        places, n = np.array(pairs).reshape(-1, 2), observed.values.shape[1]
        columns = self._fit(observed.values, places, extra)
        lacking = (observed.missing > LITTLE + _TIE)[places].any(axis=1)
        # The cases are the observed values and, if a side lacks values, the missing ones at their worst for A, and for B.
        cases, bounds = [columns], np.hstack([observed.least, observed.most])
        for shift in ([0, n], [n, 0]) if lacking.any() else ():
            worst = self._fit(bounds, places + shift, extra)
            cases.append({name: np.where(lacking, worst[name], columns[name]) for name in ("difference", "se", "freedom", "p")})
        differences, p = (np.array([case[name] for case in cases]) for name in ("difference", "p"))
        one_sided = (differences > 0).all(axis=0) | (differences < 0).all(axis=0)
        p = np.where(one_sided | np.isnan(p).any(axis=0), p.max(axis=0), 1.0)
        adjusted, level, n_pairs = np.ones(len(p)), np.full(len(p), LEVEL), np.zeros(len(p), dtype=np.int64)
        apart = observed.incomplete[places].any(axis=1)
        for family in (apart, ~apart):
            known = family & ~np.isnan(p)
            n_pairs[family] = known.sum()
            adjusted[known], level[known] = holm(p[known])
        least = LEVEL / np.maximum(1, n_pairs)
        wide = np.where((adjusted < LEVEL) & (p >= least), level, least)
        reach = np.array([-special.stdtrit(case["freedom"], wide / 2) * case["se"] for case in cases])
        columns |= {
            "difference": np.clip(columns["difference"], -most, most),
            "worst_low": np.where(lacking, differences[1 % len(cases)], np.nan),
            "worst_high": np.where(lacking, differences[-1], np.nan),
            "low": np.maximum((differences - reach).min(axis=0), -most),
            "high": np.minimum((differences + reach).max(axis=0), most),
            "p_adjusted": adjusted,
            "n_pairs": n_pairs,
            "detectable": columns["se"] * _detectable(columns["freedom"], level),
            "queries_needed": _needed(columns, level),
        }
        given = pl.DataFrame(columns).fill_nan(None).with_columns(pl.col("queries_needed").cast(pl.Int64))
        return given.select(
            *("n_queries", "n_haystacks", pl.lit(self.over).alias("over"), "a", "b", "difference", "worst_low", "worst_high"),
            *("low", "high", "se", "p", "p_adjusted", "n_pairs", "effect", "wins", "ties", "losses", "freedom", "detectable"),
            "queries_needed",
        )

    def _fit(self, values: Floats, pairs: Places, extra: Floats | None) -> dict[str, Any]:
        """Return the columns of `differences` for each pair alone, NaN where unknown."""
        from scipy import special

        step, ordered = max(1, _CELLS // max(1, len(values))), values[self._order]
        with np.errstate(invalid="ignore", divide="ignore"):
            parts = [self._moments(*ordered[:, pairs[at : at + step].T].swapaxes(0, 1)) for at in range(0, len(pairs), step)]
            columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
            se, size = columns["se"], np.abs(columns["difference"])
            # If all differences are equal, add a query with difference 0, so that the spread is not 0.
            se = np.hypot(np.where(se <= _TIE, size / columns["n_queries"], se), 0.0 if extra is None else extra)
            columns["se"] = np.where(se > _TIE, se, np.nan)
            columns["p"] = 2 * special.stdtr(columns["freedom"], -size / columns["se"])
        return columns

    def _moments(self, a: Floats, b: Floats) -> dict[str, Any]:
        """Return means, differences and standard errors of pairs. `a`, `b`: (queries, pairs), in the order of strata and
        haystacks."""
        there = ~np.isnan(a - b)
        n, apart = there.sum(axis=0), np.where(there, a - b, 0.0)
        means = [np.where(there, side, 0.0).sum(axis=0) / n for side in (a, b)]
        difference = apart.sum(axis=0) / n
        centred = np.where(there, apart - difference, 0.0)
        spread = np.sqrt((centred**2).sum(axis=0) / np.maximum(1, n - 1))
        squares, freedom = within_strata(centred, there, self._strata)
        se = np.sqrt(squares.sum(axis=0)) / n
        counts = np.add.reduceat(there, self._clusters, axis=0, dtype=np.float64)
        n_haystacks = (counts > 0).sum(axis=0)
        if self.over == "haystacks":
            squares, clusters = between_clusters(np.add.reduceat(centred, self._clusters, axis=0), counts, n)
            se = np.where(n_haystacks > 1, np.maximum(se, np.sqrt(squares.sum(axis=0)) / n), np.nan)
            freedom = np.where(np.isnan(se), 0.0, clusters)
        wins, losses = ((side > _TIE).sum(axis=0) for side in (apart, -apart))
        columns = {"n_queries": n, "n_haystacks": n_haystacks, "a": means[0], "b": means[1], "difference": difference}
        columns |= {"effect": difference / np.where(spread > _TIE, spread, np.nan), "se": se, "freedom": freedom}
        return columns | {"wins": wins, "ties": n - wins - losses, "losses": losses}


def holm(p: Floats) -> tuple[Floats, Floats]:
    """Return (Holm's adjusted p-values, the level of each test). A p-value is below its level if and only if its adjusted
    value is below LEVEL. All p-values that are not below theirs get the same level, at which the smallest of them fails."""
    order, left = np.argsort(p, kind="stable"), np.arange(len(p), 0, -1)
    stepped = np.minimum(1.0, np.maximum.accumulate(p[order] * left))
    adjusted, level = np.empty((2, len(p)))
    adjusted[order] = stepped
    level[order] = LEVEL / np.maximum(left, (stepped >= LEVEL).sum())
    return adjusted, level


def _detectable(freedom: Floats, level: Floats) -> Floats:
    """Return the difference, in standard errors, that is detected with POWER."""
    from scipy import special

    reach: Floats = special.stdtrit(freedom, POWER) - special.stdtrit(freedom, level / 2)
    return reach


def _needed(found: dict[str, Any], level: Floats) -> Floats:
    """Return the total number of queries needed if further queries have the same spread. NaN if that is too many."""
    n, apart = np.maximum(1, found["n_queries"]), np.abs(found["difference"])
    low, high = np.ones(len(n)), np.full(len(n), float(MOST_QUERIES))
    while (high - low > 1).any():
        middle = np.floor((low + high) / 2)
        freedom = np.maximum(1, np.round(found["freedom"] * middle / n))
        enough = _detectable(freedom, level) * found["se"] * np.sqrt(n / middle) <= apart
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return np.where((apart > _TIE) & (high < MOST_QUERIES), high, np.nan)
