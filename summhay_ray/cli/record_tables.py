"""Tables of records for the terminal: plans, usage, runs, failures, and the results and checks of a synthesis."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from summhay_ray.outcome import MICROS
from summhay_ray.report import TextTable

if TYPE_CHECKING:
    from summhay_ray.benchmarks.synth import FailedTopic, MadeHaystack, VerifiedFile

MOST_ROWS = 40
"""Maximum number of rows. A longer table is cut, and its title reports the cut."""
AUDITED_LEGEND = (
    "Stated there: samples whose insight is in the document, as the haystack says. Accuracy, precision and F1 depend on their "
    "share, but recall does not; in the paper's Table 5, they are 55 of 155."
)
VERIFIED_LEGEND = (
    "Otherwise: surely not as the file states, because a number, name or date is missing from the text, or two texts are the "
    "same. Unsure: the words contradict the file, but a paraphrase may state it; a person or a model must check it."
)
BOUNDS_LEGEND = (
    "at least: every answer is right at once and as short as possible, and the offline checks are always sure",
    "expected: 8 % of the subtopics, insights and queries are requested again, 20 % of the documents are edited once, 5 % of the "
    "chapters are written again; models.check is asked where the offline checks are usually unsure; answers of other runs "
    "are reused, but are not known here",
    "at most: all is requested again as often as the domain allows (tries, rounds, outline_rounds; whole documents up to 3 "
    "times), each time after 2 answers that cannot be read, and every answer has max_tokens; no run can exceed this "
    "bound (except input tokens, for texts of only quotation marks), real runs stay far below it, and a budget stops earlier",
)
"""The legend of a synthesis' plan, one line each. The assumptions are those of `summhay_ray.synth.making.bounds`."""


def record_table(
    title: str, rows: Sequence[Mapping[str, Any]], columns: Mapping[str, str], heads: int = 1, most: int | None = None
) -> TextTable:
    """Make a row for each record. `columns`: head -> the record's field. `most`: maximum number of rows; the title reports a cut.

    Fields named `usd...` are in dollars, with four decimals; other fractions have two. `-` stands for an unknown value.
    """
    if most is not None and len(rows) > most:
        title += f" ({len(rows):,}; the first {most}, --json has all)"
    shown = (tuple(_text(field, row.get(field)) for field in columns.values()) for row in rows[:most])
    return TextTable(title, tuple(columns), tuple(shown), heads)


def _text(field: str, value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.{4 if field.startswith('usd') else 1 if field == 'minutes' else 2}f}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        value = ", ".join(value)
    return f"{value:,}" if isinstance(value, int) else str(value) if value else "-"


def plan_table(stages: Sequence[Mapping[str, Any]]) -> TextTable:
    """Make a table of the planned calls by stage and model, from the `stages` of `summhay plan --json`; for a synthesis with
    their bounds."""
    columns = {"Stage": "stage", "Model": "model", "Calls": "calls"}
    if any("max_calls" in stage for stage in stages):
        texts = [
            {
                **{name: stage[name] for name in ("stage", "model")},
                **{name: _bounds(stage, name) for name in ("calls", "usd", "input_tokens", "output_tokens")},
            }
            for stage in stages
        ]
        columns |= {"Dollars": "usd", "Input tokens": "input_tokens", "Output tokens": "output_tokens"}
        return record_table("To come, at least / expected / at most", texts, columns, heads=2)
    columns |= {"Reused": "reused", "$ expected": "usd", "$ most": "usd_max", "$ least": "usd_min"}
    columns |= {"Minutes": "minutes", "Tokens in": "input_tokens", "Tokens out": "output_tokens"}
    return record_table("Planned calls", stages, columns, heads=2)


def _bounds(planned: Mapping[str, Any], name: str) -> str:
    """Return the minimum, expected and maximum amount as text."""
    fields = ("usd_min", "usd", "usd_max") if name == "usd" else (f"min_{name}", name, f"max_{name}")
    return " / ".join(_text(name, planned[field]) for field in fields)


def ways_table(ways: Sequence[Mapping[str, Any]]) -> TextTable:
    """Make a table of the dollars and hours of the same calls in each way, from the `compare` of `summhay plan --compare
    --json`."""
    rows = [
        {
            **way,
            "cache": "with" if way["cache"] else "without",
            "hours": f"up to {way['hours']:.0f}" if way["waves"] and way["hours"] is not None else way["hours"],
            "waves": way["waves"] or None,
            "unavailable": list(way["unavailable"]),
        }
        for way in ways
    ]
    columns = {"Channel": "channel", "Cache": "cache", "Dollars": "usd", "Hours": "hours", "Waves": "waves"}
    return record_table("The same calls in other ways", rows, columns | {"Not available for": "unavailable"}, heads=2)


def usage_table(usage: Sequence[Mapping[str, Any]]) -> TextTable | None:
    """Make a table of used and planned amounts by stage and model, from the `usage` of `summhay status --json`; None if it is
    empty.

    For a synthesis, the planned amounts are a minimum, an expected value and a maximum.
    """
    if not usage:
        return None
    bounded = any("min_calls" in (row["planned"] or ()) for row in usage)
    rows = []
    for row in usage:
        planned, texts = row["planned"] or {}, dict[str, str]()
        for name in ("calls", "usd", "input_tokens", "output_tokens"):
            texts[name] = _text(name, row["real"][name])
            if planned.get(name) is not None:
                texts[name] += f" of {_bounds(planned, name)}" if bounded else f" / {_text(name, planned[name])}"
        cached = None if row["cached_share"] is None else f"{100 * row['cached_share']:.1f} %"
        rows.append({**row, **texts, "usd_max": planned.get("usd_max"), "usd_saved": row["saved_usd"], "cached": cached})
    columns = {"Stage": "stage", "Model": "model", "Calls": "calls", "Dollars": "usd"}
    columns |= {} if bounded else {"At most": "usd_max"}
    columns |= {"Tokens in": "input_tokens", "Tokens out": "output_tokens", "Cached": "cached", "Saved $": "usd_saved"}
    title = "Used / planned (a repeated question is asked once)"
    return record_table("Used, of what was planned at least / expected / at most" if bounded else title, rows, columns, heads=2)


def runs_table(runs: Sequence[Mapping[str, Any]]) -> TextTable:
    """Make a table of a store's runs, from the `runs` of `summhay runs --json`."""
    rows = [
        {
            **one,
            "done": f"{cells['done']}/{cells['total']}" + (f", {cells['failed']} failed" if cells.get("failed") else "")
            if cells
            else None,
            **{f"usd_{name}": one["usd"] and one["usd"][name] for name in ("spent", "reserved", "uncertain")},
            "name": one["name"][:24],
            "created": one["created"][:16].replace("T", " "),
            "mib": f"{one['bytes'] / 2**20:,.1f}",
        }
        for one in runs
        for cells in [one["cells"]]
    ]
    columns = {"Run": "run", "Status": "status", "Done": "done", "$ spent": "usd_spent", "Name": "name", "Kind": "kind"}
    columns |= {"Created (UTC)": "created", "MiB": "mib", "$ reserved": "usd_reserved", "$ uncertain": "usd_uncertain"}
    return record_table("", rows, columns)


def failure_blocks(run: str, failures: Sequence[Mapping[str, Any]], width: int) -> list[str]:
    """Return several lines for each failure, of at most `width` characters, unless names are longer."""
    # Several failures may share one answer, whose cost counts once.
    answers = {one["key"] or str(place): one["usd_micros"] for place, one in enumerate(failures)}
    lines = [f"{len(failures)} failures of {run}" + (f", {sum(answers.values()) / MICROS:.6f} dollars" if failures else "")]
    where = ("haystack", "subtopic_id", "judge", "insight_id", "stage", "kind", "error", "model")
    for one in failures:
        calls = f"{one['attempts']} attempt{'' if one['attempts'] == 1 else 's'}, " if one["attempts"] else ""
        parts = {
            "": " ".join(filter(None, (one.get("label") or one.get("system"), *map(one.get, where)))),
            "why": one["message"],
            "cost": f"{calls}{one['usd_micros'] / MICROS:.6f} dollars",
            "item": one.get("item_id", ""),
            "cell": one.get("cell_id", ""),
            "key": one["key"],
        }
        lines.append("")
        for name, text in parts.items():
            begin = f"  {name:<6}" if name else ""
            lines += textwrap.wrap(text, width, initial_indent=begin, subsequent_indent=" " * len(begin), break_on_hyphens=False)
    return lines


def made_tables(made: Sequence[MadeHaystack], failed: Sequence[FailedTopic]) -> list[TextTable]:
    """Make tables of the haystacks of a synthesis, one row each, with their sum, and of the topics without a haystack.

    Distractors have a column only if there are any.
    """
    tables = []
    if made:
        sizes = {"Documents": "documents", "Subtopics": "subtopics"}
        sizes |= {"Distracting": "distractors"} if any(one.distractors for one in made) else {}
        sizes |= {"Insights": "insights", "Tokens": "tokens", "Checks": "checks", "by model": "checks_by_model"}
        sizes |= {"Corrections": "corrections", "Dollars": "usd"}
        rows = [asdict(one) for one in made]
        total = {"name": f"all {len(made)}", "domain": ""} | {name: sum(row[name] for row in rows) for name in sizes.values()}
        columns = {"Haystack": "name", "Domain": "domain", **sizes}
        table, last = (record_table("Haystacks", part, columns, 2, MOST_ROWS) for part in (rows, [total]))
        tables.append(TextTable(table.title, table.columns, (*table.rows, *last.rows), 2))
    if failed:
        columns = {"Topic": "name", "Stage": "stage", "Error": "error", "Message": "message", "Dollars": "usd"}
        title = f"Topics without a haystack: {len(failed)}"
        tables.append(record_table(title, [asdict(one) for one in failed], columns, 3, MOST_ROWS))
    return tables


def audited_tables(found: Mapping[str, Any]) -> list[TextTable]:
    """Make tables of the results of human labels in per cent, like Tables 4 and 5 of the paper. `-` stands for an undefined
    figure."""
    assigned = {"Domain": "domain", "Insights annotated": "insights_annotated", "Accuracy (%)": "accuracy"}
    stated = {"Domain": "domain", "Samples": "num_samples", "Stated there": "stated_present", "Accuracy": "accuracy"}
    return [
        record_table(
            "Insights and their subtopics (Table 4)",
            found["insight_subtopic"],
            assigned | {"Assigned to 2+ subtopics (%)": "assigned_to_several"},
        ),
        record_table(
            "Insights in documents (Table 5)",
            found["document_insight"],
            stated | {"Precision": "precision", "Recall": "recall", "F1": "f1"},
        ),
    ]


def verified_tables(verified: VerifiedFile) -> tuple[TextTable, TextTable]:
    """Make tables of a haystack file's checks by kind, and of the checks whose result differs from the file, certain ones
    first."""
    counts = {"Check": "kind", "Checks": "checks", "As stated": "as_stated", "Otherwise": "surely", "Unsure": "unsure"}
    rows = []
    for row in verified.mismatches:
        text = row["evidence"] if row["kind"].startswith("document_") and row["evidence"] else row["text"]
        rows.append({**row, "sure": "yes" if row["sure"] else "unsure", "text": textwrap.shorten(text, 100, placeholder="...")})
    columns = {"Sure": "sure", "Check": "kind", "Of": "subject", "Against": "object", "Stated": "expected", "Found": "found"}
    otherwise = record_table("Otherwise than stated, or unsure", rows, columns | {"Score": "score", "Text": "text"}, 8, MOST_ROWS)
    return record_table("Checks without a model", verified.kinds(), counts), otherwise


def explained_tables(found: Mapping[str, Any]) -> list[TextTable]:
    """Make the tables of `explain` for a topic that has rows.

    They are: its checks by kind, with their number, the number of unexpected results and who made them; the checks whose final
    result was unexpected; and its documents. If a haystack was made, the unexpected checks do not make it wrong.
    """
    kinds = [{**one, "by": [f"{name} {n:,}" for name, n in sorted(one["by"].items())]} for one in found["checks_by_kind"]]
    amiss = [{**one, "of": f"{one['subject']} {one['object']}"} for one in found["amiss"]]
    counts = [{**one, "insights": len(one["insights"]), "distractors": len(one["distractors"])} for one in found["documents"]]
    why = " (they corrected the plan, or were not sure enough to count)" if found["haystack"] else ""
    documents = {"Document": "document_id", "Words": "words", "Insights": "insights", "Distractors": "distractors"}
    documents |= {"Corrections": "corrections", "Date": "date", "Refers to": "refers_to"}
    checks = {"Kind": "kind", "Of": "of", "Expected": "expected", "Found": "found", "By": "by", "Score": "score"}
    tables = [
        record_table("Checks", kinds, {"Kind": "kind", "Made": "n", "Unexpected": "unexpected", "By": "by"}),
        record_table(f"Unexpected at the end{why}", amiss, checks, 2, MOST_ROWS),
        record_table("Documents", counts, documents, 1, MOST_ROWS),
    ]
    return [table for table in tables if table.rows]


def answers_table(answers: Sequence[Mapping[str, Any]]) -> TextTable:
    """Make a table of the model answers behind a document. Each has the beginning of its key, which `explain` accepts."""
    rows = [{**one, "key": one["key"][:16], "dollars": f"{one['usd_micros'] / MICROS:.6f}"} for one in answers]
    columns = {"Task": "task", "Key": "key", "Model": "model", "Tokens out": "output_tokens", "Dollars": "dollars"}
    return record_table("Answers that it stands on", rows, columns, 2, MOST_ROWS)
