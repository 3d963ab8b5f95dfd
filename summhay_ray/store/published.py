"""What `open_tables` has published of an ended run, and reading it back. Part of the store room, for the room alone.

`runs/<run>/tables.json` says from which blocks the tables were written, so that it counts only for a run that is unchanged since.
On a local disk the published files are read in place of the blocks: they are sorted and merged already. They are only a quicker
copy: whenever one cannot be used, the blocks are read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, BinaryIO

import polars as pl
import pyarrow.parquet as pq

from summhay_ray.store.blocks import Block
from summhay_ray.store.checked_json import read_checked
from summhay_ray.store.files import Files
from summhay_ray.store.tables import Columns


def mark_name(run_id: str) -> str:
    """The file that says what was published of a run."""
    return f"runs/{run_id}/tables.json"


def tables_folder(run_id: str) -> str:
    """The beginning of the names of a run's published files."""
    return f"runs/{run_id}/tables/"


def file_name(table: str, kind: str = "parquet") -> str:
    """The file of a table below a folder of tables."""
    return f"{table}/part-0.{kind}"


def hash_of(blocks: Sequence[Block]) -> str:
    """One hash (hex) over the hashes of all blocks of a run."""
    return hashlib.sha256("".join(block.sha256 for block in blocks).encode("ascii")).hexdigest()


def published(files: Files, run_id: str, blocks: Sequence[Block]) -> Mapping[str, Any]:
    """What was published of a run with these blocks (`digests`, `files`); empty if it has changed since, or was not published."""
    try:
        body = read_checked(files.read(mark_name(run_id)))
    except FileNotFoundError:
        return {}
    return body if body is not None and body.get("blocks") == hash_of(blocks) else {}


def published_pieces(files: Files, run_id: str, blocks: Sequence[Block], columns: Columns) -> Iterator[pl.DataFrame] | None:
    """The rows of a published table in pieces, as `RunStore.pieces` gives them; little more than one is in memory at a time.

    None if the table was not published from these blocks, if its file is not as it was written, or if it lies in a bucket, where
    checking it would read it twice.
    """
    if files.folder is None:
        return None
    name = tables_folder(run_id) + file_name(columns.table)
    try:
        written = published(files, run_id, blocks).get("files", {}).get(name)
        if written is None:
            return None
        # What was checked is what is read, even if the file is replaced meanwhile.
        stream = (files.folder / name).open("rb")
        if hashlib.file_digest(stream, "sha256").hexdigest() != written:
            stream.close()
            return None
    except OSError:
        return None
    return _rows_in(stream, columns)


def _rows_in(stream: BinaryIO, columns: Columns) -> Iterator[pl.DataFrame]:
    """The file's row groups, of which each leaves the rows of its last key to the next: these may go on there."""
    names, key = columns.schema.names, columns.key[0]
    with stream:
        metadata = pq.read_metadata(stream)
        # polars reads from where the stream stands. pyarrow's reader takes half as long again, and keeps tens of MiB for itself.
        stream.seek(0)
        table = pl.scan_parquet(stream).select(names)
        start, rest = 0, columns.frame([])
        for group in range(metadata.num_row_groups):
            count = metadata.row_group(group).num_rows
            rows = pl.concat([rest, table.slice(start, count).collect()])
            start += count
            last = int((rows[key] != rows[key][-1]).sum()) if rows.height else 0
            if last:
                yield rows.head(last)
            rest = rows.slice(last)
        yield rest
