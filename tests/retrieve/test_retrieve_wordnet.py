"""The second BM25 of ODSum's release, if WordNet's data is installed; otherwise one line names the missing data."""

from __future__ import annotations

import pytest

from summhay_ray.plugins import UnknownName
from summhay_ray.retrieve import Bm25, Corpus, Query, rankings

pytestmark = pytest.mark.core

CORPUS = Corpus(
    "c", ("a", "b", "c"), ("A goose sings.", "The stories of a plot.", "A bridge."), (Query("1", "Geese, and the plot?"),)
)


def test_lemmas_are_stemmed_and_of_equal_scores_the_later_document_is_first() -> None:
    try:
        found = Bm25("wordnet")
    except UnknownName as error:
        assert "needs WordNet's data" in str(error) and "\n" not in str(error)
        pytest.skip("WordNet's data is not installed: what it changes is not tested")
    (ranking,) = rankings(found, CORPUS)
    assert [one.number for one in ranking] == [1, 3, 2]
