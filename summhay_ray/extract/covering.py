"""`bertscore` and `embed`: greedily select sentences that together cover all parts of the summary.

`bertscore` maximizes the BERTScore recall of the summary (paper, section 2): the mean, over the summary's tokens, of the greatest
cosine with any token of the selection. The summary is encoded as a whole, and each sentence separately. `release` reproduces
three traits of the paper's code: special tokens count, padding counts as tokens of similarity 0, and the wrong sentence is taken
after one was skipped (`by_covering_as_released`). `embed`, which is not in the paper, uses a small sentence encoder instead of a
large model.
"""

import functools
import json
from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from summhay_ray.encoders import Comparing, Encoding, Vectors, load_encoder, load_token_encoder
from summhay_ray.extract.base import Document, WithWeights

_load = functools.cache(load_encoder)


class BertScore(WithWeights):
    """Selects by BERTScore. `model`: a folder or hub name; `NAME@LAYERS` uses only the first layers."""

    name: ClassVar[str] = "bertscore"
    own_model: ClassVar[str] = "microsoft/deberta-large-mnli@18"
    """The paper's model (section 3.2), with the number of layers that BERTScore uses."""

    def rank(self, document: Document, summary: str, compat: str = "default") -> Iterator[int]:
        if not document.sentences or not summary.strip():
            return iter(range(len(document.sentences)))
        special = compat == "release"

        def compute(texts: Sequence[str], batch_tokens: int, batch_size: int | None) -> Vectors:
            encoder = load_token_encoder(self.model, self.layers)
            [wanted] = encoder.encode([summary], special)
            found = encoder.encode([json.loads(text)[1] for text in texts], special, batch_tokens, batch_size)
            values = np.full((len(texts), max(len(wanted), 1)), -1, dtype=np.float32)
            for row, tokens in zip(values, found, strict=True):
                if len(tokens) and len(wanted):
                    row[:] = (wanted @ tokens.T).max(axis=1)
            return Vectors(values, np.array([len(tokens) for tokens in found], dtype=np.int64))

        texts = [json.dumps([summary, sentence]) for sentence in document.sentences]
        rows = self.rows(Comparing("tokens", self.model, self.revision, self.layers, special), texts, compute)
        if not special:
            return by_covering(rows.values)
        padded = rows.n_tokens < rows.n_tokens.max()
        return by_covering_as_released(np.where(padded[:, None], np.maximum(rows.values, 0), rows.values))


class Embed(WithWeights):
    """Selects by the cosines of sentence vectors. `model`: a sentence-transformers folder or hub name."""

    name: ClassVar[str] = "embed"
    own_model: ClassVar[str] = "sentence-transformers/all-MiniLM-L6-v2"

    def rank(self, document: Document, summary: str, compat: str = "default") -> Iterator[int]:
        wanted = document.split(summary)
        if not document.sentences or not wanted:
            return iter(range(len(document.sentences)))
        encoding = Encoding(self.model, self.revision)

        def compute(texts: Sequence[str], batch_tokens: int, batch_size: int | None) -> Vectors:
            return _load(encoding).encode(texts, batch_tokens, batch_size)

        vectors = [self.rows(encoding, texts, compute).values for texts in (document.sentences, wanted)]
        sources, parts = (rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12) for rows in vectors)
        return by_covering(sources @ parts.T)


def by_covering(similarity: NDArray[np.float32]) -> Iterator[int]:
    """Yield sentence indices, the one with the greatest gain first. `similarity`: shape (sentences, parts of the summary).

    The score of a selection is the mean, over the parts, of the greatest similarity with a selected sentence. Ties go to the
    first sentence.
    """
    n_sentences, n_parts = similarity.shape
    if not n_parts:
        yield from range(n_sentences)
        return
    nearest = np.full(n_parts, -np.inf, dtype=np.float64)
    left = np.zeros(n_sentences)
    for _ in range(n_sentences):
        best = int(np.argmax(np.maximum(similarity, nearest).mean(axis=1) + left))
        nearest = np.maximum(nearest, similarity[best])
        left[best] = -np.inf
        yield best


def by_covering_as_released(similarity: NDArray[np.float32]) -> Iterator[int]:
    """Like `by_covering`, but with two index mistakes of the paper's code.

    If a candidate does not change the score, its position among the candidates is excluded as if it were a sentence index. The
    position of the best candidate is then looked up among all remaining sentences, including excluded ones, and so gives the
    wrong sentence. When even the best candidate does not change the score, the remaining sentences follow in source order.
    """
    left = list(range(len(similarity)))
    nearest = np.full(similarity.shape[1], -np.inf, dtype=np.float32)
    passed_over, before = set[int](), np.float32(0)
    while left:
        candidates = [number for number in left if number not in passed_over]
        if not candidates:
            # The paper's code raises an error here.
            break
        scores = np.maximum(similarity[candidates], nearest).mean(axis=1)
        gained = scores.max() != before
        passed_over |= set(np.flatnonzero(scores == before).tolist())
        before = scores.max()
        taken = left.pop(int(scores.argmax()))
        nearest = np.maximum(nearest, similarity[taken])
        yield taken
        if not gained:
            break
    yield from left
