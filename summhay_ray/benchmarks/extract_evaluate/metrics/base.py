"""The contract of a metric: texts in, a number a summary out.

To add one: put one file into this folder with a class that has a `name` and the method `score`; a spec names it under `metrics:`.
A class of your own module works without a file here: `metrics: [my_module:SummaC]`. One that reads weights takes their folder or
hub name when it is made (`takes_model = True`; `own_model` says which where nobody names others), and loads them when it first
scores.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol


@dataclass(frozen=True, slots=True)
class Texts:
    """A summary, and what it may be scored by."""

    summary: str
    source: str
    reference: str
    """Empty where the data has none."""


class Metric(Protocol):
    """Scores summaries; a higher score means a better one."""

    name: ClassVar[str]
    takes_model: ClassVar[bool] = False

    def score(self, texts: Sequence[Texts]) -> Sequence[float | None]:
        """One score each, in order; None where it has no meaning (no reference)."""
        ...
