"""Dense retrieval: `vector` and `longe` (paper, section 5.1, "Vect", "LongE"), and `{embed: MODEL, ...}`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Literal

from summhay_ray.encoders import Encoding
from summhay_ray.retrieve.base import Models, Ranked, by_score
from summhay_ray.retrieve.corpus import Corpus, Query
from summhay_ray.text import token_pieces

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Similarity = Literal["cosine", "dot"]
Combine = Literal["max", "mean", "weighted"]
MPNET = "sentence-transformers/all-mpnet-base-v2"
"""The release's embedding model."""


@dataclass(frozen=True, slots=True)
class Chunks:
    """Splits documents into pieces of `tokens` cl100k tokens for embedding. Neighbouring pieces share `overlap` tokens."""

    tokens: int
    overlap: int = 0
    combine: Combine = "max"
    """How pieces give a document's score. max: the score of the most similar piece; mean: the score of the mean of the pieces'
    vectors; weighted: the same, weighted by tokens."""

    def split(self, text: str) -> list[tuple[str, int]]:
        """Return (text, tokens) of each piece of a text. An empty text is one piece. A character that a cut would split belongs
        to the piece before the cut."""
        tokens, pieces = token_pieces(text), []
        for start in range(0, max(1, len(tokens) - self.overlap), self.tokens - self.overlap):
            part = tokens[start : start + self.tokens]
            content, end = b"".join(part), start + len(part)
            # UTF-8's continuation bytes begin with the bits 10.
            while end < len(tokens) and tokens[end] and tokens[end][0] >> 6 == 0b10:
                content, end = content + tokens[end], end + 1
            while start > 0 and content and content[0] >> 6 == 0b10:
                content = content[1:]
            pieces.append((content.decode("utf-8", "ignore"), max(1, len(part))))
        return pieces


@dataclass(frozen=True, slots=True)
class Dense:
    """How texts are embedded and compared."""

    encoding: Encoding
    query_prefix: str = ""
    document_prefix: str = ""
    chunks: Chunks | None = None
    similarity: Similarity = "cosine"


@dataclass(frozen=True)
class Embed:
    """Scores a document by the similarity of its vector to the query's vector."""

    whole: ClassVar[bool] = False
    dense: Dense

    async def rank_with(self, models: Models, queries: Sequence[Query], corpus: Corpus) -> list[list[Ranked]]:
        import numpy as np

        dense = self.dense
        pieces = [dense.chunks.split(text) if dense.chunks else [(text, 1)] for text in corpus.texts]
        texts = [dense.document_prefix + piece for document in pieces for piece, _ in document]
        query_vectors = await models.embed(dense.encoding, [dense.query_prefix + query.text for query in queries])
        if not texts:
            return [[] for _ in queries]
        piece_vectors = await models.embed(dense.encoding, texts)
        wanted, found = query_vectors.values.astype(np.float64), piece_vectors.values.astype(np.float64)
        # The first piece of each document.
        starts = np.cumsum([0, *(len(document) for document in pieces[:-1])])
        combine = dense.chunks.combine if dense.chunks else "max"
        if combine != "max":
            weights = np.array([n for document in pieces for _, n in document], dtype=np.float64)
            share = weights if combine == "weighted" else np.ones_like(weights)
            found = np.add.reduceat(found * share[:, None], starts) / np.add.reduceat(share, starts)[:, None]
        if dense.similarity == "cosine":
            wanted, found = _unit(wanted), _unit(found)
        scores = _dots(wanted, found)
        if combine == "max":
            scores = np.maximum.reduceat(scores, starts, axis=1)
        return [by_score(row) for row in scores.tolist()]


def _dots(queries: NDArray[np.float64], documents: NDArray[np.float64]) -> NDArray[np.float64]:
    import numpy as np

    # A matrix product must not be used: its rounding depends on the number of rows, but a query's scores must not depend on other
    # queries.
    return np.stack([(documents * row).sum(axis=1) for row in queries]) if len(queries) else np.zeros((0, len(documents)))


def _unit(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Scale the vectors to length 1; zero vectors stay zero."""
    import numpy as np

    lengths = np.sqrt((vectors * vectors).sum(axis=1, keepdims=True))
    found: NDArray[np.float64] = vectors / np.where(lengths > 0, lengths, 1.0)
    return found


class Vector(Embed):
    """Scores by the cosine similarity of all-mpnet-base-v2 vectors, as in the release. Texts are cut at the model's limit of 384
    tokens."""

    name: ClassVar[str] = "vector"
    whole: ClassVar[bool] = False

    def __init__(self, argument: str = "", seed: int = 0) -> None:
        super().__init__(Dense(Encoding(MPNET)))


class Longe:
    """dwzhu/e5-base-4k, with positions stretched to 4,096 (section 5.1, "LongE"). The score is 100 times the cosine.

    The release encodes a query and a document in one batch. Their positions are stretched if both have at most 512 tokens, and
    plain otherwise.
    """

    name: ClassVar[str] = "longe"
    whole: ClassVar[bool] = False
    MODEL: ClassVar[str] = "dwzhu/e5-base-4k"
    ORIGINAL: ClassVar[int] = 512

    def __init__(self, argument: str = "", seed: int = 0, encoding: Encoding | None = None) -> None:
        given = encoding or Encoding(self.MODEL)
        self.stretched, self.plain = replace(given, positions="stretched"), replace(given, positions="plain")

    async def rank_with(self, models: Models, queries: Sequence[Query], corpus: Corpus) -> list[list[Ranked]]:
        import numpy as np

        query_texts = [f"query: {query.text}" for query in queries]
        passages = [f"passage: {text}" for text in corpus.texts]
        stretched_queries, plain_queries = [await models.embed(one, query_texts) for one in (self.stretched, self.plain)]
        if not passages:
            return [[] for _ in queries]
        stretched_passages = await models.embed(self.stretched, passages)
        # Plain vectors of short documents are needed only for queries of more than 512 tokens, which are rare.
        long_query = stretched_queries.n_tokens.max(initial=0) > self.ORIGINAL
        plain_passages = await models.embed(self.plain, passages) if long_query else stretched_passages
        stretched = _dots(stretched_queries.values.astype(np.float64), stretched_passages.values.astype(np.float64))
        plain = _dots(plain_queries.values.astype(np.float64), plain_passages.values.astype(np.float64))
        lengths = np.maximum(stretched_queries.n_tokens[:, None], stretched_passages.n_tokens)
        scores = 100 * np.where(lengths <= self.ORIGINAL, stretched, plain)
        return [by_score(row) for row in scores.tolist()]
