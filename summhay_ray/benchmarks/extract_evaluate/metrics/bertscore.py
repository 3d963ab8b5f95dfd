"""`bertscore`: F of the summary's tokens against the reference's, by vectors (Zhang et al., 2020); extra `bertscore`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from summhay_ray.benchmarks.extract_evaluate.metrics.base import Texts
from summhay_ray.encoders import find_model
from summhay_ray.metrics import bertscore

MODEL = "roberta-large"
"""What `bert_score` takes for English where nothing is said; the paper names no other."""


class BertScoreF1:
    """`model`: a name that `bert_score` knows, or `FOLDER@LAYER`."""

    name: ClassVar[str] = "bertscore"
    takes_model: ClassVar[bool] = True

    def __init__(self, model: str = MODEL) -> None:
        name, _, layer = model.rpartition("@")
        self._layer: int | None = int(layer) if name and layer.isdigit() else None
        self._model = model if self._layer is None else name

    def score(self, texts: Sequence[Texts]) -> list[float | None]:
        """See `Metric`."""
        folder = find_model(self._model).folder
        model = str(folder) if folder else self._model
        return [bertscore(one.summary, [one.reference], model, self._layer) if one.reference else None for one in texts]
