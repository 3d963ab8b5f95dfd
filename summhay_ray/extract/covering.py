"""Greedy facility location: select sentences that together cover all parts of the summary."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def by_covering(similarity: NDArray[np.float32]) -> Iterator[int]:
    """Yield sentence numbers, the one with the greatest gain first. `similarity` has shape (sentences, parts of the summary).

    The score of a selection is the mean, over the parts, of the greatest similarity with a selected sentence. Ties go to the
    first sentence; once no sentence adds anything, the rest follow in source order.
    """
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
    """Like `by_covering`, but with two index mistakes of the paper's code.

    When a candidate does not change the score, its position among the candidates is excluded as if it were a sentence number. The
    position of the best candidate is then looked up among all remaining sentences, excluded ones too, and so names the wrong
    sentence. Once the best candidate does not change the score, the remaining sentences follow in source order.
    """
    import numpy as np

    left = list(range(len(similarity)))
    nearest = np.full(similarity.shape[1], -np.inf, dtype=np.float32)
    passed_over, before = set[int](), np.float32(0)
    while left:
        candidates = [number for number in left if number not in passed_over]
        if not candidates:
            # The paper's code raises an error here.
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
