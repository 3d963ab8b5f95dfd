"""Metrics of summaries to compare with judges: the baselines of the paper's Table 2, and your own.

To add one, put a file into this folder with a class that has a `name` and the method `score`; a spec names it under `metrics:`.
A class in your own module needs no file here: `metrics: [my_module:SummaC]`. FactCC and SummaC need such a class, because no
dependency of this package has their weights. A metric that runs a model sets `takes_model = True`, takes the model's folder or
hub name in its constructor (default: `own_model`), and loads it at the first `score`.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol, cast

from summhay_ray import plugins
from summhay_ray.text import Script

METRICS = ("rouge-1", "rouge-2", "words", "bertscore", "bartscore")

__all__ = ["METRICS", "Metric", "Texts", "make_metric"]


@dataclass(frozen=True, slots=True)
class Texts:
    """A summary, and the texts to which a metric may compare it."""

    summary: str
    source: str
    reference: str
    """Empty if the data has none."""
    script: Script = "auto"
    """How to find words in non-Latin texts."""


class Metric(Protocol):
    """Scores summaries; a higher score means a better one."""

    name: ClassVar[str]
    takes_model: ClassVar[bool] = False

    def score(self, texts: Sequence[Texts]) -> Sequence[float | None]:
        """Return one score per text of a batch, in order; None (or NaN, infinity) if undefined. An exception fails all pairs
        of the batch."""
        ...


def make_metric(name: str, model: str = "") -> Metric:
    """Return the metric with this name. Raises UnknownName if there is none, ValueError if it lacks a model or takes none."""
    cls = plugins.find("metric", name, sys.modules[__name__], "score", "a metric (extract_evaluate/metrics)")
    return cast(Metric, plugins.make_instance("metric", name, cls, model or None))
