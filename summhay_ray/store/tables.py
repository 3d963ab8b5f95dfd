"""Records as Arrow tables: the schema of every table, derived from the annotated fields of `summhay_ray.records`.

Part of the store room. A table's primary key is what makes a row one row, whoever wrote it and how often.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import typing
from collections.abc import Iterable, Mapping, Sequence
from json.encoder import encode_basestring_ascii
from typing import Any

import polars as pl
import pyarrow as pa

from summhay_ray import records

TABLES: Mapping[str, tuple[type[Any], tuple[str, ...]]] = {
    "haystacks": (records.Haystack, ("haystack_id",)),
    "subtopics": (records.Subtopic, ("haystack_id", "position")),
    "insights": (records.Insight, ("haystack_id", "subtopic_id", "position")),
    "documents": (records.Document, ("haystack_id", "number")),
    "rankings": (records.Ranking, ("haystack_id", "subtopic_id", "retriever", "rank")),
    "contexts": (records.Context, ("context_id",)),
    "raw_answers": (records.RawAnswer, ("key",)),
    "summaries": (records.Summary, ("cell_id",)),
    "judgments": (records.Judgment, ("cell_id", "judge", "position")),
    "scores": (records.Score, ("cell_id", "judge", "position")),
    "checks": (records.Check, ("cell_id", "position")),
    "failures": (records.Failure, ("cell_id", "stage", "judge", "insight_id", "error", "message")),
}
"""Table name -> the record of a row and the fields that identify a row."""

_SLICE_BYTES = 4 << 20

_ARROW: Mapping[Any, pa.DataType] = {
    str: pa.string(),
    int: pa.int64(),
    float: pa.float64(),
    tuple[str, ...]: pa.list_(pa.string()),
    tuple[int, ...]: pa.list_(pa.int64()),
    int | None: pa.int64(),
    float | None: pa.float64(),
}


@functools.cache
def schema_of(table: str) -> pa.Schema:
    """The Arrow schema of a table; each field's metadata carries its meaning."""
    record = TABLES[table][0]
    fields = []
    for name, hint in typing.get_type_hints(record, include_extras=True).items():
        if typing.get_origin(hint) is not typing.Annotated:
            continue
        kind, meaning = typing.get_args(hint)
        nullable = type(None) in typing.get_args(kind)
        fields.append(pa.field(name, _ARROW[kind], nullable=nullable, metadata={"meaning": meaning}))
    return pa.schema(fields)


def describe(table: str) -> dict[str, Any]:
    """The table as a JSON document: what stands in `schemas/<table>.json`."""
    record, key = TABLES[table]
    doc = (record.__doc__ or "").strip()
    columns = [
        {"name": field.name, "type": str(field.type), "nullable": field.nullable, "meaning": field.metadata[b"meaning"].decode()}
        for field in schema_of(table)
    ]
    return {"table": table, "row": doc, "primary_key": list(key), "columns": columns}


def to_arrow(table: str, rows: Sequence[Any]) -> pa.Table:
    """The rows (records of the table's class) in the declared schema. Raises ValueError for a null where none may stand."""
    schema = schema_of(table)
    found = pa.table({name: [_cell(getattr(row, name)) for row in rows] for name in schema.names}, schema=schema)
    for field in schema:
        if not field.nullable and found[field.name].null_count:
            raise ValueError(f"table {table}: {field.name} may not be null")
    return found


def _cell(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def from_rows(table: str, rows: Iterable[Any]) -> pl.DataFrame:
    """The rows as a polars frame, each once (the first), sorted by primary key."""
    return to_frame(table, [to_arrow(table, list(rows))])


def to_frame(table: str, found: Sequence[pa.Table]) -> pl.DataFrame:
    """Arrow tables of one schema as one frame, each row once, sorted by primary key.

    Of rows with one key the first in the order of the columns beyond the declared ones counts, then the first that was given.
    """
    frame = pl.from_arrow(pa.concat_tables(found) if found else schema_of(table).empty_table())
    if not isinstance(frame, pl.DataFrame):
        raise TypeError(f"table {table} is no frame")
    key, names = list(TABLES[table][1]), schema_of(table).names
    more = [name for name in frame.columns if name not in names]
    return frame.sort([*key, *more], maintain_order=True).unique(subset=key, keep="first", maintain_order=True).select(names)


def declared(table: str, found: pa.Table, *more: str) -> pa.Table:
    """The columns of the declared schema, then those named in `more`, whoever wrote them.

    What an earlier version wrote lacks what came later: of counts, nothing was counted, so they are 0; the rest is null.
    """
    schema = schema_of(table)
    for field in schema:
        if field.name not in found.column_names and (field.nullable or field.type == pa.int64()):
            found = found.append_column(field, pa.array([None if field.nullable else 0] * found.num_rows, field.type))
    for name in more:
        schema = schema.append(pa.field(name, found.schema.field(name).type))
    return found.select(schema.names).cast(schema)


def to_records(table: str, frame: pl.DataFrame) -> list[Any]:
    """The frame's rows as records of the table's class."""
    record = TABLES[table][0]
    return [record(**{name: tuple(v) if isinstance(v, list) else v for name, v in row.items()}) for row in frame.to_dicts()]


def digest(frame: pl.DataFrame) -> str:
    """sha256 over the frame's rows in their order, each as JSON: equal for equal tables on every machine."""
    return digest_of([frame])


def digest_of(frames: Iterable[pl.DataFrame]) -> str:
    """`digest` of a table that comes in pieces, which are asked for one at a time."""
    hasher = hashlib.sha256()
    for frame in frames:
        names = sorted(frame.columns)
        line = "{" + ", ".join(f"{json.dumps(name)}: %s" for name in names) + "}\n"
        # Several copies of a slice's text are held at once.
        for part in frame.iter_slices(max(1, min(10_000, _SLICE_BYTES * frame.height // max(1, int(frame.estimated_size()))))):
            columns = [_texts(part[name]) for name in names]
            hasher.update("".join(map(line.__mod__, zip(*columns, strict=True))).encode("ascii"))
    return hasher.hexdigest()


def _texts(series: pl.Series) -> list[str]:
    """Each value as JSON writes it; by column, since a row at a time costs three times as much."""
    if series.dtype == pl.Int64:
        return ["null" if value is None else str(value) for value in series.to_list()]
    if series.dtype == pl.String:
        return ["null" if value is None else encode_basestring_ascii(value) for value in series.to_list()]
    return [json.dumps(value, ensure_ascii=True) for value in series.to_list()]


def field_names(record: type[Any]) -> list[str]:
    """The names of a record's fields, persisted or not."""
    return [field.name for field in dataclasses.fields(record)]
