"""The `full` retriever: no retrieval, the whole haystack (paper, section 5.1, "Full")."""

from __future__ import annotations

from typing import ClassVar

from summhay_ray.retrieve.base import Ranked
from summhay_ray.retrieve.corpus import Corpus, Query
from summhay_ray.retrieve.plain import Plain


class Full(Plain):
    """All documents, in document order, each with score 0. Orderings apply; the token budget does not."""

    name: ClassVar[str] = "full"
    whole: ClassVar[bool] = True

    def ranking(self, query: Query, corpus: Corpus) -> list[Ranked]:
        """Every document of the corpus."""
        return [Ranked(number, 0.0) for number in range(1, len(corpus.texts) + 1)]
