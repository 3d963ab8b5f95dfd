"""Part of the synth room, for the room alone: the checks of one haystack as rows, in an order that no call's duration changes."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from summhay_ray.records import Check
from summhay_ray.synth.kinds import Verdict

OFFLINE = "offline"
"""Who checked, where no model was asked."""

UNSHOWN = "not the text's words: "
"""Before what a model gave as evidence that the text does not hold."""

_STAGE = {
    "subtopic_distinct": 0,
    "insight_specific": 1,
    "subtopic_leak": 1,
    "insight_conflict": 1,
    "insight_distinct": 1,
    "insight_subtopic": 1,
    "query_leak": 2,
    "chapter_insight": 3,
    "document_insight": 3,
    "document_reference": 3,
    "document_copy": 4,
}
_BY_SUBJECT = ("query_leak", "chapter_insight", "document_insight", "document_reference")
"""Kinds whose rows are kept together by what is checked: several of them are checked at one time."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What becomes a row. `said`: what was found, where it is an id."""

    found: bool
    score: float
    evidence: str = ""
    by: str = OFFLINE
    key: str = ""
    said: str = ""


@dataclass(frozen=True, slots=True)
class Told:
    """What a model said: place -> its words, for those that it named; nothing where none was asked."""

    asked: frozenset[int] = frozenset()
    named: Mapping[int, str] = field(default_factory=dict)
    by: str = OFFLINE
    key: str = ""
    unshown: Mapping[int, str] = field(default_factory=dict)
    """Named, too, but with words that the text does not have: they count nothing, and stand in the row."""


def decisions(verdicts: Sequence[Verdict], told: Told) -> list[Decision]:
    """What was found, in the verdicts' order: the model's word for what it was asked about, else the verdict's."""
    found = []
    for place, verdict in enumerate(verdicts):
        if place in told.asked:
            unshown = f"{UNSHOWN}{told.unshown[place]}" if place in told.unshown else ""
            found.append(Decision(place in told.named, verdict.score, told.named.get(place, unshown), told.by, told.key))
        else:
            found.append(Decision(verdict.found, verdict.score, verdict.evidence if verdict.found else ""))
    return found


class CheckRows:
    """Takes the checks of one haystack and gives them in order."""

    def __init__(self, cell_id: str) -> None:
        self._cell_id = cell_id
        self._rows: defaultdict[tuple[int, str], list[Check]] = defaultdict(list)

    def ordered(self) -> tuple[Check, ...]:
        """All checks so far, numbered: by stage, then by document or query, then as made."""
        groups = sorted(self._rows, key=lambda group: (group[0], _natural(group[1])))
        rows = (row for group in groups for row in self._rows[group])
        return tuple(replace(row, position=position) for position, row in enumerate(rows))

    def repeat(self, kind: str, subject: str, round: int, last: int) -> None:
        """Add the rows of a round of one subject once more, as those of its last round."""
        rows = self._rows[_STAGE[kind], subject]
        rows += [replace(row, round=last) for row in rows if (row.kind, row.round) == (kind, round)]

    def add(self, kind: str, round: int, ids: tuple[str, str], expected: str, decision: Decision) -> None:
        """One more check. `ids`: what is checked, and what it is held against."""
        row = Check(
            cell_id=self._cell_id,
            position=0,
            kind=kind,
            round=round,
            subject=ids[0],
            object=ids[1],
            expected=expected,
            found=decision.said or ("yes" if decision.found else "no"),
            by=decision.by,
            score=decision.score,
            evidence=decision.evidence,
            key=decision.key,
        )
        self._rows[_STAGE[kind], ids[0] if kind in _BY_SUBJECT else ""].append(row)


def _natural(name: str) -> tuple[tuple[int, int, str], ...]:
    """d2 before d10."""
    parts = re.findall(r"[0-9]+|[^0-9]+", name)
    return tuple((0, int(part), "") if part[0] in "0123456789" else (1, 0, part) for part in parts)
