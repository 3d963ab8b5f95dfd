"""Items without an answer: a benchmark's tables have no row for them, but figures count them as expected.

While `scoring.scored` calls a benchmark's `score`, `expected_rows` has access to these items, for the `mean_interval` of
`benchmark`. Other frames get their `n_expected` from `with_expected`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any

import polars as pl

ITEM_ID = "item_id"
"""Column with the id of a row's item, in the items' frame and in the tables that `score` gets."""
LACKS = "_lacks"
"""Column of the run's items: the item is not answered, or has a failure."""
_ITEMS: ContextVar[pl.DataFrame | None] = ContextVar("_ITEMS", default=None)
Group = tuple[Any, ...]


@contextlib.contextmanager
def scoring(items: pl.DataFrame) -> Iterator[None]:
    """A context that gives `expected_rows` the run's items: the frame `items` of `score`, with the column `LACKS`."""
    token = _ITEMS.set(items)
    try:
        yield
    finally:
        _ITEMS.reset(token)


def expected_rows(
    frame: pl.DataFrame, value: str, by: Sequence[str], expected: pl.DataFrame | None = None
) -> pl.DataFrame | None:
    """The expected number of rows with a value per group: columns `by`, `n_expected`, and `guessed`.

    The existing rows are counted, and for each failed or unanswered item as many rows as an answered item has in the group. If
    answered items have different numbers of rows, a missing item counts as one row, and `guessed` is true. `expected`: the items
    to expect, if not all. None outside of `score`, and for a frame without the items of its rows.
    """
    run = _ITEMS.get()
    if run is None or ITEM_ID not in frame.columns or ITEM_ID in by or (expected is not None and ITEM_ID not in expected.columns):
        return None
    lacking = run.filter(LACKS)
    given = _given_by_items(frame, run, by) if expected is None else {name: name for name in by}
    wanted = _items_of(lacking if expected is None else expected, given, frame)
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
    """Add `n_expected` to a frame that has `n` but lacks it, if items of its rows lack an answer.

    A row belongs to the items that have its values: in columns of the same name or, for texts, of any name. Each missing item
    counts for as many answers as an answered one does on average, or for one if that average is not a whole number.
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
    """Column of `names` -> the column of the items with its values. Columns whose values depend on answers are left out."""
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


def _items_of(items: pl.DataFrame, given: Mapping[str, str], frame: pl.DataFrame) -> dict[Group, set[str]]:
    """Values of the given columns -> the ids of the items that have them."""
    columns = [pl.col(other).cast(frame.schema[name], strict=False).alias(name) for name, other in given.items()]
    wanted: dict[Group, set[str]] = {}
    for *group, item in items.select(*columns, pl.col(ITEM_ID).alias("_id")).iter_rows():
        wanted.setdefault(tuple(group), set()).add(item)
    return wanted


def _same(numbers: Iterable[int]) -> int | None:
    """The common value of all numbers; None if they differ, or if there are none."""
    found = set(numbers)
    return found.pop() if len(found) == 1 else None
