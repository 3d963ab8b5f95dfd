"""Systems compared on the same queries: differences, ranks and the best, with a family-wise error rate. Of the metrics room.

A matrix of scores (queries x systems) becomes residuals of independent units, and these are drawn at random: the part of a random
direction that a pair's residuals take up has the distribution of its t statistic if its systems are equal (Langsrud, 2005,
Rotation tests). All pairs share the directions, so the largest statistic of a draw knows how the pairs depend on each other:
single-step max-T (Westfall and Young, 1993), for tests and simultaneous intervals alike. The critical value never exceeds
Bonferroni's. scipy's Dunnett and Tukey tests are for independent samples; systems that answer the same queries are none.

`over="queries"`: units are queries, within their haystacks; results hold for further queries of these haystacks.
`over="haystacks"`: units are haystacks; results hold for other haystacks. docs/compare.md gives the measured error rates.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from summhay_ray.metrics.intervals import generator

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Places = NDArray[np.intp]

SAMPLES = 10_000
LEVEL, POWER = 0.05, 0.8
MOST_QUERIES = 10_000_000
"""`queries_needed` is None from this number on: such a difference is too small to be found."""
_TIE = 1e-9
_CELLS = 4_000_000
"""Values held at once, about."""

Over = Literal["queries", "haystacks"]
"""What the results generalize to: further queries of the given haystacks, or other haystacks."""


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """A's figure minus B's on the queries that both answered, as fractions.

    Uncertainties are None with too few queries, and for systems that are equal on every query: no evidence is no zero width.
    """

    n_queries: int
    n_haystacks: int
    over: Over
    a: float
    """A's mean over the queries that both answered, with equal weights; `b` likewise."""
    b: float
    difference: float
    low: float | None
    """Simultaneous 95 % interval: all intervals of the pairs compared together hold the truth with a probability of 95 %."""
    high: float | None
    se: float | None
    """Standard error of the difference. Over haystacks, never below the one over queries."""
    p: float | None
    """Two-sided p of this pair alone: Student's t; over haystacks with variance and `freedom` of Bell and McCaffrey (2002)."""
    p_adjusted: float
    """`p` corrected for all pairs compared together; below 0.05 exactly where the interval excludes 0. 1 where `p` is None."""
    n_pairs: int
    """Number of pairs that were compared together."""
    effect: float | None
    """Cohen's d for paired values: mean of the differences per query, divided by their standard deviation."""
    wins: int
    ties: int
    losses: int
    """Queries on which A is above B, equal to B, below B: `wins`, `ties`, `losses`."""
    freedom: float
    """Degrees of freedom of `se`."""
    detectable: float | None
    """Smallest true difference that these queries show with 80 % power, among as many pairs."""
    queries_needed: int | None
    """Total number of queries that would show the observed difference with this power; None if it is too small."""

    @property
    def differs(self) -> bool:
        """Whether the interval excludes 0."""
        return self.p_adjusted < LEVEL

    def reversed(self) -> PairedDifference:
        """B's figure minus A's."""
        low, high, effect = (None if value is None else -value for value in (self.high, self.low, self.effect))
        found = replace(self, difference=-self.difference, low=low, high=high, effect=effect)
        return replace(found, a=self.b, b=self.a, wins=self.losses, losses=self.wins)

    def verdict(self, a: str, b: str, unit: str = "%", cluster: str = "haystack") -> str:
        """The result in one sentence. `a` and `b` are the systems' names; `unit`: % for fractions, which are told in points."""
        if self.se is None:
            equal = f"not known: equal on {self.n_queries:,} quer{'ies' if self.n_queries > 1 else 'y'}"
            return equal if self.ties == self.n_queries else f"not known: too few queries or {cluster}s to tell"
        if self.differs:
            higher, by = (a, self.difference) if self.difference > 0 else (b, -self.difference)
            corrected = f" for {self.n_pairs:,} pairs" if self.n_pairs > 1 else ""
            apart = f"{100 * by:.1f} points" if unit == "%" else f"{by:.3g}"
            return f"differs: {higher} is higher by {apart} (p {self.p_adjusted:.4f}{corrected})"
        if self.queries_needed is None:
            return "not shown to differ; no number of queries would show so small a difference"
        more = self.queries_needed - self.n_queries
        if more <= 0:
            return "not shown to differ; a few more queries may show it"
        haystacks = math.ceil(more * self.n_haystacks / self.n_queries)
        where = f", in {haystacks:,} further {cluster}{'s'[: haystacks > 1]}," if self.over == "haystacks" else ""
        return f"not shown to differ; about {more:,} more quer{'ies' if more > 1 else 'y'}{where} would be needed"


@dataclass(frozen=True)
class _Alike:
    """Pairs on the same queries."""

    place: Places
    """Their places among all pairs."""
    a: Places
    """Rows of `residuals`; `b` likewise."""
    b: Places
    se: Floats
    """Standard errors of the pairs: the lengths of the differences of their systems' residuals, or more."""
    freedom: float
    """Degrees of freedom of `se`."""
    units: Places
    residuals: Floats
    """(systems, units)."""
    length: Floats
    """Of the pairs' residuals; 0 for pairs without spread."""
    normals: Callable[[Floats], Floats]
    """Directions, (units, draws) -> the squared length of the parts in which no residual can lie."""
    dimensions: int
    """Of the space of residuals."""


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
        self, values: Floats, pairs: Sequence[tuple[int, int]], extra: Floats | None = None
    ) -> list[PairedDifference | None]:
        """The pairs, compared together; None for a pair without a common query.

        `values`: (queries, systems), NaN where missing. `pairs`: columns of A and B. `extra`: standard errors that do not come
        from the queries, one per pair.
        """
        import numpy as np
        from scipy import stats

        found, alike = self._fit(values, np.array(pairs).reshape(-1, 2), extra)
        known = ~np.isnan(found["p"])
        n_pairs, adjusted, level = int(known.sum()), found["p"], LEVEL
        if n_pairs > 1:
            least = self._least(alike, np.zeros(len(known), dtype=int), 1, signed=False)
            adjusted, level = _adjusted(adjusted, least[:, 0], n_pairs), float(_levels(least, n_pairs)[0])
        reach = stats.t.isf(level / 2, found["freedom"]) * found["se"]
        found |= {
            "low": found["difference"] - reach,
            "high": found["difference"] + reach,
            "p_adjusted": np.where(known, adjusted, 1.0),
            "detectable": found["se"] * _detectable(found["freedom"], level),
        }
        lists = {name: _listed(column) for name, column in found.items()}
        lists["queries_needed"] = [needed and int(needed) for needed in _listed(_needed(found, level))]
        rows = [dict(zip(lists, row, strict=True)) for row in zip(*lists.values(), strict=True)]
        return [PairedDifference(**row, over=self.over, n_pairs=n_pairs) if row["n_queries"] else None for row in rows]

    def ranks(self, values: Floats) -> dict[str, list[Any]]:
        """Intervals of ranks from all pairs at once, and Hsu's comparison of each system with the best of the others.

        `values`: (queries, systems); only a value that is undefined may be NaN. A list with a value of each system for each of
        `rank_low`, `rank_high`, `from_best`, `from_best_low`, `from_best_high` and `may_be_best`, as in `comparison.Standing`.
        """
        import numpy as np
        from scipy import stats

        n, means = values.shape[1], np.nanmean(values, axis=0)
        if n < 2:
            return {"rank_low": [1], "rank_high": [1], "may_be_best": [True]}
        # Every ordered pair, by its second system: the others against it.
        b, a = (index[~np.eye(n, dtype=bool)] for index in np.indices((n, n)))
        found, alike = self._fit(values, np.stack([a, b], axis=1))
        least = self._least(alike, b, n, signed=True)
        adjusted = _adjusted(found["p"], 2 * least.min(axis=1), n * (n - 1) // 2)
        above = np.zeros((n, n), dtype=bool)
        above[a, b] = (adjusted < LEVEL) & (found["difference"] > 0)
        # A row for each system b, with the others in order. Pairs without spread tell nothing.
        reach = stats.t.isf(_levels(least, n - 1)[b], found["freedom"]) * found["se"]
        ahead, reach = np.nan_to_num(found["difference"].reshape(n, n - 1)), np.nan_to_num(reach.reshape(n, n - 1), nan=np.inf)
        worse = np.asarray((ahead > reach).any(axis=1))
        highs = (reach - ahead).min(axis=1)
        # bounds[i, j]: the least that i may be above j, if j is the best; only those j that may be the best count.
        bounds = np.full((n, n), np.inf)
        bounds[a.reshape(n, n - 1), np.arange(n)[:, None]] = np.where(np.isinf(reach), np.inf, ahead - reach)
        lows = bounds[:, ~worse].min(axis=1, initial=np.inf)
        certain = ~worse & (worse.sum() == n - 1)
        known = np.isfinite(highs) & (np.isfinite(lows) | certain)
        columns = {
            "rank_low": 1 + above.sum(axis=0),
            "rank_high": n - above.sum(axis=1),
            "from_best": means - np.where(np.eye(n, dtype=bool), -np.inf, means).max(axis=1),
            "from_best_low": np.where(known, np.where(certain, 0.0, np.minimum(0.0, lows)), np.nan),
            "from_best_high": np.where(known, np.where(worse, 0.0, np.maximum(0.0, highs)), np.nan),
            "may_be_best": ~worse,
        }
        return {name: _listed(column) for name, column in columns.items()}

    # --- the matrix ------------------------------------------------------------------------------------------------------

    def _fit(self, values: Floats, pairs: NDArray[np.intp], extra: Floats | None = None) -> tuple[dict[str, Any], list[_Alike]]:
        """Of each pair, fields of `PairedDifference`, NaN where unknown, and the residuals that its draws are made of."""
        import numpy as np
        from scipy import stats

        counts, figures = ("n_queries", "n_haystacks", "wins", "ties", "losses"), ("a", "b", "difference", "effect", "se", "p")
        found: dict[str, Any] = {name: np.zeros(len(pairs), dtype=np.int64) for name in counts}
        found |= {name: np.full(len(pairs), np.nan) for name in figures} | {"freedom": np.zeros(len(pairs))}
        alike = []
        for rows, place in _patterns(values, pairs):
            used, columns = np.unique(pairs[place], return_inverse=True)
            a, b = columns.reshape(-1, 2).T
            own = values[np.ix_(rows, used)]
            means = own.mean(axis=0)
            found["n_queries"][place], found["n_haystacks"][place] = len(rows), len(np.unique(self._haystack[rows]))
            found["a"][place], found["b"][place] = means[a], means[b]
            for part, apart in _blocks(own.T, a, b):
                here, difference = place[part], apart.mean(axis=1)
                found["difference"][here] = difference
                spread = apart.std(axis=1, ddof=1) if len(rows) > 1 else np.zeros(len(apart))
                found["effect"][here] = difference / np.where(spread > _TIE, spread, np.nan)
                found["wins"][here], found["losses"][here] = (apart > _TIE).sum(axis=1), (apart < -_TIE).sum(axis=1)
                found["ties"][here] = len(rows) - found["wins"][here] - found["losses"][here]
            group = self._residuals(rows, own, (place, a, b))
            if group is None:
                continue
            # If every query has the same difference: as if one more had none.
            se = np.where(group.se > _TIE, group.se, np.abs(found["difference"][place]) / len(rows))
            if extra is not None:
                se = np.hypot(se, extra[place])
            se[se <= _TIE] = np.nan
            found["se"][place], found["freedom"][place] = se, group.freedom
            found["p"][place] = 2 * stats.t.sf(np.abs(found["difference"][place]) / se, group.freedom)
            alike.append(group)
        return found, alike

    def _residuals(self, rows: Places, own: Floats, pairs: tuple[Places, Places, Places]) -> _Alike | None:
        """What tells of the spread of pairs on these rows; None without a degree of freedom."""
        import numpy as np

        place, a, b = pairs
        order = np.argsort(self._stratum[rows], kind="stable")
        _, starts, sizes = np.unique(self._stratum[rows][order], return_index=True, return_counts=True)
        n, freedom = len(rows), float(len(rows) - len(sizes))
        if freedom <= 0:
            return None
        sorted_own = own[order]
        centred = sorted_own - np.repeat(np.add.reduceat(sorted_own, starts, axis=0) / sizes[:, None], sizes, axis=0)
        within = (centred / math.sqrt(n * freedom)).T
        length = _lengths(within, a, b)

        def of_strata(drawn: Floats) -> Floats:
            sums: Floats = (np.add.reduceat(drawn, starts, axis=0) ** 2 / sizes[:, None]).sum(axis=0)
            return sums

        if self.over == "queries":
            return _Alike(place, a, b, length, freedom, rows[order], within, length, of_strata, int(freedom))
        clusters, where, counts = np.unique(self._haystack[rows], return_inverse=True, return_counts=True)
        if len(clusters) < 2:
            return None
        rest = np.sqrt(1 - counts / n)
        sums = np.zeros((len(clusters), own.shape[1]))
        np.add.at(sums, where, own - own.mean(axis=0))
        between = (sums / rest[:, None] / n).T
        spread = -np.outer(counts / rest, counts / rest) / n
        np.fill_diagonal(spread, counts)
        freedom = float(np.trace(spread) ** 2 / (spread**2).sum())
        normal = rest / np.linalg.norm(rest)

        def of_haystacks(drawn: Floats) -> Floats:
            part: Floats = (normal @ drawn) ** 2
            return part

        apart = _lengths(between, a, b)
        se = np.maximum(apart, length)
        return _Alike(place, a, b, se, freedom, clusters, between, apart, of_haystacks, len(clusters) - 1)

    # --- the draws -------------------------------------------------------------------------------------------------------

    def _least(self, alike: Sequence[_Alike], owner: Places, owners: int, signed: bool) -> Floats:
        """The least p-value among the pairs of each owner in every draw in which no systems differ: (samples, owners).

        `signed`: one-sided, that A is above B.
        """
        import numpy as np

        rng, least = self._rng(), np.ones((self._samples, owners))
        widest = max((len(group.place) for group in alike), default=1)
        n_units = len(self._haystack) if self.over == "queries" else int(self._haystack.max()) + 1
        step = max(1, _CELLS // max(widest, n_units))
        for start in range(0, self._samples, step):
            drawn = rng.standard_normal((min(step, self._samples - start), n_units)).T
            for group in alike:
                kept = np.flatnonzero(group.length > _TIE)
                kept = kept[np.argsort(owner[group.place[kept]], kind="stable")]
                if not len(kept):
                    continue
                own, firsts = np.unique(owner[group.place[kept]], return_index=True)
                part = drawn[group.units]
                along = group.residuals @ part
                cosine = along[group.a[kept]]
                cosine -= along[group.b[kept]]
                cosine /= group.length[kept][:, None]
                if not signed:
                    np.abs(cosine, out=cosine)
                most = np.maximum.reduceat(cosine, firsts, axis=0)
                share = np.clip(most * np.abs(most) / ((part**2).sum(axis=0) - group.normals(part)), -1, 1)
                tail = _tail(np.abs(share), group.dimensions)
                if signed:
                    tail = np.where(share > 0, tail / 2, 1 - tail / 2)
                block = least[start : start + part.shape[1], own]
                least[start : start + part.shape[1], own] = np.minimum(block, tail.T)
        return least


def _listed(column: Any) -> list[Any]:
    """An array as a list, with None for NaN."""
    return [None if value != value else value for value in column.tolist()]


def _patterns(values: Floats, pairs: NDArray[np.intp]) -> Iterator[tuple[Places, Places]]:
    """(rows, places of the pairs) for each set of rows that pairs have in common; none for pairs without a row."""
    import numpy as np

    there = ~np.isnan(values)
    if there.all():
        yield np.arange(len(values)), np.arange(len(pairs))
        return
    packed = np.packbits(there, axis=0)
    both = packed[:, pairs[:, 0]] & packed[:, pairs[:, 1]]
    kinds, of_pair = np.unique(both.T, axis=0, return_inverse=True)
    for kind, bits in enumerate(kinds):
        rows = np.flatnonzero(np.unpackbits(bits, count=len(values)))
        if len(rows):
            yield rows, np.flatnonzero(of_pair.ravel() == kind)


def _blocks(columns: Floats, a: Places, b: Places) -> Iterator[tuple[slice, Floats]]:
    """The differences of pairs of rows, some pairs at a time. `columns`: (systems, units)."""
    step = max(1, _CELLS // max(1, columns.shape[1]))
    for start in range(0, len(a), step):
        part = slice(start, start + step)
        yield part, columns[a[part]] - columns[b[part]]


def _lengths(columns: Floats, a: Places, b: Places) -> Floats:
    import numpy as np

    return np.concatenate([np.sqrt((apart**2).sum(axis=1)) for _, apart in _blocks(columns, a, b)])


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
    from scipy import stats

    grid = np.linspace(0, 6, 4001)
    return grid, stats.beta.logsf(-np.expm1(-(grid**2)), 0.5, (dimensions - 1) / 2)


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
    from scipy import stats

    reach: Floats = stats.t.isf(level / 2, freedom) + stats.t.ppf(POWER, freedom)
    return reach


def _needed(found: dict[str, Any], level: float) -> Floats:
    """Total queries needed, assuming that further queries have the same spread; NaN where that is too many."""
    import numpy as np

    n, apart = np.maximum(1, found["n_queries"]), np.abs(found["difference"])
    spread = found["se"] * np.sqrt(n)
    low, high = np.ones(len(n)), np.full(len(n), float(MOST_QUERIES))
    while (high - low > 1).any():
        middle = np.floor((low + high) / 2)
        freedom = np.maximum(1, np.round(found["freedom"] * middle / n))
        enough = _detectable(freedom, level) * spread / np.sqrt(middle) <= apart
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    needed: Floats = np.where((apart > _TIE) & (high < MOST_QUERIES), high, np.nan)
    return needed
