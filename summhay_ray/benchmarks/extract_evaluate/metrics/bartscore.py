"""`bartscore`: the likelihood of the summary given its source (Yuan et al., 2021). `model`: any seq2seq folder or hub name.

Source to summary is the direction that measures faithfulness; the paper names neither direction nor checkpoint. The source is cut
at the model's maximum length.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from summhay_ray.benchmarks.extract_evaluate.metrics.base import Texts
from summhay_ray.encoders import load_likelihood


class BartScore:
    """The mean log probability of the summary's tokens."""

    name: ClassVar[str] = "bartscore"
    takes_model: ClassVar[bool] = True
    own_model: ClassVar[str] = "facebook/bart-large-cnn"

    def __init__(self, model: str = own_model) -> None:
        self._model = model

    def score(self, texts: Sequence[Texts]) -> list[float | None]:
        model = load_likelihood(self._model)
        return [model.mean_log(text.source, text.summary) for text in texts]
