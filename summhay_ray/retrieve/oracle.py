"""The `oracle` retriever: the upper bound of retrieval (paper, section 5.1, "Orac"). Part of the `retrieve` room."""

from __future__ import annotations

from typing import ClassVar

from summhay_ray.records import Haystack, Subtopic
from summhay_ray.retrieve.base import Ranked, by_score
from summhay_ray.retrieve.plain import Plain


class Oracle(Plain):
    """Score: how many of the subtopic's insights the document contains."""

    name: ClassVar[str] = "oracle"
    whole: ClassVar[bool] = False

    def rank(self, subtopic: Subtopic, haystack: Haystack) -> list[Ranked]:
        """All documents, those with the most insights first; documents without one come last, in their order."""
        return by_score(haystack.oracle_scores(subtopic.subtopic_id))
