"""`embed`: select sentences whose vectors together cover the sentences of the summary.

Not in the paper: a small sentence encoder instead of BERTScore's large one. Needs the extra `embed`, but no model hub.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar

from summhay_ray.encoders import Encoder, Encoding, Vectors, load_encoder
from summhay_ray.extract.base import Document
from summhay_ray.extract.covering import by_covering
from summhay_ray.extract.weights import WithWeights

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Embed(WithWeights):
    """Greedy facility location over cosines. `model`: a sentence-transformers folder or hub name."""

    name: ClassVar[str] = "embed"
    own_model: ClassVar[str] = "sentence-transformers/all-MiniLM-L6-v2"

    def rank(self, document: Document, summary: str, compat: str = "default") -> Iterator[int]:
        wanted = document.split(summary)
        if not document.sentences or not wanted:
            return iter(range(len(document.sentences)))
        return by_covering(self._vectors(document.sentences) @ self._vectors(wanted).T)

    def _vectors(self, texts: Sequence[str]) -> NDArray[np.float32]:
        import numpy as np

        encoding = Encoding(self.model, self.revision)

        def compute(some: Sequence[str], batch_tokens: int, batch_size: int | None) -> Vectors:
            return _encoder(encoding).encode(some, batch_tokens, batch_size)

        values = self.rows(encoding, texts, compute).values
        unit: NDArray[np.float32] = values / np.maximum(np.linalg.norm(values, axis=1, keepdims=True), 1e-12)
        return unit


@functools.cache
def _encoder(encoding: Encoding) -> Encoder:
    return load_encoder(encoding)
