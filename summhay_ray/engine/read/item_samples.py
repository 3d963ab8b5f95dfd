"""Turns the items of a run into samples for the report's viewer, with rows and answers. No calls."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import polars as pl

from summhay_ray.engine.contract import Workload
from summhay_ray.engine.items import all_tables
from summhay_ray.engine.state.items_left import checked_items
from summhay_ray.sections import Facet, SampleRecord, Samples
from summhay_ray.store import RunStore


def item_samples(workload: Workload[Any], run: RunStore) -> Samples:
    """A sample for every committed item, with its rows and its models' answers."""
    items = {item.id: item for item in checked_items(workload)}
    names = [table.name for table in all_tables(type(workload))]
    plain = (str, int, float, bool)
    data = dict.fromkeys(
        name for item in itertools.islice(items.values(), 1000) for name, value in item.data.items() if isinstance(value, plain)
    )

    def samples() -> Iterator[SampleRecord]:
        for unit, tables in run.by_unit(names):
            if unit in items:
                item = items[unit]
                facets = {"model": item.model, **{name: item.data.get(name) for name in data}, "failed": "failures" in tables}
                yield SampleRecord(unit, facets, [*_tables(tables), *_answers(tables.get("raw_answers"))])

    facets = [Facet("model"), *(Facet(name) for name in data), Facet("failed", "flag")]
    return Samples(facets, samples(), {"answers": answers_of(run)})


def answers_of(run: RunStore) -> Iterator[tuple[str, Any]]:
    """The run's raw answers for the viewer's shelf `answers`: (key, the fields that are not empty)."""
    for piece in run.pieces("raw_answers"):
        for row in piece.iter_rows(named=True):
            yield row.pop("key"), {name: value for name, value in row.items() if value not in (None, "", 0, [])}


def _tables(tables: Mapping[str, pl.DataFrame]) -> Iterator[dict[str, Any]]:
    for name, frame in tables.items():
        if name != "raw_answers":
            yield {"kind": "rows", "title": name, "columns": frame.columns, "rows": [list(row) for row in frame.iter_rows()]}


def _answers(frame: pl.DataFrame | None) -> Iterator[dict[str, Any]]:
    for row in () if frame is None else frame.iter_rows(named=True):
        yield {"kind": "answer", "title": f"Answer of {row['model']}", "key": row["key"]}
