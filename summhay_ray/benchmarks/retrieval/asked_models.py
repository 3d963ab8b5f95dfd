"""Models of retrievers that somebody else serves: each question goes by `ask`, as any paid call does."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from summhay_ray.benchmark import Answer, Ask, Failed, ModelSpec, NoReply, Request
from summhay_ray.encoders import Encoding, Scoring, Vectors
from summhay_ray.llm import scores_of, vectors_of
from summhay_ray.retrieve import Models
from summhay_ray.text import count_tokens, first_tokens

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from summhay_ray.llm import RawAnswer

TEXTS_A_REQUEST = 64
"""Texts that are embedded by one call, at most,"""
TOKENS_A_REQUEST = 100_000
"""and their tokens: no provider takes fewer."""


class AskedModels:
    """See `retrieve.Models`. What nobody serves is `here`'s. While a run is planned, answers are drawn by the content."""

    def __init__(self, ask: Ask, services: Mapping[str, ModelSpec], here: Models) -> None:
        self._ask = ask
        self._services = services
        self._here = here

    async def embed(self, encoding: Encoding, texts: Sequence[str]) -> Vectors:
        """See `retrieve.Models`. Raises NoReply."""
        import numpy as np

        service = self._services.get(encoding.model)
        if service is None:
            return await self._here.embed(encoding, texts)
        cut = [first_tokens(text, encoding.max_tokens) if encoding.max_tokens else text for text in texts]
        # Of equal texts one is asked about; a text without a letter is one blank, since services refuse empty ones.
        sent = list(dict.fromkeys(text or " " for text in cut))
        rows: dict[str, Any] = {}
        for batch in _batches(sent):
            raw = await self._asked(service, Request(service.model, (), _sampling(service), task="embed", inputs=batch))
            vectors = [_any(service.model, text) for text in batch] if raw is None else vectors_of(raw.text)
            rows.update(zip(batch, vectors, strict=True))
        values = np.stack([rows[text or " "] for text in cut]) if cut else np.zeros((0, 0), dtype=np.float32)
        return Vectors(values, np.array([count_tokens(text) for text in cut], dtype=np.int64))

    async def score(self, scoring: Scoring, query: str, texts: Sequence[str]) -> Sequence[float]:
        """See `retrieve.Models`. Raises NoReply."""
        service = self._services.get(scoring.model)
        if service is None:
            return await self._here.score(scoring, query, texts)
        cut = [first_tokens(text, scoring.max_tokens) if scoring.max_tokens else text for text in texts]
        inputs = [query, *(text or " " for text in cut)]
        raw = await self._asked(service, Request(service.model, (), _sampling(service), task="rerank", inputs=inputs))
        return [drawn(service.model, query, text) for text in texts] if raw is None else scores_of(raw.text)

    async def _asked(self, service: ModelSpec, request: Request) -> RawAnswer | None:
        """The answer, of the stage that is called as its task; None while a run is planned and nobody knows it."""
        async with self._ask.turn(request.task, service.model):
            outcome = await self._ask.of(request.task)(request)
        if isinstance(outcome, Answer):
            return outcome.value
        if self._ask.planning and isinstance(outcome, Failed) and outcome.error == "planned":
            return None
        raise NoReply(request.task, outcome)


def drawn(*content: str) -> float:
    """A number in [0, 1) for what nobody knows yet: the same for the same content."""
    digest = hashlib.sha256("\0".join(content).encode("utf-8", "surrogatepass")).digest()
    return (int.from_bytes(digest[:8], "big") >> 11) / 2**53


def _any(model: str, text: str) -> NDArray[np.float32]:
    """A vector for what nobody knows yet."""
    import numpy as np

    return np.array([drawn(model, str(place), text) - 0.5 for place in range(4)], dtype=np.float32)


def _sampling(service: ModelSpec) -> dict[str, Any]:
    return {**service.extra, **({"revision": service.revision} if service.revision else {})}


def _batches(texts: Sequence[str]) -> list[list[str]]:
    found: list[list[str]] = []
    tokens = 0
    for text in texts:
        length = count_tokens(text)
        if not found or len(found[-1]) == TEXTS_A_REQUEST or tokens + length > TOKENS_A_REQUEST:
            found.append([])
            tokens = 0
        found[-1].append(text)
        tokens += length
    return found
