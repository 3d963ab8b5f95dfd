"""Evaluate one metric of the authors' scripts on one JSON input, to check reference cases."""

import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Literal

from summhay_ray.benchmarks.ethic import release_metrics

METRICS = (
    *("recalling", "organizing", "lcs", "attributing"),
    *("summarizing_extract", "summarizing_pairing", "summarizing_score", "aggregate"),
)


def evaluate(metric: str, input: Mapping[str, Any], compat: Literal["release"] = "release") -> Mapping[str, Any]:
    """Compute one of `METRICS` on an input as the authors' scripts do. The result is JSON: NaN and infinities are strings; if
    the metric raises, it is `{"error": NAME}`. Raises KeyError for any other metric or `compat`."""
    if metric not in METRICS or compat != "release":
        raise KeyError(metric, compat)
    try:
        result = _result(metric, input)
    # The scripts raise on some inputs; the exception's name is then the expected result.
    except Exception as error:  # noqa: BLE001
        return {"error": type(error).__name__}
    written: Mapping[str, Any] = _json(result)
    return written


def _result(metric: str, given: Mapping[str, Any]) -> Mapping[str, Any]:
    match metric:
        case "recalling" | "attributing":
            score = release_metrics.recalling if metric == "recalling" else release_metrics.attributing
            overlap = asdict(score(given["prediction"], given["answer"]))
            return {**overlap, "score": overlap["f1"]}
        case "organizing":
            common, share = release_metrics.organizing(given["prediction"], given["answer"])
            return {"lcs": common, "lcs_score": share, "score": share}
        case "lcs":
            common, share = release_metrics.lcs(given["prediction"], given["answer"])
            return {"lcs": common, "lcs_score": share}
        case "summarizing_extract":
            return {"input_sections": release_metrics.source_of(given["user_msg"])}
        case "summarizing_pairing":
            names = ("domain", "id", "input_sections", "prediction", "templates")
            return {"requests": [asdict(request) for request in release_metrics.requests(*(given[name] for name in names))]}
        case "summarizing_score":
            return release_metrics.judge_figures(given["judge_outputs"])
        case _:
            final, domains = release_metrics.aggregate(given["task"], given["scores_per_domain"])
            return {"final_score": final, "domain_score": domains}


def _json(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _json(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_json(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value
