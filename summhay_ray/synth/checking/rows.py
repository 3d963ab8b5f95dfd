"""Collects the rows of one haystack's checks, in an order that does not depend on timing."""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from summhay_ray.records import Check
from summhay_ray.synth.making.kinds import Finding

OFFLINE = "offline"
"""The value of `Check.by` if no model was asked."""

UNSHOWN = "not the text's words: "
"""Prefix of a model's evidence that is not in the text."""

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
"""Kinds whose rows are grouped by subject, because several subjects are checked concurrently."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The outcome of a check, as its row shows it. `said`: replaces yes or no in `Check.found`, for example by an id."""

    found: bool
    score: float
    evidence: str = ""
    by: str = OFFLINE
    key: str = ""
    said: str = ""


@dataclass(frozen=True, slots=True)
class ModelAnswer:
    """A model's answer about a list of findings, by index; empty if no model was asked."""

    asked: frozenset[int] = frozenset()
    """The findings about which the model was asked."""
    named: Mapping[int, str] = field(default_factory=dict)
    """The findings that the model confirms, with its evidence."""
    by: str = OFFLINE
    key: str = ""
    unshown: Mapping[int, str] = field(default_factory=dict)
    """Confirmed findings whose evidence is not in the text. They count as not found, but the row keeps the evidence."""


def decisions(findings: Sequence[Finding], answer: ModelAnswer) -> list[Decision]:
    """Return the decisions in the order of the findings: the model's decision if it was asked, else the finding's."""
    decided = []
    for place, finding in enumerate(findings):
        if place in answer.asked:
            unshown = f"{UNSHOWN}{answer.unshown[place]}" if place in answer.unshown else ""
            evidence = answer.named.get(place, unshown)
            decided.append(Decision(place in answer.named, finding.score, evidence, answer.by, answer.key))
        else:
            decided.append(Decision(finding.found, finding.score, finding.evidence if finding.found else ""))
    return decided


@dataclass
class CheckRows:
    """Collects the checks of one haystack and returns them in order."""

    cell_id: str
    _rows: defaultdict[tuple[int, str], list[Check]] = field(default_factory=partial(defaultdict, list), init=False)

    @property
    def checks(self) -> tuple[Check, ...]:
        """All checks so far, numbered by stage, then by document or query, then in the order made. So the order does not depend
        on timing."""
        groups = sorted(self._rows, key=lambda group: (group[0], _natural(group[1])))
        rows = (row for group in groups for row in self._rows[group])
        return tuple(replace(row, position=position) for position, row in enumerate(rows))

    def repeat(self, kind: str, subject: str, round: int, last: int) -> None:
        """Copy a subject's rows of this kind and round, as rows of its last round."""
        rows = self._rows[_STAGE[kind], subject]
        rows += [replace(row, round=last) for row in rows if (row.kind, row.round) == (kind, round)]

    def add(self, kind: str, round: int, ids: tuple[str, str], expected: str, decision: Decision) -> None:
        row = Check(
            cell_id=self.cell_id,
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
    """Return a sort key that puts d2 before d10."""
    parts = re.findall(r"[0-9]+|[^0-9]+", name)
    return tuple((0, int(part), "") if part[0] in "0123456789" else (1, 0, part) for part in parts)
