"""Queries that ask alike, in clusters: complete link above a threshold, then sizes that fit (ODSum, appendix B)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from summhay_ray.text import FUNCTION_WORDS, plain_words, root

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def alike_by_words(texts: Sequence[str]) -> NDArray[np.float64]:
    """(n, n) cosines of the texts' tf-idf vectors, over the roots of the words that say something."""
    import numpy as np

    bags = [Counter(root(word) for word in plain_words(text) if word not in FUNCTION_WORDS) for text in texts]
    held = Counter(word for bag in bags for word in bag)
    places = {word: place for place, word in enumerate(held)}
    vectors = np.zeros((len(bags), max(1, len(places))))
    for row, bag in enumerate(bags):
        for word, times in bag.items():
            vectors[row, places[word]] = times * math.log((1 + len(bags)) / held[word])
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit = vectors / np.where(norms > 0, norms, 1.0)
    found: NDArray[np.float64] = unit @ unit.T
    return found


def clusters_of(alike: NDArray[np.float64], threshold: float, least: int, most: int) -> list[tuple[int, ...]]:
    """Clusters of places, each sorted, in the order of their first member.

    Every pair of a cluster is above the threshold. One of more than `most` is clustered again inside, until all fit: that takes a
    higher threshold (the paper writes a lower one, which cannot split). One of fewer than `least` joins the cluster whose members
    are most like it and that has room; where none has, it stays as it is.
    """
    found = [part for cluster in _linked(alike, threshold) for part in _split(alike, cluster, most)]
    while True:
        found.sort()
        moves = [
            (float(min(alike[one, other] for one in small for other in cluster)), small, cluster)
            for small in found
            if len(small) < least
            for cluster in found
            if cluster != small and len(cluster) + len(small) <= most
        ]
        if not moves:
            return found
        _, small, cluster = max(moves, key=lambda move: (move[0], [-place for place in (*move[1], *move[2])]))
        found = [one for one in found if one not in (small, cluster)] + [tuple(sorted((*small, *cluster)))]


def _linked(alike: NDArray[np.float64], threshold: float) -> list[tuple[int, ...]]:
    import numpy as np
    from scipy.cluster.hierarchy import fcluster

    if len(alike) < 2:
        return [(place,) for place in range(len(alike))]
    labels = fcluster(_tree(alike), np.nextafter(1.0 - threshold, -1.0), criterion="distance")
    return _groups(labels.tolist(), range(len(alike)))


def _split(alike: NDArray[np.float64], cluster: tuple[int, ...], most: int) -> list[tuple[int, ...]]:
    """The cluster in as few parts as its tree has that are no larger."""
    from scipy.cluster.hierarchy import fcluster

    if len(cluster) <= most:
        return [cluster]
    labels = fcluster(_tree(alike[list(cluster)][:, list(cluster)]), 2, criterion="maxclust").tolist()
    parts = _groups(labels, cluster)
    if len(parts) < 2:
        # All alike: any cut is as good.
        parts = [cluster[start : start + most] for start in range(0, len(cluster), most)]
    return [one for part in parts for one in _split(alike, part, most)]


def _tree(alike: NDArray[np.float64]) -> NDArray[np.float64]:
    import numpy as np
    from scipy.cluster.hierarchy import linkage

    apart = np.clip(1.0 - alike, 0.0, None)
    tree: NDArray[np.float64] = linkage(apart[np.triu_indices(len(apart), 1)], method="complete")
    return tree


def _groups(labels: Sequence[int], places: Sequence[int]) -> list[tuple[int, ...]]:
    groups: dict[int, list[int]] = {}
    for label, place in zip(labels, places, strict=True):
        groups.setdefault(label, []).append(place)
    return [tuple(sorted(group)) for group in groups.values()]
