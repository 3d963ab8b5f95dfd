"""Small annotation files in the release's format, for the tests of `judge-bench`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

WORDS = {0.0: "not_covered", 0.5: "partially_covered", 1.0: "fully_covered"}
LABELS = {0.0: "NO_COVERAGE", 0.5: "PARTIAL_COVERAGE", 1.0: "FULL_COVERAGE"}
People = Sequence[tuple[float, int | None]]
"""Coverage, and the bullet from 1, insight by insight."""

FERRIES = ("The ferry was cancelled eleven times by ice in March.", "Tickets cost 38 euros since May.", "A pier is planned.")
TOLD = ("In March ice cancelled the ferry eleven times [1].", "Since May tickets cost 38 euros [2].")


def judged(insight_id: str, value: float, bullet: Any) -> dict[str, Any]:
    """A stored prediction."""
    return {"insight_id": insight_id, "coverage": LABELS[value], "bullet_id": "NA" if bullet is None else bullet}


def summary(
    people: People, stored: Mapping[str, Sequence[tuple[float, Any]]] | None = None, topic: str = "ferries", **changes: Any
) -> dict[str, Any]:
    """A summary that people annotated. `stored`: key of predictions -> coverage and bullet of each insight."""
    ids = [f"i{place}" for place in range(len(people))]
    texts = [FERRIES[place % len(FERRIES)] for place in range(len(people))]
    annotation = [
        {"insight_id": name, "coverage": WORDS[value], "candidate_id": "no_selection" if bullet is None else str(bullet - 1)}
        for name, (value, bullet) in zip(ids, people, strict=True)
    ]
    row: dict[str, Any] = {
        "topic": topic,
        "topic_id": "t1",
        "subtopic_id": "s1",
        "summkey": "summary_subtopic_vector_gpt-4o",
        "summary": list(TOLD),
        "reference_insights": [{"insight_id": name, "insight": text} for name, text in zip(ids, texts, strict=True)],
        "annotation": annotation,
    }
    for key, verdicts in (stored or {}).items():
        row[key] = [judged(name, *verdict) for name, verdict in zip(ids, verdicts, strict=True)]
    return {**row, **changes}


def write(path: Path, rows: Any) -> Path:
    """The rows as an annotation file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(rows), encoding="utf-8")
    return path
