"""A prompt ends with its input, which is always one line of JSON."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from summhay_ray.synth import load_domain
from summhay_ray.synth.making.domains import TASKS
from summhay_ray.synth.making.prompting import numbered, render
from summhay_ray.text import json_line

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


def test_other_scripts_stay_readable() -> None:
    assert json_line({"a": "Überfahrt 東京"}) == '{"a": "Überfahrt 東京"}'


def test_a_number_that_json_lacks_is_a_bug() -> None:
    with pytest.raises(ValueError, match="JSON"):
        json_line({"a": float("nan")})


def test_lists_are_numbered_from_one() -> None:
    assert numbered(["a", "b"]) == [{"id": 1, "text": "a"}, {"id": 2, "text": "b"}]


def test_every_prompt_names_the_fields_of_its_input() -> None:
    shown = {
        "subtopics": ["n", "avoid", "context"],
        "overlapping_subtopics": ["subtopics"],
        "insights": ["subtopic", "n", "others", "avoid", "context", "participants"],
        "conflicting_insight": ["subtopic", "insight"],
        "duplicate_insights": ["insights"],
        "assign_subtopic": ["subtopics", "insight"],
        "query": ["subtopic", "avoid", "participants"],
        "query_leaks": ["query", "subtopic", "insights"],
        "document": [
            "insights",
            "words",
            "genre",
            "tone",
            "participants",
            "date",
            "references",
            "paraphrase",
            "context",
            "avoid",
        ],
        "chapter": [
            "insight",
            "subtopic",
            "before",
            "words",
            "participants",
            "genre",
            "tone",
            "paraphrase",
            "date",
            "references",
        ],
        "chapter_check": ["chapter", "subtopics", "insights"],
        "insights_present": ["document", "insights"],
        "edit_document": ["document", "remove", "add", "words", "genre", "tone", "participants", "paraphrase"],
    }
    assert set(shown) == set(TASKS)
    for name in ("conversation", "product_reviews"):
        prompts = load_domain(name).prompts
        for task in TASKS:
            assert [field for field in [*shown[task], "topic"] if f"`{field}`" not in prompts[task]] == []
