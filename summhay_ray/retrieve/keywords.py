"""The `keywords` retriever (paper, section 5.1, "KWs"), defined as the release does. Part of the `retrieve` room."""

from __future__ import annotations

from typing import ClassVar

from summhay_ray.records import Haystack, Subtopic
from summhay_ray.retrieve.base import Ranked, by_score
from summhay_ray.retrieve.per_haystack import PerHaystack
from summhay_ray.retrieve.plain import Plain
from summhay_ray.retrieve.summhay_words import stop_words, word_tokens


def _vocabularies(haystack: Haystack) -> list[frozenset[str]]:
    return [frozenset(word_tokens(document.text)) for document in haystack.documents]


_vocabularies_of = PerHaystack(_vocabularies)


class Keywords(Plain):
    """Score: share of the search text's tokens (0..1), stop words removed and repeats kept, that the document has.

    Punctuation is a token like any other, as in the release. A search text of nothing but stop words scores 0 everywhere.
    """

    name: ClassVar[str] = "keywords"
    whole: ClassVar[bool] = False

    def rank(self, subtopic: Subtopic, haystack: Haystack) -> list[Ranked]:
        """All documents, the largest share first."""
        wanted = [token for token in word_tokens(subtopic.search_text) if token not in stop_words()]
        return by_score([_share(wanted, vocabulary) for vocabulary in _vocabularies_of(haystack)])


def _share(wanted: list[str], vocabulary: frozenset[str]) -> float:
    return sum(token in vocabulary for token in wanted) / len(wanted) if wanted else 0.0
