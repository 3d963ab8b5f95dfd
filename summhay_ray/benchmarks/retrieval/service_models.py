"""Embedding, reranking and search services for retrievers. Each call goes through `ask`, like any paid call."""

import asyncio
import functools
import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from summhay_ray.benchmark import Ask, ModelSpec, NoReply, RawAnswer, Request
from summhay_ray.benchmarks.retrieval.stored_models import Cut, NotComputed
from summhay_ray.encoders import Encoding, Scoring, Vectors
from summhay_ray.outcome import Answer, Failed
from summhay_ray.retrieve import Models, run_now
from summhay_ray.text import count_tokens, first_tokens

Task = Literal["embed", "rerank", "search"]
TEXTS_A_REQUEST = 64
"""Maximum texts per embedding request."""
TOKENS_A_REQUEST = 100_000
"""Maximum cl100k tokens per embedding request. Every provider accepts this many."""
LISTS_KEPT = 8
"""Number of lists of texts (such as a corpus) whose vectors stay in memory."""
PLACEHOLDER_DIMENSIONS = 4
"""Dimensions of the placeholder vectors that a plan uses for unknown vectors."""


class LengthChanged(Exception):
    """A service's vectors differ in length from earlier ones, so the stored vectors are wrong."""


LENGTHS_DIFFER = "the vectors of {} differ in length; run again"


@dataclass
class EmbeddedTexts:
    """A list of texts, the requests that embed it at a service, and its vectors once they are known."""

    encoding: Encoding
    texts: Sequence[str]
    asking: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while the list is embedded. Other callers wait and reuse the vectors."""
    vectors: Vectors | None = None

    @functools.cached_property
    def sent(self) -> list[str]:
        """The texts as they are sent. Services refuse empty texts, so an empty text is sent as one blank."""
        most = self.encoding.max_tokens
        return [(first_tokens(text, most) if most else text) or " " for text in self.texts]

    @functools.cached_property
    def batches(self) -> list[list[str]]:
        """The texts of each request. Equal texts are sent once."""
        found: list[list[str]] = []
        tokens = 0
        for text in dict.fromkeys(self.sent):
            length = count_tokens(text)
            if not found or len(found[-1]) == TEXTS_A_REQUEST or tokens + length > TOKENS_A_REQUEST:
                found.append([])
                tokens = 0
            found[-1].append(text)
            tokens += length
        return found

    def read(self, answers: Sequence[RawAnswer]) -> Vectors:
        """Return the vectors of the list, from one answer per request. Raises LengthChanged."""
        rows: dict[str, Any] = {}
        for batch, raw in zip(self.batches, answers, strict=True):
            rows.update(zip(batch, Ask.vectors_of(raw), strict=True))
        if len({len(row) for row in rows.values()}) > 1:
            raise LengthChanged(LENGTHS_DIFFER.format(self.encoding.model))
        values = np.stack([rows[text] for text in self.sent]) if self.sent else np.zeros((0, 0), dtype=np.float32)
        return Vectors(values, np.array([count_tokens(text) for text in self.sent], dtype=np.int64))


@dataclass
class ServiceModels:
    """See `retrieve.Models` and `retrieve.Searches`. `here` runs the models without a service, in a thread. A plan replaces
    unknown vectors and scores by placeholders that depend only on the content."""

    ask: Ask
    services: Mapping[str, ModelSpec]
    """Model name -> how to call it."""
    here: Models
    cached: Callable[[Encoding, tuple[str, ...]], EmbeddedTexts]
    """Returns the cache entry of a list, so that vectors used by many queries are read from the log once."""
    cuts: defaultdict[str, Cut] = field(default_factory=lambda: defaultdict(Cut))
    """Model at a service -> the texts that it did not get, or did not fully read."""
    dimensions: dict[Encoding, int] = field(default_factory=dict)
    """Encoding -> dimensions of the first vectors returned for it. While planning, these may be placeholders. Later vectors
    must match."""

    async def embed(self, encoding: Encoding, texts: Sequence[str]) -> Vectors:
        """See `retrieve.Models`. Raises NoReply and LengthChanged. After LengthChanged, clear the cache and retry."""
        service = self.services.get(encoding.model)
        if service is None:
            try:
                found = await asyncio.to_thread(run_now, self.here.embed(encoding, texts))
            except NotComputed:
                return self._planned(encoding, texts, None)
            return self._planned(encoding, texts, found) if self.ask.planning else found
        known = self.cached(encoding, tuple(texts)) if len(texts) > 1 else EmbeddedTexts(encoding, texts)
        self.cuts[service.model].add(_tokens_beyond(texts, encoding.max_tokens))
        if self.ask.planning:
            replies = [await self._answer(service, "embed", batch) for batch in known.batches]
            answers = [reply for reply in replies if reply is not None]
            return self._planned(encoding, texts, known.read(answers) if len(answers) == len(replies) else None)
        async with known.asking:
            if known.vectors is None:
                batches = await asyncio.to_thread(lambda: known.batches)
                calls = (self._answer(service, "embed", batch) for batch in batches)
                # Wait for every call even if one fails: calls that were sent are paid for.
                results = await asyncio.gather(*calls, return_exceptions=True)
                if errors := [result for result in results if isinstance(result, BaseException)]:
                    raise errors[0]
                answers = [result for result in results if isinstance(result, RawAnswer)]
                known.vectors = await asyncio.to_thread(known.read, answers)
        length = known.vectors.values.shape[1]
        if texts and self.dimensions.setdefault(encoding, length) != length:
            raise LengthChanged(LENGTHS_DIFFER.format(service.model))
        return known.vectors

    def _planned(self, encoding: Encoding, texts: Sequence[str], known: Vectors | None) -> Vectors:
        """Return the known vectors, cut to the plan's dimensions, or placeholders."""
        wanted = self.dimensions.setdefault(encoding, known.values.shape[1] if known is not None else PLACEHOLDER_DIMENSIONS)
        if known is not None and known.values.shape[1] >= wanted:
            return Vectors(known.values[:, :wanted], known.n_tokens)
        values = np.zeros((len(texts), wanted), dtype=np.float32)
        values[:, :PLACEHOLDER_DIMENSIONS] = [
            [placeholder(encoding.model, str(place), text) - 0.5 for place in range(PLACEHOLDER_DIMENSIONS)] for text in texts
        ]
        return Vectors(values, np.array([count_tokens(text) for text in texts], dtype=np.int64))

    async def score(self, scoring: Scoring, query: str, texts: Sequence[str]) -> Sequence[float]:
        service = self.services.get(scoring.model)
        if service is None:
            try:
                return await asyncio.to_thread(run_now, self.here.score(scoring, query, texts))
            except NotComputed:
                return [placeholder(scoring.model, query, text) for text in texts]
        self.cuts[service.model].add(_tokens_beyond(texts, scoring.max_tokens))
        cut = [first_tokens(text, scoring.max_tokens) if scoring.max_tokens else text for text in texts]
        raw = await self._answer(service, "rerank", [query, *(text or " " for text in cut)])
        return [placeholder(service.model, query, text) for text in texts] if raw is None else Ask.scores_of(raw)

    async def search(self, service: str, query: str, corpus: str) -> Any:
        raw = await self._answer(self.services[service], "search", [query])
        return None if raw is None else json.loads(raw.text)

    async def _answer(self, service: ModelSpec, task: Task, inputs: Sequence[str]) -> RawAnswer | None:
        """Ask in the stage with the task's name. Returns None if the answer is unknown while planning. Raises NoReply."""
        sampling = {**service.extra, **({"revision": service.revision} if service.revision else {})}
        async with self.ask.turn(task, service.model):
            outcome = await self.ask.of(task)(Request(service.model, (), sampling, task=task, inputs=inputs))
        if isinstance(outcome, Answer):
            return outcome.value
        if self.ask.planning and isinstance(outcome, Failed) and outcome.error == "planned":
            return None
        raise NoReply(task, outcome)


def _tokens_beyond(texts: Sequence[str], most: int | None) -> list[int]:
    """Return how many tokens of each text exceed `most`."""
    return [0 if most is None else max(0, count_tokens(text) - most) for text in texts]


def placeholder(*content: str) -> float:
    """Return a pseudo-random number in [0, 1) that depends only on the content, in place of an unknown value."""
    digest = hashlib.sha256("\0".join(content).encode("utf-8", "surrogatepass")).digest()
    return (int.from_bytes(digest[:8], "big") >> 11) / 2**53
