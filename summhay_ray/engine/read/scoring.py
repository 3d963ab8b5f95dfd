"""Computes a run's results with the benchmark's own `score` and `report`, and checks what they return. No calls."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import polars as pl

from summhay_ray.engine.contract import ByQuery, Results, Workload, own_name
from summhay_ray.engine.items import ReadOptions, RunTables, Tables, all_tables
from summhay_ray.engine.read.expected import ITEM_ID, LACKS, scoring, with_expected
from summhay_ray.engine.spec.own_code import BadBenchmark, reading
from summhay_ray.engine.state.items_left import ITEM, checked_items
from summhay_ray.sections import Section
from summhay_ray.store import RunStore

ITEMS = "items"
"""Name of the frame of all items among the tables that `score` gets."""
_MEND = "mend it and run again: every stored answer is reused"


def results_of(workload: Workload[Any], run: RunStore, options: ReadOptions = ReadOptions()) -> Results:
    """The benchmark's results of the run so far. Raises BadBenchmark."""
    # User benchmarks get `item_id` from the engine; this package's benchmarks count missing answers themselves.
    return workload.results(_tables(workload, run.at(), options, ITEM_ID if own_name(workload) else ""))


def scored(workload: Workload[Any], tables: RunTables) -> Results:
    """The scores and sections of the run so far. Raises BadBenchmark if the benchmark returns something invalid."""
    is_own, run = bool(own_name(workload)), tables.run
    if is_own:
        items = tables[ITEMS].with_columns(tables[ITEMS][ITEM_ID].is_in(_answered(run).implode()).not_().alias(LACKS))
        _check_keys(workload, run)
    with reading(f"{workload.kind}: score", _MEND), scoring(items) if is_own else contextlib.nullcontext():
        scores = workload.score(tables)
    if is_own:
        _check_scores(workload, scores)
        scores = {name: with_expected(frame, items) for name, frame in scores.items()}
    with reading(f"{workload.kind}: report", _MEND):
        sections = list(workload.full_report(scores, tables) if tables.options.whole else workload.report(scores))
    for section in sections:
        if not isinstance(section, Section):
            raise BadBenchmark(f"{workload.kind}: report gives {type(section).__name__}; expected Section(...); {_MEND}")
    if is_own:
        sections = [one if one.table is None else replace(one, table=with_expected(one.table, items)) for one in sections]
    asked = so_far(workload, run)
    if asked and sections:
        sections[0] = replace(sections[0], notes=[asked, *sections[0].notes])
    with reading(f"{workload.kind}: details", _MEND):
        frames = {name: _plain(frame) for name, frame in scores.items()} if isinstance(scores, Mapping) else None
        details = {
            **({"so_far": asked} if asked else {}),
            **({} if frames is None else {"scores": frames}),
            **workload.details(scores),
        }
    warnings = [] if not is_own or workload.n_items() else [f"{workload.kind}: items gives none; nothing was asked"]
    return Results(details, scores, sections, tuple(warnings))


def scores_by_query(workload: Workload[Any], run: RunStore) -> ByQuery | None:
    """The scores of the run's systems by query so far; None if its benchmark does not compute them. Raises BadBenchmark."""
    if type(workload).by_query is Workload.by_query:
        return None  # Read no table needlessly. Imported runs also have no items.
    with reading(f"{workload.kind}: by_query", _MEND):
        by_query = workload.by_query(_tables(workload, run.at(), ReadOptions()))
    if by_query is None:
        return None
    columns, schema = [*by_query.scores.columns], by_query.scores.schema
    keys = [name for name in ("system", "cluster", "query") if name in columns]
    figures = [name for name in columns if name not in keys]
    wrong = [name for name in ("system", "query") if name not in columns]
    if wrong:
        problem = f"no column {', '.join(wrong)}"
    elif not figures or any(not schema[name].is_float() for name in figures):
        problem = "expected one column of floats per figure, beside " + ", ".join(keys)
    elif by_query.scores.select(keys).is_duplicated().any():
        problem = f"two rows of one {', '.join(keys)}"
    elif by_query.expected is not None and (lost := [name for name in keys if name not in by_query.expected.columns]):
        problem = f"expected has no column {', '.join(lost)}"
    else:
        return by_query
    raise BadBenchmark(f"{workload.kind}: by_query: {problem}; it has {', '.join(columns)}; {_MEND}")


def _tables(workload: Workload[Any], run: RunStore, options: ReadOptions, item: str = "") -> RunTables:
    """The tables that `score` gets. `item`: the name of an added column of each table, with the id of a row's item."""

    def read(name: str) -> pl.DataFrame:
        return _asked_items(workload, run) if name == ITEMS else run.tables([name], item)[name]

    return RunTables(run, (ITEMS, *(table.name for table in all_tables(type(workload)))), read, options)


def _answered(run: RunStore) -> pl.Series:
    """The ids of the items that are answered without a failure."""
    failures = run.table("failures")
    return pl.Series(sorted(run.finished(ITEM).keys() - set(failures[failures.columns[0]])), dtype=pl.String)


def so_far(workload: Workload[Any], run: RunStore) -> str:
    """A phrase with the number of items that an unfinished run has asked; empty for a finished or imported run."""
    if workload.imported:
        return ""
    asked, total = len(run.finished(ITEM)), workload.n_items()
    return f"{asked:,} of {total:,} {workload.counted.items} so far: the figures are of these" if asked < total else ""


def _asked_items(workload: Workload[Any], run: RunStore) -> pl.DataFrame:
    items = items_frame(workload)
    return items if workload.imported else items.filter(pl.col(ITEM_ID).is_in(list(run.finished(ITEM))))


def items_frame(workload: Workload[Any]) -> pl.DataFrame:
    """A row for each item: `item_id`, `model`, and the values of its data that are numbers, texts or truth values."""
    rows = [
        {**{name: value for name, value in item.data.items() if _is_plain(value)}, "item_id": item.id, "model": item.model}
        for item in checked_items(workload)
    ]
    return (
        pl.DataFrame(rows, infer_schema_length=None) if rows else pl.DataFrame(schema={"item_id": pl.String, "model": pl.String})
    )


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, str | int | float | bool)


def _check_scores(workload: Workload[Any], scores: Tables) -> None:
    if not isinstance(scores, Mapping):
        raise BadBenchmark(f"{workload.kind}: score gives {type(scores).__name__}; expected a mapping of name to frame; {_MEND}")
    for name, frame in scores.items():
        if not isinstance(frame, pl.DataFrame):
            kind = type(frame).__name__
            raise BadBenchmark(f"{workload.kind}: score gives {kind} as {name!r}; expected a polars DataFrame; {_MEND}")


def _plain(frame: pl.DataFrame) -> list[dict[str, Any]]:
    """The rows as JSON values; NaN and infinities become null."""
    return [{name: _finite(value) for name, value in row.items()} for row in frame.to_dicts()]


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if isinstance(value, str | int | bool | list | dict | None) else str(value)


def _check_keys(workload: Workload[Any], run: RunStore) -> None:
    """Raises BadBenchmark if rows of two items have the same key, since one row would be lost."""
    for name in (table.name for table in workload.tables if table.name in run.declared):
        if (shared := run.reader([name]).shared_row(name, ITEM)) is not None:
            one, other, values = shared
            key = ", ".join(run.declared[name].key)
            raise BadBenchmark(
                f"{workload.kind}: items {one!r} and {other!r} both give a row of {name} whose {key} is "
                f"{', '.join(map(repr, values))}; add to the table's key what tells them apart; every stored answer is reused"
            )
