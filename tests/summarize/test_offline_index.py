"""The sentence index, compared with figures by hand and by dense algebra."""

from __future__ import annotations

import math

import numpy as np
import pytest

from summhay_ray.summarize.offline.index import SentenceIndex, Vector

pytestmark = pytest.mark.core


def dense(index: SentenceIndex) -> np.ndarray:
    matrix = np.zeros((index.n, index.n_terms))
    for row in range(index.n):
        vector = index.vector(row)
        matrix[row, vector.terms] = vector.weights
    return matrix


def test_weights_by_hand() -> None:
    index = SentenceIndex([(4, "Tram flood copper bond."), (9, "Tram euro track depot.")])
    assert index.numbers == [4, 9]
    assert index.documents.tolist() == [0, 1]
    assert index.lengths.tolist() == [4, 4]
    rare, common = math.log(3 / 1), math.log(3 / 2)
    norm = math.sqrt(3 * rare**2 + common**2)
    assert index.similarities(index.vector(0)).tolist() == pytest.approx([1.0, common**2 / norm**2])
    assert index.similarities(index.encode("Tram unknown")).tolist() == pytest.approx([common / norm] * 2)


def test_headings_and_repetitions_are_left_out() -> None:
    text = "Tram flood copper bond. Tram flood.\nBond copper flood tram! Tram flood copper euro."
    assert SentenceIndex([(1, text), (2, "Tram flood copper bond.")]).texts == [
        "Tram flood copper bond.",
        "Tram flood copper euro.",
        "Tram flood copper bond.",
    ]


def test_empty_texts_make_an_empty_index() -> None:
    for documents in ((), ((1, ""),), ((1, "\x00 ..."), (2, "Tram flood."))):
        index = SentenceIndex(documents)
        assert index.n == 0
        assert index.encode("tram").terms.size == 0
        assert index.similarities(Vector(np.zeros(0, dtype=np.int64), np.zeros(0))).size == 0
        assert index.document_similarities(index.encode("tram")).tolist() == [0.0] * len(documents)
