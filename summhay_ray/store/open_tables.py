"""A run's tables as plain files that any tool opens. Part of the store room.

When a run ends each of its tables is one Parquet file, `runs/<run>/tables/<table>/part-0.parquet`: sorted by key, each row once,
a column's meaning in its metadata. A file is replaced whole when the run goes on and ends again; on disk a reader that has it
open keeps what it opened. `runs/<run>/tables.json` says as of which commit they are: a run that ends as it was writes nothing;
and it has the digest of each, which takes longer to compute than all else that a finished run is asked for.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from summhay_ray.store.blocks import check_block
from summhay_ray.store.errors import StoreError
from summhay_ray.store.files import Files
from summhay_ray.store.rows import pieces_of
from summhay_ray.store.runs import RunStore
from summhay_ray.store.tables import Columns
from summhay_ray.text import BEGINS_FORMULA

TableFormat = Literal["parquet", "csv", "jsonl"]
"""What a table can be written as."""


def publish(run: RunStore) -> list[str]:
    """Write the run's tables beside it, where they are not written as of its newest commit.

    Gives a warning where that cannot be done: the run has ended all the same.
    """
    try:
        now = run.at()
        files, mark = now.store.files, f"runs/{now.run_id}/tables.json"
        if _told(files, mark).get("commit") != now.version():
            write_tables(now, files, f"runs/{now.run_id}/tables/")
            told = {"commit": now.version(), "blocks": _blocks(now), "digests": now.digests()}
            files.put(mark, json.dumps(told).encode())
    except (StoreError, OSError) as error:
        why = str(error) or type(error).__name__
        return [f"the tables were not written as Parquet: {why}; run again, or: summhay export {run.run_id} --tables FOLDER"]
    return []


def write_tables(run: RunStore, files: Files, prefix: str = "", kind: TableFormat = "parquet") -> dict[str, str]:
    """Write every table of the run as it stands now under `prefix`; gives the name of each table's file.

    Whoever looks sees a whole file or none. In CSV lists are JSON, and no text is a formula. Holds a piece of a table at a time.
    """
    now, written = run.at(), {}
    for table, pieces in pieces_of(now.store.files, now.manifest().blocks, now.declared):
        name = f"{prefix}{table}/part-0.{kind}"
        with files.writing(name) as path:
            _write(path, now.declared[table], pieces, kind, now.run_id)
        written[table] = name
    return {table: written[table] for table in now.declared}


def table_digests(run: RunStore) -> dict[str, dict[str, Any]]:
    """Table -> its number of rows and the hash of its sorted rows: as `publish` kept them, else counted now.

    Raises Damaged where a block of the run is absent or damaged.
    """
    told = _told(run.store.files, f"runs/{run.run_id}/tables.json")
    if told.get("blocks") != _blocks(run):
        return run.digests()
    for block in run.manifest().blocks:
        check_block(run.store.files, block)
    return dict(told["digests"])


def _blocks(run: RunStore) -> str:
    """What the run's rows are made of, in one hash."""
    return hashlib.sha256("".join(block.sha256 for block in run.manifest().blocks).encode("ascii")).hexdigest()


def _told(files: Files, mark: str) -> Mapping[str, Any]:
    try:
        body = json.loads(files.read(mark))
    except (FileNotFoundError, ValueError):
        return {}
    return body if isinstance(body, Mapping) else {}


def _write(path: Path, columns: Columns, pieces: Iterable[pl.DataFrame], kind: TableFormat, run_id: str) -> None:
    if kind == "parquet":
        told = {"run": run_id, "table": columns.table, "primary_key": json.dumps(columns.key)}
        schema = columns.schema.with_metadata(told)
        with pq.ParquetWriter(path, schema, compression="zstd") as writer:
            for piece in pieces:
                writer.write_table(piece.to_arrow().cast(schema))
    else:
        with path.open("wb") as stream:
            for number, piece in enumerate(pieces):
                if kind == "jsonl":
                    piece.write_ndjson(stream)
                else:
                    _flat(piece, columns).write_csv(stream, include_header=not number)
    with path.open("rb") as stream:
        os.fsync(stream.fileno())


def _flat(piece: pl.DataFrame, columns: Columns) -> pl.DataFrame:
    """The piece with its lists as JSON, and an apostrophe before what a spreadsheet would take for a formula."""
    lists = [field.name for field in columns.schema if pa.types.is_list(field.type)]
    texts = [
        pl.Series(name, [None if one is None else json.dumps(one.to_list()) for one in piece[name]], pl.String) for name in lists
    ]
    flat = piece.with_columns(texts)
    found = [pl.col(name) for name, kind in flat.schema.items() if kind == pl.String]
    return flat.with_columns(
        pl.when(one.str.contains(BEGINS_FORMULA)).then(one.str.replace("^", "'")).otherwise(one) for one in found
    )
