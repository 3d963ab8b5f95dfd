"""Writes a haystack as released JSON, with the settings that made it.

The format is that of the paper's published data, which `summhay_ray.haystack` reads; `topic_metadata.synthesis` is our addition.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from summhay_ray.synth.absent import absent_subtopics
from summhay_ray.synth.making.asking import GROUP_OF, TopicRecipe
from summhay_ray.synth.making.kinds import PlannedHaystack, PlannedInsight, PlannedSubtopic, Task, Written
from summhay_ray.text import text_hash

OFFLINE = "offline/"
_MANNER = ("genre", "tone", "language", "method", "tries", "rounds", "outline_rounds")
"""Fields of the domain, besides its prompts, that determine texts."""


def released_json(
    recipe: TopicRecipe,
    outline: PlannedHaystack,
    written: Sequence[Written],
    models: Mapping[Task, str],
    usd_micros: int,
    absent: Sequence[str] = (),
) -> dict[str, Any]:
    """The haystack as released JSON. `models`: the model of each task, or empty; `usd_micros`: the cost of all answers; `absent`:
    subjects that no document mentions.

    Distracting subtopics and their insights, with the documents that contain them, are in `topic_metadata.synthesis.distractors`
    only: no query asks for them, so they make no document relevant.
    """
    asked = [subtopic for subtopic in outline.subtopics if subtopic.asked]
    asked_ids = {insight.insight_id for subtopic in asked for insight in subtopic.insights}
    writer = models["chapter" if recipe.domain.method == "chapters" else "document"]
    document_ids = {document.planned.number: document.planned.document_id for document in written}
    return {
        "topic_id": recipe.topic.name,
        "topic": recipe.topic.topic,
        "topic_metadata": {
            "domain": recipe.domain.name,
            "participants": recipe.participants,
            "synthesis": _synthesis(recipe, outline, written, models, usd_micros),
        },
        "subtopics": [*map(_subtopic, asked), *absent_subtopics(absent, [(one.text, one.query) for one in asked])],
        "documents": [
            {
                "document_id": document.planned.document_id,
                "document_text": document.text,
                "document_metadata": {
                    "writer": writer,
                    "date": document.planned.date,
                    "refers_to": [document_ids[number] for number in document.planned.refers_to],
                    "corrections": document.corrections,
                },
                "insights_included": [insight_id for insight_id in document.planned.insight_ids if insight_id in asked_ids],
                "idx": place,
            }
            for place, document in enumerate(written)
        ],
    }


def _synthesis(
    recipe: TopicRecipe, outline: PlannedHaystack, written: Sequence[Written], models: Mapping[Task, str], usd_micros: int
) -> dict[str, Any]:
    return {
        "seed": recipe.seed,
        "manner": {name: getattr(recipe.domain, name) for name in _MANNER},
        "context": [text_hash(text) for text in recipe.topic.context],
        "shape": asdict(recipe.shape),
        "difficulty": asdict(recipe.difficulty),
        "models": {
            group: next(models[task] for task in models if GROUP_OF[task] == group) for group in dict.fromkeys(GROUP_OF.values())
        },
        "prompts": recipe.domain.hashes(),
        "usd_micros": usd_micros,
        "offline_writer": any(models[task].startswith(OFFLINE) for task in models if GROUP_OF[task] == "write"),
        "corrections": sum(document.corrections for document in written),
        "conflicts": [
            [insight.insight_id, insight.conflicts_with] for insight in outline.insights if _first_side(insight, outline)
        ],
        "distractors": [
            {
                **_named(subtopic),
                "insights": [{**_insight(insight), "documents": _holders(insight, written)} for insight in subtopic.insights],
            }
            for subtopic in outline.subtopics
            if not subtopic.asked
        ],
        # Comes last, because it may replace model names by fuller descriptions.
        **recipe.metadata,
    }


def _first_side(insight: PlannedInsight, outline: PlannedHaystack) -> bool:
    """Whether the insight is the earlier side of a conflict."""
    order = [insight.insight_id for insight in outline.insights]
    other = insight.conflicts_with
    return other in order and order.index(insight.insight_id) < order.index(other)


def _holders(insight: PlannedInsight, written: Sequence[Written]) -> list[str]:
    return [document.planned.document_id for document in written if insight.insight_id in document.planned.insight_ids]


def _subtopic(subtopic: PlannedSubtopic) -> dict[str, Any]:
    return {
        **_named(subtopic),
        "query": subtopic.query,
        "insights": [_insight(insight) for insight in subtopic.insights],
        "retriever": {},
        "summaries": {},
        "eval_summaries": {},
    }


def _named(subtopic: PlannedSubtopic) -> dict[str, Any]:
    return {"subtopic_id": subtopic.subtopic_id, "subtopic_name": subtopic.name, "subtopic": subtopic.text}


def _insight(insight: PlannedInsight) -> dict[str, Any]:
    return {"insight_id": insight.insight_id, "insight_name": insight.name, "insight": insight.text}
