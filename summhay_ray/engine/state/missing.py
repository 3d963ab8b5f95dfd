"""Finds missing or damaged files of a stored run: a line for each, with its effect and a remedy. Part of the engine room."""

from __future__ import annotations

from collections.abc import Iterable

from summhay_ray.outcome import MICROS
from summhay_ray.store import LogIndex, Money, RunStore, Store, StoreError


def short_log(run: RunStore, money: Money) -> tuple[str, ...]:
    """A line if the log holds less than the run's money records say was spent; else none."""
    if not money.missing:
        return ()
    return (
        f"the answers in {run.store.files.where('answers')} cost {money.missing / MICROS:.6f} dollars less than the run's money "
        "records say; these count as spent, so that no budget is overrun",
    )


def damaged_log(store: Store, index: LogIndex) -> list[str]:
    """A line if records of the log that were read are damaged."""
    if not index.damaged:
        return []
    return [f"{index.damaged} records of the answers' log are damaged: run `summhay doctor --store {store.uri}`"]


def lost_inputs(run: RunStore, objects: Iterable[tuple[str, str]]) -> list[str]:
    """A line for each of these objects (kind, sha256) that is missing or damaged."""
    lines = []
    for kind, digest in sorted(set(objects)):
        try:
            run.store.get_object(kind, digest)
        except StoreError as error:
            lines.append(str(error))
    return lines
