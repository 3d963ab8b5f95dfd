"""The `released/NAME` retrievers: scores that the haystack's source stores (vector, rerank3, ...). Part of `retrieve`."""

from __future__ import annotations

import math
from typing import ClassVar

from summhay_ray.plugins import UnknownName
from summhay_ray.records import Haystack, Subtopic
from summhay_ray.retrieve.base import Ranked, by_score


class Released:
    """Ranks by the stored scores of retriever NAME, which may itself hold slashes: `released/dwzhu/e5-base-4k`."""

    name: ClassVar[str] = "released"
    whole: ClassVar[bool] = False

    def __init__(self, argument: str = "", seed: int = 0) -> None:
        if not argument:
            raise UnknownName("retriever 'released' needs the name of a stored retriever; write released/NAME (released/vector)")
        self.argument = argument

    def rank(self, subtopic: Subtopic, haystack: Haystack) -> list[Ranked]:
        """All documents; stored scores of documents that the haystack does not have are left aside.

        Raises LookupError where the source stores no such retriever, or no score for one of the documents.
        """
        stored = haystack.released_scores.get(subtopic.subtopic_id, {})
        scores = stored.get(self.argument)
        where = f"haystack {haystack.name!r}, subtopic {subtopic.subtopic_id!r}"
        if scores is None:
            names = ", ".join(sorted(stored)) or "none"
            raise LookupError(f"{where} stores no scores of retriever {self.argument!r}; stored are: {names}")
        for document in haystack.documents:
            if math.isnan(scores.get(document.document_id, math.nan)):
                missing = f"document {document.number} ({document.document_id!r})"
                raise LookupError(f"{where} stores no score of retriever {self.argument!r} for {missing}")
        return by_score([scores[document.document_id] for document in haystack.documents])
