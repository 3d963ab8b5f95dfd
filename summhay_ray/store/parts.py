"""Parts: immutable Parquet files. Each has rows of one table, sorted by the table's key, with every key at most once.

A commit or merge writes a `Parts`: a part for each table that has rows, and one part that lists the units. The units' columns are
`kind`, `unit`, `retry`, and `TABLE.rows`: the numbers of the unit's rows in the part of that table. So the rows themselves have
only the table's columns. If several commits finish the same unit, only the rows of one commit are used.

Parts are in `runs/RUN/parts/`. When the run has ended, the parts of each table are merged and moved to `runs/RUN/tables/NAME/`,
for other tools; they are moved back when new parts replace them. A reader searches both places. A manifest
(`summhay_ray.store.commits`) lists the valid parts with size and sha256.
"""

import contextlib
import hashlib
import io
import json
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import Field

from summhay_ray.inputs import open_unfollowed
from summhay_ray.store.files import Files, LocalFiles
from summhay_ray.store.names import DamagedRecord, Entry
from summhay_ray.store.records import Count, Name, Sha256
from summhay_ray.store.tables import Columns, Tables

UNITS = "_units"
ROWS = ".rows"
"""Suffix of the units' columns `TABLE.rows`, which list the numbers of a unit's rows in a table."""
Stream = io.BufferedIOBase
GROUP_BYTES = 8 << 20
"""Approximate size of a row group in memory. A table can be read in pieces of one group."""
_READ = 32 << 20
"""Number of bytes per read of a bucket's object."""


@dataclass(frozen=True, slots=True)
class Finished:
    """One finished unit (a cell, a context, a haystack) and its rows (table -> records)."""

    unit: str
    rows: Mapping[str, Sequence[Any]]
    retry: bool = False
    """Whether the unit has a failure that a later start may retry."""


@dataclass(frozen=True, slots=True)
class Part:
    """A Parquet file in a manifest. `name`: the file name without its folder. `unpacked`: approximate bytes in memory."""

    name: Name
    sha256: Sha256
    size: Count
    rows: Count
    unpacked: Count
    digest: Annotated[str, Field(pattern="^([0-9a-f]{64})?$")] = ""
    """See `tables.digest`; empty if the part is not final."""


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of finished units. `final`: whether these are the final merged parts of the whole run."""

    units: Part
    """The part that lists the units. Its name identifies this `Parts` within its run."""
    tables: Mapping[Name, Part]
    final: bool = False

    @property
    def unpacked(self) -> int:
        """Approximate bytes of all rows in memory."""
        return sum(part.unpacked for part in self.tables.values())


class PartFiles:
    """The files of one run's parts."""

    def __init__(self, files: Files, run_id: str) -> None:
        self.files = files
        self.run_id = run_id
        self.folder = f"runs/{run_id}/parts"
        self.tables_folder = f"runs/{run_id}/tables"

    def names(self, table: str, name: str) -> tuple[str, str]:
        """Return the two possible files of a part: in the folder of its table, and in the folder of the other parts."""
        return f"{self.tables_folder}/{table}/{name}", f"{self.folder}/{name}"

    def existing(self) -> list[Entry]:
        """Return the existing files of parts in both folders, including files that are in no manifest."""
        entries = (entry for folder in (self.tables_folder, self.folder) for entry in self.files.entries(folder, deep=True))
        return [entry for entry in entries if entry.name.endswith(".parquet")]

    def write(self, table: str, fill: Callable[[Path], tuple[int, int]]) -> Part:
        """Write a part, whose name depends only on its content. `fill` writes the file, and returns the number of rows and their
        approximate bytes in memory. Raises OSError."""
        with self.files.writing(f"{self.folder}/{table}", durable=True) as new:
            rows, unpacked = fill(new.path)
            with new.path.open("rb") as stream:
                sha256 = hashlib.file_digest(stream, "sha256").hexdigest()
            part = Part(f"{table}-{sha256[:32]}.parquet", sha256, new.path.stat().st_size, rows, unpacked)
            new.name = f"{self.folder}/{part.name}"
        return part

    def write_rows(self, columns: Columns, pieces: Iterable[pl.DataFrame]) -> Part:
        """Write a part of a table from consecutive pieces of its rows. Raises OSError."""
        return self.write(columns.table, lambda path: write_parquet(path, columns, pieces, self.run_id))

    @contextlib.contextmanager
    def open_part(self, table: str, part: Part) -> Iterator[Stream]:
        """Return a context with the part's checked content. Raises DamagedRecord if the content is damaged, or has other columns
        than the table."""
        with contextlib.ExitStack() as stack:
            if isinstance(stream := self._find(table, part, stack), str):
                raise self.damaged(stream)
            try:
                yield stream
            except (pl.exceptions.PolarsError, pa.ArrowException) as error:
                raise self.damaged(f"{part.name} does not hold the columns of {table}") from error

    def damaged(self, how: str) -> DamagedRecord:
        """Return the error to raise for parts that cannot be read."""
        return DamagedRecord(f"run {self.run_id} is damaged ({how})", self.files.uri)

    def flaw(self, table: str, part: Part) -> str:
        """Read a part's file, and return what is wrong with it; empty if nothing is wrong."""
        with contextlib.ExitStack() as stack:
            return found if isinstance(found := self._find(table, part, stack), str) else ""

    def _find(self, table: str, part: Part, stack: contextlib.ExitStack) -> Stream | str:
        """Return the part's content, or what is wrong with its file."""
        places = self.names(table, part.name)
        # Search each place twice, since the file may be moved during the search.
        for name in 2 * (places if part.digest else places[::-1]):
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                stream = stack.enter_context(self._open(name, part.size))
                # Do not read a file of another size, which may be endless.
                if stream.seek(0, io.SEEK_END) != part.size:
                    continue
                stream.seek(0)
                if hashlib.file_digest(stream, "sha256").hexdigest() != part.sha256:
                    continue
                with contextlib.suppress(pa.ArrowException, OSError):
                    if pq.read_metadata(stream).num_rows == part.rows:
                        return stream
        there = [name for name in places if self.files.exists(name)]
        where = self.files.where(there[0] if there else places[not part.digest])
        return f"{where} is {'not as it was written' if there else 'gone'}"

    def _open(self, name: str, size: int) -> Stream:
        if isinstance(self.files, LocalFiles) and self.files.folder is not None:
            return open_unfollowed(self.files.path(name))
        if size <= _READ:
            return io.BytesIO(self.files.read(name))
        stream = tempfile.TemporaryFile()  # noqa: SIM115
        # Read one byte more than the part's size, to detect a longer file.
        for offset in range(0, size + 1, _READ):
            stream.write(content := self.files.read(name, offset, _READ))
            if len(content) < _READ:
                break
        stream.seek(0)
        return stream

    def misplaced(self, parts: Parts) -> dict[str, list[str]]:
        """Return table -> the files in its folder, for each table whose folder does not contain exactly its part, or whose part
        also exists outside of it."""
        there, wrong = sorted(entry.name for entry in self.existing()), {}
        for table, part in parts.tables.items():
            in_table, apart = self.names(table, part.name)
            files = [name for name in there if name.startswith(f"{self.tables_folder}/{table}/")]
            if files != [in_table] or apart in there:
                wrong[table] = files
        return wrong

    def show(self, parts: Parts) -> None:
        """Move files so that the folder of each table contains its part and no other file."""
        for table, names in self.misplaced(parts).items():
            part = parts.tables[table]
            in_table, apart = self.names(table, part.name)
            for name in names:
                if name != in_table:
                    self.files.move(name, self.names(table, name.rpartition("/")[2])[1])
            # If both folders have the file, the one outside the table's folder was written later.
            self.files.move(apart, in_table)


def write_parts(files: PartFiles, tables: Tables, kind: str, finished: Sequence[Finished]) -> Parts:
    """Write the rows of one or more units. If a unit occurs twice, a success is preferred to a failure, and then the last one is
    used.

    `tables`: all tables of the run. Rows of other tables are not written.
    """
    if not finished:
        raise ValueError("there is one unit at least")
    by_name: dict[str, Finished] = {}
    for unit in finished:
        if unit.unit not in by_name or not unit.retry or by_name[unit.unit].retry:
            by_name[unit.unit] = unit
    units = [by_name[name] for name in sorted(by_name)]
    listed = pl.DataFrame(
        {"kind": [kind] * len(units), "unit": [unit.unit for unit in units], "retry": [unit.retry for unit in units]}
    )
    rows: dict[str, pl.DataFrame] = {}
    for table, columns in tables.items():
        records = [record for unit in units for record in unit.rows.get(table, ())]
        owners = [index for index, unit in enumerate(units) for _ in unit.rows.get(table, ())]
        if records:
            frame = columns.as_frame(records).with_columns(pl.Series("_unit", owners, pl.Int32))
            rows[table], owned = numbered(columns, frame.sort(*columns.key, "_unit"))
            listed = with_rows(listed, table, owned.select("_unit", "_number"))

    with ThreadPoolExecutor(len(rows) + 1) as threads:
        written = threads.map(lambda table: files.write_rows(tables[table], [rows[table]]), rows)
        return Parts(write_units(files, listed), dict(zip(rows, written, strict=True)))


def write_units(files: PartFiles, units: pl.DataFrame) -> Part:
    """Write the part that lists units."""
    lists = [name for name in units.columns if name.endswith(ROWS)]
    # A unit's rows are mostly adjacent, so the differences of their numbers need little space.
    encoding = {f"{name}.list.element": "DELTA_BINARY_PACKED" for name in lists}
    whole = units.to_arrow(compat_level=pl.CompatLevel.oldest())

    def fill(path: Path) -> tuple[int, int]:
        pq.write_table(whole, path, compression="zstd", use_dictionary=["kind"], column_encoding=encoding)
        return units.height, whole.nbytes

    return files.write(UNITS, fill)


def with_rows(units: pl.DataFrame, table: str, owned: pl.DataFrame) -> pl.DataFrame:
    """Add a column to the units that lists their rows of a table. `owned`: (index of a unit, number of one of its rows)."""
    place, number = owned.columns
    lists = owned.group_by(place).agg(pl.col(number).cast(pl.UInt32).unique().sort().alias(table + ROWS))
    places = units.with_row_index("_place").with_columns(pl.col("_place").cast(owned.schema[place]))
    return places.join(lists, left_on="_place", right_on=place, how="left", maintain_order="left").drop("_place")


def numbered(columns: Columns, rows: pl.DataFrame, start: int = 0) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Number the keys of the rows. Returns two frames: the first row of each key, with the table's columns; and for all rows the
    other columns and `_number`, the index of the row's key in the first frame, counted from `start`.

    `rows` must be sorted by key.
    """
    names = columns.schema.names
    first = rows.select(pl.any_horizontal(pl.col(name).ne_missing(pl.col(name).shift()) for name in columns.key)).to_series()
    # The first row always begins a key, even if the key is null.
    first = first | (pl.int_range(rows.height, eager=True) == 0)
    others = rows.select(pl.exclude(names)).with_columns((first.cast(pl.Int64).cum_sum() - 1 + start).alias("_number"))
    return rows.filter(first).select(names), others


def write_parquet(path: Path, columns: Columns, pieces: Iterable[pl.DataFrame], run_id: str) -> tuple[int, int]:
    """Write consecutive pieces of a table, with the columns' descriptions as metadata. Keeps one piece in memory at a time.

    Returns the number of rows and their approximate bytes in memory.
    """
    n_rows = n_bytes = 0
    schema = columns.schema.with_metadata({"run": run_id, "table": columns.table, "primary_key": json.dumps(columns.key)})
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        # Skip empty pieces: some readers use the size of the first row group as their batch size, which cannot be 0.
        for piece in filter(len, pieces):
            n_rows, n_bytes = n_rows + piece.height, n_bytes + int(piece.estimated_size())
            rows = piece.to_arrow().cast(schema)
            writer.write_table(rows, row_group_size=1 + len(rows) * GROUP_BYTES // max(rows.nbytes, 1))
    return n_rows, n_bytes
