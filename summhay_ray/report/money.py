"""Tables of calls, tokens and dollars, planned and used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from summhay_ray.report.terminal_tables import TextTable

_PLAN = ("Stage", "Model", "Calls", "Reused", "Tokens in", "Tokens out", "$ least", "$ expected", "$ most", "Minutes")
_USAGE = ("Stage", "Model", "Calls", "Tokens in", "Tokens out", "Dollars", "At most", "Cached", "Saved $")
_BESIDE_BOUNDS = ("Stage", "Model", "Calls", "Dollars", "Tokens in", "Tokens out", "Cached", "Saved $")


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


def extracts_spare(stages: Sequence[Mapping[str, Any]]) -> str:
    """The tokens and dollars that extracts save in a plan, as text; empty if no judge reads extracts."""
    tokens = sum(stage.get("spared_tokens", 0) for stage in stages)
    usd, left = (sum(stage.get(name, 0) for stage in stages) for name in ("usd_spared", "usd"))
    return f"{tokens:,} input tokens, ${usd:.4f} of ${usd + left:.4f}" if tokens else ""


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
