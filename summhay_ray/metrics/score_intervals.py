"""95 % intervals of the mean of any column, and the draws of a cluster bootstrap. Part of the metrics room.

Intervals of a `SystemScore` are made in `scores_by_system.py`, those of differences between systems in `paired_differences.py`.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import numpy as np
    import polars as pl
    from numpy.typing import NDArray

QUANTILES_95 = (0.025, 0.975)
"""The ends of a 95 % interval, as quantiles of the resampled values."""
SAMPLES = 2000
Z_95 = 1.959963984540054
"""Half-width of a 95 % interval of a normal distribution, in standard errors."""
Column = TypeVar("Column", bound=Hashable)
_BLOCK = 250_000
"""Rows that are drawn at once, about."""


def generator(seed: int, names: Sequence[str] = ()) -> np.random.Generator:
    """A random generator that depends on the seed and on `names` alone."""
    import numpy as np

    digest = hashlib.sha256(json.dumps([seed, *names]).encode("ascii")).digest()
    return np.random.default_rng(int.from_bytes(digest[:16], "big"))


def resampled_sums(sums: NDArray[np.float64], samples: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Totals, (samples, columns), of resamples of the rows of `sums`: as many rows as there are, drawn with replacement."""
    import numpy as np

    n, totals = len(sums), []
    block = max(1, _BLOCK // n)
    for start in range(0, samples, block):
        here = min(block, samples - start)
        # A product with how often each row is drawn: for many columns, this is quicker than to collect the rows drawn.
        drawn = rng.integers(n, size=(here, n)) + n * np.arange(here)[:, None]
        totals.append(np.bincount(drawn.ravel(), minlength=here * n).reshape(here, n) @ sums)
    return np.concatenate(totals)


def ratio_intervals(numerators: NDArray[np.float64], denominators: NDArray[np.float64]) -> list[tuple[float, float] | None]:
    """The 95 % percentile interval of each column of resampled ratios, (samples, columns).

    Resamples with a denominator of 0 are left out; None where none remains.
    """
    import numpy as np

    kept = denominators > 0
    whole = kept.all(axis=0)
    lows, highs = np.full((2, numerators.shape[1]), np.nan)
    if whole.any():
        # Each column's values beside each other, which is how they are sorted.
        ratios = np.ascontiguousarray((numerators[:, whole] / denominators[:, whole]).T)
        lows[whole], highs[whole] = np.quantile(ratios, QUANTILES_95, axis=1)
    for column in np.flatnonzero(~whole):
        use = kept[:, column]
        if use.any():
            lows[column], highs[column] = np.quantile(numerators[use, column] / denominators[use, column], QUANTILES_95)
    return [None if np.isnan(low) else (float(low), float(high)) for low, high in zip(lows, highs, strict=True)]


def mean_interval(
    frame: pl.DataFrame,
    value: str,
    by: str | Sequence[str],
    expected: pl.DataFrame | None = None,
    seed: int = 0,
    cluster: str = "",
    item: str = "",
) -> pl.DataFrame:
    """The mean of a column for each group, and the 95 % interval of that mean.

    Columns of the result, sorted by group: those of `by`, VALUE, VALUE_low, VALUE_high, and `n`, the rows that have a value.
    `expected` (rows with the columns of `by`) adds `n_expected`, VALUE_floor (the mean with every missing row as 0), and groups
    without any value. For booleans the interval is Wilson's (1927); for numbers the percentile bootstrap's (2,000 resamples).
    Groups with equal values have equal intervals. Both ends are null for fewer than two values.

    Rows are assumed independent, but those with the same value in the column `cluster` are resampled together. So are, without a
    `cluster`, those with the same value in the column `item`, in groups where several have. Where all of these have the same
    share of true values, the interval is Wilson's of as many values.
    """
    import polars as pl

    names = [by] if isinstance(by, str) else list(by)
    is_share = frame.schema[value] == pl.Boolean
    interval = _wilson if is_share else _bootstrapped
    rows = []
    for group, found in frame.group_by(names):
        known = found.filter(pl.col(value).is_not_null()).with_columns(pl.col(value).cast(pl.Float64))
        given = known[value].sort().to_numpy()
        mean = float(given.mean()) if len(given) else None
        draws = generator(seed)
        together = cluster or (item if item and known[item].n_unique() < known.height else "")
        ends = _of_clusters(known, value, together, draws, is_share) if together else interval(given, draws)
        rows.append((*group, mean, *(ends or (None, None)), len(given)))
    keys = {name: frame.schema[name] for name in names}
    figures = dict.fromkeys((value, f"{value}_low", f"{value}_high"), pl.Float64)
    result = pl.DataFrame(rows, schema={**keys, **figures, "n": pl.Int64}, orient="row")
    if expected is not None:
        typed = expected.select(pl.col(name).cast(kind) for name, kind in keys.items())
        counts = typed.group_by(names).agg(pl.len().cast(pl.Int64).alias("n_expected"))
        result = result.join(counts, on=names, how="full", coalesce=True, nulls_equal=True)
        result = result.with_columns(pl.col("n", "n_expected").fill_null(0))
        result = result.with_columns(floor_of(value).alias(f"{value}_floor"))
    return result.sort(names)


def floor_of(value: str) -> pl.Expr:
    """The mean `value` with every missing row as 0, from the columns `n` and `n_expected`; null where nothing is expected."""
    import polars as pl

    expected = pl.max_horizontal("n", "n_expected")
    return pl.when(expected > 0).then(pl.col(value).fill_null(0.0) * pl.col("n") / expected)


def column_intervals(
    values: Mapping[Column, Sequence[float]], seed: int
) -> dict[Column, tuple[float | None, float | None, float | None]]:
    """Column -> its mean and the two ends of the mean's 95 % interval (percentile bootstrap, 2,000 resamples).

    All columns share the resampled rows. The mean is None without rows, the ends with fewer than two.
    """
    import numpy as np

    rows = np.array(list(values.values()), dtype=np.float64).T
    n = len(rows)
    if not n:
        return dict.fromkeys(values, (None, None, None))
    means = rows.mean(axis=0)
    if n < 2:
        return {column: (float(mean), None, None) for column, mean in zip(values, means, strict=True)}
    drawn = resampled_sums(rows, SAMPLES, generator(seed)) / n
    low, high = np.quantile(drawn, QUANTILES_95, axis=0)
    return {column: (float(means[place]), float(low[place]), float(high[place])) for place, column in enumerate(values)}


def _wilson(values: NDArray[np.float64], _: np.random.Generator) -> tuple[float, float] | None:
    """Wilson's score interval of a proportion."""
    n = len(values)
    if n < 2:
        return None
    share, z2 = float(values.mean()), Z_95 * Z_95
    centre, half = share + z2 / (2 * n), Z_95 * math.sqrt(share * (1 - share) / n + z2 / (4 * n * n))
    return max(0.0, (centre - half) / (1 + z2 / n)), min(1.0, (centre + half) / (1 + z2 / n))


def _bootstrapped(values: NDArray[np.float64], rng: np.random.Generator) -> tuple[float, float] | None:
    """The percentile interval of the mean."""
    import numpy as np

    if len(values) < 2:
        return None
    sums = resampled_sums(values[:, None], SAMPLES, rng)[:, 0]
    low, high = np.quantile(sums / len(values), QUANTILES_95)
    return float(low), float(high)


def _of_clusters(
    known: pl.DataFrame, value: str, cluster: str, rng: np.random.Generator, is_share: bool
) -> tuple[float, float] | None:
    """The percentile interval of the mean over resampled clusters."""
    import numpy as np
    import polars as pl

    sums = known.group_by(cluster).agg(pl.col(value).sum(), pl.len().alias("_n").cast(pl.Float64)).sort(cluster)
    if sums.height < 2:
        return None
    shares = (sums[value] / sums["_n"]).to_numpy()
    # Resamples of equal clusters are equal, too: an interval without a width would be no evidence.
    if is_share and np.ptp(shares) == 0:
        return _wilson(shares, rng)
    total = resampled_sums(sums.select(value, "_n").to_numpy(), SAMPLES, rng)
    return ratio_intervals(total[:, :1], total[:, 1:])[0]
