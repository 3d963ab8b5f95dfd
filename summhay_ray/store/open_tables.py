"""A run's tables as plain files that any tool can open. Part of the store room.

When a run ends, each of its tables is written as one Parquet file, `runs/<run>/tables/<table>/part-0.parquet`: sorted by key,
each row once, with each column's meaning in the metadata. If the run goes on and ends again, the file is replaced as a whole; on
a local disk a reader that has it open keeps the old content. `runs/<run>/tables.json` is written last. It says from which
blocks the tables were written, so that an unchanged run writes nothing, and has each table's digest, which is slow to compute,
and the sha256 of each file.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from summhay_ray.store.blocks import check_block
from summhay_ray.store.errors import StoreError
from summhay_ray.store.files import Files
from summhay_ray.store.published import file_digest, hash_of, mark_name, published
from summhay_ray.store.rows import pieces_of, size_of
from summhay_ray.store.runs import RunStore
from summhay_ray.store.tables import Columns, Digest
from summhay_ray.text import BEGINS_FORMULA

TableFormat = Literal["parquet", "csv", "jsonl"]
"""The formats in which a table can be written."""
APART_BYTES = 16 << 20
"""Tables of more bytes in memory are written by a process of their own: what that takes goes with it, and a run's driver does not
grow with the run."""


def publish(run: RunStore) -> list[str]:
    """Write the run's tables into its folder unless they are there and up to date with its newest commit.

    Returns a list with a warning if that fails, because the run itself has succeeded; otherwise an empty list.
    """
    try:
        now = run.at()
        # Earlier versions did not record the files.
        before = _published(now).get("files")
        if before is not None and all(map(run.store.files.exists, before)):
            return []
        if size_of(now.manifest().blocks) > APART_BYTES:
            return _publish_apart(run)
        publish_now(now)
    except (StoreError, OSError) as error:
        return _unwritten(run, str(error) or type(error).__name__)
    return []


def publish_now(run: RunStore) -> None:
    """Write the run's tables and then the record of them. Raises StoreError, OSError."""
    files, digests = run.store.files, {table: Digest() for table in run.declared}
    written = _written(run, files, f"runs/{run.run_id}/tables/", "parquet", lambda table, piece: digests[table].add(piece))
    body = {
        "blocks": hash_of(run.manifest().blocks),
        "files": {name: sha256 for _, name, sha256 in written},
        "digests": {table: digest.to_json() for table, digest in digests.items()},
    }
    files.put(mark_name(run.run_id), json.dumps(body).encode())


def _publish_apart(run: RunStore) -> list[str]:
    """`publish` by a process of its own."""
    code = f"from summhay_ray.store import Store, publish_now; publish_now(Store({run.store.uri!r}).run({run.run_id!r}).at())"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    if not done.returncode:
        return []
    last = (done.stderr.strip().splitlines() or [f"its process ended with {done.returncode}"])[-1]
    return _unwritten(run, last.partition(": ")[2] or last)


def _unwritten(run: RunStore, why: str) -> list[str]:
    return [f"the tables were not written as Parquet: {why}; run again, or: summhay export {run.run_id} --tables FOLDER"]


def write_tables(run: RunStore, files: Files, prefix: str = "", kind: TableFormat = "parquet") -> dict[str, str]:
    """Write every table of the run, as of its newest manifest, under `prefix`. Return table -> file name.

    Readers see a whole file or none. In CSV, lists are written as JSON and text that a spreadsheet would take for a formula
    is escaped. Holds one piece of a table in memory. Raises StoreError for a run that has lost its commits.
    """
    now = run.at()
    if lost := now.lost_commits():
        raise StoreError(lost)
    written = {table: name for table, name, _ in _written(now, files, prefix, kind)}
    return {table: written[table] for table in now.declared}


def _written(
    run: RunStore, files: Files, prefix: str, kind: TableFormat, see: Callable[[str, pl.DataFrame], None] = lambda _, __: None
) -> Iterator[tuple[str, str, str]]:
    """Write each table; yields (table, file name, sha256 of the file). `see` is called with each table's pieces, in order."""
    for table, pieces in pieces_of(run.store.files, run.manifest().blocks, run.declared):
        name = f"{prefix}{table}/part-0.{kind}"
        with files.writing(name) as path:
            try:
                digest = _write(path, run.declared[table], _seen(pieces, functools.partial(see, table)), kind, run.run_id)
            except OSError as error:
                if error.errno is None or error.filename is not None:
                    raise
                # The error of a full disk does not say which disk it is.
                raise OSError(error.errno, os.strerror(error.errno), str(path.parent)) from error
        yield table, name, digest


def _seen(pieces: Iterable[pl.DataFrame], see: Callable[[pl.DataFrame], None]) -> Iterator[pl.DataFrame]:
    for piece in pieces:
        see(piece)
        yield piece


def lost_tables(run: RunStore) -> list[str]:
    """A line for each of the published tables of an ended run that is missing or damaged. Reads them all."""
    lines, written = [], _published(run)
    if not written:
        where = run.store.files.where(f"runs/{run.run_id}/tables")
        lines.append(f"{where} has not the run's tables, or not as they are now; run or import again, which writes them")
    for name, digest in written.get("files", {}).items():
        found = file_digest(run.store.files, name)
        if found is None:
            lines.append(f"{run.store.files.where(name)} is gone; run or import again, which writes it")
        elif found != digest:
            lines.append(f"{run.store.files.where(name)} is damaged; delete it, then run or import again, which writes it")
    return lines


def table_digests(run: RunStore) -> dict[str, dict[str, Any]]:
    """Table -> {"rows": number of rows, "sha256": hash of the sorted rows}, from `publish` if up to date, else computed.

    Raises Damaged if a block of the run is missing or damaged.
    """
    written = _published(run)
    if not written:
        return run.digests()
    for block in run.manifest().blocks:
        check_block(run.store.files, block)
    return dict(written["digests"])


def _published(run: RunStore) -> Mapping[str, Any]:
    return published(run.store.files, run.run_id, run.manifest().blocks)


def _write(path: Path, columns: Columns, pieces: Iterable[pl.DataFrame], kind: TableFormat, run_id: str) -> str:
    """Write a table to a file, durably, and return the file's sha256 (hex)."""
    if kind == "parquet":
        metadata = {"run": run_id, "table": columns.table, "primary_key": json.dumps(columns.key)}
        schema = columns.schema.with_metadata(metadata)
        with pq.ParquetWriter(path, schema, compression="zstd") as writer:
            # Some readers take the size of the first row group for that of their batches, which cannot be 0.
            for piece in filter(len, pieces):
                writer.write_table(piece.to_arrow().cast(schema))
    else:
        with path.open("wb") as stream:
            for number, piece in enumerate(pieces):
                # polars's own errors of a file have no number.
                text = piece.write_ndjson() if kind == "jsonl" else _flat(piece, columns).write_csv(include_header=not number)
                stream.write(text.encode())
    with path.open("rb") as stream:
        os.fsync(stream.fileno())
        return hashlib.file_digest(stream, "sha256").hexdigest()


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
