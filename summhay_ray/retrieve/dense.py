"""Retrieval by vectors: `vector` (paper, section 5.1, "Vect") and `{embed: MODEL, ...}`. Part of the `retrieve` room."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Literal

from summhay_ray.encoders import Encoding, Vectors
from summhay_ray.plugins import UnknownName
from summhay_ray.retrieve.base import Ranked, by_score
from summhay_ray.retrieve.corpus import Corpus, Query
from summhay_ray.retrieve.models import Models
from summhay_ray.text import token_pieces

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Similarity = Literal["cosine", "dot"]
Combine = Literal["max", "mean", "weighted"]
MPNET = "sentence-transformers/all-mpnet-base-v2"
"""The embedding model of the release."""


@dataclass(frozen=True, slots=True)
class Chunks:
    """Documents are embedded in pieces of so many cl100k tokens, of which neighbours share `overlap`."""

    tokens: int
    overlap: int = 0
    combine: Combine = "max"
    """max: a document is as near as its nearest piece. mean, weighted: as the mean of its pieces' vectors, weighted by tokens."""

    def of(self, text: str) -> list[tuple[str, int]]:
        """The pieces of a text, each with its tokens; a text without a token is one piece. A character that a cut would split
        belongs to the piece before the cut."""
        pieces, found = token_pieces(text), []
        for start in range(0, max(1, len(pieces) - self.overlap), self.tokens - self.overlap):
            part = pieces[start : start + self.tokens]
            found.append((_decoded(pieces, start, start + len(part)), max(1, len(part))))
        return found


def _decoded(pieces: Sequence[bytes], start: int, end: int) -> str:
    """The text of the tokens from `start` to `end`, with the rest of a character that begins in them, and none begun before."""
    text = b"".join(pieces[start:end])
    while end < len(pieces) and pieces[end] and _continues(pieces[end][0]):
        text, end = text + pieces[end], end + 1
    while start > 0 and text and _continues(text[0]):
        text = text[1:]
    return text.decode("utf-8", "ignore")


def _continues(byte: int) -> bool:
    """Whether a byte goes on with a character of UTF-8 that began before it."""
    return byte & 0b1100_0000 == 0b1000_0000


@dataclass(frozen=True, slots=True)
class Dense:
    """How texts are embedded and compared."""

    encoding: Encoding
    query_prefix: str = ""
    document_prefix: str = ""
    chunks: Chunks | None = None
    similarity: Similarity = "cosine"


class Embed:
    """Score: how near the vector of each document is to the query's."""

    whole: ClassVar[bool] = False

    def __init__(self, dense: Dense) -> None:
        self.dense = dense

    async def rank_with(self, models: Models, queries: Sequence[Query], corpus: Corpus) -> list[list[Ranked]]:
        """See `ModelRetriever`."""
        import numpy as np

        dense = self.dense
        pieces = [dense.chunks.of(text) if dense.chunks else [(text, 1)] for text in corpus.texts]
        texts = [dense.document_prefix + piece for document in pieces for piece, _ in document]
        asked = await models.embed(dense.encoding, [dense.query_prefix + query.text for query in queries])
        if not texts:
            return [[] for _ in queries]
        held = await models.embed(dense.encoding, texts)
        owner = np.repeat(np.arange(len(pieces)), [len(document) for document in pieces])
        weights = np.array([n for document in pieces for _, n in document], dtype=np.float64)
        scores = self._scores(asked.values.astype(np.float64), held.values.astype(np.float64), owner, weights)
        return [by_score(row) for row in scores.tolist()]

    def _scores(
        self, asked: NDArray[np.float64], held: NDArray[np.float64], owner: NDArray[np.int64], weights: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """(queries, documents)"""
        import numpy as np

        starts = np.flatnonzero(np.diff(owner, prepend=-1))
        combine = self.dense.chunks.combine if self.dense.chunks else "max"
        if combine == "max":
            best: NDArray[np.float64] = np.maximum.reduceat(self._similarity(asked, held), starts, axis=1)
            return best
        share = weights if combine == "weighted" else np.ones_like(weights)
        mean = np.add.reduceat(held * share[:, None], starts) / np.add.reduceat(share, starts)[:, None]
        return self._similarity(asked, mean)

    def _similarity(self, asked: NDArray[np.float64], held: NDArray[np.float64]) -> NDArray[np.float64]:
        if self.dense.similarity == "cosine":
            asked, held = _unit(asked), _unit(held)
        # Not by matrices: how a product of matrices is summed depends on how many rows it has, and a query's ranking must not.
        found: NDArray[np.float64] = _dots(asked, held)
        return found


def _dots(asked: NDArray[np.float64], held: NDArray[np.float64]) -> NDArray[np.float64]:
    import numpy as np

    return np.stack([(held * row).sum(axis=1) for row in asked]) if len(asked) else np.zeros((0, len(held)))


def _unit(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """The vectors at length 1; one of length 0 stays so."""
    import numpy as np

    lengths = np.sqrt((vectors * vectors).sum(axis=1, keepdims=True))
    found: NDArray[np.float64] = vectors / np.where(lengths > 0, lengths, 1.0)
    return found


class Vector(Embed):
    """all-mpnet-base-v2 and cosine, as the release has it: each text cut at the model's own 384 tokens."""

    name: ClassVar[str] = "vector"
    whole: ClassVar[bool] = False

    def __init__(self, argument: str = "", seed: int = 0) -> None:
        if argument:
            raise UnknownName(f"retriever 'vector' takes nothing behind a slash; write {{embed: {argument}}} for another model")
        super().__init__(Dense(Encoding(MPNET)))


class Longe:
    """dwzhu/e5-base-4k, whose positions are stretched to 4,096 (paper, section 5.1, "LongE"), as the release has it.

    Score: 100 times the cosine. The release encodes a document and the query together, so that the positions of both are
    stretched where both are within 512 tokens, and of neither where one of them is longer.
    """

    name: ClassVar[str] = "longe"
    whole: ClassVar[bool] = False
    MODEL: ClassVar[str] = "dwzhu/e5-base-4k"
    ORIGINAL: ClassVar[int] = 512

    def __init__(self, argument: str = "", seed: int = 0, encoding: Encoding | None = None) -> None:
        if argument:
            raise UnknownName(f"retriever 'longe' takes nothing behind a slash; leave {f'/{argument}'!r} out")
        given = encoding or Encoding(self.MODEL)
        self.stretched, self.plain = replace(given, positions="stretched"), replace(given, positions="plain")

    async def rank_with(self, models: Models, queries: Sequence[Query], corpus: Corpus) -> list[list[Ranked]]:
        """See `ModelRetriever`."""
        import numpy as np

        asked = [f"query: {query.text}" for query in queries]
        held = [f"passage: {text}" for text in corpus.texts]
        asked_short, asked_long = [await models.embed(one, asked) for one in (self.stretched, self.plain)]
        if not held:
            return [[] for _ in queries]
        held_own = await models.embed(self.stretched, held)
        # A document within the original length has other positions beside a query that is longer: it hardly ever is.
        beside = await models.embed(self.plain, held) if asked_short.n_tokens.max(initial=0) > self.ORIGINAL else held_own
        rankings = []
        for place, n_tokens in enumerate(asked_short.n_tokens):
            short = np.maximum(held_own.n_tokens, n_tokens) <= self.ORIGINAL
            near, far = _row(asked_short, place, held_own), _row(asked_long, place, beside)
            rankings.append(by_score((100 * np.where(short, near, far)).tolist()))
        return rankings


def _row(asked: Vectors, place: int, held: Vectors) -> NDArray[np.float64]:
    import numpy as np

    found: NDArray[np.float64] = _dots(asked.values[place : place + 1].astype(np.float64), held.values.astype(np.float64))[0]
    return found
