"""Reads people's annotations from the release's file, and computes linking accuracy (paper, 4.2 and 4.3).

The file is a list of summaries with `topic`, `summary` (bullets), `reference_insights`, `annotation` and, under keys that begin
with `predictions`, the verdicts of LLM judges. Its `candidate_id` is "no_selection", or a string with the number of a bullet
**from 0**. The predictions' `bullet_id` counts from 1. This was checked with the 706 pairs in which both GPT-4o and people name a
bullet: they agree in 625 pairs if `candidate_id` is increased by one, and in 17 if not. Six covered insights have no bullet. They
count for coverage, but not for linking. The topic is in `topic`, else `topic_id`, else `topic_fn`; it may be absent.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from summhay_ray.errors import UserError
from summhay_ray.inputs import read_json
from summhay_ray.judge.base import Verdict
from summhay_ray.judge.prompt import expected_of
from summhay_ray.records import COVERAGE_VALUE, Insight

ANNOTATION_VALUE = {"not_covered": 0.0, "partially_covered": 0.5, "fully_covered": 1.0, **COVERAGE_VALUE}
PREDICTIONS = "predictions"
_TWICE = {"annotation": "is annotated twice", "reference_insights": "is listed twice in reference_insights"}
_NO_BULLET = ("no_selection", "NA", "", None)


@dataclass(frozen=True, slots=True)
class AnnotatedSummary:
    """One annotated summary. `insights` are the annotated ones in reference order; `coverage` and `bullet` are parallel to
    them."""

    topic: str
    system: str
    """The release's name for the system, `summkey`."""
    bullets: tuple[str, ...]
    insights: tuple[Insight, ...]
    coverage: tuple[float, ...]
    bullet: tuple[int | None, ...]
    stored: Mapping[str, tuple[Verdict | None, ...]] = field(repr=False, default_factory=dict)
    """Key of predictions -> verdicts parallel to `insights`. A verdict is None if it is missing or its label is unknown."""


def load_summaries(path: Path) -> list[AnnotatedSummary]:
    """Read the summaries of an annotation file. Raise UserError for an invalid file, OSError for an unreadable one."""
    return read_summaries(read_json(path), path)


def read_summaries(content: bytes, path: Path) -> list[AnnotatedSummary]:
    """Parse the content of an annotation file. Raise UserError, which names `path`, for invalid content."""
    try:
        rows = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise _bad(path, f"it is no JSON ({error})") from error
    if not isinstance(rows, list) or not rows:
        raise _bad(path, f"it holds {_quote(rows)}")
    summaries = []
    for number, row in enumerate(rows, 1):
        try:
            summaries.append(_summary(row))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            reason = f"{error.args[0]!r} is missing" if isinstance(error, KeyError) else str(error)
            raise _bad(path, f"summary {number} of {len(rows)}: {reason}") from error
    return summaries


def linking_accuracy(ours: Sequence[int | None], theirs: Sequence[int | None]) -> tuple[float, int]:
    """Return the share of insights that both sides link to the same bullet, and the number of insights that both sides link
    (section 4.2)."""
    both = [(our, their) for our, their in zip(ours, theirs, strict=True) if our is not None and their is not None]
    return (sum(our == their for our, their in both) / len(both) if both else 0.0), len(both)


def linked_bullet(verdict: Verdict) -> int | None:
    """Return the bullet (from 1) to which a verdict links a covered insight. Return None for "NA" or a list of several bullets
    (Table 1)."""
    if verdict.coverage == "NO_COVERAGE":
        return None
    try:
        bullet = json.loads(verdict.bullet_id)
    except ValueError:
        return None
    if isinstance(bullet, str) and bullet.isascii() and bullet.isdecimal() and len(bullet) < 10:
        bullet = int(bullet)
    return bullet if isinstance(bullet, int) and not isinstance(bullet, bool) else None


def _bad(path: Path, reason: str) -> UserError:
    form = "expected a list of summaries with summary, reference_insights and annotation, as the release has them"
    return UserError(f"{path.name} is not an annotation file: {' '.join(reason.split())}; {form}")


def _summary(row: Any) -> AnnotatedSummary:
    if not isinstance(row, Mapping):
        raise ValueError(f"it is {_quote(row)} and no object")
    bullets = tuple(_list_in(row, "summary"))
    if odd := [bullet for bullet in bullets if not isinstance(bullet, str)]:
        raise ValueError(f"a bullet of summary is {_quote(odd[0])} and no text")
    texts = {name: insight["insight"] for name, insight in _by_insight(row, "reference_insights").items()}
    if wrong := [name for name, text in texts.items() if not isinstance(text, str)]:
        raise ValueError(f"insight of {_quote(wrong[0])} is {_quote(texts[wrong[0]])} and no text")
    people = {name: _person(judged, len(bullets)) for name, judged in _by_insight(row, "annotation").items()}
    if not people:
        raise ValueError("it has no annotation")
    if unknown := [name for name in people if name not in texts]:
        raise ValueError(f"insight {_quote(unknown[0])} is annotated, but is not a reference insight")
    names = [name for name in texts if name in people]
    topic = _optional_name(row, "topic") or _optional_name(row, "topic_id") or _optional_name(row, "topic_fn")
    subtopic = _optional_name(row, "subtopic_id")
    return AnnotatedSummary(
        topic=topic,
        system=_optional_name(row, "summkey"),
        bullets=bullets,
        insights=tuple(Insight("", subtopic, str(name), place, "", texts[name]) for place, name in enumerate(names)),
        coverage=tuple(people[name][0] for name in names),
        bullet=tuple(people[name][1] for name in names),
        stored={key: _stored(row[key], names) for key in row if key.startswith(PREDICTIONS) and isinstance(row[key], list)},
    )


def _list_in(row: Mapping[str, Any], name: str) -> list[Any]:
    if not isinstance(row[name], list):
        raise ValueError(f"{name} is {_quote(row[name])} and no list")
    return list(row[name])


def _by_insight(row: Mapping[str, Any], name: str) -> dict[str | int, Mapping[str, Any]]:
    """Return the objects of a list by their insight_id."""
    entries: dict[str | int, Mapping[str, Any]] = {}
    for entry in _list_in(row, name):
        if not isinstance(entry, Mapping):
            raise ValueError(f"{name} holds {_quote(entry)} and no object")
        insight = entry["insight_id"]
        if not isinstance(insight, str | int):
            raise ValueError(f"an insight_id of {name} is {_quote(insight)} and no text or number")
        if insight in entries:
            raise ValueError(f"insight {_quote(insight)} {_TWICE[name]}")
        entries[insight] = entry
    return entries


def _optional_name(row: Mapping[str, Any], name: str) -> str:
    """Return an optional name from a row, or an empty string if it is absent."""
    value = row.get(name)
    if value is not None and not isinstance(value, str | int):
        raise ValueError(f"{name} is {_quote(value)} and no text or number")
    return "" if value is None else str(value)


def _person(judged: Mapping[str, Any], n_bullets: int) -> tuple[float, int | None]:
    """Return a person's coverage value and bullet (from 1)."""
    if not isinstance(judged["coverage"], str) or judged["coverage"] not in ANNOTATION_VALUE:
        known = ", ".join(name for name in ANNOTATION_VALUE if name not in COVERAGE_VALUE)
        raise ValueError(f"a person's coverage is {_quote(judged['coverage'])}; expected {known}")
    coverage, candidate = ANNOTATION_VALUE[judged["coverage"]], judged["candidate_id"]
    if not coverage or candidate in _NO_BULLET:
        return coverage, None
    # A candidate that does not name one bullet is treated like "no_selection": it counts for coverage, not for linking.
    number = str(candidate).strip()
    place = int(number) if number.isascii() and number.isdecimal() and len(number) < 10 else n_bullets
    return coverage, place + 1 if place < n_bullets else None


def _stored(verdicts: Sequence[Any], names: Sequence[Any]) -> tuple[Verdict | None, ...]:
    """Return the verdict for each name, or None if no prediction is readable or several differ. None counts as a failure of this
    judge only."""
    said: dict[str, set[Verdict | None]] = {}
    for entry in verdicts:
        if not isinstance(entry, Mapping):
            continue
        coverage, verdict = entry.get("coverage"), None
        if isinstance(coverage, str) and coverage in COVERAGE_VALUE:
            # As in a judge's answer, ignore a value that is outside 0..1 or contradicts the label.
            verdict = Verdict(coverage, json.dumps(entry.get("bullet_id")), expected_of(entry.get("value"), coverage))
        said.setdefault(str(entry.get("insight_id")), set()).add(verdict)
    votes = (said.get(str(name), set()) for name in names)
    return tuple(next(iter(verdicts)) if len(verdicts) == 1 else None for verdicts in votes)


def _quote(value: Any) -> str:
    return json.dumps(value, default=str)[:60]
