"""The `keywords` retriever (paper, section 5.1, "KWs"), defined as in the release."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar

from summhay_ray.retrieve.base import Ranked, by_score
from summhay_ray.retrieve.corpus import Corpus, Query
from summhay_ray.retrieve.per_corpus import PerCorpus
from summhay_ray.retrieve.plain import OfWords, Plain
from summhay_ray.retrieve.summhay_words import stop_words, word_tokens
from summhay_ray.text import words_of


def _vocabularies(words: Callable[[str], list[str]]) -> PerCorpus[list[frozenset[str]]]:
    return PerCorpus(lambda corpus: [frozenset(words(text)) for text in corpus.texts])


_WORDS: Mapping[bool, Callable[[str], list[str]]] = {True: word_tokens, False: words_of}
"""Whether a corpus is Latin -> the words of its texts."""
_VOCABULARIES = {latin: _vocabularies(words) for latin, words in _WORDS.items()}


class Keywords(OfWords, Plain):
    """Score: share (0..1) of the search text's tokens that occur in the document, without stop words; repeats count.

    In a Latin corpus punctuation marks are tokens, as in the release. If a search text has only stop words, every document scores
    0.
    """

    name: ClassVar[str] = "keywords"
    whole: ClassVar[bool] = False

    def ranking(self, query: Query, corpus: Corpus) -> list[Ranked]:
        """All documents, the largest share first."""
        latin = self.latin(corpus)
        wanted = [token for token in _WORDS[latin](query.text) if token not in stop_words()]
        return by_score([_share(wanted, vocabulary) for vocabulary in _VOCABULARIES[latin](corpus)])


def _share(wanted: list[str], vocabulary: frozenset[str]) -> float:
    return sum(token in vocabulary for token in wanted) / len(wanted) if wanted else 0.0
