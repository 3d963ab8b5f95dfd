"""Tables of a synthesis: its haystacks, its plan, and its audit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from summhay_ray.report.terminal_tables import TextTable

if TYPE_CHECKING:
    from summhay_ray.benchmarks.synth import FailedTopic, MadeHaystack, VerifiedFile

_SIZES = (
    ("Documents", "documents"),
    ("Subtopics", "subtopics"),
    ("Distracting", "distractors"),
    ("Insights", "insights"),
    ("Tokens", "tokens"),
    ("Checks", "checks"),
    ("by model", "checks_by_model"),
    ("Corrections", "corrections"),
)
_FAILED = ("Topic", "Stage", "Error", "Dollars", "Message")
_BOUNDS = ("Stage", "Model", "Calls", "Input tokens", "Output tokens", "Dollars")
_ASSIGNED = ("Domain", "Insights annotated", "Assigned to 2+ subtopics (%)", "Accuracy (%)")
_PRESENT = ("Domain", "Samples", "Stated there", "Accuracy", "Precision", "Recall", "F1")
_KINDS = ("Check", "Checks", "As stated", "Otherwise", "Unsure")
_OTHERWISE = ("Sure", "Check", "Of", "Against", "Stated", "Found", "Score", "Text")
_LETTERS = 100
AUDITED_LEGEND = (
    "Stated there: samples whose insight is in the document, as the haystack says. Accuracy, precision and F1 depend on their "
    "share, recall does not; in the paper's Table 5 they are 55 of 155."
)
VERIFIED_LEGEND = (
    "Otherwise: certainly not as the file states, since a number, a name or a date is nowhere in the text, or two texts are the "
    "same. Unsure: the words speak against the file, but a paraphrase may say it; a person or a model must look."
)
MOST_ROWS = 40
"""A longer table is cut, and its title says so."""


def made_table(made: Sequence[MadeHaystack]) -> TextTable:
    """The haystacks that a synthesis made, one row each, and their sum. Distractors have a column only if there are any."""
    sizes = [(head, name) for head, name in _SIZES if name != "distractors" or any(one.distractors for one in made)]
    rows = [
        (one.name, one.domain, *(f"{getattr(one, name):,}" for _, name in sizes), f"{one.usd:.4f}") for one in made[:MOST_ROWS]
    ]
    total = (f"all {len(made)}", "", *(f"{sum(getattr(one, name) for one in made):,}" for _, name in sizes))
    heads = ("Haystack", "Domain", *(head for head, _ in sizes), "Dollars")
    title = f"Haystacks: {_number(made)}" if len(made) > MOST_ROWS else "Haystacks"
    return TextTable(title, heads, (*rows, (*total, f"{sum(one.usd for one in made):.4f}")), heads=2)


def failed_table(failed: Sequence[FailedTopic]) -> TextTable:
    """The topics without a haystack, one row each."""
    rows = tuple((one.name, one.stage, one.error, f"{one.usd:.4f}", one.message) for one in failed[:MOST_ROWS])
    return TextTable(f"Topics without a haystack: {_number(failed)}", _FAILED, rows, heads=3)


def bounds_table(stages: Sequence[Mapping[str, Any]]) -> TextTable:
    """Minimum, expected and maximum calls, tokens and dollars of a synthesis, from the `stages` of its plan."""

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
    return TextTable("To come, at least / expected / at most", _BOUNDS, rows, heads=2)


def audited_tables(found: Mapping[str, Any]) -> list[TextTable]:
    """The results of human labels in per cent, as Table 4 and Table 5 of the paper; `-` if a figure is undefined."""
    assigned = tuple(
        (row["domain"], str(row["insights_annotated"]), *(_figure(row[name]) for name in ("assigned_to_several", "accuracy")))
        for row in found["insight_subtopic"]
    )
    figures = ("accuracy", "precision", "recall", "f1")
    present = tuple(
        (row["domain"], str(row["num_samples"]), str(row["stated_present"]), *(_figure(row[name]) for name in figures))
        for row in found["document_insight"]
    )
    return [
        TextTable("Insights and their subtopics (Table 4)", _ASSIGNED, assigned),
        TextTable("Insights in documents (Table 5)", _PRESENT, present),
    ]


def verified_table(verified: VerifiedFile) -> TextTable:
    """The checks of a haystack file by kind."""
    counts = tuple(
        (row["kind"], *(f"{row[name]:,}" for name in ("checks", "as_stated", "surely", "unsure"))) for row in verified.kinds()
    )
    return TextTable("Checks without a model", _KINDS, counts)


def otherwise_table(verified: VerifiedFile) -> TextTable:
    """The checks whose result differs from the file, certain ones first."""
    otherwise = verified.mismatches
    rows = tuple(
        (
            "yes" if row["sure"] else "unsure",
            *(str(row[name]) for name in ("kind", "subject", "object", "expected", "found")),
            f"{row['score']:.2f}",
            _shortened(row["evidence"] if row["kind"].startswith("document_") and row["evidence"] else row["text"]),
        )
        for row in otherwise[:MOST_ROWS]
    )
    return TextTable(f"Otherwise than stated, or unsure: {_number(otherwise)}", _OTHERWISE, rows, heads=8)


def _shortened(text: str) -> str:
    return text if len(text) <= _LETTERS else text[: _LETTERS - 3] + "..."


def _number(rows: Sequence[object]) -> str:
    """The number of rows, with a note if not all are shown."""
    return f"{len(rows):,}" + (f", the first {MOST_ROWS}; --json has all" if len(rows) > MOST_ROWS else "")


def _figure(value: float | None) -> str:
    """A figure that is already a percentage; a dash if there is none."""
    return "-" if value is None else f"{value:.2f}"
