"""The interface to models of retrievers, and its implementation with local models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from summhay_ray.encoders import Encoder, Encoding, Scorer, Scoring, Vectors, load_encoder, load_scorer


class Models(Protocol):
    """Embeds texts, and scores texts for a query. Implementations run models locally or call services."""

    async def embed(self, encoding: Encoding, texts: Sequence[str]) -> Vectors:
        """One vector per text, in their order."""
        ...

    async def score(self, scoring: Scoring, query: str, texts: Sequence[str]) -> Sequence[float]:
        """The relevance of each text to the query, in their order."""
        ...


class ModelsHere:
    """Models in this process, loaded when first needed. Results are not stored."""

    def __init__(self) -> None:
        self._encoders: dict[Encoding, Encoder] = {}
        self._scorers: dict[Scoring, Scorer] = {}

    async def embed(self, encoding: Encoding, texts: Sequence[str]) -> Vectors:
        """See `Models`. Raises NoModel."""
        if encoding not in self._encoders:
            self._encoders[encoding] = load_encoder(encoding)
        return self._encoders[encoding].encode(texts)

    async def score(self, scoring: Scoring, query: str, texts: Sequence[str]) -> Sequence[float]:
        """See `Models`. Raises NoModel."""
        if scoring not in self._scorers:
            self._scorers[scoring] = load_scorer(scoring)
        scores: list[float] = self._scorers[scoring].score([(query, text) for text in texts]).tolist()
        return scores
