"""Computes a run's results with the benchmark's own `score` and `report`, and checks what these return. Makes no calls.

A benchmark's tables have no row for an item without an answer, but figures must count such items as expected. While
`compute_results` calls a benchmark's `score`, `expected_rows` knows these items; `mean_interval` of `benchmark` uses it. For
frames that are not made by `mean_interval`, `with_expected` adds `n_expected`.
"""

import contextlib
import functools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

import polars as pl

from summhay_ray.engine.contract import ByQuery, Results, Workload, own_name
from summhay_ray.engine.items import BadBenchmark, ReadOptions, RunTables, all_tables, reading
from summhay_ray.engine.state.items_left import ITEM, checked_items
from summhay_ray.sections import Section
from summhay_ray.store import RunStore

ITEMS = "items"
"""Name of the frame with all items, one of the tables that `score` gets."""
_MEND = "mend it and run again: every stored answer is reused"

ITEM_ID = "item_id"
"""Column with the id of the item to which a row belongs, in `items` and in the other tables that `score` gets."""
LACKS = "_lacks"
"""Column of the items' frame: true if the item is not answered or has a failure."""
_ITEMS: ContextVar[pl.DataFrame | None] = ContextVar("_ITEMS", default=None)
Group = tuple[Any, ...]


def results_of(workload: Workload[Any], run: RunStore, options: ReadOptions = ReadOptions()) -> Results:
    """Return the benchmark's results of the run so far. Raises BadBenchmark."""
    # User benchmarks get `item_id` from the engine; this package's benchmarks count missing answers themselves.
    return workload.results(_tables(workload, run.at(), options, ITEM_ID if own_name(workload) else ""))


def compute_results(workload: Workload[Any], tables: RunTables) -> Results:
    """Compute the scores and sections of the run so far. Raises BadBenchmark if the benchmark returns something invalid."""
    is_own, run = bool(own_name(workload)), tables.run
    if is_own:
        failures = run.table("failures")
        finished = run.units(ITEM)["unit"]
        ids = finished.filter(~finished.is_in(failures.to_series(0).implode())).implode()
        items = tables[ITEMS].with_columns(tables[ITEMS][ITEM_ID].is_in(ids).not_().alias(LACKS))
        _check_keys(workload, run)
    with reading(f"{workload.kind}: score", _MEND), scoring(items) if is_own else contextlib.nullcontext():
        scores = workload.score(tables)
    if is_own:
        if not isinstance(scores, Mapping):
            given = type(scores).__name__
            raise BadBenchmark(f"{workload.kind}: score gives {given}; expected a mapping of name to frame; {_MEND}")
        for name, frame in scores.items():
            if not isinstance(frame, pl.DataFrame):
                given = f"{type(frame).__name__} as {name!r}"
                raise BadBenchmark(f"{workload.kind}: score gives {given}; expected a polars DataFrame; {_MEND}")
        scores = {name: with_expected(frame, items) for name, frame in scores.items()}
    so_far = ""
    if not workload.imported and (n_asked := run.units(ITEM).height) < (total := workload.n_items()):
        so_far = f"{n_asked:,} of {total:,} {workload.counted.items} so far: the figures are of these"

    sections = functools.cache(functools.partial(_sections, workload, tables, scores, so_far, items if is_own else None))
    details = functools.cache(functools.partial(_details, workload, scores, so_far))
    if is_own:
        # Compute them now, to report mistakes in a user's benchmark as soon as its run ends.
        sections()
        details()
    warnings = [] if not is_own or workload.n_items() else [f"{workload.kind}: items gives none; nothing was asked"]
    return Results(scores, sections, details, tuple(warnings))


def _sections(
    workload: Workload[Any], tables: RunTables, scores: Any, asked: str, items: pl.DataFrame | None
) -> Sequence[Section]:
    """Return the benchmark's sections, the first one with the note `asked`. `items`: the run's items if it is a user's own
    benchmark, else None."""
    with reading(f"{workload.kind}: report", _MEND):
        sections = list(workload.full_report(scores, tables) if tables.options.whole else workload.report(scores))
    for section in sections:
        if not isinstance(section, Section):
            raise BadBenchmark(f"{workload.kind}: report gives {type(section).__name__}; expected Section(...); {_MEND}")
    if items is not None:
        sections = [one if one.table is None else replace(one, table=with_expected(one.table, items)) for one in sections]
    if asked and sections:
        sections[0] = replace(sections[0], notes=[asked, *sections[0].notes])
    return sections


def _details(workload: Workload[Any], scores: Any, asked: str) -> Mapping[str, Any]:
    """Return the benchmark's fields of the JSON document, its scores if they are frames, and the note `asked`."""
    with reading(f"{workload.kind}: details", _MEND):
        details: dict[str, Any] = {"so_far": asked} if asked else {}
        if isinstance(scores, Mapping):
            rows = {name: frame.to_dicts() for name, frame in scores.items()}
            details["scores"] = {
                name: [{column: _json_value(value) for column, value in row.items()} for row in some]
                for name, some in rows.items()
            }
        return details | dict(workload.details(scores))


def scores_by_query(workload: Workload[Any], run: RunStore) -> ByQuery | None:
    """Return the scores of the run's systems by query so far; None if its benchmark does not compute them. Raises
    BadBenchmark."""
    if type(workload).by_query is Workload.by_query:
        return None  # Otherwise the tables would be read needlessly. Imported runs also have no items.
    with reading(f"{workload.kind}: by_query", _MEND):
        by_query = workload.by_query(_tables(workload, run.at(), ReadOptions()))
    if by_query is None:
        return None
    columns, schema = [*by_query.scores.columns], by_query.scores.schema
    keys = [name for name in ("system", "cluster", "query") if name in columns]
    parts = [name for name in columns if name not in keys and schema[name] == pl.String]
    figures = [name for name in columns if name not in (*keys, *parts)]
    wrong = [name for name in ("system", "query") if name not in columns]
    if wrong:
        problem = f"no column {', '.join(wrong)}"
    elif not figures or any(not schema[name].is_float() for name in figures):
        problem = "expected one column of floats per figure, in addition to " + ", ".join((*keys, *parts))
    elif by_query.scores.select("system", *parts).n_unique() > by_query.scores["system"].n_unique():
        problem = f"a system has several values of {' or '.join(parts)}"
    elif by_query.scores.select(keys).is_duplicated().any():
        problem = f"two rows of one {', '.join(keys)}"
    elif by_query.expected is not None and (lost := [name for name in keys if name not in by_query.expected.columns]):
        problem = f"expected has no column {', '.join(lost)}"
    else:
        return by_query
    raise BadBenchmark(f"{workload.kind}: by_query: {problem}; it has {', '.join(columns)}; {_MEND}")


def _tables(workload: Workload[Any], run: RunStore, options: ReadOptions, item: str = "") -> RunTables:
    """Return the tables that `score` gets. The frame `items` has a row for each item that was asked: `item_id`, `model`, and the
    values of its data that are numbers, texts or booleans.

    `item`: the name of a column that is added to each table, with the id of the row's item; empty: none.
    """

    @functools.cache
    def read(name: str) -> pl.DataFrame:
        if name != ITEMS:
            return run.tables([name], item)[name]
        plain, rows, committed = str | int | float | bool | None, [], run.finished(ITEM)
        for known in checked_items(workload):
            if workload.imported or known.id in committed:
                data = {name: value for name, value in known.data.items() if isinstance(value, plain)}
                rows.append({**data, ITEM_ID: known.id, "model": known.model})
        schema = None if rows else {ITEM_ID: pl.String, "model": pl.String}
        return pl.DataFrame(rows, schema=schema, infer_schema_length=None)

    return RunTables(run, (ITEMS, *(table.name for table in all_tables(type(workload)))), read, options)


def _json_value(value: Any) -> Any:
    """Return a value of a frame as JSON; NaN and infinities become null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if isinstance(value, str | int | bool | list | dict | None) else str(value)


def _check_keys(workload: Workload[Any], run: RunStore) -> None:
    """Raise BadBenchmark if rows of two items have the same key, since one of them would be lost."""
    for name in (table.name for table in workload.tables if table.name in run.declared):
        if (shared := run.reader([name]).shared_row(name, ITEM)) is not None:
            one, other, values = shared
            key = ", ".join(run.declared[name].key)
            raise BadBenchmark(
                f"{workload.kind}: items {one!r} and {other!r} both give a row of {name} whose {key} is "
                f"{', '.join(map(repr, values))}; add a column that differs to the table's key; every stored answer is reused"
            )


@contextlib.contextmanager
def scoring(items: pl.DataFrame) -> Iterator[None]:
    """Return a context in which `expected_rows` counts these items. `items`: the frame `items` that `score` gets, with an
    additional column `LACKS`: whether the item has no answer, because it failed or is not finished."""
    token = _ITEMS.set(items)
    try:
        yield
    finally:
        _ITEMS.reset(token)


def expected_rows(
    frame: pl.DataFrame, value: str, by: Sequence[str], expected: pl.DataFrame | None = None
) -> pl.DataFrame | None:
    """Return the expected number of rows with a value per group, as a frame with the columns `by`, `n_expected` and `guessed`.

    Existing rows are counted. For each failed or unanswered item, as many rows are added as an answered item has in the group. If
    answered items have different numbers of rows, one row is added, and `guessed` is true. `expected`: the items to expect; None:
    all. Returns None outside of `score`, and for a frame without the column `ITEM_ID`.
    """
    run = _ITEMS.get()
    if run is None or ITEM_ID not in frame.columns or ITEM_ID in by or (expected is not None and ITEM_ID not in expected.columns):
        return None
    lacking = run.filter(LACKS)
    given = _given_by_items(frame, run, by) if expected is None else {name: name for name in by}
    columns = [pl.col(other).cast(frame.schema[name], strict=False).alias(name) for name, other in given.items()]
    wanted: dict[Group, set[str]] = {}
    for *group, item in (lacking if expected is None else expected).select(*columns, pl.col(ITEM_ID).alias("_id")).iter_rows():
        wanted.setdefault(tuple(group), set()).add(item)
    rows_of: dict[Group, dict[str, int]] = {} if len(given) < len(by) else {group: {} for group in wanted}
    counted = frame.filter(pl.col(value).is_not_null()).group_by(*by, ITEM_ID).agg(pl.len())
    for *group, item, n in counted.iter_rows():
        rows_of.setdefault(tuple(group), {})[item] = n
    failed = set(lacking[ITEM_ID])
    everywhere = _same(n for rows in rows_of.values() for item, n in rows.items() if item not in failed)
    counts = []
    for whole, rows in rows_of.items():
        mine = wanted.get(tuple(part for name, part in zip(by, whole, strict=True) if name in given), set())
        usual = _same(n for item, n in rows.items() if item not in failed) or everywhere
        short = sum(max(0, (usual or n + 1) - n) for item, n in rows.items() if item in mine & failed)
        missing = short + len(mine - rows.keys()) * (usual or 1)
        counts.append((*whole, sum(rows.values()) + missing, usual is None and missing > 0))
    kinds: dict[str, Any] = {**{name: frame.schema[name] for name in by}, "n_expected": pl.Int64, "guessed": pl.Boolean}
    return pl.DataFrame(counts, schema=kinds, orient="row")


def with_expected(frame: pl.DataFrame, items: pl.DataFrame) -> pl.DataFrame:
    """Add `n_expected` to a frame that has only `n`, if an item lacks an answer.

    The items of a row are those with the row's values, in columns of the same name or, for texts, of any name. Each item without
    an answer adds the mean number of answers per answered item, or 1 if this mean is not a whole number.
    """
    if "n" not in frame.columns or "n_expected" in frame.columns or not frame.schema["n"].is_integer() or not items[LACKS].any():
        return frame
    values = {name: set(items[name].to_list()) for name in items.columns if name != LACKS}
    keys = {}
    for name in (name for name, kind in frame.schema.items() if not kind.is_nested()):
        here = set(frame[name].drop_nulls().to_list())
        named = [name] if name in values else [*values] if here and frame.schema[name] == pl.String else []
        if found := next((other for other in named if here <= values[other]), None):
            keys[name] = found
    about: dict[Group, list[bool]] = {}
    for *group, lacks in items.select(*(pl.col(other).alias(name) for name, other in keys.items()), LACKS).iter_rows():
        about.setdefault(tuple(group), []).append(lacks)
    expected = []
    for row in frame.iter_rows(named=True):
        lacks = about.get(tuple(row[name] for name in keys), [])
        n, answered = row["n"] or 0, len(lacks) - sum(lacks)
        expected.append(n + sum(lacks) * (n // answered if n and answered and n % answered == 0 else 1))
    return frame.with_columns(pl.Series("n_expected", expected, pl.Int64)) if expected != frame["n"].to_list() else frame


def _given_by_items(frame: pl.DataFrame, run: pl.DataFrame, names: Sequence[str]) -> dict[str, str]:
    """Map each column of `names` to the column of the items that has the same values. Leaves out columns that depend on
    answers."""
    both = frame.select(ITEM_ID, *names).unique().join(run, on=ITEM_ID, suffix="_of_item")
    given = {}
    for name in names:
        same = [name] if name in run.columns else []
        others = [] if both.is_empty() else [other for other in run.columns if other not in (name, LACKS)]
        for other in (*same, *others):
            column = both[f"{other}_of_item" if other in names else other]
            alike = column.dtype == both.schema[name] or (column.dtype.is_numeric() and both.schema[name].is_numeric())
            if alike and both[name].eq_missing(column.cast(both.schema[name], strict=False)).all():
                given[name] = other
                break
    return given


def _same(numbers: Iterable[int]) -> int | None:
    """Return the common value of all numbers; None if they differ, or if there are none."""
    found = set(numbers)
    return found.pop() if len(found) == 1 else None
