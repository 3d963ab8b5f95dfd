"""`bertscore`: BERTScore F1 of the summary against the reference (Zhang et al., 2020). Needs the extra `bertscore`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from summhay_ray.benchmarks.extract_evaluate.metrics.base import Texts
from summhay_ray.encoders import find_model
from summhay_ray.extract import named_layers
from summhay_ray.metrics import bertscore


class BertScoreF1:
    """`model`: a name known to `bert_score`, or `FOLDER@LAYER`."""

    name: ClassVar[str] = "bertscore"
    takes_model: ClassVar[bool] = True
    own_model: ClassVar[str] = "roberta-large"
    """The default of `bert_score` for English; the paper names no model."""

    def __init__(self, model: str = own_model) -> None:
        self._model, self._layer = named_layers(model)

    def score(self, texts: Sequence[Texts]) -> list[float | None]:
        folder = find_model(self._model).folder
        model = str(folder) if folder else self._model
        return [bertscore(text.summary, [text.reference], model, self._layer) if text.reference else None for text in texts]
