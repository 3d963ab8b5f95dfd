"""Evaluate one metric on one input as JSON, to check reference cases. Part of the ethic folder."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from summhay_ray.benchmark import Compat
from summhay_ray.benchmarks.ethic import lenient_metrics, release_metrics

METRICS = (
    *("recalling", "organizing", "lcs", "attributing"),
    *("summarizing_extract", "summarizing_pairing", "summarizing_score", "aggregate"),
)


def evaluate(metric: str, input: Mapping[str, Any], compat: Compat = "default") -> Mapping[str, Any]:
    """The result of one of `METRICS` on an input, as JSON: NaN and infinities as strings; `{"error": NAME}` if the metric raises.

    Raises KeyError for any other metric."""
    rules = {"release": release_metrics, "default": lenient_metrics}[compat]
    if metric not in METRICS:
        raise KeyError(metric)
    try:
        result = _result(rules, metric, input)
    # The scripts raise on some inputs; the exception's name is then the expected result.
    except Exception as error:  # noqa: BLE001
        return {"error": type(error).__name__}
    written: Mapping[str, Any] = _json(result)
    return written


def _result(rules: Any, metric: str, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """The result by the module `rules`; both name their functions alike."""
    released = rules is release_metrics
    match metric:
        case "recalling" | "attributing":
            overlap = asdict(getattr(rules, metric)(_prediction(given, released), given["answer"]))
            return {**overlap, "score": overlap["f1"]}
        case "organizing":
            common, score = rules.organizing(_prediction(given, released), given["answer"])
            return {"lcs": common, "lcs_score": score, "score": score}
        case "lcs":
            common, score = rules.lcs(given["prediction"], given["answer"])
            return {"lcs": common, "lcs_score": score}
        case "summarizing_extract":
            return {"input_sections": rules.source_of(given["user_msg"])}
        case "summarizing_pairing":
            names = ("domain", "id", "input_sections", "prediction", "templates")
            requests = {"requests": [asdict(request) for request in rules.requests(*(given[name] for name in names))]}
            if released:
                return requests
            return {**requests, "missing": lenient_metrics.pairs(given["input_sections"], given["prediction"]).missing}
        case "summarizing_score":
            judged: Mapping[str, Any] = rules.judged(given["judge_outputs"])
            return judged
        case _:
            if not released:
                return lenient_metrics.aggregated(given["scores_per_domain"])
            final, domains = release_metrics.aggregated(given["task"], given["scores_per_domain"])
            return {"final_score": final, "domain_score": domains}


def _prediction(given: Mapping[str, Any], released: bool) -> Any:
    """The answer to score; the scripts do not strip reasoning. It is None if there was no answer."""
    return given["prediction"] if released else lenient_metrics.without_reasoning(given["prediction"] or "")


def _json(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _json(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_json(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value
