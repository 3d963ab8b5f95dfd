"""`words`: the length of the summary. A metric that correlates no better than this may only measure length."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from summhay_ray.benchmarks.extract_evaluate.metrics.base import Texts


class Words:
    """The number of words of the summary, split at white space."""

    name: ClassVar[str] = "words"

    def score(self, texts: Sequence[Texts]) -> list[float | None]:
        return [float(len(text.summary.split())) for text in texts]
