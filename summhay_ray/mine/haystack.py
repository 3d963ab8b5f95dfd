"""Converts mined insights to a haystack in the released format."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from summhay_ray.mine.insights import Evidence, Mined
from summhay_ray.mine.reading import Source
from summhay_ray.mine.subtopics import Grouped


def haystack_json(
    sources: Sequence[Source],
    mined: Sequence[Mined],
    grouped: Sequence[Grouped],
    topic: str,
    made: Mapping[str, Any],
    absent: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """Return the haystack in the released format. `made`: how the haystack was made, for its metadata. `absent`: see
    `synth.absent_subtopics`."""
    ids = [short_id(one.text) for one in mined]
    included: dict[int, list[str]] = {}
    for insight_id, one in zip(ids, mined, strict=True):
        for evidence in one.evidence:
            included.setdefault(evidence.document, []).append(insight_id)

    def insight(place: int) -> dict[str, Any]:
        one = mined[place]
        return {
            "insight_id": ids[place],
            "insight": one.text,
            "rank": place + 1,
            "confidence": one.confidence,
            "opposites": [ids[other] for other in one.opposites],
            "evidence": [_shown(sources, evidence) for evidence in one.evidence],
            "doubtful": [_shown(sources, evidence) for evidence in one.doubtful],
        }

    # A sheet names a subtopic by its text: a later one with the same text is named by its query, which only it has.
    texts = [group.text for group in grouped]
    return {
        "topic_id": short_id(topic),
        "topic": topic,
        "topic_metadata": {"domain": "generic", "mine": dict(made)},
        "subtopics": [
            {
                "subtopic_id": short_id(f"{number} {group.text}"),
                "subtopic": group.text if texts.index(group.text) == number else group.query,
                "query": group.query,
                "insights": [insight(place) for place in group.places],
            }
            for number, group in enumerate(grouped)
        ]
        + [dict(one) for one in absent],
        "documents": [
            {"document_id": source.document_id, "document_text": source.text, "insights_included": included.get(place, [])}
            for place, source in enumerate(sources)
        ],
    }


def _shown(sources: Sequence[Source], evidence: Evidence) -> dict[str, Any]:
    shown = {"score": evidence.score, "by": evidence.by, "key": evidence.key, "text": evidence.text}
    return {"document_id": sources[evidence.document].document_id, **shown}


def short_id(text: str) -> str:
    """Return the id of an insight, a subtopic or a topic, computed from its text."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()[:12]


Kept = Mapping[str, Any]
"""An insight in a haystack's JSON."""


def kept_insights(raw: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the insights of a mined haystack by rank."""
    return sorted((one for subtopic in raw["subtopics"] for one in subtopic["insights"]), key=lambda one: int(one["rank"]))
