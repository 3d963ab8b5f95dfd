"""The `random` retriever: the lower bound of retrieval (paper, section 5.1, "Rand"). Part of the `retrieve` room."""

from __future__ import annotations

import hashlib
import json
from typing import ClassVar

from summhay_ray.retrieve.base import Ranked, by_score
from summhay_ray.retrieve.corpus import Corpus, Query
from summhay_ray.retrieve.plain import Plain


class Random(Plain):
    """Scores drawn evenly from [0, 1) by the content: seed, query and document, never by process state."""

    name: ClassVar[str] = "random"
    whole: ClassVar[bool] = False

    def ranking(self, query: Query, corpus: Corpus) -> list[Ranked]:
        """All documents, in an order that the seed decides."""
        # Not the corpus's id: it changes with every summary that is added to a file, and the draw must not.
        cell = (self.seed, corpus.topic, query.query_id)
        return by_score([_fraction(*cell, document_id) for document_id in corpus.document_ids])


def _fraction(*content: int | str) -> float:
    digest = hashlib.sha256(json.dumps(["retrieve", *content]).encode("ascii")).digest()
    # 53 bits are what a double holds exactly: more would round up to 1.0 at times
    return (int.from_bytes(digest[:8], "big") >> 11) / 2**53
