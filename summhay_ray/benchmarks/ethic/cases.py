"""Evaluate one metric on one input as JSON, to check reference cases. Part of the ethic folder."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from summhay_ray.benchmark import Compat
from summhay_ray.benchmarks.ethic import release, scoring


def evaluate(metric: str, input: Mapping[str, Any], compat: Compat = "default") -> Mapping[str, Any]:
    """The result of a metric on an input, as JSON: NaN and infinities as strings; `{"error": NAME}` if the metric raises.

    Metrics: recalling, organizing, lcs, attributing, summarizing_extract, summarizing_pairing, summarizing_score, aggregate.
    Raises KeyError for any other."""
    function = {"release": _RELEASE, "default": _DEFAULT}[compat][metric]
    try:
        result = function(input)
    # The scripts raise on some inputs; the exception's name is then the expected result.
    except Exception as error:  # noqa: BLE001
        return {"error": type(error).__name__}
    written: Mapping[str, Any] = _json(result)
    return written


def _release_recalling(given: Mapping[str, Any]) -> Any:
    return _scored(asdict(release.recalling(given["prediction"], given["answer"])), "f1")


def _release_attributing(given: Mapping[str, Any]) -> Any:
    return _scored(asdict(release.attributing(given["prediction"], given["answer"])), "f1")


def _release_lcs(given: Mapping[str, Any]) -> Any:
    common, score = release.lcs(given["prediction"], given["answer"])
    return {"lcs": common, "lcs_score": score}


def _release_organizing(given: Mapping[str, Any]) -> Any:
    common, score = release.organizing(given["prediction"], given["answer"])
    return _scored({"lcs": common, "lcs_score": score}, "lcs_score")


def _release_extract(given: Mapping[str, Any]) -> Any:
    return {"input_sections": release.source_of(given["user_msg"])}


def _release_pairing(given: Mapping[str, Any]) -> Any:
    names = ("domain", "id", "input_sections", "prediction", "templates")
    return {"requests": [asdict(request) for request in release.requests(*(given[name] for name in names))]}


def _release_score(given: Mapping[str, Any]) -> Any:
    return release.judged(given["judge_outputs"])


def _release_aggregate(given: Mapping[str, Any]) -> Any:
    final, domains = release.aggregated(given["task"], given["scores_per_domain"])
    return {"final_score": final, "domain_score": domains}


def _answer(given: Mapping[str, Any]) -> str:
    # The prediction is None if there was no answer.
    return scoring.without_reasoning(given["prediction"] or "")


def _default_recalling(given: Mapping[str, Any]) -> Any:
    return _scored(asdict(scoring.recalling(_answer(given), given["answer"])), "f1")


def _default_attributing(given: Mapping[str, Any]) -> Any:
    return _scored(asdict(scoring.attributing(_answer(given), given["answer"])), "f1")


def _default_lcs(given: Mapping[str, Any]) -> Any:
    common, score = scoring.lcs(given["prediction"], given["answer"])
    return {"lcs": common, "lcs_score": score}


def _default_organizing(given: Mapping[str, Any]) -> Any:
    common, score = scoring.organizing(_answer(given), given["answer"])
    return _scored({"lcs": common, "lcs_score": score}, "lcs_score")


def _default_extract(given: Mapping[str, Any]) -> Any:
    return {"input_sections": scoring.source_of(given["user_msg"])}


def _default_pairing(given: Mapping[str, Any]) -> Any:
    names = ("domain", "id", "input_sections", "prediction", "templates")
    asked = scoring.requests(*(given[name] for name in names))
    missing = scoring.pairs(given["input_sections"], given["prediction"]).missing
    return {"requests": [asdict(one) for one in asked], "missing": list(missing)}


def _default_score(given: Mapping[str, Any]) -> Any:
    return scoring.judged(given["judge_outputs"])


def _default_aggregate(given: Mapping[str, Any]) -> Any:
    return scoring.aggregated(given["scores_per_domain"])


def _scored(fields: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    return {**fields, "score": fields[name]}


def _json(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _json(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_json(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


_Metric = Callable[[Mapping[str, Any]], Any]
_RELEASE: Mapping[str, _Metric] = {
    "recalling": _release_recalling,
    "organizing": _release_organizing,
    "lcs": _release_lcs,
    "attributing": _release_attributing,
    "summarizing_extract": _release_extract,
    "summarizing_pairing": _release_pairing,
    "summarizing_score": _release_score,
    "aggregate": _release_aggregate,
}
_DEFAULT: Mapping[str, _Metric] = {
    "recalling": _default_recalling,
    "organizing": _default_organizing,
    "lcs": _default_lcs,
    "attributing": _default_attributing,
    "summarizing_extract": _default_extract,
    "summarizing_pairing": _default_pairing,
    "summarizing_score": _default_score,
    "aggregate": _default_aggregate,
}
