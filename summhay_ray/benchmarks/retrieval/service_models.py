"""Embedding and reranking services for retrievers: each call goes through `ask`, like any paid call."""

from __future__ import annotations

import asyncio
import functools
import hashlib
import json
from collections import OrderedDict, defaultdict
from collections.abc import Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from summhay_ray.benchmark import Ask, ModelSpec, NoReply, RawAnswer, Request
from summhay_ray.benchmarks.retrieval.stored_models import Cut, NotComputed
from summhay_ray.encoders import Encoding, Scoring, Vectors
from summhay_ray.outcome import Answer, Failed
from summhay_ray.retrieve import Models, at_once
from summhay_ray.text import count_tokens, first_tokens

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

TEXTS_A_REQUEST = 64
"""Maximum texts per embedding request."""
TOKENS_A_REQUEST = 100_000
"""Maximum cl100k tokens per embedding request; every provider accepts this many."""
LISTS_KEPT = 8
"""Lists of several texts (such as a corpus) whose vectors stay in memory."""
PLACEHOLDER_DIMENSIONS = 4
"""Dimensions of placeholder vectors, which a plan uses for vectors that are not known yet."""


class EmbeddedTexts:
    """A cache of the last lists of texts, so that vectors used by many queries are read from the log once."""

    def __init__(self) -> None:
        self._lists: OrderedDict[tuple[Encoding, tuple[str, ...]], _Texts] = OrderedDict()

    def of(self, encoding: Encoding, service: ModelSpec, texts: Sequence[str]) -> _Texts:
        """The entry of a list of texts. A list of one text is not cached."""
        if len(texts) == 1:
            return _Texts(encoding, service, texts)
        key = encoding, tuple(texts)
        if key not in self._lists:
            self._lists[key] = _Texts(encoding, service, texts)
            while len(self._lists) > LISTS_KEPT:
                self._lists.popitem(last=False)
        self._lists.move_to_end(key)
        return self._lists[key]

    def forget(self, encoding: Encoding) -> None:
        """Drop the lists of an encoding, whose vectors are then read from the log again."""
        for key in [key for key in self._lists if key[0] == encoding]:
            del self._lists[key]


class LengthChanged(Exception):
    """A service's vectors differ in length from earlier ones: stored vectors turned out to be wrong."""

    def __init__(self, model: str) -> None:
        super().__init__(f"the vectors of {model} differ in length; run again")


class _Texts:
    """A list of texts, the requests that embed it, and its vectors once they are known."""

    def __init__(self, encoding: Encoding, service: ModelSpec, texts: Sequence[str]) -> None:
        self._encoding, self._service, self._texts = encoding, service, texts
        self.asking = asyncio.Lock()
        """Held while the list is embedded; other callers wait and reuse the vectors."""
        self.vectors: Vectors | None = None

    @functools.cached_property
    def _cut(self) -> list[str]:
        most = self._encoding.max_tokens
        # Services refuse empty texts, so an empty text is sent as one blank.
        return [(first_tokens(text, most) if most else text) or " " for text in self._texts]

    @functools.cached_property
    def requests(self) -> list[Request]:
        """The requests that embed the list; equal texts are sent once."""
        service, batches = self._service, _batches(list(dict.fromkeys(self._cut)))
        return [Request(service.model, (), _sampling(service), task="embed", inputs=batch) for batch in batches]

    @functools.cached_property
    def n_tokens(self) -> NDArray[np.int64]:
        """cl100k tokens of each text."""
        import numpy as np

        return np.array([count_tokens(text) for text in self._cut], dtype=np.int64)

    def of(self, answers: Sequence[RawAnswer]) -> Vectors:
        """The vectors of the list, from one answer per request."""
        import numpy as np

        rows: dict[str, Any] = {}
        for request, raw in zip(self.requests, answers, strict=True):
            rows.update(zip(request.inputs, Ask.vectors_of(raw), strict=True))
        if len({len(row) for row in rows.values()}) > 1:
            raise LengthChanged(self._service.model)
        values = np.stack([rows[text] for text in self._cut]) if self._cut else np.zeros((0, 0), dtype=np.float32)
        return Vectors(values, self.n_tokens)


class ServiceModels:
    """See `retrieve.Models`. Models without a service are run by `here`, in a thread.

    While planning, unknown vectors and scores are replaced by placeholders that depend only on the content.
    """

    def __init__(self, ask: Ask, services: Mapping[str, ModelSpec], here: Models, texts: EmbeddedTexts) -> None:
        self._ask = ask
        self._services = services
        self._here = here
        self._texts = texts
        self.cuts: defaultdict[str, Cut] = defaultdict(Cut)
        """Model -> the texts that were not sent to it, or not fully read by it, since this object was made."""
        self._dimensions: dict[Encoding, int] = {}
        """Dimensions of the first vectors returned per encoding. While planning, known or placeholder; later vectors match
        them."""

    async def embed(self, encoding: Encoding, texts: Sequence[str]) -> Vectors:
        """See `retrieve.Models`. Raises NoReply and LengthChanged; retry after the latter."""
        service = self._services.get(encoding.model)
        if service is None:
            return await self._embedded_here(encoding, texts)
        known = self._texts.of(encoding, service, texts)
        self.cuts[service.model].add(_beyond(texts, encoding.max_tokens))
        if self._ask.planning:
            replies = [await self._answer(service, request) for request in known.requests]
            answers = [reply for reply in replies if reply is not None]
            return self._planned(encoding, texts, known.of(answers) if len(answers) == len(replies) else None)
        try:
            async with known.asking:
                if known.vectors is None:
                    requests = await asyncio.to_thread(lambda: known.requests)
                    answers = await _all_of([self._answer(service, request) for request in requests])
                    known.vectors = await asyncio.to_thread(known.of, answers)
            length = known.vectors.values.shape[1]
            if texts and self._dimensions.setdefault(encoding, length) != length:
                raise LengthChanged(service.model)
        except LengthChanged:
            self._texts.forget(encoding)
            raise
        return known.vectors

    async def _embedded_here(self, encoding: Encoding, texts: Sequence[str]) -> Vectors:
        """The vectors of a local model; placeholders if a plan lacks them."""
        try:
            found = await asyncio.to_thread(at_once, self._here.embed(encoding, texts))
        except NotComputed:
            return self._planned(encoding, texts, None)
        return self._planned(encoding, texts, found) if self._ask.planning else found

    def _planned(self, encoding: Encoding, texts: Sequence[str], known: Vectors | None) -> Vectors:
        """The known vectors, cut to the plan's dimensions, or placeholders."""
        import numpy as np

        wanted = self._dimensions.setdefault(encoding, known.values.shape[1] if known is not None else PLACEHOLDER_DIMENSIONS)
        if known is not None and known.values.shape[1] >= wanted:
            return Vectors(known.values[:, :wanted], known.n_tokens)
        values = np.zeros((len(texts), wanted), dtype=np.float32)
        values[:, :PLACEHOLDER_DIMENSIONS] = [
            [placeholder(encoding.model, str(place), text) - 0.5 for place in range(PLACEHOLDER_DIMENSIONS)] for text in texts
        ]
        return Vectors(values, np.array([count_tokens(text) for text in texts], dtype=np.int64))

    async def score(self, scoring: Scoring, query: str, texts: Sequence[str]) -> Sequence[float]:
        """See `retrieve.Models`. Raises NoReply."""
        service = self._services.get(scoring.model)
        if service is None:
            try:
                return await asyncio.to_thread(at_once, self._here.score(scoring, query, texts))
            except NotComputed:
                return [placeholder(scoring.model, query, text) for text in texts]
        self.cuts[service.model].add(_beyond(texts, scoring.max_tokens))
        cut = [first_tokens(text, scoring.max_tokens) if scoring.max_tokens else text for text in texts]
        inputs = [query, *(text or " " for text in cut)]
        raw = await self._answer(service, Request(service.model, (), _sampling(service), task="rerank", inputs=inputs))
        return [placeholder(service.model, query, text) for text in texts] if raw is None else Ask.scores_of(raw)

    async def search(self, service: str, query: str, corpus: str) -> Any:
        """See `retrieve.Searches`. Raises NoReply."""
        found = self._services[service]
        raw = await self._answer(found, Request(service, (), _sampling(found), task="search", inputs=[query]))
        return None if raw is None else json.loads(raw.text)

    async def _answer(self, service: ModelSpec, request: Request) -> RawAnswer | None:
        """The answer, in the stage named after the task (embed, rerank); None for an unknown answer while planning."""
        async with self._ask.turn(request.task, service.model):
            outcome = await self._ask.of(request.task)(request)
        if isinstance(outcome, Answer):
            return outcome.value
        if self._ask.planning and isinstance(outcome, Failed) and outcome.error == "planned":
            return None
        raise NoReply(request.task, outcome)


def _beyond(texts: Sequence[str], most: int | None) -> list[int]:
    """The number of tokens of each text beyond `most`."""
    return [0 if most is None else max(0, count_tokens(text) - most) for text in texts]


async def _all_of(calls: Sequence[Coroutine[Any, Any, RawAnswer | None]]) -> list[RawAnswer]:
    """All answers. Waits for every call even if one fails, since sent calls are paid for. Raises NoReply."""
    results = await asyncio.gather(*calls, return_exceptions=True)
    if errors := [result for result in results if isinstance(result, BaseException)]:
        raise errors[0]
    return [result for result in results if isinstance(result, RawAnswer)]


def placeholder(*content: str) -> float:
    """A pseudo-random number in [0, 1) that depends only on the content: a placeholder for an unknown value."""
    digest = hashlib.sha256("\0".join(content).encode("utf-8", "surrogatepass")).digest()
    return (int.from_bytes(digest[:8], "big") >> 11) / 2**53


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
