"""Tables 4 and 5 of Laban et al. (appendix A.1) from labels. Imported from `summhay_ray.synth`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

ALL = "all"


@dataclass(frozen=True, slots=True)
class Assigned:
    """An insight that a person assigned to subtopics (indices from 0). `expected`: its subtopic in the plan."""

    haystack: str
    domain: str
    insight_id: str
    expected: int
    chosen: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Present:
    """An insight that a person looked for in a document. `expected`: whether the haystack says that it is there."""

    haystack: str
    domain: str
    document_id: str
    insight_id: str
    expected: bool
    said: bool


@dataclass(frozen=True, slots=True)
class Labels:
    """A person's labels, in the sheet's order."""

    insights: tuple[Assigned, ...]
    documents: tuple[Present, ...]


def audit_tables(labels: Labels) -> dict[str, list[dict[str, Any]]]:
    """Tables 4 and 5: a row per domain and one for all. Figures in percent; None if the denominator is 0.

    An insight assigned to several subtopics is correct if the expected one is among them, since its query leads to it. A separate
    column has the share of such insights (0.8 % in the paper). Precision: among the insights that the person found in documents,
    the share that the haystack confirms. Recall: among those that the haystack lists, the share that the person found.
    `stated_present`: number of samples that the haystack lists as present. Accuracy, precision and F1 depend on their share (in
    the paper 20 of 70 and 35 of 85, as its recall and accuracy imply).
    """
    domains = sorted({label.domain for label in labels.insights} | {label.domain for label in labels.documents})
    groups = [(domain, [domain]) for domain in domains] + [(ALL, domains)]
    return {
        "insight_subtopic": [
            _table_4(name, [insight for insight in labels.insights if insight.domain in among]) for name, among in groups
        ],
        "document_insight": [
            _table_5(name, [document for document in labels.documents if document.domain in among]) for name, among in groups
        ],
    }


def haystack_tables(labels: Labels) -> dict[str, Any]:
    """Table name -> figures of Tables 4 and 5 for the labels of one haystack; a figure without labels is None."""
    tables = {"insight_subtopic": _table_4(ALL, labels.insights), "document_insight": _table_5(ALL, labels.documents)}
    return {name: {what: figure for what, figure in row.items() if what != "domain"} for name, row in tables.items()}


def by_haystack(labels: Labels) -> dict[str, Labels]:
    """Name of a haystack -> its labels."""
    names = sorted({label.haystack for label in labels.insights} | {label.haystack for label in labels.documents})
    return {
        name: Labels(
            tuple(label for label in labels.insights if label.haystack == name),
            tuple(label for label in labels.documents if label.haystack == name),
        )
        for name in names
    }


def _table_4(domain: str, labels: Sequence[Assigned]) -> dict[str, Any]:
    return {
        "domain": domain,
        "insights_annotated": len(labels),
        "assigned_to_several": _percent(sum(len(label.chosen) > 1 for label in labels), len(labels)),
        "accuracy": _percent(sum(label.expected in label.chosen for label in labels), len(labels)),
    }


def _table_5(domain: str, labels: Sequence[Present]) -> dict[str, Any]:
    both = sum(label.said and label.expected for label in labels)
    said, expected = sum(label.said for label in labels), sum(label.expected for label in labels)
    return {
        "domain": domain,
        "num_samples": len(labels),
        "stated_present": expected,
        "accuracy": _percent(sum(label.said == label.expected for label in labels), len(labels)),
        "precision": _percent(both, said),
        "recall": _percent(both, expected),
        "f1": _percent(2 * both, said + expected),
    }


def _percent(part: int, whole: int) -> float | None:
    return round(100 * part / whole, 2) if whole else None
