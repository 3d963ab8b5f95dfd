"""Whether a difference between two systems is real: paired differences per query. Part of the metrics room.

Queries of one haystack are alike, so haystacks are resampled, and signs are flipped of whole haystacks, where there are enough
of them (`ENOUGH`). With fewer, nothing can be said of other haystacks: queries are resampled within the haystacks there are, and
the figures are about further queries of these. docs/compare.md has the measured coverage of both.
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
"""Haystacks from which on they are the clusters: with five, no sign-flip test reaches 5 % (2 of 32 is 6.25 %)."""
SURE = 20
"""Clusters from which on the interval's coverage is between 93 and 97 %; with fewer, readers must be warned."""
SAMPLES = 10_000
LEVEL, POWER = 0.05, 0.8
MOST_QUERIES = 10_000_000
"""A difference that would need as many is none that anybody finds."""
_TIE = 1e-9

Over = Literal["haystacks", "queries"]
"""What is resampled: haystacks with all their queries, or queries within their haystacks."""


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """A's figure less B's on the queries that both answered, in fractions; None where fewer than two clusters tell nothing."""

    n_queries: int
    n_haystacks: int
    over: Over
    a: float
    """A's mean over the queries that both answered, each query counting once; `b` likewise."""
    b: float
    difference: float
    low: float | None
    """The 95 % interval of the difference: percentiles of the cluster bootstrap, widened as Student's t asks for so few clusters
    (Hesterberg, 2015, section 5.3)."""
    high: float | None
    se: float | None
    """Standard error of the difference, by the spread of the clusters."""
    p: float | None
    """Two-sided sign-flip permutation test: exact for up to 13 clusters, else of 10,000 random flips."""
    p_holm: float | None
    """`p` after Holm's correction over all pairs that were compared together."""
    effect: float | None
    """Cohen's d of paired values: the mean of the queries' differences over their standard deviation."""
    wins: int
    ties: int
    losses: int
    """Queries on which A is above B, equal, below."""
    detectable: float | None
    """The least true difference that so many queries find with a probability of 80 %, at 5 %."""
    queries_needed: int | None
    """So many queries in all would find a true difference of the size seen, with a probability of 80 %; None where it is 0."""

    @property
    def clusters(self) -> int:
        """How many things were resampled."""
        return self.n_haystacks if self.over == "haystacks" else self.n_queries


@dataclass(frozen=True, slots=True)
class Standing:
    """A system's place among others, and how sure it is."""

    name: str
    mean: float
    """Over the queries that it answered, each counting once."""
    n_queries: int
    first: float
    """Probability of being the first: the share of resamples in which it is; equals share."""
    rank_low: int
    """The 95 % interval of its rank, from 1."""
    rank_high: int


class Resampling:
    """One set of resamples and sign flips of the same queries, for every pair that is compared on them.

    `haystacks`: of each query, the haystack that it belongs to. The same seed and haystacks give the same resamples.
    """

    def __init__(self, haystacks: Sequence[str], seed: int = 0, samples: int = SAMPLES) -> None:
        import numpy as np

        names = sorted(set(haystacks))
        self.over: Over = "haystacks" if len(names) >= ENOUGH else "queries"
        self._haystack = np.searchsorted(names, list(haystacks))
        n_queries = len(haystacks)
        self._cluster = self._haystack if self.over == "haystacks" else np.arange(n_queries)
        self._n = len(names) if self.over == "haystacks" else n_queries
        rng = generator(seed, ["paired", self.over, *map(str, haystacks)])
        self.weights = self._drawn(rng, samples)
        self._signs = _flips(self._n, rng, samples)

    def _drawn(self, rng: np.random.Generator, samples: int) -> NDArray[np.float64]:
        """(samples, clusters): how often each cluster is drawn; queries are drawn within their haystacks."""
        import numpy as np

        if self.over == "haystacks":
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
        sums, counts = self.sums(apart)
        strata = len(np.unique(self._haystack[there]))
        freedom = self._freedom(counts, n, strata)
        se = self._error(sums, counts, mean, apart, freedom) if freedom else None
        low, high = self._interval(sums, counts, freedom) if freedom else (None, None)
        return PairedDifference(
            n_queries=n,
            n_haystacks=strata,
            over=self.over,
            a=float(a[there].mean()),
            b=float(b[there].mean()),
            difference=mean,
            low=low,
            high=high,
            se=se,
            p=self._p(sums) if freedom else None,
            p_holm=None,
            effect=mean / spread if spread > _TIE else None,
            wins=int((own > _TIE).sum()),
            ties=int((abs(own) <= _TIE).sum()),
            losses=int((own < -_TIE).sum()),
            detectable=se * _reach(freedom) if se is not None else None,
            queries_needed=_needed(mean, se, n, freedom),
        )

    def _freedom(self, counts: NDArray[np.float64], n: int, strata: int) -> int:
        """Degrees of freedom of the spread of the clusters."""
        return int((counts > 0).sum()) - 1 if self.over == "haystacks" else max(0, n - strata)

    def _error(
        self, sums: NDArray[np.float64], counts: NDArray[np.float64], mean: float, apart: NDArray[np.float64], freedom: int
    ) -> float:
        """Of the mean of the queries' differences: a ratio's standard error over clusters, or of queries within haystacks."""
        import numpy as np

        total = counts.sum()
        if self.over == "haystacks":
            off = (sums - mean * counts)[counts > 0]
            return math.sqrt(float((off**2).sum()) * (freedom + 1) / freedom) / float(total)
        there = ~np.isnan(apart)
        within = sum(
            float(((apart[own] - apart[own].mean()) ** 2).sum())
            for haystack in np.unique(self._haystack[there])
            for own in [there & (self._haystack == haystack)]
        )
        return math.sqrt(within / freedom / float(total))

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

        parts = [self.sums(values[:, place]) for place in range(len(names))]
        sums, counts = (np.stack([part[which] for part in parts], axis=1) for which in (0, 1))
        with np.errstate(invalid="ignore", divide="ignore"):
            drawn = np.nan_to_num((self.weights @ sums) / (self.weights @ counts), nan=-np.inf)
            means = sums.sum(axis=0) / counts.sum(axis=0)
        best = drawn >= drawn.max(axis=1, keepdims=True) - _TIE
        first = (best / best.sum(axis=1, keepdims=True)).mean(axis=0)
        ranks = np.argsort(np.argsort(-drawn, axis=1, kind="stable"), axis=1, kind="stable") + 1
        low, high = np.quantile(ranks, (LEVEL / 2, 1 - LEVEL / 2), axis=0, method="inverted_cdf")
        found = [
            Standing(name, float(means[k]), int(counts[:, k].sum()), float(first[k]), int(low[k]), int(high[k]))
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
def _reach(freedom: int) -> float:
    """Standard errors from 0 to the difference that is found with the power."""
    from scipy import stats

    return float(stats.t.ppf(1 - LEVEL / 2, freedom) + stats.t.ppf(POWER, freedom))


@functools.cache
def _tail(clusters: int, freedom: int) -> float:
    """The lower quantile of the bootstrap that is an end of the interval.

    The bootstrap's spread is that of its clusters as if they were all, and its tails are the normal's.
    """
    from scipy import stats

    return float(stats.norm.sf(stats.t.ppf(1 - LEVEL / 2, freedom) * math.sqrt(clusters / freedom)))


def _needed(mean: float, se: float | None, n: int, freedom: int) -> int | None:
    """Queries in all, when each further one brings what those at hand brought."""
    if not se or abs(mean) <= _TIE:
        return None
    spread = se * math.sqrt(n)

    def enough(queries: int) -> bool:
        return _reach(max(1, round(freedom * queries / n))) * spread / math.sqrt(queries) <= abs(mean)

    least, most = 1, 2
    while not enough(most) and most < MOST_QUERIES:
        least, most = most, 2 * most
    while most - least > 1:
        middle = (least + most) // 2
        least, most = (least, middle) if enough(middle) else (middle, most)
    return most if most < MOST_QUERIES else None


def with_holm(found: Sequence[PairedDifference]) -> list[PairedDifference]:
    """The differences with `p_holm` over all of them; those without a `p` stay without."""
    known = [one.p for one in found if one.p is not None]
    corrected = iter(holm(known))
    return [replace(one, p_holm=next(corrected)) if one.p is not None else one for one in found]
