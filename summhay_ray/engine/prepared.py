"""Batched work before items are answered (computing, reading what is stored). Part of the engine room; no Ray."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from summhay_ray.engine.contract import Item, Prepared, Workload
from summhay_ray.engine.queues import WorkItem
from summhay_ray.errors import UserError
from summhay_ray.outcome import Failed
from summhay_ray.plugins import told
from summhay_ray.store import Finished


def prepares(workload: Workload[Any]) -> bool:
    """Whether the benchmark prepares anything."""
    return type(workload).prepare is not Workload.prepare


def prepared(workload: Workload[Any], source: str, items: Sequence[Item], planning: bool = False) -> Prepared:
    """What the items of a source are given; where a person's own code raises, the items' failure. Raises OSError, UserError.

    `planning`: what it may be taken for, where finding it out takes long.
    """
    try:
        return workload.sketch(source, items) if planning else workload.prepare(source, items)
    except (OSError, UserError):
        raise
    # The border to a person's own code (a plug-in): what goes wrong there stops no other item.
    except BaseException as error:  # noqa: BLE001
        return Prepared(problem=Failed("benchmark_error", told(error), retryable=True))


def work_items(items: Sequence[Item], found: Prepared) -> list[WorkItem]:
    """The items on their way, with what was prepared for them."""
    problem: Mapping[str, Any] | None = None
    if found.problem is not None:
        retry = getattr(found.problem, "retryable", False)
        problem = {"stage": found.stage, "error": found.problem.error, "message": found.problem.message, "retryable": retry}
    return [WorkItem(item, found.own.get(item.id, found.shared), problem) for item in items]


def finished_source(source: str, found: Prepared) -> Finished | None:
    """The rows that preparing made, as a unit of the store; None where there are none."""
    rows = {table: list(records) for table, records in found.rows.items() if len(records)}
    return Finished(source, rows) if rows else None
