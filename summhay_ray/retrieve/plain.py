"""Base classes of the built-in retrievers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from summhay_ray.plugins import UnknownName
from summhay_ray.records import Haystack, Subtopic
from summhay_ray.retrieve.base import Ranked
from summhay_ray.retrieve.corpus import Corpus, Query, corpus_of, query_of
from summhay_ray.retrieve.per_corpus import PerCorpus
from summhay_ray.text import Script, is_latin


class OverCorpus:
    """Base of retrievers that rank a corpus for one query at a time, by `ranking`."""

    def rank(self, subtopic: Subtopic, haystack: Haystack) -> list[Ranked]:
        """See `Retriever`."""
        return list(self.ranking(query_of(subtopic, haystack), corpus_of(haystack)))

    def rank_all(self, queries: Sequence[Query], corpus: Corpus) -> list[Sequence[Ranked]]:
        """See `BatchRetriever`."""
        return [self.ranking(query, corpus) for query in queries]

    def ranking(self, query: Query, corpus: Corpus) -> Sequence[Ranked]:
        """The ranking of the corpus for one query."""
        raise NotImplementedError


_is_latin = PerCorpus(lambda corpus: all(map(is_latin, corpus.texts)))
"""Whether every document of a corpus is in Latin script."""


class OfWords(OverCorpus):
    """Base of retrievers that compare words: the papers' words, or ICU's if a document of the corpus is not Latin."""

    script: Script = "auto"

    def latin(self, corpus: Corpus) -> bool:
        """Whether texts are split into words as in the papers."""
        return self.script == "latin" or _is_latin(corpus)


class Plain(OverCorpus):
    """Base of retrievers without an argument."""

    name: ClassVar[str] = ""
    whole: ClassVar[bool] = False

    def __init__(self, argument: str = "", seed: int = 0) -> None:
        if argument:
            raise UnknownName(f"retriever {self.name!r} takes nothing behind a slash; leave {f'/{argument}'!r} out")
        self.seed = seed
