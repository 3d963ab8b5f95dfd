"""The failures of a run: a table, or blocks of lines for a narrow terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from summhay_ray.outcome import MICROS
from summhay_ray.report.terminal_tables import TextTable

_COLUMNS = (
    ("Item", "item_id"),
    ("Cell", "cell_id"),
    ("System", "system"),
    ("Haystack", "haystack"),
    ("Subtopic", "subtopic_id"),
    ("Stage", "stage"),
    ("Kind", "kind"),
    ("Error", "error"),
    ("Judge", "judge"),
    ("Insight", "insight_id"),
    ("Dollars", "usd"),
    ("Attempts", "attempts"),
    ("Key", "key"),
    ("Message", "message"),
)
_WHERE = ("system", "haystack", "subtopic_id", "judge", "insight_id")
_WHAT = ("stage", "kind", "error")


def failures_table(run: str, failures: Sequence[Mapping[str, Any]]) -> TextTable:
    """One row per failure, without empty columns. `failures`: the fields of each failure and of its place."""
    cells = [{**_labelled(one), "usd": _dollars(one), "attempts": str(one["attempts"])} for one in failures]
    columns = [(head, name) for head, name in _COLUMNS if any(one.get(name) for one in cells)]
    rows = tuple(tuple(one.get(name) or "" for _, name in columns) for one in cells)
    return TextTable(_title(run, failures), tuple(head for head, _ in columns), rows)


def failure_blocks(run: str, failures: Sequence[Mapping[str, Any]], width: int) -> list[str]:
    """The same as lines of at most `width` characters (longer names excepted), several for each failure."""
    lines = [_title(run, failures)]
    for one in map(_labelled, failures):
        where = " ".join(one[name] for name in _WHERE if one.get(name))
        calls = f"{one['attempts']} attempt{'' if one['attempts'] == 1 else 's'}, " if one["attempts"] else ""
        parts = [
            ("", " ".join(filter(None, (where, *(one[name] for name in _WHAT))))),
            ("why", one["message"]),
            ("cost", f"{calls}{_dollars(one)} dollars"),
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


def _title(run: str, failures: Sequence[Mapping[str, Any]]) -> str:
    # Several failures may share one answer, whose cost counts once.
    answers = {one["key"] or str(place): one["usd_micros"] for place, one in enumerate(failures)}
    cost = f", {sum(answers.values()) / MICROS:.6f} dollars" if failures else ""
    return f"{len(failures)} failures of {run}{cost}"


def _labelled(failure: Mapping[str, Any]) -> Mapping[str, Any]:
    """The failure, with its system under its displayed name."""
    return {**failure, "system": failure["label"]} if failure.get("label") else failure


def _dollars(failure: Mapping[str, Any]) -> str:
    return f"{failure['usd_micros'] / MICROS:.6f}"
