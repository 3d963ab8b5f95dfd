"""A request's key is its content: every field changes it, nothing else does."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from summhay_ray.llm import Limits, ModelSettings, Price, Request

pytestmark = pytest.mark.core

BASE = Request("openai/m", "a prompt", {"temperature": 0.5, "max_tokens": 10}, "hash", 0, "lookup")
OTHER: dict[str, Any] = {
    "model": "openai/m2",
    "prompt": "a prompt ",
    "sampling": {"temperature": 0.5, "max_tokens": 11},
    "prompt_hash": "hash2",
    "sample": 1,
    "lookup": "",
}
SAMPLING = st.dictionaries(
    st.sampled_from(["temperature", "max_tokens", "seed", "stop", "extra_body"]), st.none() | st.text() | st.integers()
)
REQUESTS = st.builds(Request, st.text(), st.text(), SAMPLING, st.text(), st.integers(0, 9), st.text())


@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(Request)])
def test_each_field_in_turn_changes_the_key(field: str) -> None:
    assert dataclasses.replace(BASE, **{field: OTHER[field]}).key != BASE.key


@pytest.mark.parametrize(
    "sampling",
    [
        {"temperature": 0.5},
        {"temperature": 0.5, "max_tokens": 10, "seed": None},
        {"temperature": 0.5, "max_tokens": 10, "seed": 0},
        {"temperature": 0.5, "max_tokens": 10, "extra_body": {"a": {"b": [1, 2]}}},
        {"temperature": 0.5, "max_tokens": 10, "extra_body": {"a": {"b": [2, 1]}}},
        {"temperature": 0.5, "max_tokens": "10"},
        {"temperature": 0.5, "max_tokens": True},
        {"temperature": 0.50001, "max_tokens": 10},
    ],
)
def test_every_parameter_changes_the_key(sampling: dict[str, Any]) -> None:
    assert dataclasses.replace(BASE, sampling=sampling).key != BASE.key


def test_the_order_of_parameters_and_how_a_number_is_written_do_not() -> None:
    first = Request("m", "p", {"temperature": 0, "extra_body": {"a": 1, "b": [2, 3.0]}})
    assert first.key == Request("m", "p", {"extra_body": {"b": (2.0, 3), "a": 1.0}, "temperature": 0.0}).key
    assert first.key == Request("m", "p", {"extra_body": {"b": [2, 3], "a": 1}, "temperature": -0.0}).key


def test_settings_are_no_part_of_a_request() -> None:
    # What is not a field of Request cannot change its key: the two share the model's name alone.
    semantic = {field.name for field in dataclasses.fields(Request)}
    assert semantic & {field.name for field in dataclasses.fields(ModelSettings)} == {"model"}
    slow = ModelSettings("openai/m", Price(1, 2), 10, "http://a", "KEY", 1.0, Limits(rpm=1, concurrency=1))
    assert slow != ModelSettings("openai/m", Price(0, 0)) and BASE.key == dataclasses.replace(BASE).key


@given(REQUESTS, REQUESTS)
def test_equal_content_means_equal_key_and_other_content_another(one: Request, other: Request) -> None:
    copy = dataclasses.replace(one, sampling=dict(reversed(one.sampling.items())))
    assert copy.key == one.key
    assert (one.key == other.key) == (dataclasses.astuple(one) == dataclasses.astuple(other))


@pytest.mark.parametrize("prompt", ["a\ud800", "\x00", "é", "e\u0301", "\u202e", "", " ", "x" * 10_000_000])
def test_every_text_has_a_key_of_its_own(prompt: str) -> None:
    keys = {Request("m", text).key for text in (prompt, prompt + " ", prompt + "\x00")}
    assert len(keys) == 3 and all(len(key) == 64 for key in keys)


def test_fields_do_not_run_into_each_other() -> None:
    assert Request("m", "ab", {}, "c").key != Request("m", "a", {}, "bc").key
    assert Request("m", "a", {}, "b", 0, "c").key != Request("m", "a", {}, "c", 0, "b").key


def test_the_key_is_the_same_in_another_process() -> None:
    code = (
        "from summhay_ray.llm import Request;"
        "print(Request('openai/m', 'a prompt', {'max_tokens': 10, 'temperature': 0.5}, 'hash', 0, 'lookup').key)"
    )
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": "1"})
    assert other.stdout.strip() == BASE.key


def test_what_is_not_json_is_refused() -> None:
    for value in (float("nan"), float("inf"), {1, 2}, object()):
        with pytest.raises((ValueError, TypeError)):
            _ = Request("m", "p", {"temperature": value}).key
