"""Tables, which convert records of any class to rows and columns.

A `Table` defines a table by a record class. A run's record contains the table's `Columns`, so that the run can be read without
the class. Rows with the same primary key count as one row.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import itertools
import json
import math
import re
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from json.encoder import encode_basestring_ascii
from operator import attrgetter
from typing import Any

import polars as pl
import pyarrow as pa
from typing_extensions import TypedDict

from summhay_ray.errors import UserError
from summhay_ray.store.records import Identifier, Name

_SLICE_BYTES = 4 << 20

_NAMES: Mapping[Any, str] = {
    str: "string",
    int: "int64",
    float: "double",
    bool: "bool",
    tuple[str, ...]: "list<item: string>",
    tuple[int, ...]: "list<item: int64>",
    tuple[float, ...]: "list<item: double>",
}
"""The Python type of a field -> the name of its column's type in `schemas/` and in a run's record."""

_ARROW: Mapping[str, pa.DataType] = {
    "string": pa.string(),
    "int64": pa.int64(),
    "double": pa.float64(),
    "bool": pa.bool_(),
    "list<item: string>": pa.list_(pa.string()),
    "list<item: int64>": pa.list_(pa.int64()),
    "list<item: double>": pa.list_(pa.float64()),
}
_POLARS: Mapping[pa.DataType, pl.DataType] = {
    pa.string(): pl.String(),
    pa.int64(): pl.Int64(),
    pa.float64(): pl.Float64(),
    pa.bool_(): pl.Boolean(),
    pa.list_(pa.string()): pl.List(pl.String),
    pa.list_(pa.int64()): pl.List(pl.Int64),
    pa.list_(pa.float64()): pl.List(pl.Float64),
}
_NAME_OF = {kind: name for name, kind in _ARROW.items()}
_OF_A_KEY = (pa.string(), pa.int64(), pa.float64(), pa.bool_())
"""The allowed types of a key column: single values that can be sorted."""
_WORD = re.compile(r"[a-z][a-z0-9_]*")
_SUPPORTED = "str, int, float, bool, tuple[str, ...], tuple[int, ...], tuple[float, ...], or one of these | None"


class ColumnBody(TypedDict):
    """A column as JSON."""

    name: Identifier
    type: str
    nullable: bool
    meaning: str


class TableBody(TypedDict):
    """A table's entry in a run's record."""

    name: Name
    key: list[Identifier]
    columns: list[ColumnBody]


@dataclass(frozen=True, slots=True)
class Columns:
    """A table's description in a run's record: its name, its key and all its columns."""

    table: str
    key: tuple[str, ...]
    schema: pa.Schema
    """Each field's metadata contains its description."""

    def to_json(self) -> dict[str, Any]:
        """Return the table's entry in a run's record."""
        columns = [
            {
                "name": field.name,
                "type": _NAME_OF[field.type],
                "nullable": field.nullable,
                "meaning": field.metadata[b"meaning"].decode(),
            }
            for field in self.schema
        ]
        return {"name": self.table, "key": list(self.key), "columns": columns}

    @classmethod
    def from_json(cls, body: TableBody) -> Columns:
        """Return the columns from the result of `to_json`. Raises ValueError for a column of an unknown type, a repeated column,
        or a key column without single values."""
        kinds = {column["name"]: _ARROW.get(column["type"]) for column in body["columns"]}
        key = body["key"]
        if (
            None in kinds.values()
            or len(kinds) < len(body["columns"])
            or not key
            or any(kinds.get(n) not in _OF_A_KEY for n in key)
        ):
            raise ValueError(f"table {body['name']}: its columns and its key do not fit")
        fields = [
            pa.field(column["name"], _ARROW[column["type"]], nullable=column["nullable"], metadata={"meaning": column["meaning"]})
            for column in body["columns"]
        ]
        return cls(body["name"], tuple(key), pa.schema(fields))

    def agrees(self, other: Columns) -> bool:
        """Return whether the columns that both have are of the same types."""
        types = {field.name: field.type for field in self.schema}
        return all(types.get(field.name, field.type) == field.type for field in other.schema)

    def as_frame(self, rows: Sequence[Any]) -> pl.DataFrame:
        """Return the rows as a frame, in the given order. Each row is a record with the columns as attributes.

        Raises TypeError, ValueError or OverflowError for a value that does not fit its column: one of another type, a null in a
        column that does not allow null, or a NaN in a key column.
        """
        return pl.DataFrame([self._series(field, list(map(attrgetter(field.name), rows))) for field in self.schema])

    def flaw(self, row: Any) -> str | None:
        """Return the name of the first column that does not fit the row's value; None if all fit."""
        for field in self.schema:
            try:
                self._series(field, [getattr(row, field.name)])
            except (TypeError, ValueError, OverflowError):
                return str(field.name)
        return None

    def _series(self, field: pa.Field, values: list[Any]) -> pl.Series:
        # Avoid pyarrow here. Its conversion of lists imports pandas, which costs half a second and 40 MiB in every process that
        # writes rows.
        name, kind = field.name, _POLARS[field.type]
        items, known = values, list[int | None]()
        inner: Any = kind
        if isinstance(kind, pl.List):
            # Build the column from all items together, since polars takes twenty times as long list by list.
            lists = [value.tolist() if hasattr(value, "tolist") else value for value in values]
            for value in lists:
                if value is not None and not isinstance(value, list | tuple):
                    raise TypeError(f"{type(value).__name__} is not a list")
            items, inner = [item for value in lists if value for item in value], kind.inner
            starts = itertools.accumulate((len(value or ()) for value in lists), initial=0)
            # If a start is None, the list is null.
            known = [start if value is not None else None for start, value in zip(starts, [*lists, []], strict=True)]
        # Refuse bools here, which polars would convert to 0 or 1.
        if inner != pl.Boolean and bool in set(map(type, items)):
            raise TypeError(f"{name}: a bool is not {inner}")
        series = pl.Series(name, items, inner, strict=True)
        if isinstance(kind, pl.List):
            offsets = pl.Series(known, dtype=pl.Int64).to_arrow()
            series = pl.Series(name, pa.LargeListArray.from_arrays(offsets, series.to_arrow()), kind)
        if not field.nullable and series.null_count():
            raise ValueError(f"table {self.table}: {name} may not be null")
        # NaN is not even equal to itself, so it cannot identify a row.
        if name in self.key and kind == pl.Float64 and series.is_nan().any():
            raise ValueError(f"table {self.table}: {name} is part of the key, and may not be NaN")
        return series

    def frame(self, found: Sequence[pl.DataFrame], more: str = "") -> pl.DataFrame:
        """Combine frames with the same schema, without repeated rows, sorted by primary key. `more`: an additional text column to
        keep.

        If several rows have the same key, the first one is kept. They are ordered by any additional columns, and then as given.
        """
        # Do not use `Schema.empty_table`, which imports pandas; that takes longer than reading a small run.
        frame = pl.concat(found) if found else pl.DataFrame(pa.Table.from_batches([], self.schema))
        if more and not found:
            frame = frame.with_columns(pl.lit("", pl.String).alias(more))
        key, names = list(self.key), self.schema.names
        beyond = [name for name in frame.columns if name not in names]
        ordered = frame.sort([*key, *beyond], maintain_order=True).select(*names, *([more] if more else []))
        # Equal keys are adjacent now. Finding them by hash would need twice the memory.
        return ordered.filter(pl.any_horizontal(pl.col(name).ne_missing(pl.col(name).shift()) for name in key))


Tables = Mapping[str, Columns]
"""Table -> its columns."""


@dataclass(frozen=True)
class Table:
    """A table, whose rows are instances of a dataclass.

    Each field of the dataclass is a column. The field's type is `Annotated[type, "description in one line"]`, or a type without a
    description.
    """

    name: str
    record: type[Any]
    key: tuple[str, ...]
    """The columns that identify a row."""
    without: tuple[str, ...] = ()
    """Fields of the record that are not columns."""
    texts: tuple[str, ...] = ()
    """The columns with texts of documents. A dataset for the Hub leaves them out unless the user asks for them."""

    @functools.cached_property
    def columns(self) -> Columns:
        """The columns, made from the record's fields. Raises UserError for an unusable field or key."""
        record = self.record.__name__
        if not _WORD.fullmatch(self.name):
            raise UserError(f"table {self.name!r}: expected small letters, digits and _, beginning with a letter")
        if not dataclasses.is_dataclass(self.record):
            raise UserError(f"table {self.name}: {record} is not a dataclass; write @dataclass(frozen=True) above it")
        try:
            hints = typing.get_type_hints(self.record, include_extras=True)
        except NameError as error:
            raise UserError(f"table {self.name}: {record}: {error}; define a field's type in the module of the class") from None
        names = [field.name for field in dataclasses.fields(self.record) if field.name not in self.without]
        fields = []
        for name in names:
            if name.startswith("_"):
                raise UserError(f"table {self.name}: {record}.{name}: a column's name begins with a letter")
            hint = hints[name]
            annotated = typing.get_origin(hint) is typing.Annotated
            kind, meaning = typing.get_args(hint)[:2] if annotated else (hint, "")
            parts = typing.get_args(kind) if typing.get_origin(kind) in (typing.Union, types.UnionType) else (kind,)
            plain = [part for part in parts if part is not type(None)]
            if len(plain) != 1 or plain[0] not in _NAMES:
                given = getattr(kind, "__name__", kind) if isinstance(kind, type) else kind
                raise UserError(f"table {self.name}: {record}.{name}: {given} is not a column type; take {_SUPPORTED}")
            arrow, metadata = _ARROW[_NAMES[plain[0]]], {"meaning": str(meaning)}
            fields.append(pa.field(name, arrow, nullable=len(parts) > 1, metadata=metadata))
        schema = pa.schema(fields)
        for name in self.key:
            if name not in names:
                raise UserError(
                    f"table {self.name}: its key names {name!r}, which is not a field of {record}: {', '.join(names)}"
                )
            if schema.field(name).type not in _OF_A_KEY or schema.field(name).nullable:
                raise UserError(
                    f"table {self.name}: {record}.{name} is part of the key; a key is made of str, int, float and bool alone"
                )
        if not self.key:
            raise UserError(f"table {self.name}: it has no key; name the fields of {record} that identify a row")
        return Columns(self.name, self.key, schema)

    def describe(self) -> dict[str, Any]:
        """Return the table as a JSON document, which is the content of `schemas/<table>.json`."""
        doc = (self.record.__doc__ or "").strip()
        return {"table": self.name, "row": doc, "primary_key": list(self.key), "columns": self.columns.to_json()["columns"]}

    def frame(self, rows: Iterable[Any]) -> pl.DataFrame:
        """Return the first row of each key as a polars frame, sorted by primary key."""
        return self.columns.frame([self.columns.as_frame(list(rows))])

    def records(self, frame: pl.DataFrame) -> list[Any]:
        """Return the frame's rows as instances of the record class. Columns that the class lacks are left out."""
        rows = frame.select(self.columns.schema.names).to_dicts()
        return [self.record(**{name: tuple(v) if isinstance(v, list) else v for name, v in row.items()}) for row in rows]


def columns_of(tables: Iterable[Table]) -> Tables:
    """Return table name -> columns. Raises UserError if two tables have the same name; see also `Table.columns`."""
    columns: dict[str, Columns] = {}
    for table in tables:
        if table.name in columns:
            raise UserError(f"two tables are named {table.name!r}; give each a name of its own")
        columns[table.name] = table.columns
    return columns


def digest(frame: pl.DataFrame) -> str:
    """Return the sha256 (hex) of the frame's rows in order, each as JSON. Equal tables have equal digests on every machine."""
    hasher = hashlib.sha256()
    hash_rows(hasher, frame)
    return hasher.hexdigest()


def hash_rows(hasher: hashlib._Hash, frame: pl.DataFrame) -> None:
    """Add a piece of a table to the hash from which its `digest` is made."""
    names = sorted(frame.columns)
    line = "{" + ", ".join(f"{json.dumps(name)}: %s" for name in names) + "}\n"
    # The slices are small, since several copies of a slice's text are in memory at the same time.
    for part in frame.iter_slices(max(1, min(10_000, _SLICE_BYTES * frame.height // max(1, int(frame.estimated_size()))))):
        # Convert whole columns, since converting rows takes three times as long.
        columns = [list(map(_writer(part[name].dtype, part[name].null_count() > 0), part[name].to_list())) for name in names]
        hasher.update("".join(map(line.__mod__, zip(*columns, strict=True))).encode("ascii"))


def _writer(kind: Any, nulls: bool = True) -> Callable[[Any], str]:
    """Return a function that writes values of a column's type like `json.dumps`, in a fifth of the time. `nulls`: whether the
    column has nulls."""
    write = _WRITERS.get(kind, json.dumps)
    if isinstance(kind, pl.List):
        item = _writer(kind.inner)
        write = lambda value: f"[{', '.join(map(item, value))}]"  # noqa: E731
    return write if not nulls else lambda value: "null" if value is None else write(value)


_WRITERS: Mapping[Any, Callable[[Any], str]] = {
    pl.Int64: str,
    pl.String: encode_basestring_ascii,
    pl.Float64: lambda value: repr(value) if math.isfinite(value) else json.dumps(value),
}
