"""The sentence index against the same figures worked out by hand and by dense algebra."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from summhay_ray.summarize.offline.index import SentenceIndex, Vector, index_of, sums

pytestmark = pytest.mark.core

WORDS = ["tram", "flood", "copper", "bond", "euro", "track", "depot", "salt"]
documents_strategy = st.lists(
    st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=8).map(" ".join), max_size=5).map("\n".join), max_size=5
).map(lambda texts: tuple(enumerate(texts, 1)))


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


@given(documents_strategy)
def test_similarities_are_dense_dot_products(documents: tuple[tuple[int, str], ...]) -> None:
    index = SentenceIndex(documents)
    matrix = dense(index)
    for row in range(index.n):
        assert np.allclose(index.similarities(index.vector(row)), matrix @ matrix[row])
        near, similar = index.neighbours(row, 0.5)
        assert row in near.tolist()
        # A product of exactly 0.5 may be rounded either way.
        products = {other: matrix[row] @ matrix[other] for other in range(index.n)}
        sure = {other for other, product in products.items() if product >= 0.5 + 1e-9}
        assert sure <= {*near.tolist()} <= {other for other, product in products.items() if product >= 0.5 - 1e-9}
        assert np.allclose(similar, (matrix @ matrix[row])[near])


@given(documents_strategy)
def test_document_similarities_are_cosines_with_the_sum_of_sentences(documents: tuple[tuple[int, str], ...]) -> None:
    index = SentenceIndex(documents)
    query = index.encode("tram flood copper")
    asked = np.zeros(index.n_terms)
    asked[query.terms] = query.weights
    found = index.document_similarities(query)
    for place in range(len(documents)):
        total = dense(index)[index.documents == place].sum(axis=0) if index.n else np.zeros(index.n_terms)
        norm = float(np.linalg.norm(total))
        assert found[place] == pytest.approx(float(total @ asked) / norm if norm else 0.0)


def test_centroid_keeps_the_heaviest_terms_at_length_one() -> None:
    index = SentenceIndex([(1, "tram flood copper bond\ntram flood copper euro")])
    middle = index.centroid(np.array([0, 1]), np.array([1.0, 0.5]), 2)
    # bond has idf log(3/1) and weight 1, euro the same idf and weight 0.5; the shared words have idf log(3/2) and 1.5 in all.
    assert math.log(3) > 1.5 * math.log(1.5) > 0.5 * math.log(3)
    assert len(middle.terms) == 2
    assert float(np.sum(middle.weights**2)) == pytest.approx(1.0)
    bond = index.encode("bond").terms[0]
    assert bond in middle.terms.tolist()


def test_a_sentence_of_every_document_keeps_a_bounded_neighbourhood() -> None:
    index = SentenceIndex([(number, "Tram flood copper bond.") for number in range(1, 701)])
    near, _ = index.neighbours(650, 0.5)
    assert near.tolist() == list(range(500))


def test_empty_texts_make_an_empty_index() -> None:
    for documents in ((), ((1, ""),), ((1, "\x00 ..."), (2, "Tram flood."))):
        index = SentenceIndex(documents)
        assert index.n == 0
        assert index.encode("tram").terms.size == 0
        assert index.similarities(Vector(np.zeros(0, dtype=np.int64), np.zeros(0))).size == 0
        assert index.document_similarities(index.encode("tram")).tolist() == [0.0] * len(documents)


def test_the_index_of_a_context_is_kept_for_its_next_query() -> None:
    documents = ((1, "Tram flood copper bond."),)
    assert index_of(documents) is index_of(tuple(documents))


def test_sums_by_group() -> None:
    assert sums(np.array([2, 0, 2]), np.array([1.0, 2.0, 4.0]), 4).tolist() == [2.0, 0.0, 5.0, 0.0]
