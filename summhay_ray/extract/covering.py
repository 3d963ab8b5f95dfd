"""Sentences that together are near to every part of the summary: greedy facility location. Part of the extract room."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def by_covering(similarity: NDArray[np.float32]) -> Iterator[int]:
    """`similarity` (sentences, parts of the summary): each step takes the sentence that raises the mean, over the parts, of the
    nearest sentence taken, most; of equals the first. Where nothing is left to gain, the first sentences that are left follow."""
    import numpy as np

    n_sentences, n_parts = similarity.shape
    if not n_parts:
        yield from range(n_sentences)
        return
    nearest = np.full(n_parts, -np.inf, dtype=np.float64)
    left = np.zeros(n_sentences)
    for _ in range(n_sentences):
        best = int(np.argmax(np.maximum(similarity, nearest).mean(axis=1) + left))
        nearest = np.maximum(nearest, similarity[best])
        left[best] = -np.inf
        yield best
