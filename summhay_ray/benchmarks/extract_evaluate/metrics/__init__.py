"""Metrics of summaries that are rated beside the judges: the baselines of the paper's Table 2, and whatever else is put here.

`base.py` says how one is added: one file, or `module:Class`. FactCC and SummaC come in so; nothing that this package installs has
their weights.
"""

import sys
from typing import cast

from summhay_ray import plugins
from summhay_ray.benchmarks.extract_evaluate.metrics.base import Metric, Texts

METRICS = ("rouge-1", "rouge-2", "words", "bertscore", "bartscore")

__all__ = ["METRICS", "Metric", "Texts", "make_metric"]


def make_metric(name: str, model: str = "") -> Metric:
    """The metric of a name. Raises UnknownName where there is none, and ValueError where it needs a model or takes none."""
    if ":" in name:
        found = plugins.load(name)
        if not callable(getattr(found, "score", None)):
            raise plugins.UnknownName(f"{name!r} has no method `score`; expected module:Class of a metric (metrics/base.py)")
    else:
        known = plugins.discover(sys.modules[__name__])
        if name not in known:
            raise plugins.unknown("metric", name, known)
        found = known[name]
    return cast(Metric, plugins.made("metric", name, found, model or None))
