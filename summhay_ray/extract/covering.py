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


def by_covering_as_released(similarity: NDArray[np.float32]) -> Iterator[int]:
    """As the paper's code takes sentences. Where a sentence leaves the mean as it was, its place among the candidates is noted,
    and the sentence of that *number* is no candidate any more; the best candidate's place is then looked up among all sentences
    that are left, those that are no candidates included: it is the wrong one. Once the best leaves the mean as it was, the first
    sentences that are left follow."""
    import numpy as np

    left = list(range(len(similarity)))
    nearest = np.full(similarity.shape[1], -np.inf, dtype=np.float32)
    passed_over, before = set[int](), np.float32(0)
    while left:
        candidates = [number for number in left if number not in passed_over]
        if not candidates:
            # Its code ends with an error here.
            break
        scores = np.maximum(similarity[candidates], nearest).mean(axis=1)
        gained = scores.max() != before
        passed_over |= set(np.flatnonzero(scores == before).tolist())
        before = scores.max()
        taken = left.pop(int(scores.argmax()))
        nearest = np.maximum(nearest, similarity[taken])
        yield taken
        if not gained:
            break
    yield from left
