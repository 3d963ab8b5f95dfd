"""Clusters of similar queries: complete linkage above a threshold, then bounds on the sizes (ODSum, appendix B)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from summhay_ray.text import FUNCTION_WORDS, plain_words, root

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def tfidf_similarity(texts: Sequence[str]) -> NDArray[np.float64]:
    """Cosine similarities (n, n) of the texts' tf-idf vectors. Terms are word roots; function words are left out."""
    import numpy as np

    bags = [Counter(root(word) for word in plain_words(text) if word not in FUNCTION_WORDS) for text in texts]
    document_frequency = Counter(word for bag in bags for word in bag)
    columns = {word: column for column, word in enumerate(document_frequency)}
    vectors = np.zeros((len(bags), max(1, len(columns))))
    for row, bag in enumerate(bags):
        for word, count in bag.items():
            vectors[row, columns[word]] = count * math.log((1 + len(bags)) / document_frequency[word])
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit = vectors / np.where(norms > 0, norms, 1.0)
    similarity: NDArray[np.float64] = unit @ unit.T
    return similarity


def clusters_of(similarity: NDArray[np.float64], threshold: float, least: int, most: int) -> list[tuple[int, ...]]:
    """Clusters of row indices, each sorted, in the order of their first member. `similarity`: (n, n).

    Every pair of rows in a linked cluster is above the threshold. A cluster of more than `most` rows is split until all fit,
    which amounts to a higher threshold (the paper writes a lower one, which cannot split). A cluster of fewer than `least` rows
    joins the most similar cluster with room for it, whatever the threshold; if none has room, it stays as it is.
    """
    parts = (part for cluster in _linked(similarity, threshold) for part in _split(similarity, cluster, most))
    return _joined(similarity, sorted(parts), least, most)


def _joined(similarity: NDArray[np.float64], clusters: list[tuple[int, ...]], least: int, most: int) -> list[tuple[int, ...]]:
    """Sorted clusters, with those of fewer than `least` rows joined to others. The most similar pair joins first; ties go to
    the pair with the earliest first rows. Takes time and memory in proportion to the square of the number of rows."""
    import numpy as np

    if not clusters:
        return []
    nearest_rows = np.array([similarity[list(cluster)].min(axis=0) for cluster in clusters])
    linked = np.array([nearest_rows[:, list(cluster)].min(axis=1) for cluster in clusters]).T
    """(small cluster, other cluster): the similarity of their least similar pair of rows."""
    sizes = np.array([len(cluster) for cluster in clusters])
    best = np.where(sizes < least, np.inf, -np.inf)
    """For each small cluster, the similarity of the most similar cluster with room for it; an upper bound if it is not
    `known`."""
    targets, known = np.zeros(len(clusters), dtype=np.int64), sizes >= least
    while best[small := int(best.argmax())] > -np.inf:
        if not known[small]:
            # Full clusters stay full, and growing clusters never become more similar: `best` can only fall.
            room = sizes + sizes[small] <= most
            room[small] = False
            similar = np.where(room, linked[small], -np.inf)
            targets[small] = similar.argmax()
            best[small], known[small] = similar[targets[small]], True
            continue
        # Clusters are ordered by their first rows, so the joined one takes the earlier position.
        into, gone = sorted((small, int(targets[small])))
        linked[into] = np.minimum(linked[into], linked[gone])
        linked[:, into] = np.minimum(linked[:, into], linked[:, gone])
        clusters[into], clusters[gone] = tuple(sorted(clusters[into] + clusters[gone])), ()
        sizes[into], sizes[gone] = sizes[into] + sizes[gone], most + 1
        known[(targets == into) | (targets == gone)] = False
        best[into], best[gone], known[into] = np.inf if sizes[into] < least else -np.inf, -np.inf, False
    return [cluster for cluster in clusters if cluster]


def _linked(similarity: NDArray[np.float64], threshold: float) -> list[tuple[int, ...]]:
    """Clusters in which every pair is above the threshold."""
    import numpy as np
    from scipy.cluster.hierarchy import fcluster

    if len(similarity) < 2:
        return [(row,) for row in range(len(similarity))]
    # fcluster admits distances equal to its bound; the next smaller number excludes them.
    labels = fcluster(_tree(similarity), np.nextafter(1.0 - threshold, -1.0), criterion="distance")
    return _groups(labels.tolist(), range(len(similarity)))


def _split(similarity: NDArray[np.float64], cluster: tuple[int, ...], most: int) -> list[tuple[int, ...]]:
    """The cluster, halved along its linkage tree until no part has more than `most` rows."""
    from scipy.cluster.hierarchy import fcluster

    found, left = [], [cluster]
    while left:
        if len(cluster := left.pop()) <= most:
            found.append(cluster)
            continue
        labels = fcluster(_tree(similarity[list(cluster)][:, list(cluster)]), 2, criterion="maxclust").tolist()
        parts = _groups(labels, cluster)
        # If all pairs are equally similar, every cut is equally good.
        left += parts if len(parts) > 1 else [cluster[start : start + most] for start in range(0, len(cluster), most)]
    return found


def _tree(similarity: NDArray[np.float64]) -> NDArray[np.float64]:
    """The complete-linkage tree over the distances 1 - similarity, in scipy's format."""
    import numpy as np
    from scipy.cluster.hierarchy import linkage

    distances = np.clip(1.0 - similarity, 0.0, None)
    tree: NDArray[np.float64] = linkage(distances[np.triu_indices(len(distances), 1)], method="complete")
    return tree


def _groups(labels: Sequence[int], rows: Sequence[int]) -> list[tuple[int, ...]]:
    groups: dict[int, list[int]] = {}
    for label, row in zip(labels, rows, strict=True):
        groups.setdefault(label, []).append(row)
    return [tuple(sorted(group)) for group in groups.values()]
