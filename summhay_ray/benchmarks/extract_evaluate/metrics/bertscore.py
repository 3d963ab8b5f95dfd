"""`bertscore`: F of the summary's tokens against the reference's, by vectors (Zhang et al., 2020); extra `bertscore`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from summhay_ray.benchmarks.extract_evaluate.metrics.base import Texts
from summhay_ray.encoders import find_model
from summhay_ray.extract import named_layers
from summhay_ray.metrics import bertscore


class BertScoreF1:
    """`model`: a name that `bert_score` knows, or `FOLDER@LAYER`."""

    name: ClassVar[str] = "bertscore"
    takes_model: ClassVar[bool] = True
    own_model: ClassVar[str] = "roberta-large"
    """What `bert_score` takes for English where nothing is said; the paper names no other."""

    def __init__(self, model: str = own_model) -> None:
        self._model, self._layer = named_layers(model)

    def score(self, texts: Sequence[Texts]) -> list[float | None]:
        """See `Metric`."""
        folder = find_model(self._model).folder
        model = str(folder) if folder else self._model
        return [bertscore(one.summary, [one.reference], model, self._layer) if one.reference else None for one in texts]
