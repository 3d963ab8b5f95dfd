"""`rouge-1`, `rouge-2`: F1 against the reference by py-rouge's rules, like the paper's baselines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from summhay_ray.benchmarks.extract_evaluate.metrics.base import Texts
from summhay_ray.extract import rouge_n


class Rouge1F1:
    """ROUGE-1."""

    name: ClassVar[str] = "rouge-1"
    order: ClassVar[int] = 1

    def score(self, texts: Sequence[Texts]) -> list[float | None]:
        return [
            rouge_n(text.summary, text.reference, self.order, script=text.script).f1 if text.reference else None for text in texts
        ]


class Rouge2F1(Rouge1F1):
    """ROUGE-2."""

    name: ClassVar[str] = "rouge-2"
    order: ClassVar[int] = 2
