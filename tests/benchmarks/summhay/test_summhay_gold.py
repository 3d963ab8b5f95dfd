"""The gold documents of insights and queries, as columns."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from inline_runs import answered

from summhay_ray.benchmarks.summhay.haystacks.metadata import HaystackMetadata, gold_by_insight, gold_by_query, metadata_of
from summhay_ray.haystack import ReleasedFile, load_sample, read_released

pytestmark = pytest.mark.core


def source(name: str) -> ReleasedFile:
    return read_released(json.dumps(load_sample(name)), f"{name}.json")


def without(file: ReleasedFile, *insights: str) -> HaystackMetadata:
    """The metadata of a haystack in which no document contains these insights."""
    metadata = metadata_of(file).to_json()
    metadata["packed"]["gold"].update(dict.fromkeys(insights, []))
    return HaystackMetadata.from_json(metadata)


def test_every_insight_has_its_documents() -> None:
    sources = [source("news"), source("conversation")]
    expected = [
        (one.haystack.haystack_id, insight, sorted(documents))
        for one in sources
        for insight, documents in one.haystack.gold.items()
    ]
    assert gold_by_insight([metadata_of(one) for one in sources]).rows() == expected
    assert gold_by_insight([]).rows() == []


def test_a_query_has_the_documents_of_all_its_insights(tmp_path: Path) -> None:
    news = source("news")
    haystack = news.haystack
    _, run = answered(tmp_path, haystacks=["sample/news"])
    first, second = (haystack.insights_of(subtopic.subtopic_id) for subtopic in haystack.subtopics[:2])
    # No document has any of the first query's insights, or one of the second query's.
    lost = {*(one.insight_id for one in first), second[0].insight_id}
    gold = {(row[0], row[1]): row[2] for row in gold_by_query(run, [without(news, *lost)]).iter_rows()}
    assert gold.keys() == {(haystack.haystack_id, subtopic.subtopic_id) for subtopic in haystack.subtopics}
    for subtopic in haystack.subtopics:
        kept = [one.insight_id for one in haystack.insights_of(subtopic.subtopic_id) if one.insight_id not in lost]
        documents = sorted(set().union(*(haystack.gold[insight] for insight in kept)))
        assert gold[haystack.haystack_id, subtopic.subtopic_id] == documents
