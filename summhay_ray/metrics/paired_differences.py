"""Differences of systems on the same queries, with intervals, tests, ranks and the best, at a family-wise error rate.

Part of the metrics room.

A matrix of scores (queries x systems) becomes residuals of independent units. A rotation test compares them with random
directions: the part of a random direction that lies along a pair's residuals has the distribution of the pair's t statistic if
its two systems are equal (Langsrud, 2005, Rotation tests). All pairs share the directions, so the largest statistic of a draw
accounts for how the pairs depend on each other: single-step max-T (Westfall and Young, 1993), for tests and simultaneous
intervals alike. The critical value never exceeds Bonferroni's. scipy's Dunnett and Tukey tests assume independent samples, which
systems that answer the same queries do not give.

`over="queries"`: units are queries, within their haystacks; results hold for further queries of these haystacks.
`over="haystacks"`: units are haystacks; results hold for other haystacks. docs/compare.md gives the measured error rates.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from summhay_ray.metrics.score_intervals import generator

if TYPE_CHECKING:
    import numpy as np
    import polars as pl
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Places = NDArray[np.intp]

SAMPLES = 10_000
LEVEL, POWER = 0.05, 0.8
MOST_QUERIES = 10_000_000
"""`queries_needed` is null from this number on: such a difference is too small to be found."""
_TIE = 1e-9
_CELLS = 4_000_000
"""Values held at once, about."""

Over = Literal["queries", "haystacks"]
"""What the results generalize to: further queries of the given haystacks, or other haystacks."""


@dataclass(frozen=True)
class _Group:
    """Pairs of systems, on the same queries, whose differences vary from query to query."""

    place: Places
    """Where the pairs stand among all pairs."""
    a: Places
    """The columns of `residuals` of the pairs' first systems; `b`: of the second ones."""
    b: Places
    length: Floats
    """The length of the difference of the two columns."""
    residuals: Floats
    """(units, systems)"""
    units: Places
    """What is drawn: queries or haystacks."""
    normals: Any
    """(units, directions): orthonormal directions in which no residual has a part."""


class Paired:
    """Queries on which systems are compared. `haystacks`: that of each query. The same seed and haystacks give the same draws."""

    def __init__(self, haystacks: Sequence[str], seed: int = 0, samples: int = SAMPLES, over: Over = "queries") -> None:
        import numpy as np

        names, self._haystack, counts = np.unique(list(haystacks), return_inverse=True, return_counts=True)
        self.over: Over = over if len(names) > 1 else "queries"
        # Alone in its haystack, a query has no spread within it: such queries are drawn as if of one haystack.
        self._stratum = np.where(counts[self._haystack] > 1, self._haystack, -1)
        self._samples = samples
        self._rng = functools.partial(generator, seed, ["paired", *map(str, haystacks)])

    def differences(
        self, values: Floats, pairs: Sequence[tuple[int, int]], extra: Floats | None = None, most: float = math.inf
    ) -> pl.DataFrame:
        """The pairs, compared together: a row of each, with A's figure minus B's on the queries that both answered, as fractions.

        `values`: (queries, systems), NaN where missing. `pairs`: columns of A and B. `extra`: standard errors that do not come
        from the queries, one per pair. `most`: no interval goes beyond this difference.

        - `n_queries`, `n_haystacks`, `over`: on which the pair is compared. All else is null without a common query.
        - `a`, `b`, `difference`: means over these queries, with equal weights, and A's minus B's.
        - `low`, `high`: simultaneous 95 % interval; all of the pairs' intervals hold the truth together in 95 % of cases.
        - `se`, `freedom`: standard error, over haystacks never below the one over queries, and its degrees of freedom.
        - `p`: two-sided, of this pair alone: Student's t; over haystacks with the variance of Bell and McCaffrey (2002).
        - `p_adjusted`: corrected for all pairs, `n_pairs`; below 0.05 exactly where the interval excludes 0. 1 where p is null.
        - `effect`: Cohen's d for paired values: mean of the differences per query, divided by their standard deviation.
        - `wins`, `ties`, `losses`: queries on which A is above B, equal to B, below B.
        - `detectable`: smallest true difference that these queries show with 80 % power, among as many pairs.
        - `queries_needed`: total number of queries that would show the observed difference so; null if it is too small.

        Uncertainties are null with too few queries, and for systems that are equal on every query: no evidence is no zero width.
        """
        import numpy as np
        import polars as pl
        from scipy import special

        found, groups = self._fit(values, np.array(pairs).reshape(-1, 2), extra)
        known = ~np.isnan(found["p"])
        n_pairs, adjusted, level = int(known.sum()), found["p"], LEVEL
        if n_pairs > 1:
            least = self._least(groups, np.zeros(len(known), dtype=int), signed=False)
            adjusted, level = _adjusted(adjusted, least[:, 0], n_pairs), float(_levels(least, n_pairs)[0])
        reach = -special.stdtrit(found["freedom"], level / 2) * found["se"]
        found |= {
            "low": np.maximum(found["difference"] - reach, -most),
            "high": np.minimum(found["difference"] + reach, most),
            "p_adjusted": np.where(known, adjusted, 1.0),
            "detectable": found["se"] * _detectable(found["freedom"], level),
            "queries_needed": _needed(found, level),
        }
        given = pl.DataFrame(found).fill_nan(None).with_columns(pl.col("queries_needed").cast(pl.Int64))
        return given.select(
            *("n_queries", "n_haystacks", pl.lit(self.over).alias("over"), "a", "b", "difference", "low", "high", "se", "p"),
            *("p_adjusted", pl.lit(n_pairs).alias("n_pairs"), "effect", "wins", "ties", "losses", "freedom", "detectable"),
            "queries_needed",
        )

    def ranks(self, values: Floats) -> pl.DataFrame:
        """Intervals of ranks from all pairs at once, and Hsu's comparison of each system with the best of the others.

        `values`: (queries, systems); only a value that is undefined may be NaN. A row of each system.

        - `rank_low`, `rank_high`: simultaneous 95 % interval of its rank.
        - `from_best`, `from_best_low`, `from_best_high`: its mean minus that of the best other system, with Hsu's simultaneous
          95 % interval; null where nothing is known, and for a system alone.
        - `may_be_best`: whether it cannot be told from the best; in 95 % of cases the best system is among these.
        """
        import numpy as np
        import polars as pl
        from scipy import special

        n, means = values.shape[1], np.nanmean(values, axis=0)
        if n < 2:
            return pl.DataFrame({"rank_low": [1], "rank_high": [1], "may_be_best": [True]})
        apart = ~np.eye(n, dtype=bool)
        b, a = (index[apart] for index in np.indices((n, n)))

        def square(pairs: Floats, unknown: float) -> Floats:
            """(n, n): in row b and column a, what is known of a against b."""
            matrix = np.full((n, n), unknown)
            matrix[apart] = np.nan_to_num(pairs, nan=unknown)
            return matrix

        found, groups = self._fit(values, np.stack([a, b], axis=1))
        least = self._least(groups, b, signed=True)
        ahead = square(found["difference"], 0.0)
        # Each row has a critical value of its own. Pairs without spread tell nothing.
        reach = square(-special.stdtrit(found["freedom"], _levels(least, n - 1)[b]) * found["se"], np.inf)
        above = (square(_adjusted(found["p"], 2 * least.min(axis=1), n * (n - 1) // 2), 1.0) < LEVEL) & (ahead > 0)
        worse = np.asarray((ahead > reach).any(axis=1))
        highs = (reach - ahead).min(axis=1)
        # The least that a may be above b, if b is the best; only those that may be the best count.
        lows = np.where(np.isinf(reach), np.inf, ahead - reach)[~worse].min(axis=0, initial=np.inf)
        certain = ~worse & (worse.sum() == n - 1)
        known = np.isfinite(highs) & (np.isfinite(lows) | certain)
        columns = {
            "rank_low": 1 + above.sum(axis=1),
            "rank_high": n - above.sum(axis=0),
            "from_best": means - np.where(apart, means, -np.inf).max(axis=1),
            "from_best_low": np.where(known, np.where(certain, 0.0, np.minimum(0.0, lows)), np.nan),
            "from_best_high": np.where(known, np.where(worse, 0.0, np.maximum(0.0, highs)), np.nan),
            "may_be_best": ~worse,
        }
        return pl.DataFrame(columns).fill_nan(None)

    def _fit(self, values: Floats, pairs: Places, extra: Floats | None = None) -> tuple[dict[str, Any], list[_Group]]:
        """Columns of `differences`, NaN where unknown, and the residuals that the pairs' draws are made of."""
        import numpy as np
        from scipy import special

        counts, figures = ("n_queries", "n_haystacks", "wins", "ties", "losses"), ("a", "b", "difference", "effect", "se", "p")
        found: dict[str, Any] = {name: np.zeros(len(pairs), dtype=np.int64) for name in counts}
        found |= {name: np.full(len(pairs), np.nan) for name in figures} | {"freedom": np.zeros(len(pairs))}
        groups = []
        for rows, place in _patterns(values, pairs):
            n = len(rows)
            used, columns = np.unique(pairs[place], return_inverse=True)
            a, b = columns.reshape(-1, 2).T
            own = values[np.ix_(rows, used)]
            apart, means = own[:, a] - own[:, b], own.mean(axis=0)
            difference, spread = apart.mean(axis=0), apart.std(axis=0, ddof=min(1, n - 1))
            wins, losses = (apart > _TIE).sum(axis=0), (apart < -_TIE).sum(axis=0)
            compared = {"n_queries": n, "n_haystacks": len(np.unique(self._haystack[rows])), "a": means[a], "b": means[b]}
            compared |= {"difference": difference, "effect": difference / np.where(spread > _TIE, spread, np.nan)}
            compared |= {"wins": wins, "ties": n - wins - losses, "losses": losses}
            if spaces := self._spaces(rows):
                units, freedom, normals, residuals = spaces[-1]
                lengths = [np.linalg.norm(of(apart), axis=0) for *_, of in spaces]
                se = np.max(lengths, axis=0)
                # If every query has the same difference: as if one more had none.
                se = np.hypot(np.where(se > _TIE, se, np.abs(difference) / n), 0.0 if extra is None else extra[place])
                se[se <= _TIE] = np.nan
                compared |= {"se": se, "freedom": freedom, "p": 2 * special.stdtr(freedom, -np.abs(difference) / se)}
                kept = lengths[-1] > _TIE
                groups.append(_Group(place[kept], a[kept], b[kept], lengths[-1][kept], residuals(own), units, normals))
            for name, column in compared.items():
                found[name][place] = column
        return found, groups

    def _spaces(self, rows: Places) -> list[tuple[Places, float, Any, Callable[[Floats], Floats]]]:
        """Where the residuals of these queries lie: within their haystacks and, over haystacks, between them. A standard error is
        never below that of either; draws are from the last. Empty without a degree of freedom.

        Each is (units, degrees of freedom, normals, residuals): a function from (queries, columns) to (units, columns), whose
        lengths are the standard errors of the columns' means.
        """
        import numpy as np

        n, strata = len(rows), _members(self._stratum[rows])
        freedom = n - strata.shape[1]
        clusters, counts = np.unique(self._haystack[rows], return_counts=True)
        if freedom <= 0 or (self.over == "haystacks" and len(clusters) < 2):
            return []

        def within(own: Floats) -> Floats:
            centred: Floats = own - strata @ (strata.T @ own)
            return centred / math.sqrt(n * freedom)

        if self.over == "queries":
            return [(rows, freedom, strata, within)]
        # Variance and degrees of freedom of Bell and McCaffrey.
        members, rest = _members(self._haystack[rows]), np.sqrt(1 - counts / n)
        spread = -np.outer(counts / rest, counts / rest) / n
        np.fill_diagonal(spread, counts)
        weights, normal = np.sqrt(counts) / rest / n, rest / np.linalg.norm(rest)

        def between(own: Floats) -> Floats:
            sums: Floats = members.T @ (own - own.mean(axis=0))
            return sums * weights[:, None]

        freedoms = freedom, float(np.trace(spread) ** 2 / (spread**2).sum())
        return [(rows, freedoms[0], strata, within), (clusters, freedoms[1], normal[:, None], between)]

    def _least(self, groups: Sequence[_Group], owner: Places, signed: bool) -> Floats:
        """The least p-value among the pairs of each owner in every draw in which no systems differ: (samples, owners).

        `owner`: that of each pair, in ascending order. `signed`: one-sided, that A is above B.
        """
        import numpy as np

        rng, least = self._rng(), np.ones((self._samples, owner[-1] + 1))
        n_units = len(self._haystack) if self.over == "queries" else self._haystack.max() + 1
        step = max(1, _CELLS // max([n_units, *(len(group.place) for group in groups)]))
        for start in range(0, self._samples, step):
            drawn = rng.standard_normal((min(step, self._samples - start), n_units)).T
            for group in groups:
                own, firsts = np.unique(owner[group.place], return_index=True)
                if not len(own):
                    continue
                part = drawn[group.units]
                along = group.residuals.T @ part
                cosine = along[group.a]
                cosine -= along[group.b]
                cosine /= group.length[:, None]
                most = np.maximum.reduceat(cosine if signed else np.abs(cosine), firsts, axis=0)
                of_space = (part**2).sum(axis=0) - ((group.normals.T @ part) ** 2).sum(axis=0)
                tail = _tail(np.clip(most**2 / of_space, 0, 1), len(part) - group.normals.shape[1])
                if signed:
                    tail = np.where(most > 0, tail / 2, 1 - tail / 2)
                block = least[start : start + part.shape[1]]
                block[:, own] = np.minimum(block[:, own], tail.T)
        return least


def _members(names: Places) -> Any:
    """(units, groups), sparse: which units belong together, in columns of length 1."""
    import numpy as np
    from scipy import sparse

    _, group, counts = np.unique(names, return_inverse=True, return_counts=True)
    return sparse.csr_array((1 / np.sqrt(counts[group]), (np.arange(len(group)), group)))


def _patterns(values: Floats, pairs: Places) -> Iterator[tuple[Places, Places]]:
    """(rows, places of pairs) for each set of rows that pairs have in common, some pairs at a time; none without a row."""
    import numpy as np

    packed = np.packbits(~np.isnan(values), axis=0)
    kinds, of_pair = np.unique((packed[:, pairs[:, 0]] & packed[:, pairs[:, 1]]).T, axis=0, return_inverse=True)
    for kind, bits in enumerate(kinds):
        rows = np.flatnonzero(np.unpackbits(bits, count=len(values)))
        place = np.flatnonzero(of_pair.ravel() == kind)
        step = max(1, _CELLS // max(1, len(rows)))
        if len(rows):
            yield from ((rows, place[start : start + step]) for start in range(0, len(place), step))


def _adjusted(p: Floats, least: Floats, n_pairs: int) -> Floats:
    """p-values corrected for all pairs compared together, by the least of each draw; never above Bonferroni's."""
    import numpy as np

    # The observed statistic counts as one of the draws (Phipson and Smyth, 2010).
    adjusted = (1 + np.searchsorted(np.sort(least), p, side="right")) / (len(least) + 1)
    return np.minimum(np.minimum(adjusted, n_pairs * p), 1.0)


def _levels(least: Floats, n_pairs: int) -> Floats:
    """For each column of draws: the p-value below which a pair's `_adjusted` one is below LEVEL."""
    import numpy as np

    place = max(0, math.ceil(LEVEL * (len(least) + 1)) - 2)
    found: Floats = np.maximum(np.sort(least, axis=0)[place], LEVEL / n_pairs)
    return found


@functools.cache
def _tails(dimensions: int) -> tuple[Floats, Floats]:
    """(Grid, log of the tail) of the squared cosine between a random direction and a fixed one."""
    import numpy as np
    from scipy import special

    grid = np.linspace(0, 6, 4001)
    return grid, np.log(special.betaincc(0.5, (dimensions - 1) / 2, -np.expm1(-(grid**2))))


def _tail(share: Floats, dimensions: int) -> Floats:
    """The probability of a larger squared cosine, between the points of `_tails` to six digits."""
    import numpy as np

    if dimensions == 1:
        return np.zeros_like(share)
    with np.errstate(divide="ignore"):
        found: Floats = np.exp(np.interp(np.sqrt(-np.log1p(-share)), *_tails(dimensions)))
    return found


def _detectable(freedom: Floats, level: float) -> Floats:
    """The difference that is found with POWER, in standard errors."""
    from scipy import special

    reach: Floats = special.stdtrit(freedom, POWER) - special.stdtrit(freedom, level / 2)
    return reach


def _needed(found: dict[str, Any], level: float) -> Floats:
    """Total queries needed, assuming that further queries have the same spread; NaN where that is too many."""
    import numpy as np

    n, apart = np.maximum(1, found["n_queries"]), np.abs(found["difference"])
    low, high = np.ones(len(n)), np.full(len(n), float(MOST_QUERIES))
    while (high - low > 1).any():
        middle = np.floor((low + high) / 2)
        freedom = np.maximum(1, np.round(found["freedom"] * middle / n))
        enough = _detectable(freedom, level) * found["se"] * np.sqrt(n / middle) <= apart
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return np.where((apart > _TIE) & (high < MOST_QUERIES), high, np.nan)
