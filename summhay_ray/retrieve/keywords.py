"""The `keywords` retriever (paper, section 5.1, "KWs"), defined as in the release. Part of the `retrieve` room."""

from __future__ import annotations

from typing import ClassVar

from summhay_ray.retrieve.base import Ranked, by_score
from summhay_ray.retrieve.corpus import Corpus, Query
from summhay_ray.retrieve.per_corpus import PerCorpus
from summhay_ray.retrieve.plain import Plain
from summhay_ray.retrieve.summhay_words import stop_words, word_tokens


def _vocabularies(corpus: Corpus) -> list[frozenset[str]]:
    return [frozenset(word_tokens(text)) for text in corpus.texts]


_vocabularies_of = PerCorpus(_vocabularies)


class Keywords(Plain):
    """Score: share (0..1) of the search text's tokens that occur in the document; stop words are removed, repeats count.

    Punctuation marks are tokens, as in the release. A search text of only stop words scores 0 everywhere.
    """

    name: ClassVar[str] = "keywords"
    whole: ClassVar[bool] = False

    def ranking(self, query: Query, corpus: Corpus) -> list[Ranked]:
        """All documents, the largest share first."""
        wanted = [token for token in word_tokens(query.text) if token not in stop_words()]
        return by_score([_share(wanted, vocabulary) for vocabulary in _vocabularies_of(corpus)])


def _share(wanted: list[str], vocabulary: frozenset[str]) -> float:
    return sum(token in vocabulary for token in wanted) / len(wanted) if wanted else 0.0
