"""Tables of calls, tokens and dollars: what is to come, and what it came to. Part of the report room; prints nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from summhay_ray.report.tables import Grid2D

_PLAN = ("Stage", "Model", "Calls", "Reused", "Input tokens", "Output tokens", "At least $", "Expected $", "At most $", "Minutes")
_USAGE = ("Stage", "Model", "Calls", "Input tokens", "Output tokens", "Dollars", "At most", "Cached", "Saved $")


def plan_table(stages: Sequence[Mapping[str, Any]]) -> Grid2D:
    """The calls to come by stage and model, from the `stages` of `summhay plan --json`."""
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
    return Grid2D("Calls to come", _PLAN, rows, heads=2)


def usage_table(usage: Sequence[Mapping[str, Any]]) -> Grid2D | None:
    """Real of planned by stage and model, from the `usage` of `summhay status --json`; None where nothing is known."""
    if not usage:
        return None
    rows = []
    for row in usage:
        planned, real = row["planned"] or {}, row["real"]
        rows.append(
            (
                row["stage"] or "-",
                row["model"] or "-",
                *(_of(str(real[name]), planned.get(name), str) for name in ("calls", "input_tokens", "output_tokens")),
                _of(f"{real['usd']:.4f}", planned.get("usd"), "{:.4f}".format),
                f"{planned['usd_max']:.4f}" if planned else "-",
                "-" if row["cached_share"] is None else f"{100 * row['cached_share']:.1f} %",
                f"{row['saved_usd']:.4f}",
            )
        )
    return Grid2D("Used, of what was planned", _USAGE, tuple(rows), heads=2)


def minutes(value: float | None) -> str:
    """Minutes for a person: a dash where no limit implies any."""
    return "-" if value is None else f"{value:.1f}"


def _of(real: str, planned: Any, shown: Any) -> str:
    return real if planned is None else f"{real} of {shown(planned)}"
