"""`lead`: the source's first sentences (paper, section 2)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from summhay_ray.extract.base import AsReleased, Document


class Lead:
    """Sentences in source order, whatever the summary says. It takes whole sentences; the paper takes the first tokens."""

    name: ClassVar[str] = "lead"
    takes_model: ClassVar[bool] = False
    released: ClassVar[AsReleased] = AsReleased(newline=False)

    def rank(self, document: Document, summary: str, compat: str = "default") -> Iterator[int]:
        return iter(range(len(document.sentences)))
