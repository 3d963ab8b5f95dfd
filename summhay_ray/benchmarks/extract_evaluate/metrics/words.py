"""`words`: how long the summary is. What correlates no better than this has measured length."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from summhay_ray.benchmarks.extract_evaluate.metrics.base import Texts


class Words:
    """The summary's words, between blanks."""

    name: ClassVar[str] = "words"

    def score(self, texts: Sequence[Texts]) -> list[float | None]:
        """See `Metric`."""
        return [float(len(one.summary.split())) for one in texts]
