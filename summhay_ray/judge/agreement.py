"""Part of the judge room, for the room alone: how well a judge agrees with people (paper, sections 4.2 and 4.3, Table 1).

The annotation file is the release's: a list of summaries with `topic`, `summary` (bullets), `reference_insights` and
`annotation`. Its `candidate_id` is a string that counts bullets **from 0**, or is "no_selection"; the judges' predictions
beside it count `bullet_id` from 1: where GPT-4o and people both say covered and name a bullet, 625 of 706 pairs agree when one
is added, and 17 when not. Six covered insights have no bullet: they count for coverage, not for linking.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from summhay_ray.records import COVERAGE_VALUE

ANNOTATION_VALUE = {"not_covered": 0.0, "partially_covered": 0.5, "fully_covered": 1.0, **COVERAGE_VALUE}


@dataclass(frozen=True, slots=True)
class Annotated:
    """One insight, a summary's bullets, and what a person (or a stored judge) said of the two."""

    topic: str
    insight: str
    bullets: tuple[str, ...]
    coverage: float
    """0, 0.5 or 1."""
    bullet: int | None
    """The bullet that covers the insight, from 1; None where it is not covered or none was named."""


def load_annotations(path: Path) -> list[Annotated]:
    """People's judgments of an annotation file. Raises ValueError, in one line, for a file of another form."""
    try:
        summaries = json.loads(path.read_text(encoding="utf-8"))
        return [pair for summary in summaries for pair in _annotated(summary)]
    except (ValueError, KeyError, TypeError) as error:
        message = f"{path.name} is not an annotation file ({type(error).__name__}: {error})"
        raise ValueError(f"{message}; expected a list of summaries with reference_insights and annotation") from error


def load_released(path: Path) -> list[Annotated]:
    """The judgments that a released haystack stores (GPT-4o's, `eval_summaries`), as if people had made them."""
    haystack = json.loads(path.read_text(encoding="utf-8"))
    pairs = []
    for subtopic in haystack["subtopics"]:
        texts = {insight["insight_id"]: insight["insight"] for insight in subtopic["insights"]}
        for system, verdicts in subtopic.get("eval_summaries", {}).items():
            bullets = tuple(subtopic["summaries"][system])
            for verdict in verdicts:
                bullet = verdict["bullet_id"] if isinstance(verdict["bullet_id"], int) else None
                coverage = COVERAGE_VALUE[verdict["coverage"]]
                pairs.append(Annotated(path.stem, texts[verdict["insight_id"]], bullets, coverage, bullet if coverage else None))
    return pairs


def correlation(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """Pearson correlation over insights (Table 1, "Cov. Corr."); 0 where either side says the same of all."""
    try:
        return statistics.correlation(ours, theirs)
    except statistics.StatisticsError:
        return 0.0


def linking_accuracy(ours: Sequence[int | None], theirs: Sequence[int | None]) -> tuple[float, int]:
    """Of the insights that both sides link to a bullet, the share linked to the same one, and their number (section 4.2)."""
    both = [(our, their) for our, their in zip(ours, theirs, strict=True) if our is not None and their is not None]
    return (sum(our == their for our, their in both) / len(both) if both else 0.0), len(both)


def _annotated(summary: dict[str, Any]) -> list[Annotated]:
    texts = {insight["insight_id"]: insight["insight"] for insight in summary["reference_insights"]}
    bullets = tuple(summary["summary"])
    pairs = []
    for judged in summary["annotation"]:
        coverage = ANNOTATION_VALUE[judged["coverage"]]
        candidate = judged["candidate_id"]
        bullet = int(candidate) + 1 if coverage and candidate != "no_selection" else None
        pairs.append(Annotated(summary["topic"], texts[judged["insight_id"]], bullets, coverage, bullet))
    return pairs
