"""Small runs in this process, by the public functions, with the answers, commits and payments of a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from summhay_ray import api
from summhay_ray.engine import RunResult, Workload
from summhay_ray.store import RunStore, Store

SAMPLE: dict[str, Any] = {
    "haystacks": ["sample/news"],
    "retrievers": ["bm25"],
    "token_budget": 1500,
    "summarizers": ["offline/lead"],
    # One call per insight, like most judges.
    "judges": [{"model": "offline/judge", "strategy": "per_insight"}],
}
N_QUERIES, N_INSIGHTS = 4, 22
"""Cells and judgments of `SAMPLE`."""


def loaded(**fields: Any) -> Workload[Any]:
    """The workload of a small spec over the news sample, with some fields replaced."""
    return api.load({**SAMPLE, **fields})


def answered(store: Path | str, budget: float | None = None, **fields: Any) -> tuple[RunResult, RunStore]:
    """The run of this spec, answered in this process: its result, and the run in the store."""
    result = api.run({**SAMPLE, **fields}, str(store), budget=budget, executor="inline")
    return result, Store(str(store)).run(result.run)


def rows(run: RunStore, table: str) -> list[dict[str, Any]]:
    """The rows of a table."""
    found: list[dict[str, Any]] = run.table(table).to_dicts()
    return found
