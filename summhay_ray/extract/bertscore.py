"""`bertscore`: sentences whose tokens together recall the summary's tokens, by vectors (section 2). Part of the extract room.

Set recall: the mean, over the summary's tokens, of the greatest cosine with a token of the sentences taken. The summary is
encoded as a whole, each sentence alone. The paper's code takes the wrong sentence once it has skipped one, which is not done
here, in either compat; `release` counts the tokens around a text, as it does, `default` leaves them out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from summhay_ray.encoders import load_token_encoder
from summhay_ray.extract.base import AsReleased, Document
from summhay_ray.extract.covering import by_covering

MODEL, LAYERS = "microsoft/deberta-large-mnli", 18
"""The paper's (section 3.2), and how many of its layers BERTScore reads."""


class BertScore:
    """`model`: a folder or hub name, read whole, or `NAME@LAYERS`."""

    name: ClassVar[str] = "bertscore"
    takes_model: ClassVar[bool] = True
    released: ClassVar[AsReleased] = AsReleased()

    def __init__(self, model: str = f"{MODEL}@{LAYERS}") -> None:
        name, _, layers = model.rpartition("@")
        self._layers: int | None = int(layers) if name and layers.isdigit() else None
        self._model = model if self._layers is None else name

    def rank(self, document: Document, summary: str, compat: str = "default") -> Iterator[int]:
        """See `Extractor`."""
        import numpy as np

        encoder, special = load_token_encoder(self._model, self._layers), compat == "release"
        if not document.sentences:
            return iter(())
        [wanted] = encoder.encode([summary], special)
        similarity = np.zeros((len(document.sentences), len(wanted)), dtype=np.float32)
        for number, tokens in enumerate(encoder.encode(document.sentences, special)):
            similarity[number] = (wanted @ tokens.T).max(axis=1) if len(tokens) and len(wanted) else -1.0
        return by_covering(similarity)
