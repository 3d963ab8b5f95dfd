"""The `none` retriever: the baseline without documents (paper, section 5.5)."""

from __future__ import annotations

from typing import ClassVar

from summhay_ray.retrieve.base import Ranked
from summhay_ray.retrieve.corpus import Corpus, Query
from summhay_ray.retrieve.plain import Plain


class Nothing(Plain):
    """The empty ranking."""

    name: ClassVar[str] = "none"
    whole: ClassVar[bool] = False

    def ranking(self, query: Query, corpus: Corpus) -> list[Ranked]:
        """No document."""
        return []
