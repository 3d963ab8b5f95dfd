"""An answer whose meaning is beyond doubt is read; any other is Malformed, never silently empty."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from summhay_ray.outcome import Malformed
from summhay_ray.synth.making.domains import TASKS
from summhay_ray.synth.making.prompting import numbered
from summhay_ray.synth.making.prompting import read_answer as read

pytestmark = pytest.mark.core

THREE = numbered(["one", "two", "three"])
GIVEN: dict[str, Any] = {"n": 2, "subtopics": THREE, "insights": THREE, "words": 9, "document": "a b b"}
TWO = {"subtopics": [{"name": "a", "subtopic": "An a"}, {"name": "b", "subtopic": "A b"}]}
READ: list[tuple[Any, dict[str, Any], Any]] = [
    ("subtopics", TWO, (("a", "An a"), ("b", "A b"))),
    (
        "insights",
        {"insights": [{"name": "a", "insight": "x  1\n"}, {"name": "b", "insight": "y 2"}]},
        (("a", "x 1"), ("b", "y 2")),
    ),
    ("conflicting_insight", {"name": "a", "insight": "x 2"}, ("a", "x 2")),
    ("overlapping_subtopics", {"overlaps": [[3, 1], ["1", 3], [2, 3.0]]}, ((0, 2), (1, 2))),
    ("duplicate_insights", {"duplicates": []}, ()),
    ("assign_subtopic", {"subtopic": "3"}, 2),
    ("assign_subtopic", {"subtopic": None}, None),
    ("chapter_check", {"insight": 1}, 0),
    ("query", {"query": "What do they say?"}, "What do they say?"),
    ("query_leaks", {"leaked": ["#2", 1, 2]}, (0, 1)),
    ("insights_present", {"present": [{"id": 2, "evidence": "b b"}, {"id": "1", "evidence": "a"}]}, {0: "a", 1: "b b"}),
    ("insights_present", {"present": []}, {}),
    ("insights_present", {"present": [{"id": 1, "quotes": ["a", " b "]}, {"id": 2, "evidence": None}]}, {0: "a ... b"}),
    ("insights_present", {"present": [{"id": 2, "evidence": "b", "found": True}, {"id": 3, "found": False}]}, {1: "b"}),
    ("insights_present", {"present": [{"id": 1, "evidence": "none", "status": "not found"}]}, {}),
    ("insights_present", {"present": [{"id": 1, "evidence": "a", "missing": "none", "partial": False}]}, {0: "a"}),
]


def error(task: Any, text: str, finish_reason: str = "stop") -> str:
    found = read(task, GIVEN, text, finish_reason)
    assert isinstance(found, Malformed) and found.message and "\n" not in found.message
    return found.error


@pytest.mark.parametrize(("task", "answer", "value"), READ)
def test_each_task_s_answer_is_read_through_what_models_put_around_it(task: Any, answer: dict[str, Any], value: Any) -> None:
    thought = f'<think>{{"{next(iter(answer))}": 7}} or not?</think>'
    for text in (json.dumps(answer), f"{thought}Here is what {{I}} found:\n\n```json\n{answer!r}\n```\n\nAsk me for more."):
        found = read(task, GIVEN, text)
        assert found == value and type(found) is type(value), text


@pytest.mark.parametrize(
    ("task", "text", "kind"),
    [
        ("subtopics", '{"topics": []}', "no_json"),
        ("subtopics", '[{"name": "a", "subtopic": "b"}]', "no_json"),
        ("subtopics", json.dumps({"subtopics": TWO["subtopics"][:1]}), "wrong_number"),
        ("subtopics", '{"subtopics": {"a": 1}}', "wrong_type"),
        ("subtopics", '{"subtopics": ["a", "b"]}', "wrong_type"),
        ("subtopics", '{"subtopics": [{"name": "a", "subtopic": "b"}, {"name": "a"}]}', "empty_text"),
        ("subtopics", '{"subtopics": [{"name": "a", "subtopic": "b"}, {"name": " ", "subtopic": "b"}]}', "empty_text"),
        ("subtopics", '{"subtopics": [{"name": "a", "subtopic": "b"}, {"name": "a", "subtopic": 3}]}', "wrong_type"),
        ("query", '{"query": ""}', "empty_text"),
        ("query", '{"query": "\\ud800"}', "wrong_type"),
        ("query", json.dumps({"query": "what and " * 150}), "too_long"),
        ("conflicting_insight", '{"insight": "a 3"}', "empty_text"),
        ("conflicting_insight", json.dumps({"name": "a", "insight": "one 1 " * 200}), "too_long"),
        ("assign_subtopic", '{"subtopic": 4}', "unknown_id"),
        ("assign_subtopic", '{"subtopic": "two"}', "unknown_id"),
        ("chapter_check", '{"insight": 1.5}', "unknown_id"),
        ("overlapping_subtopics", '{"overlaps": [[1, 1]]}', "unknown_id"),
        ("overlapping_subtopics", '{"overlaps": [[1, 9]]}', "unknown_id"),
        ("overlapping_subtopics", '{"overlaps": [[1, 2, 3]]}', "wrong_type"),
        ("duplicate_insights", '{"duplicates": null}', "wrong_type"),
        ("query_leaks", '{"leaked": [5]}', "unknown_id"),
        ("insights_present", '{"present": [2]}', "wrong_type"),
        ("insights_present", '{"present": [{"id": 1, "evidence": "x y"}, {"id": 2, "evidence": "z"}]}', "invented_evidence"),
        ("insights_present", '{"present": [{"id": 2}]}', "empty_text"),
        ("insights_present", '{"present": [{"id": 2, "evidence": 7}]}', "wrong_type"),
        ("insights_present", '{"present": [{"id": 8, "evidence": "a"}]}', "unknown_id"),
        ("insights_present", '{"present": [{"id": 3, "evidence": "x"}, {"id": 1, "evidence": "he rep', "broken_json"),
        ("document", "No.", "too_short"),
        ("document", "```\n\n```", "empty_text"),
        ("document", '{"document": "It rained."}', "not_text"),
        ("document", '{"document": "It rained for three days in Ulm, and then it stopped."}\nAll facts are in it.', "not_text"),
        ("edit_document", "```json\n[]\n```", "not_text"),
    ],
)
def test_any_other_answer_is_malformed_with_its_error(task: Any, text: str, kind: str) -> None:
    assert error(task, text) == kind


@pytest.mark.parametrize("task", TASKS)
def test_an_answer_cut_at_the_token_limit_is_malformed(task: Any) -> None:
    assert error(task, json.dumps(TWO), "length") == "cut_answer"


TEXT = "It rained in Ulm.\n\nAnn: So it did: 3 mm."


@pytest.mark.parametrize(
    "around",
    [
        "{}",
        "  {}\n",
        "```\n{}\n```",
        "```markdown\n{}\n```",
        "Here is the document:\n\n{}",
        "**Here's the edited document, with the insight put in:**\n{}",
        "Sure! Here is the text:\n```\n{}\n```",
        "```\nHere is the text:\n{}\n```",
        "<think>Rain or snow?</think>\n{}",
    ],
)
@pytest.mark.parametrize("task", ["document", "chapter", "edit_document"])
def test_wrapping_around_a_text_is_removed(task: Any, around: str) -> None:
    assert read(task, GIVEN, around.format(TEXT)) == TEXT


def test_an_edit_of_a_few_words_is_too_short() -> None:
    document = TEXT * 9
    assert read("edit_document", {**GIVEN, "document": document}, document) == document
    short = read("edit_document", {**GIVEN, "document": document}, "I'm sorry, but I can't do that.")
    assert isinstance(short, Malformed) and short.error == "too_short"


@pytest.mark.parametrize("text", ['["It is late," said Karl. So it was, and it stayed.]', '{"host": "db1"}\nThe node was lost.'])
def test_a_text_that_begins_like_json_is_a_text(text: str) -> None:
    assert read("document", GIVEN, text) == text


@pytest.mark.parametrize("text", ["Here is Ann:\nshe waits.", "Ann: Here is the plan.\nBo: Yes.", "{It} rained.", "[1] rained."])
def test_words_of_a_document_are_not_taken_for_wrapping(text: str) -> None:
    kept = read("document", {**GIVEN, "words": 5}, text)
    assert kept == ("she waits." if text.startswith("Here is Ann:") else text)


@given(st.sampled_from(TASKS), st.text(alphabet='{}[]":,0123 \n`aeinqsubtopcdvrl'))
def test_any_text_gives_a_value_or_malformed(task: Any, text: str) -> None:
    found = read(task, GIVEN, text)
    if isinstance(found, Malformed):
        assert found.error and found.message
    elif task in ("document", "chapter", "edit_document"):
        assert found and found == found.strip()
