"""Tables of `explain` for a synthesis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from summhay_ray.outcome import MICROS
from summhay_ray.report.terminal_tables import TextTable

MOST_ROWS = 40
"""A longer table is cut, and its title says so."""

_Rows = Sequence[Mapping[str, Any]]


def kinds_table(kinds: _Rows) -> TextTable:
    """The checks by kind: their number, how many had an unexpected result, and who made them."""
    rows = tuple((one["kind"], f"{one['n']:,}", f"{one['unexpected']:,}", _by(one["by"])) for one in kinds)
    return TextTable("Checks", ("Kind", "Made", "Unexpected", "By"), rows)


def _by(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in sorted(counts.items()))


def amiss_table(checks: _Rows, made: bool) -> TextTable:
    """The checks whose final result was not the expected one, with the score of the offline check.

    `made`: whether a haystack was made; then none of these checks makes it wrong.
    """
    rows = [
        (one["kind"], f"{one['subject']} {one['object']}", one["expected"], one["found"], one["by"], f"{one['score']:.2f}")
        for one in checks
    ]
    heads = ("Kind", "Of", "Expected", "Found", "By", "Score")
    why = " (they corrected the plan, or were not sure enough to count)" if made else ""
    return _cut(f"Unexpected at the end{why}", heads, rows, 2)


def documents_table(documents: _Rows) -> TextTable:
    """The documents of a haystack, one row each."""
    rows = [
        (
            one["document_id"],
            f"{one['words']:,}",
            str(len(one["insights"])),
            str(len(one["distractors"])),
            "-" if one["corrections"] is None else str(one["corrections"]),
            one["date"] or "-",
            ", ".join(one["refers_to"] or ()) or "-",
        )
        for one in documents
    ]
    heads = ("Document", "Words", "Insights", "Distractors", "Corrections", "Date", "Refers to")
    return _cut("Documents", heads, rows, 1)


def answers_table(answers: _Rows) -> TextTable:
    """The model answers behind a document, each with the beginning of its key, which `explain` accepts."""
    rows = [
        (one["task"], one["key"][:16], one["model"], f"{one['output_tokens']:,}", f"{one['usd_micros'] / MICROS:.6f}")
        for one in answers
    ]
    return _cut("Answers that it stands on", ("Task", "Key", "Model", "Tokens out", "Dollars"), rows, 2)


def _cut(title: str, heads: tuple[str, ...], rows: Sequence[tuple[str, ...]], named: int) -> TextTable:
    more = f" ({len(rows)}; the first {MOST_ROWS}, --json has all)" if len(rows) > MOST_ROWS else ""
    return TextTable(title + more, heads, tuple(rows[:MOST_ROWS]), named)
