"""The plan of a partly paid stage of a synthesis, by visible arithmetic."""

from __future__ import annotations

import pytest

from summhay_ray.engine.stage_plan import BoundedStage
from summhay_ray.store import AnswerTotals

pytestmark = pytest.mark.core


def stage() -> BoundedStage:
    """10 expected calls, each with 100 tokens in, 20 out and 300 micro-dollars; at least 6 calls, at most 500."""
    calls = {"calls": 10, "min_calls": 6, "max_calls": 500}
    inputs = {"input_tokens": 1000, "min_input_tokens": 300, "max_input_tokens": 90_000}
    outputs = {"output_tokens": 200, "min_output_tokens": 6, "max_output_tokens": 50_000}
    return BoundedStage("write", "m", **calls, **inputs, **outputs, usd_micros=3000, min_micros=600, max_micros=70_000)


def paid(answers: int, input_tokens: int, usd_micros: int) -> AnswerTotals:
    return AnswerTotals(answers=answers, input_tokens=input_tokens, output_tokens=answers, usd_micros=usd_micros)


def test_what_is_expected_goes_down_with_the_calls() -> None:
    one = stage()
    one.subtract(paid(4, 80, 100), 1.0)
    # 10 - 4 calls of 100 and 20 tokens; least: 6 - 4 calls, 300 - 80 and 6 - 4 tokens, 600 - 100 micro-dollars.
    assert (one.reused, one.calls, one.input_tokens, one.output_tokens, one.usd_micros) == (4, 6, 600, 120, 1800)
    assert (one.min_calls, one.min_input_tokens, one.min_output_tokens, one.min_micros) == (2, 220, 2, 500)
    assert (one.max_calls, one.max_input_tokens, one.max_micros) == (500, 90_000, 70_000), "the bound holds as it is"


def test_what_is_expected_is_never_below_the_least() -> None:
    one = stage()
    one.subtract(paid(9, 20, 30), 1.0)
    # A tenth of 1,000 tokens and of 3,000 micro-dollars is less than 300 - 20 and 600 - 30.
    assert (one.calls, one.input_tokens, one.usd_micros) == (1, 280, 570)
    assert one.usd_min <= one.usd <= one.usd_max
