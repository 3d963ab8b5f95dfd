"""`bertscore`: greedily select sentences by the BERTScore recall of the summary (paper, section 2).

The recall of a set of sentences is the mean, over the summary's tokens, of the greatest cosine with any token of the set. The
summary is encoded as a whole, each sentence separately. `release` reproduces three traits of the paper's code: special tokens
count, padding counts as tokens of similarity 0, and the wrong sentence is taken after one was skipped (`covering.py`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import ClassVar

from summhay_ray.encoders import Comparing, Vectors, load_token_encoder
from summhay_ray.extract.base import Document
from summhay_ray.extract.covering import by_covering, by_covering_as_released
from summhay_ray.extract.weights import WithWeights


class BertScore(WithWeights):
    """`model`: a folder or hub name; `NAME@LAYERS` reads only the first layers."""

    name: ClassVar[str] = "bertscore"
    own_model: ClassVar[str] = "microsoft/deberta-large-mnli@18"
    """The paper's model (section 3.2) with the number of layers that BERTScore reads."""

    def rank(self, document: Document, summary: str, compat: str = "default") -> Iterator[int]:
        import numpy as np

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
