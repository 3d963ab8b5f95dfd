"""Invalid annotation files are each refused in one line with the place; forms that the release leaves open are read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from annotated import summary, write
from hypothesis import given
from hypothesis import strategies as st

from summhay_ray.errors import UserError
from summhay_ray.judge import Verdict, bench
from summhay_ray.judge.annotations import load_summaries

pytestmark = pytest.mark.core

GOOD = summary([(1.0, 1), (0.0, None)])


def changed(**changes: Any) -> list[dict[str, Any]]:
    return [GOOD, {**GOOD, **changes}]


def annotation(**changes: Any) -> list[dict[str, Any]]:
    return [{**GOOD["annotation"][0], **changes}, GOOD["annotation"][1]]


def insights(**changes: Any) -> list[dict[str, Any]]:
    return [{**GOOD["reference_insights"][0], **changes}, GOOD["reference_insights"][1]]


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ({"summaries": []}, "it holds {"),
        ([], "it holds []"),
        (changed(annotation=[]), "summary 2 of 2: it has no annotation"),
        (changed(annotation=annotation(coverage="maybe")), 'a person\'s coverage is "maybe"; expected not_covered'),
        (changed(annotation=annotation(insight_id="other")), 'insight "other" is annotated, but is not a reference insight'),
        (changed(annotation=[GOOD["annotation"][0]] * 2), 'insight "i0" is annotated twice'),
        (changed(summary="one text"), 'summary is "one text" and no list'),
        ([{name: value for name, value in GOOD.items() if name != "annotation"}], "'annotation' is missing"),
        ([None], "summary 1 of 1: it is null and no object"),
        (changed(reference_insights=[*GOOD["reference_insights"], GOOD["reference_insights"][0]]), '"i0" is listed twice'),
        (changed(reference_insights=insights(insight=None)), 'insight of "i0" is null and no text'),
        (changed(reference_insights=insights(insight=["x"])), 'insight of "i0" is ["x"] and no text'),
        (changed(reference_insights=insights(insight_id=["i0"])), 'an insight_id of reference_insights is ["i0"] and no text'),
        (changed(reference_insights=["i0"]), 'reference_insights holds "i0" and no object'),
        (changed(summary=["one [1].", None]), "a bullet of summary is null and no text"),
        (changed(summary=[3]), "a bullet of summary is 3 and no text"),
        (changed(annotation=annotation(insight_id={})), "an insight_id of annotation is {} and no text"),
        (changed(annotation=annotation(coverage=["x"])), 'a person\'s coverage is ["x"]; expected not_covered'),
        (changed(annotation=[3]), "annotation holds 3 and no object"),
        (changed(topic={"a": 1}), 'topic is {"a": 1} and no text'),
        (changed(summkey=[]), "summkey is [] and no text"),
    ],
)
def test_a_file_of_another_form_is_refused_in_one_line(rows: Any, told: str, tmp_path: Path) -> None:
    with pytest.raises(UserError) as refusal:
        bench.load_summaries(write(tmp_path / "mine.json", rows))
    said = str(refusal.value)
    assert said.startswith("mine.json is not an annotation file: ")
    assert told in said and "\n" not in said


@given(st.binary(max_size=60))
def test_any_bytes_are_refused_in_one_way(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "any.json"
    path.write_bytes(content)
    with pytest.raises(UserError):
        bench.load_summaries(path)


def test_what_names_the_topic_may_differ_from_row_to_row(tmp_path: Path) -> None:
    rows = [{**GOOD, "topic_fn": "data/topic_x.json"}, GOOD, {name: GOOD[name] for name in GOOD if not name.startswith("topic")}]
    del rows[0]["topic_id"]
    found = bench.load_summaries(write(tmp_path / "mine.json", rows))
    assert [one.topic for one in found] == ["ferries", "ferries", ""]


def test_insights_face_judgments_whatever_their_order(tmp_path: Path) -> None:
    row = summary([(1.0, 1), (0.5, 2), (0.0, None)], {"predictions_j": [(1.0, 1), (0.5, 2), (0.0, None)]})
    row["annotation"].reverse()
    row["predictions_j"].reverse()
    [found] = bench.load_summaries(write(tmp_path / "mine.json", [row]))
    assert [insight.insight_id for insight in found.insights] == ["i0", "i1", "i2"]
    assert (found.coverage, found.bullet) == ((1.0, 0.5, 0.0), (1, 2, None))
    assert [one and one.expected for one in found.stored["predictions_j"]] == [1.0, 0.5, 0.0]


def test_an_insight_that_nobody_annotated_is_left_out(tmp_path: Path) -> None:
    row = summary([(1.0, 1), (0.5, 2)])
    row["annotation"].pop(0)
    [found] = bench.load_summaries(write(tmp_path / "mine.json", [row]))
    assert [insight.insight_id for insight in found.insights] == ["i1"]
    assert (found.coverage, found.bullet) == ((0.5,), (2,))


def test_a_stored_prediction_may_have_an_expectation(tmp_path: Path) -> None:
    row = summary([(1.0, 1), (0.0, None)], {"predictions_j": [(1.0, 1), (0.0, None)]})
    row["predictions_j"][0]["value"] = 0.8
    row["predictions_j"][1]["value"] = "high"
    [found] = bench.load_summaries(write(tmp_path / "mine.json", [row]))
    assert [one and one.expected for one in found.stored["predictions_j"]] == [0.8, 0.0]


@pytest.mark.parametrize("value", [7, -0.1, 1.01, True, None, [0.5], float("nan"), float("inf"), 0.2])
def test_a_stored_value_that_is_no_fraction_or_contradicts_its_label_is_not_there(value: Any, tmp_path: Path) -> None:
    row = summary([(1.0, 1)], {"predictions_j": [(1.0, 1)]})
    row["predictions_j"][0] |= {"value": value, "uncertainty": value}
    [found] = bench.load_summaries(write(tmp_path / "mine.json", [row]))
    assert found.stored["predictions_j"] == (Verdict("FULL_COVERAGE", "1"),)


@pytest.mark.parametrize(
    ("again", "kept"),
    [
        ({}, True),
        ({"coverage": "NO_COVERAGE", "bullet_id": "NA"}, False),
        ({"coverage": "?"}, False),
        ({"bullet_id": 2}, False),
        ({"value": 0.8}, False),
    ],
)
def test_a_prediction_given_twice_counts_where_both_are_the_same(again: dict[str, Any], kept: bool, tmp_path: Path) -> None:
    row = summary([(1.0, 1), (0.5, 2)], {"predictions_j": [(1.0, 1), (0.5, 2)]})
    first, other = row["predictions_j"]
    for predictions in ([first, {**first, **again}, other], [{**first, **again}, other, first]):
        path = write(tmp_path / "mine.json", [{**row, "predictions_j": predictions}])
        [found] = bench.load_summaries(path)
        same = Verdict("FULL_COVERAGE", "1") if kept else None
        assert found.stored["predictions_j"] == (same, Verdict("PARTIAL_COVERAGE", "2"))


def test_a_row_without_a_topic_goes_by_its_id(tmp_path: Path) -> None:
    rows = [{**GOOD, "topic": None}, {**GOOD, "topic_id": 7}, {**GOOD, "topic_fn": "data/topic_x.json"}]
    del rows[1]["topic"], rows[2]["topic"], rows[2]["topic_id"]
    found = bench.load_summaries(write(tmp_path / "mine.json", rows))
    assert [one.topic for one in found] == ["t1", "7", "data/topic_x.json"]


@pytest.mark.parametrize("candidate", ["2", "-1", "first", "0,1", [0], 1.5])
def test_a_candidate_that_names_no_bullet_counts_for_coverage_alone(candidate: Any, tmp_path: Path) -> None:
    path = tmp_path / "odd.json"
    path.write_text(json.dumps(changed(annotation=annotation(candidate_id=candidate))), encoding="utf-8")
    good, odd = load_summaries(path)
    assert odd.coverage == good.coverage and odd.bullet[0] is None
