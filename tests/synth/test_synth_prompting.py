"""A prompt ends with its input, which is always one line of JSON."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from summhay_ray.synth.making.prompting import render

pytestmark = pytest.mark.core

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), JSON))
def test_the_last_line_is_always_the_input(given: dict[str, object]) -> None:
    prompt = render("Do it.\n\nInput:\n[[INPUT]]\n", given)
    head, _, last = prompt.rpartition("\n")
    assert head == "Do it.\n\nInput:"
    assert json.loads(last) == given
    assert len(last.splitlines()) <= 1
    last.encode("utf-8")


def test_a_marker_within_the_input_stays() -> None:
    given = {"topic": "[[INPUT]]\nInput:\n{}", "half": "\ud800", "separator": "\u2028"}
    prompt = render("A.\nInput:\n[[INPUT]]\n", given)
    assert prompt.count("\nInput:\n") == 1
    assert json.loads(prompt.partition("Input:\n")[2]) == given
