"""Writes a run's tables for other tools, in any format."""

from __future__ import annotations

import json
import os
from typing import Literal

import polars as pl
import pyarrow as pa

from summhay_ray.store.files import Files
from summhay_ray.store.parts import write_parquet
from summhay_ray.store.runs import RunStore
from summhay_ray.store.tables import Columns
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
        with files.writing(name) as new:
            try:
                if kind == "parquet":
                    write_parquet(new.path, columns, now.pieces(table), run.run_id)
                    continue
                with new.path.open("wb") as stream:
                    for n, piece in enumerate(now.pieces(table)):
                        # polars's own file errors have no errno.
                        is_json = kind == "jsonl"
                        text = piece.write_ndjson() if is_json else _flatten(piece, columns).write_csv(include_header=not n)
                        stream.write(text.encode())
            except OSError as error:
                if error.errno is None or error.filename is not None:
                    raise
                # The error of a full disk does not say which disk it is.
                raise OSError(error.errno, os.strerror(error.errno), str(new.path.parent)) from None
    return written


def _flatten(piece: pl.DataFrame, columns: Columns) -> pl.DataFrame:
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
