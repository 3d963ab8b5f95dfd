"""Tables of calls, tokens and dollars, planned and used."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
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
    if any("min_calls" in (row["planned"] or ()) for row in usage):
        rows = tuple(_named(row, map(partial(_between, row), ("calls", "usd", "input_tokens", "output_tokens"))) for row in usage)
        return TextTable("Used, of what was planned at least / expected / at most", _BESIDE_BOUNDS, rows, heads=2)
    title = "Used / planned (a question that comes again is asked once)"
    return TextTable(title, _USAGE, tuple(_named(row, _one_number(row)) for row in usage), heads=2)


def _named(row: Mapping[str, Any], figures: Iterable[str]) -> tuple[str, ...]:
    cached = "-" if row["cached_share"] is None else f"{100 * row['cached_share']:.1f} %"
    return (row["stage"] or "-", row["model"] or "-", *figures, cached, f"{row['saved_usd']:.4f}")


def _one_number(row: Mapping[str, Any]) -> Iterator[str]:
    planned, real = row["planned"] or {}, row["real"]
    for name in ("calls", "input_tokens", "output_tokens"):
        yield _of(str(real[name]), planned.get(name), str, "/")
    yield _of(f"{real['usd']:.4f}", planned.get("usd"), "{:.4f}".format, "/")
    yield f"{planned['usd_max']:.4f}" if planned else "-"


def _between(row: Mapping[str, Any], name: str) -> str:
    """The amount that a synthesis used, with the minimum, expected value and maximum of its plan."""
    shown = "{:.4f}".format if name == "usd" else "{:,}".format
    bounds = ("usd_min", "usd", "usd_max") if name == "usd" else (f"min_{name}", name, f"max_{name}")
    return _of(shown(row["real"][name]), row["planned"], lambda planned: " / ".join(shown(planned[one]) for one in bounds))


def minutes(value: float | None) -> str:
    """Minutes as text; a dash if no rate limit implies any."""
    return "-" if value is None else f"{value:.1f}"


def _of(real: str, planned: Any, shown: Any, word: str = "of") -> str:
    return real if planned is None else f"{real} {word} {shown(planned)}"


def dollars_line(usd: Mapping[str, float | None], digits: int = 6) -> str:
    """A run's dollars as text: spent, reserved and uncertain where there is any, and left of the budget."""
    said = [f"{usd['spent'] or 0:.{digits}f} spent"]
    said += [f"{usd[name]:.{digits}f} {name}" for name in ("reserved", "uncertain") if usd[name]]
    if usd["budget"] is not None:
        said.append(f"{usd['left'] or 0:.{digits}f} left of {usd['budget']:g}")
    return ", ".join(said)
