"""Draws the sample of items from which the plan of a large grid is estimated, and computes the error of the estimate.

This is a stratified cluster sample. A cluster consists of all items that read the same input. So few inputs are read, and answers
that the items share are counted once. A stratum consists of all clusters whose items have the same queues and the same states
(finished or not). Totals are ratio estimates: the mean figure per item of the sample, times the number of items.
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
"""Grids of at most this many items are planned exactly."""
DRAWN_ITEMS = 1_000
"""Minimum number of items in a sample."""
DRAWN_CLUSTERS = 8
"""Minimum number of clusters drawn from a stratum. If it has fewer, all are drawn."""
FEW_CLUSTERS = 40
"""If there are fewer inputs than this, a cluster is an item with its repeats instead."""
Z_95 = 1.96
"""Half the width of a 95 % interval, in standard errors."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """The size of the sample from which a grid was planned, and the error of the plan."""

    items: int
    """Number of items in the sample."""
    of: int
    """Number of items in the grid."""
    error: float
    """Half the width of the 95 % interval of the expected dollars (for a free run, of the expected calls), as a share of them."""

    def __str__(self) -> str:
        return f"drawn from {self.items:,} of {self.of:,}, +- {100 * self.error:.2g} %"


@dataclass(frozen=True, slots=True)
class Stratum:
    """A stratum: its size, and the clusters that were drawn from it."""

    clusters: Sequence[Sequence[Item]]
    """The drawn clusters: the items of each, in the workload's order."""
    n_clusters: int
    n_items: int

    @property
    def weight(self) -> float:
        """Number of items that each drawn item represents."""
        return self.n_items / sum(map(len, self.clusters))

    def variance(self, figures: Sequence[float]) -> float:
        """Return the variance of the estimated total. `figures`: the figure of each drawn cluster."""
        n = len(self.clusters)
        if n == self.n_clusters:
            return 0.0
        mean = sum(figures) / sum(map(len, self.clusters))
        squares = sum((figure - mean * len(items)) ** 2 for figure, items in zip(figures, self.clusters, strict=True))
        return self.n_clusters**2 * (1 - n / self.n_clusters) * squares / (n - 1) / n


def relative_error(strata: Sequence[Stratum], figures: Sequence[Sequence[float]]) -> float:
    """Return half the width of the 95 % interval of a total, as a share of the total. `figures`: for each stratum, the figures of
    its drawn clusters."""
    total = sum(stratum.weight * sum(some) for stratum, some in zip(strata, figures, strict=True))
    variance = sum(stratum.variance(some) for stratum, some in zip(strata, figures, strict=True))
    return Z_95 * math.sqrt(variance) / total if total else 0.0


def draw(workload: Workload[Any], done: Collection[str]) -> list[Stratum]:
    """Draw the sample of a grid; every call draws the same. Iterates over the items twice, and keeps only the drawn ones in
    memory."""
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
    """Return the strata, each as a mapping from its clusters to their numbers of items."""
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
