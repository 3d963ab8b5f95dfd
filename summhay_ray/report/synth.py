"""Tables of a synthesis: its haystacks, what it will ask, and its audit. Part of the report room; prints nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from summhay_ray.grid import FailedTopic, MadeHaystack, VerifiedFile
from summhay_ray.report.tables import Grid2D

_MADE = ("Haystack", "Domain", "Documents", "Subtopics", "Insights", "Tokens", "Checks", "by model", "Corrections", "Dollars")
_FAILED = ("Topic", "Stage", "Error", "Dollars", "Message")
_BOUNDS = ("Stage", "Model", "Calls", "Input tokens", "Output tokens", "Dollars")
_ASSIGNED = ("Domain", "Insights annotated", "Assigned to 2+ subtopics (%)", "Accuracy (%)")
_PRESENT = ("Domain", "Samples", "Accuracy", "Precision", "Recall", "F1")
_KINDS = ("Check", "Checks", "As stated", "Otherwise", "Surely")
_OTHERWISE = ("Sure", "Check", "Of", "Against", "Stated", "Found", "Score", "Text")
_LETTERS = 100
VERIFIED_LEGEND = (
    "Otherwise: found otherwise than the file says; surely: so that no model need be asked. The rest is open: words alone do "
    "not see all paraphrases."
)
MOST_ROWS = 40
"""A table of more haystacks says how many more there are."""


def made_table(made: Sequence[MadeHaystack]) -> Grid2D:
    """The haystacks that a synthesis made, a row each, and their sum."""
    rows = [
        (
            one.name,
            one.domain,
            *(f"{number:,}" for number in (one.documents, one.subtopics, one.insights, one.tokens, one.checks)),
            *(f"{number:,}" for number in (one.checks_by_model, one.corrections)),
            f"{one.usd:.4f}",
        )
        for one in made[:MOST_ROWS]
    ]
    names = ("documents", "subtopics", "insights", "tokens", "checks", "checks_by_model", "corrections")
    total = (f"all {len(made)}", "", *(f"{sum(getattr(one, name) for one in made):,}" for name in names))
    return Grid2D("Haystacks", _MADE, (*rows, (*total, f"{sum(one.usd for one in made):.4f}")), heads=2)


def failed_table(failed: Sequence[FailedTopic]) -> Grid2D:
    """The topics that gave no haystack, a row each."""
    rows = tuple((one.name, one.stage, one.error, f"{one.usd:.4f}", one.message) for one in failed[:MOST_ROWS])
    return Grid2D(f"Topics without a haystack: {len(failed)}", _FAILED, rows, heads=3)


def bounds_table(stages: Sequence[Mapping[str, Any]]) -> Grid2D:
    """Calls, tokens and dollars of a synthesis at least, expected and at most, from the `stages` of its plan."""

    def between(stage: Mapping[str, Any], name: str) -> str:
        return f"{stage[f'min_{name}']:,} / {stage[name]:,} / {stage[f'max_{name}']:,}"

    rows = tuple(
        (
            stage["stage"],
            stage["model"],
            *(between(stage, name) for name in ("calls", "input_tokens", "output_tokens")),
            f"{stage['usd_min']:.4f} / {stage['usd']:.4f} / {stage['usd_max']:.4f}",
        )
        for stage in stages
    )
    return Grid2D("To come, at least / expected / at most", _BOUNDS, rows, heads=2)


def audit_tables(found: Mapping[str, Any]) -> list[Grid2D]:
    """What a person's labels say, as the paper's Table 4 and Table 5, in per cent; `-` where there is nothing to divide."""
    assigned = [(row["insights_annotated"], row["assigned_to_several"], row["accuracy"]) for row in found["insight_subtopic"]]
    names = ("accuracy", "precision", "recall", "f1")
    present = [(row["num_samples"], *(row[name] for name in names)) for row in found["document_insight"]]
    return [
        _audit("Insights and their subtopics (Table 4)", _ASSIGNED, found["insight_subtopic"], assigned),
        _audit("Insights in documents (Table 5)", _PRESENT, found["document_insight"], present),
    ]


def verified_table(verified: VerifiedFile) -> Grid2D:
    """The checks of a haystack file by kind."""
    counts = tuple(
        (row["kind"], *(f"{row[name]:,}" for name in ("checks", "as_stated", "otherwise", "surely"))) for row in verified.kinds()
    )
    return Grid2D("Checks without a model", _KINDS, counts)


def otherwise_table(verified: VerifiedFile) -> Grid2D:
    """The checks that find something else than the file says, the sure ones first."""
    otherwise = verified.otherwise
    rows = tuple(
        (
            "yes" if row["sure"] else "open",
            *(str(row[name]) for name in ("kind", "subject", "object", "expected", "found")),
            f"{row['score']:.2f}",
            _shortened(row["evidence"] if row["kind"].startswith("document_") and row["evidence"] else row["text"]),
        )
        for row in otherwise[:MOST_ROWS]
    )
    more = f", the first {MOST_ROWS}" if len(otherwise) > MOST_ROWS else ""
    return Grid2D(f"Otherwise than stated: {len(otherwise):,}{more}", _OTHERWISE, rows, heads=8)


def _shortened(text: str) -> str:
    return text if len(text) <= _LETTERS else text[: _LETTERS - 3] + "..."


def _audit(title: str, heads: tuple[str, ...], rows: Sequence[Mapping[str, Any]], figures: Sequence[Sequence[Any]]) -> Grid2D:
    cells = ((row["domain"], str(n), *map(_percent, rest)) for row, (n, *rest) in zip(rows, figures, strict=True))
    return Grid2D(title, heads, tuple(cells))


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
