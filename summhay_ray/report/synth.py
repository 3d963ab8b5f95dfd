"""Tables of a synthesis: its haystacks, plan and audit, and the tables of `explain`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from summhay_ray.outcome import MICROS
from summhay_ray.report.sections import TextTable

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
_OF_SUBTOPICS = (("insights_annotated",), ("assigned_to_several", "accuracy"))
_OF_DOCUMENTS = (("num_samples", "stated_present"), ("accuracy", "precision", "recall", "f1"))
"""The counts, and the figures in per cent, of Table 4 and of Table 5."""
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
BOUNDS_LEGEND = (
    "at least: every answer is right at once and as short as can be, and the offline checks are sure of all that they see",
    "expected: 8 % of the subtopics, insights and queries are asked for again, 20 % of the documents are edited once, 5 % of the "
    "chapters are written again; models.check is asked where the offline checks are usually unsure; what other runs have "
    "asked already is reused, and not known here",
    "at most: all is asked for again as often as the domain allows (tries, rounds, outline_rounds; whole documents up to 3 "
    "times), each time after 2 answers that cannot be read, and every answer is max_tokens long; no answers can break this "
    "bound (of input tokens: none but texts of quotation marks alone), real ones stay far below it, and a budget stops sooner",
)
"""The legend of `bounds_table`, one line each. The assumptions are those of `summhay_ray.synth.making.bounds`."""
MOST_ROWS = 40
"""A longer table is cut, and its title says so."""


def made_tables(made: Sequence[MadeHaystack], failed: Sequence[FailedTopic]) -> list[TextTable]:
    """The haystacks that a synthesis made, one row each, and their sum; and the topics without a haystack.

    Distractors have a column only if there are any.
    """
    tables = []
    if made:
        sizes = [(head, name) for head, name in _SIZES if name != "distractors" or any(one.distractors for one in made)]
        rows = [
            (one.name, one.domain, *(f"{getattr(one, name):,}" for _, name in sizes), f"{one.usd:.4f}")
            for one in made[:MOST_ROWS]
        ]
        sums = (f"{sum(getattr(one, name) for one in made):,}" for _, name in sizes)
        total = (f"all {len(made)}", "", *sums, f"{sum(one.usd for one in made):.4f}")
        heads = ("Haystack", "Domain", *(head for head, _ in sizes), "Dollars")
        title = f"Haystacks: {_number(made)}" if len(made) > MOST_ROWS else "Haystacks"
        tables.append(TextTable(title, heads, (*rows, total), heads=2))
    if failed:
        topics = tuple((one.name, one.stage, one.error, f"{one.usd:.4f}", one.message) for one in failed[:MOST_ROWS])
        tables.append(TextTable(f"Topics without a haystack: {_number(failed)}", _FAILED, topics, heads=3))
    return tables


def bounds_table(stages: Sequence[Mapping[str, Any]]) -> TextTable:
    """Minimum, expected and maximum calls, tokens and dollars of a synthesis, from the `stages` of its plan."""
    rows = tuple(
        (
            stage["stage"],
            stage["model"],
            *(
                f"{stage[f'min_{name}']:,} / {stage[name]:,} / {stage[f'max_{name}']:,}"
                for name in ("calls", "input_tokens", "output_tokens")
            ),
            f"{stage['usd_min']:.4f} / {stage['usd']:.4f} / {stage['usd_max']:.4f}",
        )
        for stage in stages
    )
    return TextTable("To come, at least / expected / at most", _BOUNDS, rows, heads=2)


def audited_tables(found: Mapping[str, Any]) -> list[TextTable]:
    """The results of human labels in per cent, as Table 4 and Table 5 of the paper; `-` if a figure is undefined."""
    tables = []
    for title, heads, table, counts, figures in (
        ("Insights and their subtopics (Table 4)", _ASSIGNED, "insight_subtopic", *_OF_SUBTOPICS),
        ("Insights in documents (Table 5)", _PRESENT, "document_insight", *_OF_DOCUMENTS),
    ):
        rows = tuple(
            (
                row["domain"],
                *(str(row[name]) for name in counts),
                *("-" if row[name] is None else f"{row[name]:.2f}" for name in figures),
            )
            for row in found[table]
        )
        tables.append(TextTable(title, heads, rows))
    return tables


def verified_tables(verified: VerifiedFile) -> tuple[TextTable, TextTable]:
    """The checks of a haystack file by kind, and those whose result differs from the file, certain ones first."""
    counts = tuple(
        (row["kind"], *(f"{row[name]:,}" for name in ("checks", "as_stated", "surely", "unsure"))) for row in verified.kinds()
    )
    otherwise = verified.mismatches
    rows = []
    for row in otherwise[:MOST_ROWS]:
        text = row["evidence"] if row["kind"].startswith("document_") and row["evidence"] else row["text"]
        text = text if len(text) <= _LETTERS else text[: _LETTERS - 3] + "..."
        cells = (str(row[name]) for name in ("kind", "subject", "object", "expected", "found"))
        rows.append(("yes" if row["sure"] else "unsure", *cells, f"{row['score']:.2f}", text))
    title = f"Otherwise than stated, or unsure: {_number(otherwise)}"
    return TextTable("Checks without a model", _KINDS, counts), TextTable(title, _OTHERWISE, tuple(rows), heads=8)


def _number(rows: Sequence[object]) -> str:
    """The number of rows, with a note if some are not shown."""
    return f"{len(rows):,}" + (f", the first {MOST_ROWS}; --json has all" if len(rows) > MOST_ROWS else "")


def explained_tables(found: Mapping[str, Any]) -> list[TextTable]:
    """The tables of `explain` for a topic that has rows: its checks by kind (their number, how many had an unexpected result, and
    who made them), the checks whose final result was not the expected one, and its documents.

    If a haystack was made, none of the unexpected checks makes it wrong.
    """
    kinds = []
    for one in found["checks_by_kind"]:
        by = ", ".join(f"{name} {count:,}" for name, count in sorted(one["by"].items()))
        kinds.append((one["kind"], f"{one['n']:,}", f"{one['unexpected']:,}", by))
    amiss = [
        (one["kind"], f"{one['subject']} {one['object']}", one["expected"], one["found"], one["by"], f"{one['score']:.2f}")
        for one in found["amiss"]
    ]
    documents = [
        (
            one["document_id"],
            f"{one['words']:,}",
            str(len(one["insights"])),
            str(len(one["distractors"])),
            "-" if one["corrections"] is None else str(one["corrections"]),
            one["date"] or "-",
            ", ".join(one["refers_to"] or ()) or "-",
        )
        for one in found["documents"]
    ]
    why = " (they corrected the plan, or were not sure enough to count)" if found["haystack"] else ""
    tables = [
        TextTable("Checks", ("Kind", "Made", "Unexpected", "By"), tuple(kinds)),
        _cut(f"Unexpected at the end{why}", ("Kind", "Of", "Expected", "Found", "By", "Score"), amiss, 2),
        _cut("Documents", ("Document", "Words", "Insights", "Distractors", "Corrections", "Date", "Refers to"), documents, 1),
    ]
    return [table for table in tables if table.rows]


def answers_table(answers: Sequence[Mapping[str, Any]]) -> TextTable:
    """The model answers behind a document, each with the beginning of its key, which `explain` accepts."""
    rows = [
        (one["task"], one["key"][:16], one["model"], f"{one['output_tokens']:,}", f"{one['usd_micros'] / MICROS:.6f}")
        for one in answers
    ]
    return _cut("Answers that it stands on", ("Task", "Key", "Model", "Tokens out", "Dollars"), rows, 2)


def _cut(title: str, heads: tuple[str, ...], rows: Sequence[tuple[str, ...]], named: int) -> TextTable:
    more = f" ({len(rows)}; the first {MOST_ROWS}, --json has all)" if len(rows) > MOST_ROWS else ""
    return TextTable(title + more, heads, tuple(rows[:MOST_ROWS]), named)
