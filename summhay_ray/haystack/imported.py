"""Converts the summaries and judgments of a released file to rows."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from summhay_ray.haystack.identity import System, imported_cell_id, parse_system
from summhay_ray.haystack.released import ReleasedFile
from summhay_ray.records import Failure, Judgment, Summary

RELEASED_JUDGE = "released"
"""The judge of imported judgments. The files do not name the judge."""

_COVERAGE = {"fully_covered": "FULL_COVERAGE", "partially_covered": "PARTIAL_COVERAGE", "not_covered": "NO_COVERAGE"}


@dataclass(frozen=True, slots=True)
class ImportedRows:
    """The rows of one file. If the file judges a summary that it does not contain, each judgment of it is a failure."""

    summaries: tuple[Summary, ...]
    judgments: tuple[Judgment, ...]
    failures: tuple[Failure, ...]


def imported_rows(released: ReleasedFile) -> ImportedRows:
    """Return one row per summary and one per judgment, in the file's order.

    Labels in the annotators' form (fully_covered; candidate_id, which counts lines from 0; no_selection) are converted to the
    judges' form (FULL_COVERAGE; bullet_id, from 1; NA).
    """
    rows: list[Summary | Judgment | Failure] = []
    for subtopic in released.raw["subtopics"]:
        summaries = subtopic.get("summaries") or {}
        keys = [*summaries, *(key for key in subtopic.get("eval_summaries") or {} if key not in summaries)]
        for key in keys:
            system = parse_system(key, released.retrievers)
            rows += _rows_of_cell(released.haystack.haystack_id, subtopic, key, system)
    return ImportedRows(
        summaries=tuple(row for row in rows if isinstance(row, Summary)),
        judgments=tuple(row for row in rows if isinstance(row, Judgment)),
        failures=tuple(row for row in rows if isinstance(row, Failure)),
    )


def _rows_of_cell(
    haystack_id: str, subtopic: Mapping[str, Any], key: str, system: System
) -> Iterator[Summary | Judgment | Failure]:
    named = (system.retriever, system.ordering, system.model, system.repeat)
    cell_id = imported_cell_id(haystack_id, subtopic["subtopic_id"], *named)
    bullets = (subtopic.get("summaries") or {}).get(key)
    if bullets is not None:
        yield Summary(
            cell_id=cell_id,
            haystack_id=haystack_id,
            subtopic_id=subtopic["subtopic_id"],
            **asdict(system),
            context_id="",
            key="",
            bullets=tuple(bullets),
        )
    for position, judged in enumerate((subtopic.get("eval_summaries") or {}).get(key, [])):
        if bullets is None:
            yield Failure(
                cell_id=cell_id,
                stage="judge",
                judge=RELEASED_JUDGE,
                insight_id=judged["insight_id"],
                kind="malformed",
                error="summary_missing",
                message=f"eval_summaries judges {ascii(key)}, but summaries does not have it (judgment {position + 1})",
                key="",
                attempts=0,
                usd_micros=0,
            )
            continue
        yield Judgment(
            cell_id=cell_id,
            judge=RELEASED_JUDGE,
            insight_id=judged["insight_id"],
            position=position,
            key="",
            coverage=_COVERAGE.get(judged["coverage"], judged["coverage"]),
            bullet_id=_bullet_id(judged),
        )


def _bullet_id(judged: Mapping[str, Any]) -> str:
    """Return the bullet that a judgment names, as JSON, or an empty string if the judgment has no such field."""
    if "bullet_id" in judged:
        return json.dumps(judged["bullet_id"])
    if "candidate_id" not in judged:
        return ""
    candidate = judged["candidate_id"]
    if candidate == "no_selection":
        return json.dumps("NA")
    line = int(candidate) if isinstance(candidate, str) and candidate.isdecimal() and len(candidate) < 10 else candidate
    return json.dumps(line + 1 if isinstance(line, int) and not isinstance(line, bool) else line)
