"""Haystacks for the retrievers' tests, made of texts or of the released files."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from summhay_ray.records import Document, Haystack, Insight, Subtopic

MakeHaystack = Callable[..., Haystack]


def built(
    *texts: str,
    query: str = "what of apples",
    subtopic: str = "apples",
    held: Mapping[int, tuple[str, ...]] | None = None,
    released: Mapping[str, Mapping[str, float]] | None = None,
    name: str = "made",
) -> Haystack:
    """Documents d1, d2, ... of `texts`; insights i1, i2, i3 of subtopic s1, with the numbers of their documents."""
    haystack_id = hashlib.sha256(repr((texts, query, subtopic, held, name)).encode("utf-8", "surrogatepass")).hexdigest()
    documents = (
        Document(haystack_id, f"d{number}", number, text, (held or {}).get(number, ())) for number, text in enumerate(texts, 1)
    )
    return Haystack(
        haystack_id=haystack_id,
        name=name,
        topic_id="",
        topic="fruit",
        domain="news",
        participants=(),
        documents=tuple(documents),
        subtopics=(Subtopic(haystack_id, "s1", 0, "", subtopic, query),),
        insights=tuple(Insight(haystack_id, "s1", f"i{place}", place, "", "") for place in (1, 2, 3)),
        released_scores={"s1": released} if released is not None else {},
    )


@pytest.fixture
def make_haystack() -> MakeHaystack:
    return built


def read(path: Path) -> Haystack:
    """The released file as a haystack, with the parts that retrievers read; the haystack room has the real import."""
    source = json.loads(path.read_text(encoding="utf-8"))
    return Haystack(
        haystack_id=hashlib.sha256(path.read_bytes()).hexdigest(),
        name=path.stem,
        topic_id="",
        topic="",
        domain="news",
        participants=(),
        documents=tuple(
            Document("", document["document_id"], number, document["document_text"], tuple(document["insights_included"]))
            for number, document in enumerate(source["documents"], 1)
        ),
        subtopics=tuple(
            Subtopic("", part["subtopic_id"], place, part["subtopic_name"], part["subtopic"], part["query"])
            for place, part in enumerate(source["subtopics"])
        ),
        insights=tuple(
            Insight("", part["subtopic_id"], insight["insight_id"], place, "", insight["insight"])
            for part in source["subtopics"]
            for place, insight in enumerate(part["insights"])
        ),
        released_scores={part["subtopic_id"]: part["retriever"] for part in source["subtopics"]},
    )


@pytest.fixture(scope="session", params=["topic_news1", "topic_news2"])
def released_haystack(request: pytest.FixtureRequest, summhay_data: Path) -> Haystack:
    return read(summhay_data / f"{request.param}.json")
