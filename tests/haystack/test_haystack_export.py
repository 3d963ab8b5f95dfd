"""A run as released JSON, and back."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from released_files import released_files, small_file

from summhay_ray.haystack import ReleasedFile, export_run, haystack_id_of, imported_rows, read_released
from summhay_ray.haystack.imported import ImportedRows
from summhay_ray.records import Judgment, Ranking, Summary

pytestmark = pytest.mark.core


def imported(raw: dict[str, Any]) -> tuple[ReleasedFile, ImportedRows]:
    released = read_released(json.dumps(raw), "x.json")
    return released, imported_rows(released)


def summary(raw: dict[str, Any], system: str, retriever: str = "full", **changed: Any) -> Summary:
    fields = {"ordering": "given", "model": "m", "repeat": 0, "context_id": "c", "key": "k", "bullets": ("One [1].",)} | changed
    place = {"cell_id": f"{system}{fields['repeat']}", "haystack_id": haystack_id_of(raw), "subtopic_id": "s1"}
    return Summary(**{**place, "system": system, "retriever": retriever, **fields})


def ranking(raw: dict[str, Any], retriever: str, rank: int, number: int, score: float) -> Ranking:
    return Ranking(haystack_id_of(raw), "s1", retriever, rank, number, f"d{number}", score)


def test_a_runs_answers_take_the_place_of_the_files() -> None:
    raw = small_file()
    raw["subtopics"][0]["unknown"] = raw["unknown"] = {"kept": [1]}
    before = copy.deepcopy(raw)
    rankings = [ranking(raw, "released/my/own_one", 1, 3, 0.9), ranking(raw, "released/my/own_one", 2, 1, 0.1)]
    rankings.append(ranking(raw, "full", 1, 1, 0.0))
    summaries = [
        summary(raw, "my/own_one_m", "released/my/own_one"),
        summary(raw, "m", repeat=1, bullets=("Again.",)),
        summary(raw, "m"),
        summary(raw, "none_m", "none"),
        replace(summary(raw, "m"), haystack_id="another"),
    ]
    judgments = [
        Judgment("m0", "j", "i2", 1, "", "PARTIAL_COVERAGE", "[1]"),
        Judgment("m0", "j", "i1", 0, "", "FULL_COVERAGE", '"1"'),
        Judgment("elsewhere", "k", "i1", 0, "", "FULL_COVERAGE", "1"),
    ]
    exported = export_run(raw, summaries, judgments, rankings)
    assert raw == before
    first, second = exported["subtopics"]
    assert first["summaries"] == {
        "summary_subtopic_m": ["One [1]."],
        "summary_subtopic_m#1": ["Again."],
        "summary_subtopic_my/own_one_m": ["One [1]."],
        "summary_subtopic_none_m": ["One [1]."],
    }
    assert first["eval_summaries"] == {
        "summary_subtopic_m": [
            {"coverage": "FULL_COVERAGE", "bullet_id": "1", "insight_id": "i1"},
            {"coverage": "PARTIAL_COVERAGE", "bullet_id": [1], "insight_id": "i2"},
        ]
    }
    assert first["retriever"] == {"my/own_one": {"d1": 0.1, "d3": 0.9}, "none": {}}
    assert (second["summaries"], second["eval_summaries"], second["retriever"]) == ({}, {}, {})
    for one in (exported, raw):
        for subtopic in one["subtopics"]:
            for key in ("summaries", "eval_summaries", "retriever"):
                subtopic.pop(key, None)
    assert exported == raw


def test_one_judge_is_exported() -> None:
    raw = small_file()
    judgments = [Judgment("m0", judge, "i1", 0, "", "FULL_COVERAGE", number) for judge, number in (("a", "1"), ("b", "2"))]
    with pytest.raises(ValueError, match="room for one judge"):
        export_run(raw, [summary(raw, "m")], judgments, [])
    for judge, bullet in (("a", 1), ("b", 2)):
        exported = export_run(raw, [summary(raw, "m")], judgments, [], judge)
        assert exported["subtopics"][0]["eval_summaries"]["summary_subtopic_m"][0]["bullet_id"] == bullet


def test_repeats_and_empty_retrievers_come_back_as_they_were() -> None:
    raw = small_file()
    summaries = [summary(raw, "none_m", "none"), summary(raw, "none_m", "none", repeat=3)]
    _, rows = imported(export_run(raw, summaries, [], []))
    assert [(one.system, one.retriever, one.model, one.repeat) for one in rows.summaries] == [
        ("none_m", "none", "m", 0),
        ("none_m", "none", "m", 3),
    ]


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(released_files())
def test_rows_survive_export_and_import(raw: dict[str, Any]) -> None:
    _, rows = imported(raw)
    exported = export_run(raw, rows.summaries, rows.judgments, [])
    again = imported(exported)[1]
    assert again.failures == ()
    assert sorted((one.subtopic_id, one.system, one.repeat, one.bullets) for one in again.summaries) == sorted(
        (one.subtopic_id, one.system, one.repeat, one.bullets) for one in rows.summaries
    )
    assert sorted((one.insight_id, one.coverage, one.bullet_id) for one in again.judgments) == sorted(
        (one.insight_id, one.coverage, one.bullet_id) for one in rows.judgments
    )
