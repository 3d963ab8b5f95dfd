"""Draws the items from which the plan of a large grid is estimated, and gives the error of the estimate. No Ray, no calls.

The sample is stratified and consists of clusters: all items that read the same input, so that few inputs are read, and answers
that these items share are counted once. Clusters whose items have the same queues and are finished or unfinished in the same way
form a stratum, and each stratum is sampled. The totals are ratio estimates: figures for each item of the sample, times the items.
"""

import math
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from summhay_ray.engine.contract import Workload
from summhay_ray.engine.items import Item
from summhay_ray.engine.state.items_left import checked_items

EXACT_ITEMS = 2_000
"""A grid of at most this many items is planned exactly."""
DRAWN_ITEMS = 1_000
"""Minimum number of items in a sample."""
DRAWN_CLUSTERS = 8
"""Minimum number of clusters drawn from a stratum; all of them if it has fewer."""
FEW_CLUSTERS = 40
"""If the items read fewer inputs than this, each item with its repeats is a cluster."""
Z_95 = 1.96
"""Half of a 95 % interval, in standard errors."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """The part of a grid that its plan has counted."""

    items: int
    """Number of items in the sample."""
    of: int
    """Number of items of the grid."""
    error: float
    """Half of the 95 % interval of the expected dollars, or of the calls of a free run, as a share of them."""

    def __str__(self) -> str:
        return f"drawn from {self.items:,} of {self.of:,}, +- {100 * self.error:.2g} %"


@dataclass(frozen=True, slots=True)
class Stratum:
    """Clusters of one kind, and those drawn from them."""

    clusters: Sequence[Sequence[Item]]
    """The items of each drawn cluster, in the workload's order."""
    n_clusters: int
    n_items: int

    @property
    def weight(self) -> float:
        """Number of items that each drawn item represents."""
        return self.n_items / sum(map(len, self.clusters))

    def variance(self, figures: Sequence[float]) -> float:
        """The variance of the estimated total. `figures`: that of each drawn cluster."""
        n = len(self.clusters)
        if n == self.n_clusters:
            return 0.0
        mean = sum(figures) / sum(map(len, self.clusters))
        squares = sum((figure - mean * len(items)) ** 2 for figure, items in zip(figures, self.clusters, strict=True))
        return self.n_clusters**2 * (1 - n / self.n_clusters) * squares / (n - 1) / n


def relative_error(strata: Sequence[Stratum], figures: Sequence[Sequence[float]]) -> float:
    """Half of the 95 % interval of a total, as a share of it. `figures`: for each stratum, those of its drawn clusters."""
    total = sum(stratum.weight * sum(some) for stratum, some in zip(strata, figures, strict=True))
    variance = sum(stratum.variance(some) for stratum, some in zip(strata, figures, strict=True))
    return Z_95 * math.sqrt(variance) / total if total else 0.0


def draw(workload: Workload[Any], done: Collection[str]) -> list[Stratum]:
    """The sample of a grid, the same at each call. It lists the items twice, and holds only those that it draws."""
    for cluster_of in (_input_of, _repeated):
        strata = _strata(checked_items(workload), done, cluster_of)
        if sum(map(len, strata)) >= FEW_CLUSTERS:
            break
    rng, n_items = random.Random(workload.run_id), sum(sum(sizes.values()) for sizes in strata)
    drawn: list[dict[str, list[Item]]] = []
    for sizes in strata:
        n = min(len(sizes), max(DRAWN_CLUSTERS, math.ceil(len(sizes) * DRAWN_ITEMS / n_items)))
        drawn.append({cluster: [] for cluster in rng.sample(list(sizes), n)})
    place = {cluster: items for clusters in drawn for cluster, items in clusters.items()}
    for item in workload.items():
        if (items := place.get(cluster_of(item))) is not None:
            items.append(item)
    return [
        Stratum(list(clusters.values()), len(sizes), sum(sizes.values())) for clusters, sizes in zip(drawn, strata, strict=True)
    ]


def _input_of(item: Item) -> str:
    return item.reads or item.source or _repeated(item)


def _repeated(item: Item) -> str:
    return item.repeat_of or item.id


def _strata(items: Iterable[Item], done: Collection[str], cluster_of: Callable[[Item], str]) -> list[Mapping[str, int]]:
    """The strata: for each, its clusters with their numbers of items."""
    kinds: dict[str, frozenset[tuple[str, bool]]] = {}
    sizes, alike = Counter[str](), dict[frozenset[tuple[str, bool]], frozenset[tuple[str, bool]]]()
    for item in items:
        cluster, kind = cluster_of(item), (item.queue, item.id in done)
        sizes[cluster] += 1
        known = kinds.get(cluster, frozenset())
        if kind not in known:
            # Equal sets share one object: there are many clusters, but few different sets.
            grown = known | {kind}
            kinds[cluster] = alike.setdefault(grown, grown)
    strata: dict[frozenset[tuple[str, bool]], dict[str, int]] = defaultdict(dict)
    for cluster, kinds_of_cluster in kinds.items():
        strata[kinds_of_cluster][cluster] = sizes[cluster]
    return list(strata.values())
