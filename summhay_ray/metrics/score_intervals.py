"""95 % intervals of means. All tables use one function, which is valid with few queries and at the ends of the scale.

`paired_differences.py` has the intervals of differences, with the same standard errors.
"""

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

Floats = NDArray[np.float64]

LEVEL_95 = 0.025
"""The probability beyond each end of a 95 % interval."""
QUANTILES_95 = (LEVEL_95, 1 - LEVEL_95)
"""The ends of a 95 % interval, as quantiles of resampled values."""
SAMPLES = 2000
Z_95 = 1.959963984540054
"""Half-width of a 95 % interval of a normal distribution, in standard errors."""
FEWEST_UNITS = 6
"""Minimum number of independent units (queries, documents, haystacks) for an interval. With fewer, no method reaches 95 %
coverage."""
TOO_FEW = "too few"
Bounds = tuple[float, float]
"""The smallest and the largest possible score."""
FRACTION: Bounds = (0.0, 1.0)
_NO_SPREAD = 1e-9
"""A standard error below this is due to rounding."""


def generator(seed: int, names: Sequence[str] = ()) -> np.random.Generator:
    """Return a random generator that depends only on the seed and `names`."""
    digest = hashlib.sha256(json.dumps([seed, *names]).encode("ascii")).digest()
    return np.random.default_rng(int.from_bytes(digest[:16], "big"))


@dataclass(frozen=True, slots=True)
class Means:
    """Means of the columns of `unit_means`, one entry per column; NaN where unknown."""

    mean: Floats
    se: Floats
    """Standard error."""
    freedom: Floats
    """Degrees of freedom of the standard error."""
    low: Floats
    """The ends of the 95 % interval: `low`, `high`."""
    high: Floats
    n: NDArray[np.int64]
    """Number of units with a value."""

    def interval(self, column: int = 0) -> tuple[float, float] | None:
        """Return the 95 % interval of a column's mean, or None if there is none."""
        low, high = float(self.low[column]), float(self.high[column])
        return None if math.isnan(low) or math.isnan(high) else (low, high)

    def reason(self, column: int = 0, unit: str = "independent values") -> str:
        """Explain why a column's mean has no interval. Empty if it has one or if there is no mean. `unit`: the word for units."""
        n = int(self.n[column])
        if self.interval(column) is not None or not n:
            return ""
        return f"{TOO_FEW} {unit}: {n}, an interval needs {FEWEST_UNITS}" if n < FEWEST_UNITS else "all values are equal"


def unit_means(
    sums: Floats, weights: Floats, strata: Sequence[Any] | NDArray[Any] | None = None, bounds: Bounds | None = FRACTION
) -> Means:
    """Return the means of columns, `sums` over `weights`, and their 95 % intervals for further units.

    `sums`, `weights`: shape (units, columns), the sum and number of a unit's values. A unit with a weight of 0 has no value in
    that column. Units are independent: queries, documents, or haystacks. `strata`: the haystack of each query, if the result is
    for these haystacks only; units vary within them.

    The standard error is for clustered data. Within strata it is computed from the residuals of a ratio of sums, with (units -
    strata) degrees of freedom. Without strata, it is that of Bell and McCaffrey (2002), who correct for units of unequal
    weight. The unit farthest from the mean counts twice, since a few units seldom show the tail of a skewed distribution.

    Within `bounds` the interval comes from the beta distribution at the effective number of units (Korn and Graubard 1998, for
    surveys). In the middle of the scale it is like a t interval; near the ends it is skewed and stays within the bounds. If all
    units are equal, it is the interval for the same number of units at one end of the scale. Without bounds it is Student's t
    interval. None with fewer than FEWEST_UNITS units. tools/mean_coverage.py measures how often the intervals hold.
    """
    from scipy import special

    used = weights > 0
    n, total = used.sum(axis=0), weights.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = sums.sum(axis=0) / np.where(total > 0, total, np.nan)
        off = np.where(used, sums - mean * weights, 0.0)
        if strata is None:
            squares, freedom = between_clusters(off, weights, total)
        else:
            order, starts, _ = strata_of(strata)
            squares, freedom = within_strata(off[order], used[order], starts)
        se = np.sqrt((squares.sum(axis=0) + squares.max(axis=0, initial=0.0)) * freedom / (freedom + 1)) / total
        known = (n >= FEWEST_UNITS) & (freedom >= 1)
        reach = special.stdtrit(np.where(known, freedom, np.nan), 1 - LEVEL_95)
        if bounds is None:
            se = np.where(se > _NO_SPREAD * np.maximum(1, np.abs(mean)), se, np.nan)
            low, high = mean - reach * se, mean + reach * se
        else:
            low, high = _beta(mean, se, np.where(known, n, np.nan), reach, bounds)
    return Means(mean, se, freedom, low, high, n)


def bounded_interval(mean: float, se: float, n: int, freedom: float) -> tuple[float, float]:
    """Return the 95 % interval of `unit_means` for a mean with this standard error, of `n` units, within 0 and 1."""
    from scipy import special

    reach = np.array([special.stdtrit(freedom, 1 - LEVEL_95)])
    low, high = _beta(np.array([mean]), np.array([se]), np.array([float(n)]), reach, FRACTION)
    return float(low[0]), float(high[0])


def strata_of(haystacks: Sequence[Any] | NDArray[Any]) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
    """Return (order of the queries, start of each stratum in that order, start of each haystack). A stratum is a haystack.
    Haystacks with a single query have no spread, so all of them form one stratum."""
    _, haystack, counts = np.unique(np.asarray(haystacks), return_inverse=True, return_counts=True)
    stratum = np.where(counts[haystack] > 1, haystack, -1)
    order = np.lexsort((haystack, stratum))
    starts, firsts = (np.flatnonzero(np.diff(of[order], prepend=-2)) for of in (stratum, haystack))
    return order, starts, firsts


def within_strata(off: Floats, used: NDArray[np.bool_], starts: NDArray[np.intp]) -> tuple[Floats, Floats]:
    """Return each unit's squared deviation from the mean of its stratum, and the degrees of freedom of each column. The squares
    are scaled so that their sum over a column is the variance of the column's total.

    `off`: shape (units, columns), with the units in the order of `strata_of`: each unit's deviation from the column's mean, or 0
    where the unit is not `used`. `starts`: the index of each stratum's first unit.
    """
    counts, sums = np.add.reduceat(used, starts, axis=0, dtype=np.int64), np.add.reduceat(off, starts, axis=0)
    own = np.repeat(sums / np.maximum(1, counts), np.diff(starts, append=len(off)), axis=0)
    n, freedom = used.sum(axis=0), used.sum(axis=0) - (counts > 0).sum(axis=0).astype(np.float64)
    return np.where(used, off - own, 0.0) ** 2 * n / np.where(freedom > 0, freedom, np.nan), freedom


def between_clusters(off: Floats, weights: Floats, total: Floats) -> tuple[Floats, Floats]:
    """Return the same as `within_strata`, but between units of unequal weight: the variance and degrees of freedom of Bell
    and McCaffrey (2002)."""
    with np.errstate(invalid="ignore", divide="ignore"):
        rest = 1 - weights / total
        # The squared trace of a matrix over the sum of its squared elements. Its diagonal is `weights`; its other elements are
        # -(weight / sqrt(rest) of the row) * (the same of the column) / `total`.
        scaled = weights**2 / rest
        others = (scaled.sum(axis=0) ** 2 - (scaled**2).sum(axis=0)) / total**2
        freedom = total**2 / ((weights**2).sum(axis=0) + others)
        return np.where(weights > 0, off**2 / rest, 0.0), freedom


def _beta(mean: Floats, se: Floats, n: Floats, reach: Floats, bounds: Bounds) -> tuple[Floats, Floats]:
    """Return the ends of the interval within bounds. `n`: number of units, NaN for none. `reach`: the t quantile."""
    from scipy import special

    low, width = bounds[0], bounds[1] - bounds[0]
    share = np.clip((mean - low) / width, 0, 1)
    spread = se / width
    with np.errstate(invalid="ignore", divide="ignore"):
        effective = np.where(spread > _NO_SPREAD, share * (1 - share) / spread**2 * (Z_95 / reach) ** 2, n)
        above, below = effective * share, effective * (1 - share)
        ends = (
            np.where(above > 0, special.betaincinv(above, below + 1, LEVEL_95), 0.0),
            np.where(below > 0, special.betaincinv(above + 1, below, 1 - LEVEL_95), 1.0),
        )
    first, last = (np.where(np.isnan(effective), np.nan, low + width * end) for end in ends)
    return first, last


def mean_interval(
    frame: pl.DataFrame,
    value: str,
    by: str | Sequence[str],
    expected: pl.DataFrame | None = None,
    cluster: str = "",
    item: str = "",
    bounds: Bounds | None = None,
) -> pl.DataFrame:
    """Return the mean of a column for each group, and the 95 % interval of that mean.

    Columns of the result, which is sorted by group: `by`, VALUE, VALUE_low, VALUE_high, VALUE_reason (why there is no interval;
    else null), and `n`, the number of rows with a value. `expected` (rows with the columns of `by`) adds `n_expected`,
    VALUE_floor (the mean with every missing row as 0), and groups without any value.

    For booleans of independent rows the interval is Wilson's (1927), else that of `unit_means`. `bounds`: the least and the
    greatest possible value. If None, bounds are 0 and 1 if all values are within these; otherwise there are none. Rows with the
    same value in the column `cluster` (without it, `item`) are one unit.
    """
    names = [by] if isinstance(by, str) else list(by)
    is_share = frame.schema[value] == pl.Boolean
    values = frame[value].cast(pl.Float64)
    if bounds is None and (values.is_between(*FRACTION).all() or is_share):
        bounds = FRACTION
    rows = []
    for group, found in frame.group_by(names):
        known = found.filter(pl.col(value).is_not_null()).with_columns(pl.col(value).cast(pl.Float64))
        # Sort by value, so that the result does not depend on the order of the rows.
        given = known[value].sort().to_numpy()[:, None]
        unit = cluster or (item if item and known[item].n_unique() < known.height else "")
        sums, counts = given, np.ones_like(given)
        if unit:
            totals = known.sort(value).group_by(unit).agg(pl.col(value).sum(), pl.len().cast(pl.Float64).alias("_n"))
            totals = totals.select(value, "_n").sort(value, "_n")
            sums, counts = totals[value].to_numpy()[:, None], totals["_n"].to_numpy()[:, None]
        means = unit_means(sums, counts, bounds=bounds)
        ends = means.interval() or (None, None)
        if is_share and not unit and ends[0] is not None:
            # Wilson's score interval of a proportion.
            share = float(given.mean())
            n = len(given)
            z2 = Z_95 * Z_95
            centre, half = share + z2 / (2 * n), Z_95 * math.sqrt(share * (1 - share) / n + z2 / (4 * n * n))
            ends = max(0.0, (centre - half) / (1 + z2 / n)), min(1.0, (centre + half) / (1 + z2 / n))
        rows.append((*group, float(given.mean()) if len(given) else None, *ends, means.reason() or None, len(given)))
    keys = {name: frame.schema[name] for name in names}
    figures = dict.fromkeys((value, f"{value}_low", f"{value}_high"), pl.Float64)
    result = pl.DataFrame(rows, schema={**keys, **figures, f"{value}_reason": pl.String, "n": pl.Int64}, orient="row")
    if expected is not None:
        typed = expected.select(pl.col(name).cast(kind) for name, kind in keys.items())
        counts_of = typed.group_by(names).agg(pl.len().cast(pl.Int64).alias("n_expected"))
        result = result.join(counts_of, on=names, how="full", coalesce=True, nulls_equal=True)
        result = result.with_columns(pl.col("n", "n_expected").fill_null(0))
        result = result.with_columns(floor_of(value).alias(f"{value}_floor"))
    return result.sort(names)


def floor_of(value: str) -> pl.Expr:
    """Return the mean `value` with every missing row as 0, from the columns `n` and `n_expected`; null if nothing is expected."""
    expected = pl.max_horizontal("n", "n_expected")
    return pl.when(expected > 0).then(pl.col(value).fill_null(0.0) * pl.col("n") / expected)
