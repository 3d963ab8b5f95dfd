"""Writes a run's tables for other tools, in any format."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

import polars as pl
import pyarrow as pa

from summhay_ray.store.files.files import Files
from summhay_ray.store.runs.runs import RunStore
from summhay_ray.store.tables.parts import write_parquet
from summhay_ray.store.tables.tables import Columns
from summhay_ray.text import BEGINS_FORMULA

TableFormat = Literal["parquet", "csv", "jsonl"]
"""The formats in which a table can be written."""


def write_tables(run: RunStore, files: Files, kind: TableFormat = "parquet") -> dict[str, str]:
    """Write every table of the run, as of its newest manifest. Return table -> file name.

    Readers see a whole file or none. In CSV, lists are written as JSON, and text that a spreadsheet would read as a formula is
    escaped. One piece of a table is in memory at a time.
    """
    now, written = run.at(), {}
    for table, columns in now.declared.items():
        written[table] = name = f"{table}/part-0.{kind}"
        with files.writing(name) as path:
            try:
                _write(path, columns, now.pieces(table), kind, run.run_id)
            except OSError as error:
                if error.errno is None or error.filename is not None:
                    raise
                # The error of a full disk does not say which disk it is.
                raise OSError(error.errno, os.strerror(error.errno), str(path.parent)) from None
    return written


def _write(path: Path, columns: Columns, pieces: Iterable[pl.DataFrame], kind: TableFormat, run_id: str) -> None:
    if kind == "parquet":
        write_parquet(path, columns, pieces, run_id)
        return
    with path.open("wb") as stream:
        for number, piece in enumerate(pieces):
            # polars's own file errors have no errno.
            text = piece.write_ndjson() if kind == "jsonl" else _flat(piece, columns).write_csv(include_header=not number)
            stream.write(text.encode())


def _flat(piece: pl.DataFrame, columns: Columns) -> pl.DataFrame:
    """The piece with lists as JSON, and with an apostrophe before text that a spreadsheet would read as a formula."""
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
