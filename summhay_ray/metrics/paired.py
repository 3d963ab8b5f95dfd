"""Whether a difference between two systems is real: paired differences per query. Part of the metrics room.

Queries of one haystack are alike, so haystacks are resampled, and signs are flipped of whole haystacks, where there are enough
of them (`ENOUGH`). Fewer have too few resamples and flips: there the interval and the test are Student's t over haystacks.
Of one haystack nothing is known of others, and some ask of the haystacks at hand alone (`over="queries"`): queries are resampled
within haystacks, and the figures are about further queries of these. docs/compare.md has the measured coverage.
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
"""Clusters from which on they are resampled: with five, no sign-flip test reaches 5 % (2 of 32 is 6.25 %)."""
SURE = 20
"""Clusters from which on the interval's coverage is between 93 and 97 %; with fewer, readers must be warned."""
SAMPLES = 10_000
LEVEL, POWER = 0.05, 0.8
MOST_QUERIES = 10_000_000
"""A difference that would need as many is none that anybody finds."""
_TIE = 1e-9

Over = Literal["haystacks", "queries"]
"""What the figures are about: other haystacks, or further queries of those there are."""
Test = Literal["sign-flip", "t"]


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """A's figure less B's on the queries that both answered, in fractions; None where fewer than two clusters tell nothing."""

    n_queries: int
    n_haystacks: int
    over: Over
    test: Test
    a: float
    """A's mean over the queries that both answered, each query counting once; `b` likewise."""
    b: float
    difference: float
    low: float | None
    """The 95 % interval of the difference: percentiles of the cluster bootstrap, widened as Student's t asks for so few clusters
    (Hesterberg, 2015, section 5.3); of fewer than six clusters Student's t over them."""
    high: float | None
    se: float | None
    """Standard error of the difference, by the spread of the clusters."""
    p: float | None
    """Two-sided. `sign-flip`: permutation test, exact for up to 13 clusters, else of 10,000 random flips. `t`: Student's over
    fewer than six clusters, with the bias-reduced variance and the degrees of freedom of Bell and McCaffrey (2002)."""
    p_holm: float | None
    """`p` after Holm's correction over all pairs that were compared together."""
    p_least: float
    """The least `p` that the test can give with so many clusters."""
    n_pairs: int
    """How many pairs `p_holm`, `detectable` and `queries_needed` are of."""
    effect: float | None
    """Cohen's d of paired values: the mean of the queries' differences over their standard deviation."""
    wins: int
    ties: int
    losses: int
    """Queries on which A is above B, equal, below."""
    freedom: float
    """Degrees of freedom of `se`."""
    detectable: float | None
    """The least true difference that so many queries find with a probability of 80 %, at 5 % shared among the pairs."""
    queries_needed: int | None
    """So many queries in all would find a true difference of the size seen, with a probability of 80 %, at 5 % shared among the
    pairs; None where it is 0."""

    @property
    def clusters(self) -> int:
        """How many things the spread is that of."""
        return self.n_haystacks if self.over == "haystacks" else self.n_queries

    @property
    def out_of_reach(self) -> bool:
        """Whether so few clusters can never reach 5 % after Holm's correction over so many pairs."""
        return self.p is not None and self.p_least * self.n_pairs > LEVEL

    def verdict(self, a: str, b: str) -> str:
        """What the figures come to, in plain words; `a` and `b` are the systems' names."""
        if self.p is None or self.p_holm is None:
            return "not known: too few queries or haystacks to tell"
        if self.p_holm <= LEVEL:
            higher, sign = (a, 1) if self.difference > 0 else (b, -1)
            corrected = f" after Holm over {self.n_pairs:,} pairs" if self.n_pairs > 1 else ""
            return f"differs: {higher} is higher by {100 * sign * self.difference:.1f} points (p {self.p_holm:.4f}{corrected})"
        if self.out_of_reach:
            return f"not shown to differ; {self.clusters} {self.over} are too few for {self.n_pairs:,} pairs at once"
        if self.queries_needed is None:
            return "not shown to differ; no number of queries would show so small a difference"
        more = self.queries_needed - self.n_queries
        if more <= 0:
            return "not shown to differ; a few more queries may show it"
        haystacks = math.ceil(more * self.n_haystacks / self.n_queries)
        where = f", in {haystacks:,} further haystack{'s'[: haystacks > 1]}," if self.over == "haystacks" else ""
        return f"not shown to differ; about {more:,} more quer{'ies' if more > 1 else 'y'}{where} would be needed"


@dataclass(frozen=True, slots=True)
class _Spread:
    """What the clusters of a difference tell of it; nothing where there is one."""

    freedom: float = 0.0
    se: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    p_least: float = 0.0


@dataclass(frozen=True, slots=True)
class Standing:
    """A system's place among others, and how sure it is."""

    name: str
    mean: float
    """Over the queries that it answered, each counting once."""
    n_queries: int
    first: float
    """Probability of being the first: the share of resamples in which it is; equals share."""
    rank: float
    """By `mean`, from 1; equals share the mean of their ranks."""
    rank_low: float
    """The 95 % interval of its rank, in which equals share, too."""
    rank_high: float


class Resampling:
    """One set of resamples and sign flips of the same queries, for every pair that is compared on them.

    `haystacks`: of each query, the haystack that it belongs to. The same seed and haystacks give the same resamples.
    """

    def __init__(self, haystacks: Sequence[str], seed: int = 0, samples: int = SAMPLES, over: Over = "haystacks") -> None:
        import numpy as np

        names = sorted(set(haystacks))
        n_queries = len(haystacks)
        self.over: Over = over if len(names) > 1 else "queries"
        self._haystack = np.searchsorted(names, list(haystacks))
        # What is alike, and what is drawn: of too few haystacks the order of systems is of their queries alone.
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
        """(samples, clusters): how often each cluster is drawn; queries are drawn within their haystacks."""
        import numpy as np

        if self._whole:
            return rng.multinomial(self._n, np.full(self._n, 1 / self._n), size=samples).astype(np.float64)
        drawn = np.zeros((samples, self._n))
        for haystack in np.unique(self._haystack):
            [own] = np.nonzero(self._haystack == haystack)
            drawn[:, own] = rng.multinomial(len(own), np.full(len(own), 1 / len(own)), size=samples)
        return drawn

    def sums(self, values: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Of each cluster, the sum of the values that are there (others are NaN) and how many they are."""
        import numpy as np

        there = ~np.isnan(values)
        sums = np.bincount(self._cluster, np.where(there, values, 0.0), minlength=self._n)
        return sums.astype(np.float64), np.bincount(self._cluster, there, minlength=self._n).astype(np.float64)

    def difference(self, a: NDArray[np.float64], b: NDArray[np.float64]) -> PairedDifference | None:
        """The difference of two systems' values of the queries, NaN where a system has none; None where no query has both."""
        import numpy as np

        apart = a - b
        there = ~np.isnan(apart)
        n = int(there.sum())
        if not n:
            return None
        own = apart[there]
        mean, spread = float(own.mean()), float(own.std(ddof=1)) if n > 1 else 0.0
        spreads = self._student if self.test == "t" else self._resampled
        told = spreads(apart, mean)
        return PairedDifference(
            n_queries=n,
            n_haystacks=len(np.unique(self._haystack[there])),
            over=self.over,
            test=self.test,
            a=float(a[there].mean()),
            b=float(b[there].mean()),
            difference=mean,
            low=told.low,
            high=told.high,
            se=told.se,
            p=told.p,
            p_holm=None,
            p_least=told.p_least,
            n_pairs=1,
            effect=mean / spread if spread > _TIE else None,
            wins=int((own > _TIE).sum()),
            ties=int((abs(own) <= _TIE).sum()),
            losses=int((own < -_TIE).sum()),
            freedom=told.freedom,
            detectable=None if told.se is None else told.se * _reach(told.freedom),
            queries_needed=_needed(mean, told.se, n, told.freedom),
        )

    def _resampled(self, apart: NDArray[np.float64], mean: float) -> _Spread:
        """By the bootstrap and flips of signs, of haystacks or of queries within them."""
        import numpy as np

        sums, counts = self.sums(apart)
        there = counts > 0
        # Of queries, each haystack has a mean of its own that is taken off first.
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
        """Student's t over clusters of any sizes, of which only the mean is estimated (Bell and McCaffrey, 2002)."""
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
            # Clusters that do not differ at all say nothing of how far others would; equal systems are equal.
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
        # Of random flips, the one that was seen counts among them (Phipson and Smyth, 2010).
        return float(reached.mean() if len(self._signs) == 2**self._n else (reached.sum() + 1) / (len(reached) + 1))

    def standings(self, names: Sequence[str], values: NDArray[np.float64]) -> list[Standing]:
        """The systems, the best first, from `values` of (queries, systems), NaN where a system has none."""
        import numpy as np
        from scipy import stats

        parts = [self.sums(values[:, place]) for place in range(len(names))]
        sums, counts = (np.stack([part[which] for part in parts], axis=1) for which in (0, 1))
        with np.errstate(invalid="ignore", divide="ignore"):
            drawn = np.nan_to_num((self.weights @ sums) / (self.weights @ counts), nan=-np.inf)
            means = sums.sum(axis=0) / counts.sum(axis=0)
        best = drawn >= drawn.max(axis=1, keepdims=True) - _TIE
        first = (best / best.sum(axis=1, keepdims=True)).mean(axis=0)
        # Equals differ in the last digits.
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
    """The p-values after Holm's step-down correction (1979), in their order."""
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
    """Standard errors from 0 to the difference that is found with the power, at the level that Holm's first step asks for."""
    from scipy import stats

    return float(stats.t.ppf(1 - LEVEL / pairs / 2, freedom) + stats.t.ppf(POWER, freedom))


@functools.cache
def _tail(clusters: int, freedom: int) -> float:
    """The lower quantile of the bootstrap that is an end of the interval.

    The bootstrap's spread is that of its clusters as if they were all, and its tails are the normal's.
    """
    from scipy import stats

    return float(stats.norm.sf(stats.t.ppf(1 - LEVEL / 2, freedom) * math.sqrt(clusters / freedom)))


def _needed(mean: float, se: float | None, n: int, freedom: float, pairs: int = 1) -> int | None:
    """Queries in all, when each further one brings what those at hand brought."""
    if not se or abs(mean) <= _TIE:
        return None
    spread = se * math.sqrt(n)

    def enough(queries: int) -> bool:
        return _reach(max(1, round(freedom * queries / n)), pairs) * spread / math.sqrt(queries) <= abs(mean)

    least, most = 1, 2
    while not enough(most) and most < MOST_QUERIES:
        least, most = most, 2 * most
    while most - least > 1:
        middle = (least + most) // 2
        least, most = (least, middle) if enough(middle) else (middle, most)
    return most if most < MOST_QUERIES else None


def with_holm(found: Sequence[PairedDifference]) -> list[PairedDifference]:
    """The differences with `p_holm` over all of them, and what it takes to find them so; those without a `p` stay as they are."""
    known = [one.p for one in found if one.p is not None]
    corrected = iter(holm(known))
    return [_among(one, next(corrected), len(known)) if one.p is not None else one for one in found]


def _among(one: PairedDifference, p_holm: float, pairs: int) -> PairedDifference:
    needed = _needed(one.difference, one.se, one.n_queries, one.freedom, pairs)
    detectable = None if one.se is None else one.se * _reach(one.freedom, pairs)
    return replace(one, p_holm=p_holm, n_pairs=pairs, detectable=detectable, queries_needed=needed)
