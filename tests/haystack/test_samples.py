"""The sample haystacks keep the benchmark's promise: each insight is in exactly the documents that list it."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import pytest

from summhay_ray.haystack.released import load_sample
from summhay_ray.plugins import UnknownName

pytestmark = pytest.mark.core

NAMES = ["conversation", "news"]
KEYS = {
    "news": {
        "damage-1": r"\b1\.9\b",
        "damage-2": r"\b(?:14|fourteen)\b",
        "damage-3": r"\b3\.2\b",
        "damage-4": r"\bEskel\b",
        "damage-5": r"\b61\b",
        "damage-6": r"\b47\b",
        "costs-1": r"\b38\.5\b",
        "costs-2": r"\b21 million\b",
        "costs-3": r"\bCorvane\b",
        "costs-4": r"\b2,318\b",
        "costs-5": r"\b2\.10\b",
        "costs-6": r"\b12 percent\b",
        "works-1": r"\bLarkhill\b",
        "works-2": r"\b80 centimetres\b",
        "works-3": r"\b(?:6|six) minutes\b",
        "works-4": r"\bthrift\b",
        "works-5": r"\b120\b",
        "service-1": r"\b8 June\b",
        "service-2": r"\b(?:8|eight) minutes\b",
        "service-3": r"\b27,400\b",
        "service-4": r"\b217\b",
        "service-5": r"\bFenwick\b",
    },
    "conversation": {
        "site-1": r"\b180\b",
        "site-2": r"\bsheep\b",
        "site-3": r"\bred\b",
        "site-4": r"\b1,000\b",
        "site-5": r"\bWrenford\b",
        "site-6": r"\b(?:40|forty)\b",
        "programme-1": r"\b1:15\b|quarter past one",
        "programme-2": r"\bTarn Valley\b",
        "programme-3": r"\bQuill\b",
        "programme-4": r"\b(?:24|twenty-four)\b",
        "programme-5": r"\bplanetarium\b",
        "programme-6": r"\bSkelder\b",
        "money-1": r"\b28\b",
        "money-2": r"\bLarch\b",
        "money-3": r"\b110\b",
        "money-4": r"\b640\b",
        "money-5": r"\b215\b",
        "crew-1": r"\b(?:14|fourteen)\b",
        "crew-2": r"\bKelda\b",
        "crew-3": r"\bBatter Days\b",
        "crew-4": r"\bdeposit",
        "crew-5": r"\bscouts\b",
    },
}
"""The number or name that makes each insight specific, as a pattern: no document may use it for anything else."""


@pytest.fixture(params=NAMES)
def sample(request: pytest.FixtureRequest) -> dict[str, Any]:
    return load_sample(request.param)


@pytest.fixture
def insights(sample: dict[str, Any]) -> dict[str, str]:
    """insight_id -> text."""
    return {insight["insight_id"]: insight["insight"] for subtopic in sample["subtopics"] for insight in subtopic["insights"]}


@pytest.fixture
def keys(sample: dict[str, Any]) -> dict[str, str]:
    return KEYS[sample["topic_id"].removeprefix("sample-")]


def contradictions(documents: list[dict[str, Any]], keys: dict[str, str]) -> list[tuple[str, str]]:
    """(document, insight) where the text and `insights_included` disagree."""
    return [
        (document["document_id"], insight_id)
        for document in documents
        for insight_id, key in keys.items()
        if bool(re.search(key, document["document_text"])) != (insight_id in document["insights_included"])
    ]


def test_an_unknown_name_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(UnknownName, match="no sample haystack is named 'new'"):
        load_sample("new")
    with pytest.raises(UnknownName):
        load_sample("../samples")


def test_every_call_returns_a_value_of_its_own() -> None:
    load_sample("news")["documents"].clear()
    assert len(load_sample("news")["documents"]) == 32


def test_a_domain_shows_in_the_metadata() -> None:
    news, conversation = load_sample("news"), load_sample("conversation")
    assert all(document["document_metadata"]["article_source"].endswith(".example") for document in news["documents"])
    assert "participants" not in news["topic_metadata"]
    lines = [line for document in conversation["documents"] for line in document["document_text"].split("\n")]
    speakers = {line.partition(": ")[0] for line in lines}
    assert speakers == set(conversation["topic_metadata"]["participants"])


def test_every_insight_is_in_4_to_9_documents(sample: dict[str, Any], insights: dict[str, str]) -> None:
    found = Counter(insight_id for document in sample["documents"] for insight_id in document["insights_included"])
    assert set(found) == set(insights)
    assert {insight_id: n for insight_id, n in found.items() if not 4 <= n <= 9} == {}


def test_a_document_states_an_insight_exactly_when_it_lists_it(sample: dict[str, Any], keys: dict[str, str]) -> None:
    assert contradictions(sample["documents"], keys) == []
