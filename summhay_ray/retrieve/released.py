"""The `released/NAME` retrievers: scores stored in the corpus's source (vector, rerank3, ...)."""

from __future__ import annotations

import math
from typing import ClassVar

from summhay_ray.plugins import UnknownName
from summhay_ray.retrieve.base import Ranked, by_score
from summhay_ray.retrieve.corpus import Corpus, Query
from summhay_ray.retrieve.plain import OverCorpus


class Released(OverCorpus):
    """Ranks by the stored scores of retriever NAME, which may contain slashes: `released/dwzhu/e5-base-4k`."""

    name: ClassVar[str] = "released"
    whole: ClassVar[bool] = False

    def __init__(self, argument: str = "", seed: int = 0) -> None:
        if not argument:
            raise UnknownName("retriever 'released' needs the name of a stored retriever; write released/NAME (released/vector)")
        self.argument = argument

    def ranking(self, query: Query, corpus: Corpus) -> list[Ranked]:
        """All documents. Stored scores of documents outside the corpus are ignored.

        Raises LookupError if the source has no scores of this retriever, or none for one of the documents.
        """
        scores = query.stored.get(self.argument)
        where = f"haystack {corpus.name!r}, subtopic {query.query_id!r}"
        if scores is None:
            names = ", ".join(sorted(query.stored)) or "none"
            raise LookupError(f"{where} stores no scores of retriever {self.argument!r}; stored are: {names}")
        for number, document_id in enumerate(corpus.document_ids, start=1):
            if math.isnan(scores.get(document_id, math.nan)):
                raise LookupError(
                    f"{where} stores no score of retriever {self.argument!r} for document {number} ({document_id!r})"
                )
        return by_score([scores[document_id] for document_id in corpus.document_ids])
