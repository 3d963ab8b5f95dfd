"""A run's tables as plain files that any tool can open. Part of the store room.

When a run ends, each of its tables is written as one Parquet file, `runs/<run>/tables/<table>/part-0.parquet`: sorted by key,
each row once, with each column's meaning in the metadata. If the run goes on and ends again, the file is replaced as a whole; on
a local disk a reader that has it open keeps the old content. `runs/<run>/tables.json` holds the number of the commit that was
written, so that an unchanged run writes nothing, and each table's digest, which is slow to compute.
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
"""The formats in which a table can be written."""


def publish(run: RunStore) -> list[str]:
    """Write the run's tables into its folder unless they are up to date with its newest commit.

    Returns a list with a warning if that fails, because the run itself has succeeded; otherwise an empty list.
    """
    try:
        now = run.at()
        files, mark = now.store.files, f"runs/{now.run_id}/tables.json"
        if _published(files, mark).get("commit") != now.version():
            write_tables(now, files, f"runs/{now.run_id}/tables/")
            published = {"commit": now.version(), "blocks": _blocks(now), "digests": now.digests()}
            files.put(mark, json.dumps(published).encode())
    except (StoreError, OSError) as error:
        why = str(error) or type(error).__name__
        return [f"the tables were not written as Parquet: {why}; run again, or: summhay export {run.run_id} --tables FOLDER"]
    return []


def write_tables(run: RunStore, files: Files, prefix: str = "", kind: TableFormat = "parquet") -> dict[str, str]:
    """Write every table of the run, as of its newest manifest, under `prefix`. Return table -> file name.

    Readers see a whole file or none. In CSV, lists are written as JSON and text that a spreadsheet would take for a formula
    is escaped. Holds one piece of a table in memory.
    """
    now, written = run.at(), {}
    for table, pieces in pieces_of(now.store.files, now.manifest().blocks, now.declared):
        name = f"{prefix}{table}/part-0.{kind}"
        with files.writing(name) as path:
            _write(path, now.declared[table], pieces, kind, now.run_id)
        written[table] = name
    return {table: written[table] for table in now.declared}


def table_digests(run: RunStore) -> dict[str, dict[str, Any]]:
    """Table -> {"rows": number of rows, "sha256": hash of the sorted rows}, from `publish` if up to date, else computed.

    Raises Damaged if a block of the run is missing or damaged.
    """
    published = _published(run.store.files, f"runs/{run.run_id}/tables.json")
    if published.get("blocks") != _blocks(run):
        return run.digests()
    for block in run.manifest().blocks:
        check_block(run.store.files, block)
    return dict(published["digests"])


def _blocks(run: RunStore) -> str:
    """One hash (hex) over the hashes of all blocks of the run."""
    return hashlib.sha256("".join(block.sha256 for block in run.manifest().blocks).encode("ascii")).hexdigest()


def _published(files: Files, mark: str) -> Mapping[str, Any]:
    try:
        body = json.loads(files.read(mark))
    except (FileNotFoundError, ValueError):
        return {}
    return body if isinstance(body, Mapping) else {}


def _write(path: Path, columns: Columns, pieces: Iterable[pl.DataFrame], kind: TableFormat, run_id: str) -> None:
    if kind == "parquet":
        metadata = {"run": run_id, "table": columns.table, "primary_key": json.dumps(columns.key)}
        schema = columns.schema.with_metadata(metadata)
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
    """The piece with lists as JSON, and with an apostrophe before text that a spreadsheet would take for a formula."""
    lists = [field.name for field in columns.schema if pa.types.is_list(field.type)]
    as_json = [
        pl.Series(name, [None if cell is None else json.dumps(cell.to_list()) for cell in piece[name]], pl.String)
        for name in lists
    ]
    flat = piece.with_columns(as_json)
    texts = [pl.col(name) for name, kind in flat.schema.items() if kind == pl.String]
    return flat.with_columns(
        pl.when(text.str.contains(BEGINS_FORMULA)).then(text.str.replace("^", "'")).otherwise(text) for text in texts
    )
