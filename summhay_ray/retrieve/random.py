"""The `random` retriever: the lower bound of retrieval (paper, section 5.1, "Rand")."""

from __future__ import annotations

import hashlib
import json
from typing import ClassVar

from summhay_ray.retrieve.base import Ranked, by_score
from summhay_ray.retrieve.corpus import Corpus, Query
from summhay_ray.retrieve.plain import Plain


class Random(Plain):
    """Score: uniform in [0, 1), a hash of seed, topic, query and document, so equal in every process."""

    name: ClassVar[str] = "random"
    whole: ClassVar[bool] = False

    def ranking(self, query: Query, corpus: Corpus) -> list[Ranked]:
        """All documents, in pseudo-random order."""
        # Not the corpus's id: that changes when a summary is added to a haystack's file, and the scores must not.
        cell = (self.seed, corpus.topic, query.query_id)
        return by_score([_fraction(*cell, document_id) for document_id in corpus.document_ids])


def _fraction(*content: int | str) -> float:
    digest = hashlib.sha256(json.dumps(["retrieve", *content]).encode("ascii")).digest()
    # A double holds 53 bits exactly; more could round up to 1.0.
    return (int.from_bytes(digest[:8], "big") >> 11) / 2**53
