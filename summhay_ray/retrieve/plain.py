"""Base classes of the retrievers of this room. For this room alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from summhay_ray.plugins import UnknownName
from summhay_ray.records import Haystack, Subtopic
from summhay_ray.retrieve.base import Ranked
from summhay_ray.retrieve.corpus import Corpus, Query, corpus_of, query_of


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


class Plain(OverCorpus):
    """Base of retrievers without an argument."""

    name: ClassVar[str] = ""
    whole: ClassVar[bool] = False

    def __init__(self, argument: str = "", seed: int = 0) -> None:
        if argument:
            raise UnknownName(f"retriever {self.name!r} takes nothing behind a slash; leave {f'/{argument}'!r} out")
        self.seed = seed
