"""A synthesis writes a released file, with metadata about its making."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest
from synth_world import SMALL, FakeVerifier, World, job

from summhay_ray.haystack import read_released, released_from
from summhay_ray.synth import Difficulty, Topic, TopicRecipe
from summhay_ray.synth.making.asking import Work
from summhay_ray.synth.making.documents import write_documents
from summhay_ray.synth.making.domains import TASKS
from summhay_ray.synth.making.kinds import PlannedHaystack, Written
from summhay_ray.synth.making.outline import make_outline
from summhay_ray.synth.making.placement import place
from summhay_ray.synth.making.synthesis import released_json

pytestmark = pytest.mark.core

HARD = Difficulty(distractors=2, conflicts=2, cross_references=0.5)
TOPIC = Topic("rain-1", "rain", ("Ann", "Bo"))
MODELS: Any = {task: f"lab/{task}" for task in TASKS}


def made(**changes: Any) -> tuple[TopicRecipe, PlannedHaystack, tuple[Written, ...]]:
    async def main() -> tuple[TopicRecipe, PlannedHaystack, tuple[Written, ...]]:
        mine = job(**{"difficulty": HARD, "topic": TOPIC, "shape": replace(SMALL, documents=20, words=250), **changes})
        work = Work(mine, World(faults={"document": 0.2}))
        outline = await make_outline(work, FakeVerifier())
        planned = place(outline, mine.shape, mine.difficulty, mine.domain, 1)
        return mine, outline, await write_documents(work, FakeVerifier(), outline, planned)

    return asyncio.run(main())


def raw_of(models: Any = MODELS, **changes: Any) -> tuple[dict[str, Any], PlannedHaystack, tuple[Written, ...]]:
    mine, outline, written = made(**changes)
    return released_json(mine, outline, written, models, 1234), outline, written


def test_released_json_is_read_without_a_warning_and_survives_json() -> None:
    raw, outline, written = raw_of()
    text = json.dumps(raw, ensure_ascii=False)
    released = read_released(text, "rain-1.json")
    assert released.raw == raw == json.loads(text) and released.warnings == ()
    haystack = released.haystack
    assert (haystack.topic_id, haystack.topic, haystack.domain, haystack.participants) == (
        "rain-1",
        "rain",
        "news",
        ("Ann", "Bo"),
    )
    assert [one.document_id for one in haystack.documents] == [one.planned.document_id for one in written]
    assert [one.query for one in haystack.subtopics] == [one.query for one in outline.subtopics if one.asked]
    assert released_from(json.loads(text), "rain-1.json").haystack == haystack


def test_released_json_has_the_fields_of_the_published_files() -> None:
    raw, _, written = raw_of()
    assert set(raw) == {"topic_id", "topic", "topic_metadata", "subtopics", "documents"}
    fields = {"subtopic_id", "subtopic_name", "subtopic", "query", "insights", "retriever", "summaries", "eval_summaries"}
    for subtopic in raw["subtopics"]:
        assert set(subtopic) == fields
        assert subtopic["retriever"] == subtopic["summaries"] == subtopic["eval_summaries"] == {}
        assert {frozenset(one) for one in subtopic["insights"]} == {frozenset(("insight_id", "insight_name", "insight"))}
    for idx, (document, mine) in enumerate(zip(raw["documents"], written, strict=True)):
        assert set(document) == {"document_id", "document_text", "document_metadata", "insights_included", "idx"}
        assert (document["idx"], document["document_text"]) == (idx, mine.text)


def test_gold_documents_are_those_with_an_insight_of_a_query() -> None:
    raw, outline, written = raw_of()
    gold = released_from(raw, "x.json").haystack.gold
    asked = [one for subtopic in outline.subtopics if subtopic.asked for one in subtopic.insights]
    assert set(gold) == {one.insight_id for one in asked}
    for insight in asked:
        assert gold[insight.insight_id] == {one.planned.number for one in written if insight.text in one.text}
        assert len(gold[insight.insight_id]) >= 5
    for one in asked:
        if one.conflicts_with:
            assert not gold[one.insight_id] & gold[one.conflicts_with]


def test_the_metadata_lists_distractors_and_conflicts() -> None:
    raw, outline, written = raw_of()
    synthesis = raw["topic_metadata"]["synthesis"]
    hidden = [subtopic for subtopic in outline.subtopics if not subtopic.asked]
    assert [one["subtopic"] for one in synthesis["distractors"]] == [one.text for one in hidden] != []
    for told, subtopic in zip(synthesis["distractors"], hidden, strict=True):
        for insight, planned in zip(told["insights"], subtopic.insights, strict=True):
            assert insight["insight"] == planned.text
            assert insight["documents"] == [one.planned.document_id for one in written if planned.text in one.text] != []
    pairs = {frozenset((one.insight_id, one.conflicts_with)) for one in outline.insights if one.conflicts_with}
    assert {frozenset(pair) for pair in synthesis["conflicts"]} == pairs and len(synthesis["conflicts"]) == len(pairs) == 2
