"""What `open_tables` has published of an ended run, and reading it back. Part of the store room, for the room alone.

`runs/<run>/tables.json` says from which blocks the tables were written, so that it counts only for a run that is unchanged since.
On a local disk the published files are read in place of the blocks: they are sorted and merged already.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.parquet as pq

from summhay_ray.store.blocks import Block
from summhay_ray.store.files import Files
from summhay_ray.store.tables import Columns

_READ = 32 << 20
"""How many bytes of a file are read at a time."""


def mark_name(run_id: str) -> str:
    """The file that says what was published of a run."""
    return f"runs/{run_id}/tables.json"


def table_name(run_id: str, table: str) -> str:
    """The published file of a table."""
    return f"runs/{run_id}/tables/{table}/part-0.parquet"


def hash_of(blocks: Sequence[Block]) -> str:
    """One hash (hex) over the hashes of all blocks of a run."""
    return hashlib.sha256("".join(block.sha256 for block in blocks).encode("ascii")).hexdigest()


def published(files: Files, run_id: str, blocks: Sequence[Block]) -> Mapping[str, Any]:
    """What was published of a run with these blocks (`digests`, `files`); empty if it has changed since, or was not published."""
    try:
        body = json.loads(files.read(mark_name(run_id)))
    except (FileNotFoundError, ValueError):
        return {}
    return body if isinstance(body, Mapping) and body.get("blocks") == hash_of(blocks) else {}


def file_digest(files: Files, name: str) -> str | None:
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


def published_pieces(files: Files, run_id: str, blocks: Sequence[Block], columns: Columns) -> Iterator[pl.DataFrame] | None:
    """The rows of a published table in pieces, sorted by key; one is in memory at a time.

    None if the table was not published from these blocks, if its file is not as it was written, or if it lies in a bucket, where
    checking it would read it twice.
    """
    if files.folder is None:
        return None
    name = table_name(run_id, columns.table)
    written = published(files, run_id, blocks).get("files", {}).get(name)
    if written is None or file_digest(files, name) != written:
        return None
    return _rows_in(files.folder / name, columns)


def _rows_in(path: Path, columns: Columns) -> Iterator[pl.DataFrame]:
    with pq.ParquetFile(path) as file:
        for group in range(file.num_row_groups):
            yield pl.DataFrame(file.read_row_group(group, columns=columns.schema.names))
        if not file.num_row_groups:
            yield columns.frame([])
