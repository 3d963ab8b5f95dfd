"""Files that are refused: one line with the file, the path in it, and the expected and the found value."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from released_files import GPT, small_file

from summhay_ray.haystack import InvalidHaystack, read_released
from summhay_ray.haystack.check import MAX_DEPTH, parse

pytestmark = pytest.mark.core

Raw = dict[str, Any]
DELETED = object()


def refusal(source: bytes | str, file: str = "dir/x.json") -> str:
    with pytest.raises(InvalidHaystack) as caught:
        read_released(source, file)
    line = str(caught.value)
    assert line.isprintable()
    assert line.startswith(f"{file}: ")
    return line.removeprefix(f"{file}: ")


def changed(path: list[str | int], value: object) -> Raw:
    raw = small_file()
    place: Any = raw
    for step in path[:-1]:
        place = place[step]
    if value is DELETED:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return raw


S, I, D = ["subtopics", 0], ["subtopics", 0, "insights", 1], ["documents", 1]  # noqa: E741
JUDGED = [*S, "eval_summaries", GPT]


EVALS = "subtopics[0].eval_summaries.summary_subtopic_gpt-4o"
ABSENT = "expected this field, found nothing: it is missing"
IDENTIFIER = "expected an identifier (a string that is not empty), found"
INSIGHT = "subtopics[0].insights[1]"


@pytest.mark.parametrize(
    ("path", "value", "line"),
    [
        (["topic"], DELETED, f"topic: {ABSENT}"),
        (["topic"], 3, "topic: expected a string, found 3"),
        (["topic_metadata"], [1], "topic_metadata: expected an object, found a list"),
        (["subtopics"], [], "subtopics: expected a list of at least one subtopic, found an empty list"),
        (["subtopics", 1], "s", 'subtopics[1]: expected an object, found "s"'),
        ([*S, "subtopic"], None, "subtopics[0].subtopic: expected a string, found null"),
        ([*I, "insight_id"], 5, f"{INSIGHT}.insight_id: {IDENTIFIER} 5"),
        ([*D, "document_id"], "", f'documents[1].document_id: {IDENTIFIER} ""'),
        ([*D, "insights_included"], "i1", 'documents[1].insights_included: expected a list of insight ids, found "i1"'),
        ([*S, "retriever", "my/own_one"], 3, 'subtopics[0].retriever["my/own_one"]: expected an object, found 3'),
        ([*S, "retriever", "keywords", "gone"], "4", 'subtopics[0].retriever.keywords.gone: expected a number, found "4"'),
        ([*S, "retriever", "keywords", "d1"], True, "subtopics[0].retriever.keywords.d1: expected a number, found true"),
        ([*S, "summaries", GPT], "- a", f'subtopics[0].summaries.{GPT}: expected a list of strings, found "- a"'),
        ([*S, "summaries", GPT, 1], None, f"subtopics[0].summaries.{GPT}[1]: expected a string, found null"),
        (JUDGED, {}, f"{EVALS}: expected a list of judgments, found an empty object"),
        ([*JUDGED, 0], "FULL", f'{EVALS}[0]: expected an object, found "FULL"'),
        ([*JUDGED, 1, "coverage"], 1, f"{EVALS}[1].coverage: expected a string, found 1"),
    ],
)
def test_structure(path: list[str | int], value: object, line: str) -> None:
    assert refusal(json.dumps(changed(path, value))) == line


TWICE = "expected a unique id (this one is the same as"
GONE = "expected the id of a document of the file, found"
INCLUDED = "documents[1].insights_included[1]"
SAME = f"expected a unique system ({GPT!r} is the same), found the same system twice"


@pytest.mark.parametrize(
    ("path", "value", "line"),
    [
        ([*I, "insight_id"], "i3", f'subtopics[1].insights[0].insight_id: {TWICE} {INSIGHT}.insight_id), found "i3"'),
        (["subtopics", 1, "subtopic_id"], "s1", f'subtopics[1].subtopic_id: {TWICE} subtopics[0].subtopic_id), found "s1"'),
        ([*D, "document_id"], "d1", f'documents[1].document_id: {TWICE} documents[0].document_id), found "d1"'),
        ([*D, "insights_included", 1], "z", f'{INCLUDED}: expected the id of an insight of some subtopic, found "z"'),
        ([*I, "gold_document_ids"], ["d1", "d9"], f'{INSIGHT}.gold_document_ids[1]: {GONE} "d9"'),
        ([*S, "reference_docs"], [1, 4], "subtopics[0].reference_docs[1]: expected a document's number (1 to 3), found 4"),
        ([*S, "summaries", "gpt-4o"], [], f"subtopics[0].summaries.gpt-4o: {SAME}"),
        ([*JUDGED, 0, "insight_id"], "z", f'{EVALS}[0].insight_id: expected the id of an insight of this subtopic, found "z"'),
    ],
)
def test_references(path: list[str | int], value: object, line: str) -> None:
    assert refusal(json.dumps(changed(path, value))) == line


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("", "line 1, column 1: expected JSON, found none (Expecting value)"),
        ('{"topic": "a",\n "b": }', "line 2, column 7: expected JSON, found none (Expecting value)"),
        ('{"topic": "raw\x00"}', "line 1, column 15: expected JSON, found none (Invalid control character at)"),
        (b'{"topic": "\xff"}', "the file: expected UTF-8 text, found byte 0xff at offset 11"),
        ("[1]", "the file: expected an object, found a list"),
        ('{"topic": NaN}', "topic: expected a number as JSON has them, found NaN"),
        ('{"a": [1, {"b c": -Infinity}]}', 'a[1]["b c"]: expected a number as JSON has them, found -Infinity'),
        ('{"a": 1e999}', "a: expected a number that fits 64 bits, found 1e999"),
        ('{"a": ' + "1" * 5000 + "}", "a: expected a number of fewer digits, found one of 5000"),
        ('{"a": ["\\ud800x"]}', "a[0]: expected whole characters, found the lone surrogate \\ud800"),
        ('{"a": {"\\udfff": 1}}', "a: expected whole characters, found the lone surrogate \\udfff"),
        ('{"a": [{"k": 1, "x": 3, "k": 2}]}', 'a[0]: expected each key once, found "k" twice'),
        ('{"a": ' + "[" * 200 + "]" * 200 + "}", "a" + "[0]" * 99 + ": expected at most 100 levels of nesting, found more"),
        ("[" * 100_000, "the file: expected at most 100 levels of nesting, found more"),
    ],
)
def test_what_is_no_strict_json(source: bytes | str, line: str) -> None:
    assert refusal(source) == line


TEXTS = st.text(max_size=2) | st.sampled_from(["\ud800", "plain \udfff"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
)


def flawed(value: Any, depth: int) -> bool:
    """True if a value, or any value within it, is no strict JSON."""
    if isinstance(value, float):
        return not math.isfinite(value)
    if isinstance(value, str):
        return any("\ud800" <= letter <= "\udfff" for letter in value)
    if not isinstance(value, list | dict):
        return False
    within = [*value, *value.values()] if isinstance(value, dict) else value
    return depth >= MAX_DEPTH or any(flawed(one, depth + 1) for one in within)


@given(VALUES, st.sampled_from([0, 1, MAX_DEPTH - 2, MAX_DEPTH - 1, MAX_DEPTH]))
def test_a_value_is_refused_exactly_if_it_is_not_strict_json(value: Any, deep: int) -> None:
    for _ in range(deep):
        value = [value]
    if flawed(value, 0):
        with pytest.raises(InvalidHaystack):
            parse(json.dumps(value), "x")
    else:
        assert parse(json.dumps(value), "x") == value


def test_surrogate_pairs_and_a_byte_order_mark_are_fine() -> None:
    raw = changed(["topic"], "\U0001f600")
    assert "\\ud83d\\ude00" in json.dumps(raw)
    for content in (json.dumps(raw), ("\ufeff" + json.dumps(raw, ensure_ascii=False)).encode()):
        assert read_released(content, "x").haystack.topic == "\U0001f600"


@given(st.text(max_size=200), st.sampled_from([["topic_id"], ["topic_metadata"], [*S, "retriever"], [*JUDGED]]))
def test_any_found_text_stands_in_one_short_line(text: str, path: list[str | int]) -> None:
    value: Callable[[str], object] = (lambda found: [found]) if path == ["topic_id"] else str
    assert len(refusal(json.dumps(changed(path, value(text))))) < 600
