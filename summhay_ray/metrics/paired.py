"""Test whether two systems differ, by paired differences per query. Part of the metrics room.

Queries of one haystack are correlated. With at least ENOUGH haystacks, whole haystacks are therefore resampled (interval) and
sign-flipped (test). With fewer, resamples and flips are too few: the interval and the test are Student's t over haystacks.
With a single haystack, or with `over="queries"`, queries are resampled within haystacks, and the results hold only for further
queries of these haystacks. docs/compare.md gives the measured coverage.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from summhay_ray.metrics.intervals import generator

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

ENOUGH = 6
"""Least number of clusters to resample. With five, a sign-flip test cannot reach 5 % (2 of 32 flips are 6.25 %)."""
SURE = 20
"""Least number of clusters for which the interval's coverage is 93 to 97 %. With fewer, readers must be warned."""
SAMPLES = 10_000
LEVEL, POWER = 0.05, 0.8
MOST_QUERIES = 10_000_000
"""`queries_needed` is None from this number on: such a difference is too small to be found."""
_TIE = 1e-9

Over = Literal["haystacks", "queries"]
"""What the results generalize to: other haystacks, or further queries of the given ones."""
Test = Literal["sign-flip", "t"]


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """A's figure minus B's on the queries that both answered, as fractions.

    Uncertainties are None with fewer than two clusters.
    """

    n_queries: int
    n_haystacks: int
    over: Over
    test: Test
    a: float
    """A's mean over the queries that both answered, with equal weights; `b` likewise."""
    b: float
    difference: float
    low: float | None
    """95 % interval of the difference: percentiles of the cluster bootstrap, widened for small numbers of clusters (Hesterberg,
    2015, section 5.3). With fewer than six clusters, Student's t over clusters."""
    high: float | None
    se: float | None
    """Standard error of the difference, from the spread of the clusters."""
    p: float | None
    """Two-sided p-value. `sign-flip`: a permutation test, exact for up to 13 clusters, else with 10,000 random flips. `t`:
    Student's t for fewer than six clusters, with bias-reduced variance and degrees of freedom as in Bell and McCaffrey (2002)."""
    p_holm: float | None
    """`p` after Holm's correction over all pairs compared together."""
    p_least: float
    """The smallest `p` that the test can give with this number of clusters."""
    n_pairs: int
    """Number of pairs that `p_holm`, `detectable` and `queries_needed` account for."""
    effect: float | None
    """Cohen's d for paired values: mean of the differences per query, divided by their standard deviation."""
    wins: int
    ties: int
    losses: int
    """Queries on which A is above B, equal to B, below B: `wins`, `ties`, `losses`."""
    freedom: float
    """Degrees of freedom of `se`."""
    detectable: float | None
    """Smallest true difference that these queries detect with 80 % power, at a level of 5 % divided by the number of pairs."""
    queries_needed: int | None
    """Total number of queries that would detect the observed difference with this power and level; None if it is too small."""

    @property
    def clusters(self) -> int:
        """The number of clusters: haystacks or queries, depending on `over`."""
        return self.n_haystacks if self.over == "haystacks" else self.n_queries

    @property
    def out_of_reach(self) -> bool:
        """Whether the clusters are too few to reach 5 % after Holm's correction, whatever the data."""
        return self.p is not None and self.p_least * self.n_pairs > LEVEL

    def reversed(self) -> PairedDifference:
        """B's figure minus A's."""
        low, high, effect = (None if value is None else -value for value in (self.high, self.low, self.effect))
        found = replace(self, difference=-self.difference, low=low, high=high, effect=effect)
        return replace(found, a=self.b, b=self.a, wins=self.losses, losses=self.wins)

    def verdict(self, a: str, b: str, unit: str = "%", cluster: str = "haystack") -> str:
        """The result in one sentence. `a` and `b` are the systems' names; `unit`: % for fractions, which are told in points."""
        if self.p is None or self.p_holm is None:
            return f"not known: too few queries or {cluster}s to tell"
        if self.p_holm <= LEVEL:
            higher, sign = (a, 1) if self.difference > 0 else (b, -1)
            corrected = f" after Holm over {self.n_pairs:,} pairs" if self.n_pairs > 1 else ""
            by = sign * self.difference
            apart = f"{100 * by:.1f} points" if unit == "%" else f"{by:.3g}"
            return f"differs: {higher} is higher by {apart} (p {self.p_holm:.4f}{corrected})"
        if self.out_of_reach:
            over = "queries" if self.over == "queries" else f"{cluster}s"
            return f"not shown to differ; {self.clusters} {over} are too few for {self.n_pairs:,} pairs at once"
        if self.queries_needed is None:
            return "not shown to differ; no number of queries would show so small a difference"
        more = self.queries_needed - self.n_queries
        if more <= 0:
            return "not shown to differ; a few more queries may show it"
        haystacks = math.ceil(more * self.n_haystacks / self.n_queries)
        where = f", in {haystacks:,} further {cluster}{'s'[: haystacks > 1]}," if self.over == "haystacks" else ""
        return f"not shown to differ; about {more:,} more quer{'ies' if more > 1 else 'y'}{where} would be needed"


@dataclass(frozen=True, slots=True)
class _Spread:
    """The uncertainty of a difference; all None with a single cluster."""

    freedom: float = 0.0
    se: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    p_least: float = 0.0


@dataclass(frozen=True, slots=True)
class Standing:
    """The rank of a system among others, with its uncertainty."""

    name: str
    mean: float
    """Mean over the queries that it answered, with equal weights."""
    n_queries: int
    first: float
    """Probability of being the best: the share of resamples in which it is; ties are split."""
    rank: float
    """Rank by `mean`, from 1; equal systems get the mean of their ranks."""
    rank_low: float
    """Lower end of the 95 % interval of its rank; equal systems get the mean of their ranks here, too."""
    rank_high: float


class Resampling:
    """A set of resamples and sign flips of the queries, shared by all pairs of systems that are compared.

    `haystacks`: the haystack of each query. The same seed and haystacks give the same resamples.
    """

    def __init__(self, haystacks: Sequence[str], seed: int = 0, samples: int = SAMPLES, over: Over = "haystacks") -> None:
        import numpy as np

        names = sorted(set(haystacks))
        n_queries = len(haystacks)
        self.over: Over = over if len(names) > 1 else "queries"
        self._haystack = np.searchsorted(names, list(haystacks))
        # `_alike`: the clusters of the test. `_cluster`: the units that are drawn; with too few haystacks these are queries.
        alike, queries = self.over == "haystacks", np.arange(n_queries)
        self._alike = self._haystack if alike else queries
        self._whole = alike and len(names) >= ENOUGH
        self._cluster = self._haystack if self._whole else queries
        self._n = len(names) if self._whole else n_queries
        self.test: Test = "t" if len(np.unique(self._alike)) < ENOUGH else "sign-flip"
        rng = generator(seed, ["paired", "haystacks" if self._whole else "queries", *map(str, haystacks)])
        self.weights = self._drawn(rng, samples)
        self._signs = _flips(self._n, rng, samples)

    def _drawn(self, rng: np.random.Generator, samples: int) -> NDArray[np.float64]:
        """How often each cluster is drawn, of shape (samples, clusters). Queries are drawn within their haystacks."""
        import numpy as np

        if self._whole:
            return rng.multinomial(self._n, np.full(self._n, 1 / self._n), size=samples).astype(np.float64)
        drawn = np.zeros((samples, self._n))
        for haystack in np.unique(self._haystack):
            [own] = np.nonzero(self._haystack == haystack)
            drawn[:, own] = rng.multinomial(len(own), np.full(len(own), 1 / len(own)), size=samples)
        return drawn

    def sums(self, values: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """(sum, count) of the values of each cluster, ignoring NaN. `values`: one per query."""
        import numpy as np

        there = ~np.isnan(values)
        sums = np.bincount(self._cluster, np.where(there, values, 0.0), minlength=self._n)
        return sums.astype(np.float64), np.bincount(self._cluster, there, minlength=self._n).astype(np.float64)

    def difference(self, a: NDArray[np.float64], b: NDArray[np.float64]) -> PairedDifference | None:
        """The difference of two systems. `a`, `b`: their values per query, NaN where missing. None if no query has both."""
        import numpy as np

        apart = a - b
        there = ~np.isnan(apart)
        n = int(there.sum())
        if not n:
            return None
        both = apart[there]
        mean, spread = float(both.mean()), float(both.std(ddof=1)) if n > 1 else 0.0
        spreads = self._student if self.test == "t" else self._resampled
        uncertainty = spreads(apart, mean)
        return PairedDifference(
            n_queries=n,
            n_haystacks=len(np.unique(self._haystack[there])),
            over=self.over,
            test=self.test,
            a=float(a[there].mean()),
            b=float(b[there].mean()),
            difference=mean,
            low=uncertainty.low,
            high=uncertainty.high,
            se=uncertainty.se,
            p=uncertainty.p,
            p_holm=None,
            p_least=uncertainty.p_least,
            n_pairs=1,
            effect=mean / spread if spread > _TIE else None,
            wins=int((both > _TIE).sum()),
            ties=int((abs(both) <= _TIE).sum()),
            losses=int((both < -_TIE).sum()),
            freedom=uncertainty.freedom,
            detectable=None if uncertainty.se is None else uncertainty.se * _reach(uncertainty.freedom),
            queries_needed=_needed(mean, uncertainty.se, n, uncertainty.freedom),
        )

    def _resampled(self, apart: NDArray[np.float64], mean: float) -> _Spread:
        """The uncertainty by bootstrap and sign flips, of haystacks or of queries within haystacks."""
        import numpy as np

        sums, counts = self.sums(apart)
        there = counts > 0
        # When queries are resampled, deviations are from the mean of their haystack.
        fixed = [there] if self._whole else [there & (self._haystack == one) for one in np.unique(self._haystack[there])]
        off = [sums[own] - counts[own] * (mean if self._whole else sums[own].mean()) for own in fixed]
        n = int(there.sum())
        freedom = n - len(fixed)
        if freedom <= 0:
            return _Spread()
        se = math.sqrt(sum(float((one**2).sum()) for one in off) * n / freedom) / float(counts.sum())
        exact = len(self._signs) == 2**self._n
        least = 2.0 ** (1 - n) if exact else 1 / (len(self._signs) + 1)
        return _Spread(freedom, se, *self._interval(sums, counts, freedom), self._p(sums), least)

    def _student(self, apart: NDArray[np.float64], mean: float) -> _Spread:
        """The uncertainty by Student's t over clusters of unequal sizes (Bell and McCaffrey, 2002)."""
        import numpy as np
        from scipy import stats

        there = ~np.isnan(apart)
        _, place, counts = np.unique(self._alike[there], return_inverse=True, return_counts=True)
        if len(counts) < 2:
            return _Spread()
        n = counts.sum()
        rest = np.sqrt(1 - counts / n)
        off = np.bincount(place, apart[there] - mean) / rest / n
        se = math.sqrt(float((off**2).sum()))
        if se <= _TIE:
            # Without any spread between clusters nothing can be inferred, except that equal systems are equal.
            return _Spread(1.0, 0.0, mean, mean, 1.0) if abs(mean) <= _TIE else _Spread()
        spread = -np.outer(counts / rest, counts / rest) / n
        np.fill_diagonal(spread, counts)
        freedom = float(np.trace(spread) ** 2 / (spread**2).sum())
        reach = float(stats.t.ppf(1 - LEVEL / 2, freedom)) * se
        return _Spread(freedom, se, mean - reach, mean + reach, float(2 * stats.t.sf(abs(mean) / se, freedom)))

    def _interval(self, sums: NDArray[np.float64], counts: NDArray[np.float64], freedom: int) -> tuple[float, float]:
        import numpy as np

        drawn = self.weights @ counts
        kept = drawn > 0
        found = (self.weights @ sums)[kept] / drawn[kept]
        tail = _tail(int((counts > 0).sum()), freedom)
        low, high = np.quantile(found, (tail, 1 - tail))
        return float(low), float(high)

    def _p(self, sums: NDArray[np.float64]) -> float:
        seen = abs(float(sums.sum()))
        reached = abs(self._signs @ sums) >= seen - _TIE
        # For random flips, the observed assignment counts as one of them (Phipson and Smyth, 2010).
        return float(reached.mean() if len(self._signs) == 2**self._n else (reached.sum() + 1) / (len(reached) + 1))

    def standings(self, names: Sequence[str], values: NDArray[np.float64]) -> list[Standing]:
        """The standings of the systems, best first. `values`: shape (queries, systems), NaN where missing."""
        import numpy as np
        from scipy import stats

        parts = [self.sums(values[:, place]) for place in range(len(names))]
        sums, counts = (np.stack([part[which] for part in parts], axis=1) for which in (0, 1))
        with np.errstate(invalid="ignore", divide="ignore"):
            drawn = np.nan_to_num((self.weights @ sums) / (self.weights @ counts), nan=-np.inf)
            means = sums.sum(axis=0) / counts.sum(axis=0)
        best = drawn >= drawn.max(axis=1, keepdims=True) - _TIE
        first = (best / best.sum(axis=1, keepdims=True)).mean(axis=0)
        # Rounded, since equal values may differ in their last digits.
        ranks = stats.rankdata(-np.round(drawn, 9), axis=1)
        places = stats.rankdata(-np.round(means, 9), nan_policy="omit")
        low, high = np.quantile(ranks, (LEVEL / 2, 1 - LEVEL / 2), axis=0, method="inverted_cdf")
        found = [
            Standing(name, float(means[k]), int(counts[:, k].sum()), *map(float, (first[k], places[k], low[k], high[k])))
            for k, name in enumerate(names)
            if counts[:, k].sum()
        ]
        return sorted(found, key=lambda one: (-one.mean, one.name))


def holm(ps: Sequence[float]) -> list[float]:
    """The p-values after Holm's step-down correction (1979), in the same order."""
    order = sorted(range(len(ps)), key=ps.__getitem__)
    stepped = itertools.accumulate((min(1.0, (len(ps) - place) * ps[index]) for place, index in enumerate(order)), max)
    found = dict(zip(order, stepped, strict=True))
    return [found[index] for index in range(len(ps))]


def _flips(n: int, rng: np.random.Generator, samples: int) -> NDArray[np.float64]:
    import numpy as np

    if 2**n <= samples:
        return np.array(list(itertools.product((1.0, -1.0), repeat=n)))
    return rng.integers(2, size=(samples, n)).astype(np.float64) * 2 - 1


@functools.cache
def _reach(freedom: float, pairs: int = 1) -> float:
    """The detectable difference in standard errors, at POWER and at LEVEL divided by `pairs` (the first step of Holm)."""
    from scipy import stats

    return float(stats.t.ppf(1 - LEVEL / pairs / 2, freedom) + stats.t.ppf(POWER, freedom))


@functools.cache
def _tail(clusters: int, freedom: int) -> float:
    """The quantile of the bootstrap that is the lower end of the interval.

    It corrects two flaws of the percentile interval for few clusters: the bootstrap divides by n and not by the degrees of
    freedom, and its tails are those of the normal distribution and not of Student's t.
    """
    from scipy import stats

    return float(stats.norm.sf(stats.t.ppf(1 - LEVEL / 2, freedom) * math.sqrt(clusters / freedom)))


def _needed(mean: float, se: float | None, n: int, freedom: float, pairs: int = 1) -> int | None:
    """Total queries needed, assuming that further queries have the same spread."""
    if not se or abs(mean) <= _TIE:
        return None
    spread = se * math.sqrt(n)

    def enough(queries: int) -> bool:
        return _reach(max(1, round(freedom * queries / n)), pairs) * spread / math.sqrt(queries) <= abs(mean)

    low, high = 1, 2
    while not enough(high) and high < MOST_QUERIES:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high if high < MOST_QUERIES else None


def with_holm(found: Sequence[PairedDifference]) -> list[PairedDifference]:
    """The differences with `p_holm`, `detectable` and `queries_needed` for all pairs together; unchanged without `p`."""
    known = [one.p for one in found if one.p is not None]
    corrected = iter(holm(known))
    return [_among(one, next(corrected), len(known)) if one.p is not None else one for one in found]


def _among(one: PairedDifference, p_holm: float, pairs: int) -> PairedDifference:
    needed = _needed(one.difference, one.se, one.n_queries, one.freedom, pairs)
    detectable = None if one.se is None else one.se * _reach(one.freedom, pairs)
    return replace(one, p_holm=p_holm, n_pairs=pairs, detectable=detectable, queries_needed=needed)
