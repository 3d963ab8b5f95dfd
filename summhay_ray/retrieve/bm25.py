"""The `bm25` retriever: rank_bm25's BM25Okapi with its own parameters. Part of the `retrieve` room."""

from __future__ import annotations

import re
from typing import Any, ClassVar

from summhay_ray.records import Haystack, Subtopic
from summhay_ray.retrieve.base import Ranked, by_score
from summhay_ray.retrieve.per_haystack import PerHaystack
from summhay_ray.retrieve.plain import Plain
from summhay_ray.retrieve.summhay_words import stop_words

_WORD = re.compile(r"[^\W_]+")


def _terms(text: str) -> list[str]:
    """Runs of letters and digits, lower case, without English stop words: `post-SVB` is two terms, `?` is none."""
    return [term for term in _WORD.findall(text.lower()) if term not in stop_words()]


def _index(haystack: Haystack) -> Any | None:
    """The BM25 index of the documents; None where they have no term at all, which rank_bm25 cannot index."""
    from rank_bm25 import BM25Okapi

    documents = [_terms(document.text) for document in haystack.documents]
    if not any(documents):
        return None
    index = BM25Okapi(documents)
    # In a handful of documents the mean weight, and with it the floor of common terms, can fall below zero: a document
    # would lose by holding a term of the query.
    index.idf = {term: max(weight, 0.0) for term, weight in index.idf.items()}
    return index


_index_of = PerHaystack(_index)


class Bm25(Plain):
    """Okapi BM25 (k1 1.5, b 0.75, floor of common terms 0.25 of the mean weight) over lower-case words; never negative."""

    name: ClassVar[str] = "bm25"
    whole: ClassVar[bool] = False

    def rank(self, subtopic: Subtopic, haystack: Haystack) -> list[Ranked]:
        """All documents, best first; a document without a term of the search text scores 0."""
        index = _index_of(haystack)
        if index is None:
            return by_score([0.0] * len(haystack.documents))
        return by_score([float(score) for score in index.get_scores(_terms(subtopic.search_text))])
