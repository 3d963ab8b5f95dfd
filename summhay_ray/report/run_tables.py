"""Tables about runs for the terminal: planned and used calls and dollars, the runs of a store, failures."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from summhay_ray.outcome import MICROS
from summhay_ray.report.sections import TextTable

_PLAN = ("Stage", "Model", "Calls", "Reused", "Tokens in", "Tokens out", "$ least", "$ expected", "$ most", "Minutes")
_USAGE = ("Stage", "Model", "Calls", "Tokens in", "Tokens out", "Dollars", "At most", "Cached", "Saved $")
_WAYS = ("Channel", "Cache", "Dollars", "Hours", "Waves", "Not available for")
_BESIDE_BOUNDS = ("Stage", "Model", "Calls", "Dollars", "Tokens in", "Tokens out", "Cached", "Saved $")
_FAILURE = (
    ("Item", "item_id"),
    ("Cell", "cell_id"),
    ("System", "system"),
    ("Haystack", "haystack"),
    ("Subtopic", "subtopic_id"),
    ("Stage", "stage"),
    ("Kind", "kind"),
    ("Error", "error"),
    ("Model", "model"),
    ("Judge", "judge"),
    ("Insight", "insight_id"),
    ("Dollars", "usd"),
    ("Attempts", "attempts"),
    ("Key", "key"),
    ("Message", "message"),
)
_WHERE = ("system", "haystack", "subtopic_id", "judge", "insight_id")
_WHAT = ("stage", "kind", "error", "model")


def plan_table(stages: Sequence[Mapping[str, Any]]) -> TextTable:
    """The planned calls by stage and model, from the `stages` of `summhay plan --json`."""
    rows = tuple(
        (
            stage["stage"],
            stage["model"],
            *(str(stage[name]) for name in ("calls", "reused", "input_tokens", "output_tokens")),
            *(f"{stage[name]:.4f}" for name in ("usd_min", "usd", "usd_max")),
            minutes(stage["minutes"]),
        )
        for stage in stages
    )
    return TextTable("Planned calls", _PLAN, rows, heads=2)


def ways_table(ways: Sequence[Mapping[str, Any]]) -> TextTable:
    """Dollars and hours of the same calls in each way, from the `compare` of `summhay plan --compare --json`."""
    rows = tuple(
        (
            way["channel"],
            "with" if way["cache"] else "without",
            f"{way['usd']:.4f}",
            "-" if way["hours"] is None else f"up to {way['hours']:.0f}" if way["waves"] else f"{way['hours']:.2f}",
            str(way["waves"]) if way["waves"] else "-",
            ", ".join(way["unavailable"]) or "-",
        )
        for way in ways
    )
    return TextTable("The same calls in other ways", _WAYS, rows, heads=2)


def usage_table(usage: Sequence[Mapping[str, Any]]) -> TextTable | None:
    """Used and planned amounts by stage and model, from the `usage` of `summhay status --json`; None if it is empty.

    For a synthesis, the planned amounts are a minimum, an expected value and a maximum.
    """
    if not usage:
        return None
    bounded = any("min_calls" in (row["planned"] or ()) for row in usage)
    rows = []
    for row in usage:
        planned = row["planned"] or {}
        text: dict[str, str] = {}
        for name in ("calls", "usd", "input_tokens", "output_tokens"):
            shown = "{:.4f}".format if name == "usd" else "{:,}".format if bounded else str
            bounds = ("usd_min", "usd", "usd_max") if name == "usd" else (f"min_{name}", name, f"max_{name}")
            text[name] = shown(row["real"][name])
            if planned.get(name) is not None:
                text[name] += " of " if bounded else " / "
                text[name] += " / ".join(shown(planned[one]) for one in (bounds if bounded else (name,)))
        most = f"{planned['usd_max']:.4f}" if planned else "-"
        figures = [*text.values()] if bounded else [text["calls"], text["input_tokens"], text["output_tokens"], text["usd"], most]
        cached = "-" if row["cached_share"] is None else f"{100 * row['cached_share']:.1f} %"
        rows.append((row["stage"] or "-", row["model"] or "-", *figures, cached, f"{row['saved_usd']:.4f}"))
    title = "Used / planned (a question that comes again is asked once)"
    title = "Used, of what was planned at least / expected / at most" if bounded else title
    return TextTable(title, _BESIDE_BOUNDS if bounded else _USAGE, tuple(rows), heads=2)


def minutes(value: float | None) -> str:
    """Minutes as text; a dash if no rate limit implies any."""
    return "-" if value is None else f"{value:.1f}"


def dollars_line(usd: Mapping[str, float | None], digits: int = 6) -> str:
    """A run's dollars as text: spent, reserved and uncertain (if any), and left of the budget."""
    said = [f"{usd['spent'] or 0:.{digits}f} spent"]
    said += [f"{usd[name]:.{digits}f} {name}" for name in ("reserved", "uncertain") if usd[name]]
    if usd["budget"] is not None:
        said.append(f"{usd['left'] or 0:.{digits}f} left of {usd['budget']:g}")
    return ", ".join(said)


def runs_table(runs: Sequence[Mapping[str, Any]]) -> TextTable:
    """A store's runs, from the `runs` of `summhay runs --json`."""
    rows = tuple(
        (
            one["run"],
            one["status"],
            "-" if cells is None else f"{cells['done']}/{cells['total']}{f', {failed} failed' if failed else ''}",
            *("-" if one["usd"] is None else f"{one['usd'][name]:.4f}" for name in ("spent", "reserved", "uncertain")),
            one["name"][:24],
            one["kind"],
            one["created"][:16].replace("T", " "),
            f"{one['bytes'] / 2**20:,.1f}",
        )
        for one in runs
        for cells, failed in [(one["cells"], (one["cells"] or {}).get("failed"))]
    )
    return TextTable(
        "", ("Run", "Status", "Done", "$ spent", "$ reserved", "$ uncertain", "Name", "Kind", "Created (UTC)", "MiB"), rows
    )


def failures_table(run: str, failures: Sequence[Mapping[str, Any]]) -> TextTable:
    """One row per failure, without empty columns. `failures`: the fields of each failure and of its place."""
    title, shown = _failures_as_text(run, failures)
    columns = [(head, name) for head, name in _FAILURE if any(one.get(name) for one in shown)]
    rows = tuple(tuple(one.get(name) or "" for _, name in columns) for one in shown)
    return TextTable(title, tuple(head for head, _ in columns), rows)


def failure_blocks(run: str, failures: Sequence[Mapping[str, Any]], width: int) -> list[str]:
    """The same as lines of at most `width` characters (longer names excepted), several for each failure."""
    title, shown = _failures_as_text(run, failures)
    lines = [title]
    for one in shown:
        calls = f"{one['attempts']} attempt{'' if one['attempts'] == '1' else 's'}, " if one["attempts"] != "0" else ""
        parts = [
            ("", " ".join(filter(None, map(one.get, (*_WHERE, *_WHAT))))),
            ("why", one["message"]),
            ("cost", f"{calls}{one['usd']} dollars"),
            ("item", one.get("item_id", "")),
            ("cell", one.get("cell_id", "")),
            ("key", one["key"]),
        ]
        lines.append("")
        for name, text in parts:
            if text:
                begin = f"  {name:<6}" if name else ""
                lines += textwrap.wrap(
                    text, width, initial_indent=begin, subsequent_indent=" " * len(begin), break_on_hyphens=False
                )
    return lines


def _failures_as_text(run: str, failures: Sequence[Mapping[str, Any]]) -> tuple[str, list[dict[str, Any]]]:
    """A title, and the failures with their dollars and attempts as text and the system's displayed name."""
    # Several failures may share one answer, whose cost counts once.
    answers = {one["key"] or str(place): one["usd_micros"] for place, one in enumerate(failures)}
    cost = f", {sum(answers.values()) / MICROS:.6f} dollars" if failures else ""
    texts = [{"usd": f"{one['usd_micros'] / MICROS:.6f}", "attempts": str(one["attempts"])} for one in failures]
    systems = [{"system": one["label"]} if one.get("label") else {} for one in failures]
    shown = [{**one, **text, **system} for one, text, system in zip(failures, texts, systems, strict=True)]
    return f"{len(failures)} failures of {run}{cost}", shown
