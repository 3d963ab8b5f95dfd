"""`embed`: sentences that together are near to each sentence of the summary, by their vectors. Part of the extract room.

Not the paper's: a small sentence encoder in the place of BERTScore's large one; needs the extra `embed`, and no model hub.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

from summhay_ray.encoders import Encoder, Encoding, load_encoder
from summhay_ray.extract.base import AsReleased, Document
from summhay_ray.extract.covering import by_covering
from summhay_ray.text import punkt_sentences

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MODEL = "sentence-transformers/all-MiniLM-L6-v2"


class Embed:
    """Greedy facility location over cosines. `model`: a folder or hub name of sentence-transformers."""

    name: ClassVar[str] = "embed"
    takes_model: ClassVar[bool] = True
    released: ClassVar[AsReleased] = AsReleased()

    def __init__(self, model: str = MODEL) -> None:
        self._model = model

    def rank(self, document: Document, summary: str, compat: str = "default") -> Iterator[int]:
        """See `Extractor`."""
        wanted = punkt_sentences(summary)
        if not document.sentences or not wanted:
            return iter(range(len(document.sentences)))
        return by_covering(_of_document(document, self._model) @ _vectors(wanted, self._model).T)


# Several summaries of one document share its vectors.
@functools.lru_cache(maxsize=64)
def _of_document(document: Document, model: str) -> NDArray[np.float32]:
    return _vectors(document.sentences, model)


def _vectors(texts: tuple[str, ...] | list[str], model: str) -> NDArray[np.float32]:
    import numpy as np

    values = _encoder(model).encode(texts).values
    unit: NDArray[np.float32] = values / np.maximum(np.linalg.norm(values, axis=1, keepdims=True), 1e-12)
    return unit


@functools.cache
def _encoder(model: str) -> Encoder:
    return load_encoder(Encoding(model))
