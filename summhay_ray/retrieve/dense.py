"""Dense retrieval: `vector` and `longe` (paper, section 5.1, "Vect", "LongE"), `{embed: MODEL, ...}`."""

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
    """Documents are embedded in pieces of `tokens` cl100k tokens; neighbouring pieces share `overlap` tokens."""

    tokens: int
    overlap: int = 0
    combine: Combine = "max"
    """max: a document scores as its most similar piece; mean: as the mean of its pieces' vectors; weighted: by tokens."""

    def of(self, text: str) -> list[tuple[str, int]]:
        """(text, tokens) of each piece of a text; an empty text is one piece. A character that a cut would split belongs to
        the piece before the cut."""
        tokens, pieces = token_pieces(text), []
        for start in range(0, max(1, len(tokens) - self.overlap), self.tokens - self.overlap):
            part = tokens[start : start + self.tokens]
            pieces.append((_decoded(tokens, start, start + len(part)), max(1, len(part))))
        return pieces


def _decoded(tokens: Sequence[bytes], start: int, end: int) -> str:
    """The text of the tokens from `start` to `end`. Includes all of a character that begins there, and nothing of one that
    began earlier."""
    text = b"".join(tokens[start:end])
    while end < len(tokens) and tokens[end] and _continues(tokens[end][0]):
        text, end = text + tokens[end], end + 1
    while start > 0 and text and _continues(text[0]):
        text = text[1:]
    return text.decode("utf-8", "ignore")


def _continues(byte: int) -> bool:
    """Whether a byte is a UTF-8 continuation byte."""
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
    """Score: similarity of each document's vector to the query's."""

    whole: ClassVar[bool] = False

    def __init__(self, dense: Dense) -> None:
        self.dense = dense

    async def rank_with(self, models: Models, queries: Sequence[Query], corpus: Corpus) -> list[list[Ranked]]:
        """See `ModelRetriever`."""
        import numpy as np

        dense = self.dense
        pieces = [dense.chunks.of(text) if dense.chunks else [(text, 1)] for text in corpus.texts]
        texts = [dense.document_prefix + piece for document in pieces for piece, _ in document]
        query_vectors = await models.embed(dense.encoding, [dense.query_prefix + query.text for query in queries])
        if not texts:
            return [[] for _ in queries]
        piece_vectors = await models.embed(dense.encoding, texts)
        owner = np.repeat(np.arange(len(pieces)), [len(document) for document in pieces])
        weights = np.array([n for document in pieces for _, n in document], dtype=np.float64)
        scores = self._scores(query_vectors.values.astype(np.float64), piece_vectors.values.astype(np.float64), owner, weights)
        return [by_score(row) for row in scores.tolist()]

    def _scores(
        self, queries: NDArray[np.float64], pieces: NDArray[np.float64], owner: NDArray[np.int64], weights: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Scores (queries, documents). `owner`, `weights`: (pieces,), the document of each piece and its tokens."""
        import numpy as np

        starts = np.flatnonzero(np.diff(owner, prepend=-1))
        combine = self.dense.chunks.combine if self.dense.chunks else "max"
        if combine == "max":
            best: NDArray[np.float64] = np.maximum.reduceat(self._similarity(queries, pieces), starts, axis=1)
            return best
        share = weights if combine == "weighted" else np.ones_like(weights)
        mean = np.add.reduceat(pieces * share[:, None], starts) / np.add.reduceat(share, starts)[:, None]
        return self._similarity(queries, mean)

    def _similarity(self, queries: NDArray[np.float64], documents: NDArray[np.float64]) -> NDArray[np.float64]:
        if self.dense.similarity == "cosine":
            queries, documents = _unit(queries), _unit(documents)
        return _dots(queries, documents)


def _dots(queries: NDArray[np.float64], documents: NDArray[np.float64]) -> NDArray[np.float64]:
    """Dot products (queries, documents)."""
    import numpy as np

    # No matrix product: its rounding depends on the number of rows, but a query's scores must not depend on other queries.
    return np.stack([(documents * row).sum(axis=1) for row in queries]) if len(queries) else np.zeros((0, len(documents)))


def _unit(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """The vectors scaled to length 1; zero vectors stay zero."""
    import numpy as np

    lengths = np.sqrt((vectors * vectors).sum(axis=1, keepdims=True))
    found: NDArray[np.float64] = vectors / np.where(lengths > 0, lengths, 1.0)
    return found


class Vector(Embed):
    """Cosine similarity of all-mpnet-base-v2 vectors, as in the release; texts are cut at the model's limit of 384 tokens."""

    name: ClassVar[str] = "vector"
    whole: ClassVar[bool] = False

    def __init__(self, argument: str = "", seed: int = 0) -> None:
        if argument:
            raise UnknownName(f"retriever 'vector' takes nothing behind a slash; write {{embed: {argument}}} for another model")
        super().__init__(Dense(Encoding(MPNET)))


class Longe:
    """dwzhu/e5-base-4k, with positions stretched to 4,096 (paper, section 5.1, "LongE"), as in the release.

    Score: 100 times the cosine. The release encodes a document and the query in one batch: the positions of both are stretched if
    both are within 512 tokens; if one is longer, neither is stretched.
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

        query_texts = [f"query: {query.text}" for query in queries]
        passages = [f"passage: {text}" for text in corpus.texts]
        stretched_queries, plain_queries = [await models.embed(one, query_texts) for one in (self.stretched, self.plain)]
        if not passages:
            return [[] for _ in queries]
        stretched_passages = await models.embed(self.stretched, passages)
        # A short document's plain vector is needed only for a query of more than 512 tokens, which is rare.
        long_query = stretched_queries.n_tokens.max(initial=0) > self.ORIGINAL
        plain_passages = await models.embed(self.plain, passages) if long_query else stretched_passages
        rankings = []
        for index, n_tokens in enumerate(stretched_queries.n_tokens):
            both_short = np.maximum(stretched_passages.n_tokens, n_tokens) <= self.ORIGINAL
            stretched = _row(stretched_queries, index, stretched_passages)
            plain = _row(plain_queries, index, plain_passages)
            rankings.append(by_score((100 * np.where(both_short, stretched, plain)).tolist()))
        return rankings


def _row(queries: Vectors, index: int, documents: Vectors) -> NDArray[np.float64]:
    """Dot products (documents,) of one query."""
    import numpy as np

    query = queries.values[index : index + 1].astype(np.float64)
    dots: NDArray[np.float64] = _dots(query, documents.values.astype(np.float64))[0]
    return dots
