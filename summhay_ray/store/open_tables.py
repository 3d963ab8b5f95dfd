"""A run's tables as plain files that any tool can open. Part of the store room.

When a run ends, each of its tables is written as one Parquet file, `runs/<run>/tables/<table>/part-0.parquet`: sorted by key,
each row once, with each column's meaning in the metadata. If the run goes on and ends again, the file is replaced as a whole; on
a local disk a reader that has it open keeps the old content. `runs/<run>/tables.json` is written last. It says from which
blocks the tables were written, so that an unchanged run writes nothing, and has each table's digest, which is slow to compute,
and the sha256 of each file.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from summhay_ray.store.blocks import check_block
from summhay_ray.store.checked_json import with_hash
from summhay_ray.store.files import Files
from summhay_ray.store.published import file_name, hash_of, mark_name, published, tables_folder
from summhay_ray.store.rows import pieces_of
from summhay_ray.store.runs import RunStore
from summhay_ray.store.tables import Columns, Digest
from summhay_ray.text import BEGINS_FORMULA

TableFormat = Literal["parquet", "csv", "jsonl"]
"""The formats in which a table can be written."""
GROUP_BYTES = 8 << 20
"""Size in memory of a row group, about: whoever reads a table piece by piece holds one."""
_READ = 32 << 20
"""How many bytes of a file are read at a time."""


def publish(run: RunStore) -> None:
    """Write the run's tables into its folder, and then the record of them, unless they are there and up to date with its newest
    commit. Raises StoreError, OSError; publishing again then writes them all."""
    run = run.at()
    files = run.store.files
    # Earlier versions did not record the files.
    before = _published(run).get("files")
    if before is not None and all(map(files.exists, before)):
        return
    digests = {table: Digest() for table in run.declared}
    written = {name: sha256 for _, name, sha256 in _written(run, files, tables_folder(run.run_id), "parquet", digests)}
    told = {table: digest.to_json() for table, digest in digests.items()}
    body = {"blocks": hash_of(run.manifest().blocks), "digests": told, "files": written}
    files.put(mark_name(run.run_id), with_hash(body))


def write_tables(run: RunStore, files: Files, prefix: str = "", kind: TableFormat = "parquet") -> dict[str, str]:
    """Write every table of the run, as of its newest manifest, under `prefix`. Return table -> file name.

    Readers see a whole file or none. In CSV, lists are written as JSON and text that a spreadsheet would take for a formula
    is escaped. Holds one piece of a table in memory.
    """
    now = run.at()
    written = {table: name for table, name, _ in _written(now, files, prefix, kind)}
    return {table: written[table] for table in now.declared}


def _written(
    run: RunStore, files: Files, prefix: str, kind: TableFormat, digests: Mapping[str, Digest] | None = None
) -> Iterator[tuple[str, str, str]]:
    """Write each table; yields (table, file name, sha256 of the file). The rows are entered into the table's digest, if any."""
    for table, pieces in pieces_of(run.store.files, run.manifest().blocks, run.declared):
        name = prefix + file_name(table, kind)
        with files.writing(name) as path:
            try:
                entered = pieces if digests is None else _entered(pieces, digests[table])
                sha256 = _write(path, run.declared[table], entered, kind, run.run_id)
            except OSError as error:
                if error.errno is None or error.filename is not None:
                    raise
                # The error of a full disk does not say which disk it is.
                raise OSError(error.errno, os.strerror(error.errno), str(path.parent)) from None
        yield table, name, sha256


def _entered(pieces: Iterable[pl.DataFrame], digest: Digest) -> Iterator[pl.DataFrame]:
    for piece in pieces:
        digest.add(piece)
        yield piece


def not_published(run: RunStore) -> list[str]:
    """A line if the tables of an ended run were not written, or not since it changed; else an empty list."""
    if _published(run):
        return []
    where = run.store.files.where(f"runs/{run.run_id}/tables")
    return [f"{where} does not hold the run's current tables; run or import again, which writes them"]


def lost_tables(run: RunStore) -> list[str]:
    """A line for each of the published tables of an ended run that is missing or damaged. Reads them all."""
    lines = not_published(run)
    for name, digest in _published(run).get("files", {}).items():
        found = _digest_of(run.store.files, name)
        if found is None:
            lines.append(f"{run.store.files.where(name)} is gone; run or import again, which writes it")
        elif found != digest:
            lines.append(f"{run.store.files.where(name)} is damaged; delete it, then run or import again, which writes it")
    return lines


def _digest_of(files: Files, name: str) -> str | None:
    """The sha256 of a file (hex); None if it is missing."""
    hasher = hashlib.sha256()
    try:
        for offset in itertools.count(0, _READ):
            hasher.update(part := files.read_range(name, offset, _READ))
            if len(part) < _READ:
                break
    except FileNotFoundError:
        return None
    return hasher.hexdigest()


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
                rows = piece.to_arrow().cast(schema)
                writer.write_table(rows, row_group_size=1 + len(rows) * GROUP_BYTES // max(rows.nbytes, 1))
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
