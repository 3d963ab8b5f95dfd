"""Metrics of summaries to compare the judges with: the baselines of the paper's Table 2, and your own.

`base.py` says how to add one: a file here, or `module:Class`. FactCC and SummaC need the latter: no dependency of this package
has their weights.
"""

import sys
from typing import cast

from summhay_ray import plugins
from summhay_ray.benchmarks.extract_evaluate.metrics.base import Metric, Texts

METRICS = ("rouge-1", "rouge-2", "words", "bertscore", "bartscore")

__all__ = ["METRICS", "Metric", "Texts", "make_metric"]


def make_metric(name: str, model: str = "") -> Metric:
    """The metric with this name. Raises UnknownName if there is none, ValueError if it lacks a model or takes none."""
    cls = plugins.find("metric", name, sys.modules[__name__], "score", "a metric (metrics/base.py)")
    return cast(Metric, plugins.made("metric", name, cls, model or None))
