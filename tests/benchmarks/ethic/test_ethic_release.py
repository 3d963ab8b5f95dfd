"""The scores of ETHIC's scripts, including their mistakes: the reference cases of the specification, and frequent cases."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from summhay_ray.benchmarks.ethic import cases

pytestmark = pytest.mark.core

METRICS = (
    *("recalling", "organizing", "lcs", "attributing"),
    *("summarizing_extract", "summarizing_pairing", "summarizing_score", "aggregate"),
)


def same(wanted: Any, found: Any) -> bool:
    if isinstance(wanted, Mapping):
        return (
            isinstance(found, Mapping) and wanted.keys() == found.keys() and all(same(wanted[one], found[one]) for one in wanted)
        )
    if isinstance(wanted, list):
        return isinstance(found, list) and len(wanted) == len(found) and all(map(same, wanted, found))
    if isinstance(wanted, int | float) and isinstance(found, int | float):
        return math.isclose(wanted, found, rel_tol=1e-9, abs_tol=1e-9)
    return bool(wanted == found)


@pytest.mark.parametrize("metric", METRICS)
def test_every_reference_case_is_equal(shared_data: Path, metric: str) -> None:
    lines = (shared_data.parent / "benchmarks" / "ethic" / f"given_{metric}.jsonl").read_text(encoding="utf-8").splitlines()
    given = [json.loads(line) for line in lines]
    differ = [one["id"] for one in given if not same(one["expected"], cases.evaluate(metric, one["input"]))]
    assert len(given) > 30 and differ == []


def test_a_refusal_is_unpacked_into_a_mistake_where_options_are_ordered() -> None:
    assert cases.evaluate("organizing", {"prediction": "FAILED", "answer": "[1]"}) == {"error": "TypeError"}


_ODD = (
    None,
    0,
    -1.5,
    True,
    "",
    "FAILED",
    "NaN",
    math.nan,
    math.inf,
    "²",
    "\ud800",
    b"x",
    [],
    {},
    [None],
    [1],
    ["x"] * 3,
)


def test_every_value_survives_a_round_trip_through_json() -> None:
    output = {"custom_id": "Books_a_<Section 1>_con", "token": "4", "top_logprobs": []}
    asked = 0
    for one, other in itertools.product(_ODD, _ODD):
        judged = {**output, "token": one, "top_logprobs": [{"token": "4", "logprob": other}, {"token": other, "logprob": one}]}
        inputs = {
            **dict.fromkeys(("recalling", "organizing", "lcs", "attributing"), {"prediction": one, "answer": other}),
            "summarizing_extract": {"user_msg": one},
            "summarizing_pairing": {"domain": one, "id": other, "input_sections": one, "prediction": other, "templates": {}},
            "summarizing_score": {"judge_outputs": [judged]},
            "aggregate": {"task": "Recalling", "scores_per_domain": {"Books": one, "Law": [other]}},
        }
        for metric, given in inputs.items():
            json.dumps(cases.evaluate(metric, given), allow_nan=False)
            asked += 1
    assert asked == 8 * len(_ODD) ** 2
    long = {"domain": "Books", "id": "a", "input_sections": f"<Section {'9' * 5000}>a", "prediction": f"<Section {'9' * 5000}>b"}
    found = cases.evaluate("summarizing_pairing", {**long, "templates": dict.fromkeys(("con", "faith", "rel"), "x")})
    assert len(found["requests"]) == 3


def test_what_is_not_finite_is_read_and_another_task_is_the_scripts_own_mistake() -> None:
    scores = {"Books": ["NaN", 1.0], "Debates": [1.0], "Medicine": [1.0], "Law": [1.0]}
    given = {"task": "Recalling", "scores_per_domain": scores}
    assert cases.evaluate("aggregate", given)["domain_score"]["Books"] == "NaN"
    assert cases.evaluate("aggregate", {**given, "task": "Lookup"}) == {"error": "UnboundLocalError"}
    output = {"custom_id": "Books_a_<Section 1>_con", "token": "4", "top_logprobs": [{"token": "4", "logprob": "NaN"}]}
    assert cases.evaluate("summarizing_score", {"judge_outputs": [output]})["Books_a"]["weighted_con"] == "NaN"
