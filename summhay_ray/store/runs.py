"""A store and its runs. Sources are found by their hash, and a run's tables by its newest manifest.

`docs/how-to/stores.md` describes the layout of a store.

Several commits may finish the same unit, for example if there were two drivers, or if a failed cell was retried. Then a success
is preferred to a failure that may be retried; otherwise the last one in the manifest is used. All readers follow this rule.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
import hashlib
import itertools
import json
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NotRequired, Self, TypeVar

import polars as pl
import pyarrow as pa
from pydantic import ConfigDict, TypeAdapter, with_config
from typing_extensions import TypedDict

from summhay_ray.errors import StoreError
from summhay_ray.store.answers import DELETED
from summhay_ray.store.batches import BatchRecords
from summhay_ray.store.commits import Committer, Manifest, Manifests
from summhay_ray.store.files import Files, open_files
from summhay_ray.store.log import LogIndex
from summhay_ray.store.money import MoneyRecords
from summhay_ray.store.names import DamagedRecord, is_plain
from summhay_ray.store.parts import UNITS, Finished, Parts, write_parquet, write_parts
from summhay_ray.store.records import Count, Sha256, as_record, read_checked, with_hash
from summhay_ray.store.rows import Reader
from summhay_ray.store.tables import Columns, Table, TableBody, Tables, columns_of, hash_rows
from summhay_ray.text import BEGINS_FORMULA

T = TypeVar("T")
FORMAT = 3
_MOST_KEPT = 2**24
"""Maximum size in bytes of a whole table that a fixed view keeps in memory."""
RUN_FORMAT = 6
"""The version of a run's layout. It is part of the run's record and id, so that runs with different layouts have different
folders."""
MEND_RECORD = "put back a copy of it, or delete it and run or import again: every stored answer is reused"
"""The remedy for a damaged record of a run."""

ATTRIBUTION = "attribution"
"""Field of a run's record with the source and licence of the texts in its tables, if known. It is exported with the tables."""


NO_COLUMNS: Mapping[str, Collection[str]] = {}
TableFormat = Literal["parquet", "csv", "jsonl"]
"""The formats in which `write_tables` can write a table."""


class _Format(TypedDict):
    """The content of `format.json`."""

    format: Count


@with_config(ConfigDict(extra="allow"))
class RunRecord(TypedDict):
    """The fields of every run's record; a benchmark adds its own fields."""

    kind: str
    tables: list[TableBody]
    name: NotRequired[str]
    cells: NotRequired[Count]
    stages: NotRequired[list[str]]
    spec: NotRequired[dict[str, Any]]
    inputs: NotRequired[dict[str, Sha256]]
    answers: NotRequired[dict[str, Sha256]]
    code: NotRequired[dict[str, str]]
    folder: NotRequired[str]
    attribution: NotRequired[str]


class Store:
    """A store of sources, the response log and runs. Opening a store creates nothing; the first write does."""

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self.files: Files = open_files(uri)
        self._has_format = False
        # A new store has no such file.
        with contextlib.suppress(FileNotFoundError):
            if (form := read_checked(self.files.read("format.json"), _Format, hashed=False)) is None:
                where = self.files.where("format.json")
                raise StoreError(
                    f"store {self.uri!r}: {where} is damaged, or this is no store; delete it, and the next run writes it again"
                )
            version = form["format"]
            if version != FORMAT:
                age, mend = (
                    ("newer", "upgrade") if version > FORMAT else ("older", "use the version that wrote it, or another store")
                )
                raise StoreError(f"store {self.uri!r}: format {version} is {age} than this version reads ({FORMAT}); {mend}")
            self._has_format = True

    @property
    def is_new(self) -> bool:
        """True if nothing was ever written to the store."""
        return not self._has_format and {"drivers", "answers", "objects", "runs"}.isdisjoint(self.files.folders(""))

    def put_object(self, kind: str, content: bytes) -> str:
        """Store `content` under its sha256 (hex) and return the hash."""
        if not self._has_format:
            self.files.create("format.json", json.dumps({"format": FORMAT}).encode())
            self._has_format = True
        digest = hashlib.sha256(content).hexdigest()
        name = f"objects/{kind}/{digest}"
        if not self.files.exists(name):
            self.files.create(name, content)
        return digest

    def get_object(self, kind: str, digest: str) -> bytes:
        """Read an object and check its hash. Raises StoreError if the object is missing or damaged."""
        # The record may be somebody else's, and may contain anything, such as a path outside the store.
        if not re.fullmatch("[0-9a-f]{64}", str(digest)):
            raise StoreError(
                f"store {self.uri!r}: has no {kind} {digest}: this is not a sha256; the record that names it is damaged"
            )
        name = f"objects/{kind}/{digest}"
        try:
            content = self.files.read(name, is_large=True)
        except FileNotFoundError:
            mend = f"{self.files.where(name)} is gone; put it back from a copy, or import or run its source again"
            raise StoreError(f"store {self.uri!r}: has no {kind} {digest}: {mend}") from None
        if hashlib.sha256(content).hexdigest() != digest:
            raise StoreError(f"store {self.uri!r}: {name} is damaged; delete it, and import or run its source again")
        return content

    def run_ids(self) -> list[str]:
        """Return the ids of all runs of the store, sorted. Use them only for display, since a bucket's listing may lack the
        newest run."""
        return [name for name in self.files.folders("runs") if self.files.exists(f"runs/{name}/run.json")]

    def log(self) -> LogIndex:
        """Read the store's log and return its index. Raises StoreError or OSError."""
        index = LogIndex(self.files)
        index.refresh()
        return index

    def run(self, run_id: str) -> RunStore:
        """Open an existing run by its id or by an unambiguous prefix of its id.

        Raises StoreError, which lists the existing runs, if none or several match. Also raises StoreError if the run's record is
        damaged.
        """
        if is_plain(run_id):
            run = RunStore(self, run_id)
            with contextlib.suppress(FileNotFoundError):
                # Read the record now, to check that this version can read the run.
                _ = run.record
                return run
        known = self.run_ids()
        matching = [known_id for known_id in known if run_id and known_id.startswith(run_id)]
        if len(matching) > 1:
            raise StoreError(f"store {self.uri!r}: {run_id!r} begins the ids of {', '.join(matching)}; write more of it")
        if not matching:
            raise StoreError(
                f"store {self.uri!r} has no run {run_id!r}; it has: {', '.join(known) or 'none'}; "
                "another store is given by --store or $SUMMHAY_STORE"
            )
        return self.run(matching[0])

    def size(self, run_id: str) -> tuple[int, float]:
        """Return (total size of the run's files in bytes, creation time in seconds since 1970 by the store's clock)."""
        folder = f"runs/{run_id}"
        entries = list(self.files.entries(folder, deep=True))
        created = next((entry.written for entry in entries if entry.name == f"{folder}/run.json"), 0.0)
        return sum(entry.size for entry in entries), created

    def create_run(self, run_id: str, record: Mapping[str, Any], tables: Iterable[Table]) -> RunStore:
        """Open the run, or create it if it does not exist. An existing record is not changed.

        Raises StoreError if the run exists with other tables, since rows that fit no table would be lost.
        """
        wanted = columns_of(tables)
        if not self._has_format:
            self.files.create("format.json", json.dumps({"format": FORMAT}).encode())
            self._has_format = True
        if not self.files.exists(f"runs/{run_id}/run.json"):
            content = {**record, "format": RUN_FORMAT, "tables": [columns.to_json() for columns in wanted.values()]}
            if self.files.create(f"runs/{run_id}/run.json", with_hash(content, indent=1)):
                return RunStore(self, run_id, wanted)
        run = RunStore(self, run_id)
        # Tables count as equal if only the descriptions of their columns differ.
        if differ := sorted(name for name in wanted.keys() | run.declared.keys() if run.declared.get(name) != wanted.get(name)):
            raise StoreError(
                f"run {run_id} was written with other tables ({', '.join(differ)}) than this version writes; "
                f"delete {self.files.where(f'runs/{run_id}')} and run again: every stored answer is reused"
            )
        return run


class RunStore:
    """The record, commits and tables of one run.

    `declared`: the run's tables; None: read them from the run's record.
    """

    def __init__(self, store: Store, run_id: str, declared: Tables | None = None) -> None:
        self.store = store
        self.run_id = run_id
        self._fixed: Manifest | None = None
        """The manifest of a fixed view; None: each call reads the newest manifest."""
        self._kept: dict[Any, Any] = {}
        """A cache of what a fixed view has read: the log, the finished units, and tables."""
        if declared is not None:
            self.declared = declared
        self._manifests = Manifests(store.files, run_id)
        self.batches = BatchRecords(store.files, run_id)
        """The records of the run's batches."""
        self.money = MoneyRecords(store.files, run_id)

    @functools.cached_property
    def record(self) -> Mapping[str, Any]:
        """The record that `create_run` wrote. Its field `tables` describes the tables.

        Raises DamagedRecord, or StoreError if the record has another format.
        """
        name = f"runs/{self.run_id}/run.json"
        body = read_checked(self.store.files.read(name), dict[str, Any])
        if body is None:
            raise self.damaged("it is not as it was written")
        version = body.get("format")
        if version is None or (type(version) is int and version != RUN_FORMAT):
            form = "a format without a number" if version is None else f"format {str(version)[:20]}"
            raise StoreError(
                f"run {self.run_id} has {form}, and this version reads format {RUN_FORMAT}; "
                "run its spec or import its files again: a new run takes every answer from the log"
            )
        record = as_record(RunRecord, json.dumps(body).encode("ascii"))
        if record is None or type(version) is not int:
            raise self.damaged("its fields are not those of a run")
        return record

    def damaged(self, why: str) -> DamagedRecord:
        """Return the error to raise for a damaged record of the run."""
        where = self.store.files.where(f"runs/{self.run_id}/run.json")
        return DamagedRecord(f"{where} is damaged: {why}; {MEND_RECORD}", self.store.files.uri)

    @functools.cached_property
    def declared(self) -> Tables:
        """The run's tables, from its record. Raises DamagedRecord."""
        try:
            return {table["name"]: Columns.from_json(table) for table in self.record["tables"]}
        except ValueError as error:
            raise self.damaged(str(error)) from None

    def at(self, checked: bool = True) -> Self:
        """Return a fixed view of the run's current state, which later commits do not change. The view reads the log, the finished
        units, each small table and each selection of columns only once.

        If `checked`, raises StoreError for a run that has rows but has lost its commits, without which the rows cannot be
        identified.
        """
        if self._fixed is not None:
            return self
        manifest = self.manifest()
        if checked and not manifest.number and (lost := self._manifests.missing_folder()):
            raise self._manifests.parts.damaged(lost)
        view = copy.copy(self)
        view._fixed, view._kept = manifest, {}
        return view

    def _read_once(self, what: Any, read: Callable[[], T]) -> T:
        """Return the result of `read`. A fixed view calls `read` only the first time, and then returns the same result."""
        if self._fixed is None:
            return read()
        if what not in self._kept:
            self._kept[what] = read()
        result: T = self._kept[what]
        return result

    def manifest(self) -> Manifest:
        """Return the current manifest. Raises StoreError."""
        return self._fixed or self._manifests.newest()

    def has_tables(self) -> bool:
        """Return whether the run's folder has the current tables as plain files."""
        final = self.manifest().final
        return final is not None and not self._manifests.parts.misplaced(final)

    def flaws(self) -> Iterator[str]:
        """Yield a line for each missing, damaged or misplaced file of the run's tables. Reads all of them."""
        return self._manifests.flaws()

    def log(self) -> LogIndex:
        """Return the index of the store's log. Raises StoreError or OSError."""
        return self._read_once("log", self.store.log)

    def version(self) -> int:
        """Return the number of the newest manifest, 0 if there is none."""
        return self._fixed.number if self._fixed else self._manifests.chain.latest()

    def has_rows(self, table: str) -> bool:
        """Return whether the table has rows."""
        return any(parts.tables[table].rows for parts in self.manifest().parts if table in parts.tables)

    def write(self, kind: str, finished: Sequence[Finished]) -> Parts:
        """Write the rows of finished units (at least one). Readers ignore them until they are committed."""
        self.reader(sorted({table for unit in finished for table in unit.rows}))
        return write_parts(self._manifests.parts, self.declared, kind, finished)

    def committer(self, session: int) -> Committer:
        """Take over the run for a session. Raises Superseded if a session with a higher number owns the run."""
        return Committer(self._manifests, self.declared, session)

    def commit(self, kind: str, finished: Sequence[Finished]) -> None:
        """Write and commit the rows of finished units without changing the run's owner. For a single writer."""
        if finished:
            self.committer(self._manifests.newest().session).add([self.write(kind, finished)])

    def commit_units(self, kind: str, units: Mapping[str, Mapping[str, Sequence[Any]]]) -> None:
        """Write and commit the rows of finished units (unit -> table -> records). For a single writer."""
        self.commit(kind, [Finished(unit, rows) for unit, rows in units.items()])

    def write_units(self, kind: str, units: Mapping[str, Mapping[str, Sequence[Any]]]) -> dict[str, Any]:
        """Write the rows of finished units, in any process. Returns JSON for `commit_written`."""
        return dataclasses.asdict(self.write(kind, [Finished(unit, rows) for unit, rows in units.items()]))

    def commit_written(self, written: Iterable[Mapping[str, Any]]) -> None:
        """Commit the results of `write_units` in one commit. For a single writer."""
        self.committer(session=0).add(TypeAdapter(list[Parts]).validate_python(list(written)))

    def end(self, without: pl.DataFrame | None = None) -> None:
        """Merge the run's parts, and put its tables as plain files into its folder, unless this was already done.

        `without`: kinds and names of units to remove from the run. Raises StoreError, OSError. Another call continues.
        """
        self.committer(self._manifests.newest().session).finish(without)

    def units_of(self, keys: Collection[str], text: str, kind: str) -> pl.DataFrame:
        """Return the kinds and names of units that use one of the answers `keys` or contain `text`.

        `keys` lack their first 8 letters; a unit uses an answer if the column `key` of one of its rows has the answer's key. Only
        units of `kind` are searched for `text`, and only if it is not empty.
        """
        reader, found = self.reader([*self.declared]), [pl.DataFrame(schema={"kind": pl.String, "unit": pl.String})]
        for name, columns in self.declared.items():
            texts = [field.name for field in columns.schema if field.type == pa.string()]
            lists = [field.name for field in columns.schema if field.type == pa.list_(pa.string())]
            if keys and "key" in texts:
                ends = pl.col("key").str.slice(len(DELETED)).str.split("/").list.first()
                found.append(reader.units_with(name, ends.is_in(pl.Series([*keys]).implode())))
            if text and (texts or lists):
                contains = [pl.col(one).str.contains(text, literal=True) for one in texts]
                item = pl.element().str.contains(text, literal=True)
                contains += [pl.col(one).list.eval(item).list.any() for one in lists]
                found.append(reader.units_with(name, pl.any_horizontal(contains)).filter(pl.col("kind") == kind))
        return pl.concat(one.select("kind", "unit") for one in found).unique(maintain_order=True)

    def units(self, kind: str) -> pl.DataFrame:
        """Return every committed unit of a kind, with the columns `unit` (its name) and `retry` (whether it has a failure that
        may be retried)."""
        return self._read_once(("units", kind), lambda: self.reader([]).units.valid.filter(kind=kind).select("unit", "retry"))

    def finished(self, kind: str) -> dict[str, bool]:
        """Return `units` as a dictionary, which needs three times the memory."""
        return dict(self.units(kind).iter_rows())

    def table(self, table: str, units: Sequence[str] | None = None, columns: Sequence[str] | None = None) -> pl.DataFrame:
        """Return all committed rows of a table without duplicates, sorted by primary key. `units`: only the rows of units with
        these names.

        `columns`: only these columns and the key columns, which saves time if other columns are long. Raises StoreError if the
        run has no such table.
        """
        if units is not None:
            return self.reader([table], columns).table(table, units)
        key = table, columns if columns is None else tuple(columns)
        frame: pl.DataFrame = self._read_once(key, lambda: self.reader([table], columns).table(table))
        if columns is None and frame.estimated_size() > _MOST_KEPT:
            self._kept.pop(key, None)
        return frame

    def tables(self, names: Sequence[str], unit: str = "") -> dict[str, pl.DataFrame]:
        """Return several tables from the same manifest. `unit`: the name of a column to add with the name of each row's unit,
        unless a table has a column of this name."""
        reader = self.reader(names)
        return {name: reader.table(name, unit=unit) for name in names}

    def pieces(self, table: str, columns: Sequence[str] | None = None) -> Iterator[pl.DataFrame]:
        """Like `table`, but yield consecutive pieces, with about one piece in memory at a time.

        Rows with the same value in the first key column are in one piece.
        """
        return self.reader([table], columns).pieces(table)

    def digests(self) -> dict[str, dict[str, Any]]:
        """Return table -> {"rows": number of rows, "sha256": hash of the sorted rows}. Raises StoreError if a part is missing or
        damaged."""
        manifest = self.manifest()
        if (final := manifest.final) is None:
            reader, digests = Reader(self._manifests.parts, manifest.parts, self.declared), {}
            for name in self.declared:
                n_rows, hasher = 0, hashlib.sha256()
                for piece in reader.pieces(name):
                    n_rows += piece.height
                    hash_rows(hasher, piece)
                digests[name] = {"rows": n_rows, "sha256": hasher.hexdigest()}
            return digests
        for table, part in {UNITS: final.units, **final.tables}.items():
            with self._manifests.parts.open_part(table, part):
                pass
        return {table: {"rows": part.rows, "sha256": part.digest} for table, part in final.tables.items()}

    def reader(self, names: Sequence[str], columns: Sequence[str] | None = None) -> Reader:
        """Return a reader of these tables in the current manifest. `columns`: only these and the key columns.

        Raises DamagedRecord, or StoreError if the run has no such table.
        """
        for name in names:
            if name not in self.declared:
                raise StoreError(f"run {self.run_id} has no table {name!r}; it has: {', '.join(sorted(self.declared)) or 'none'}")
        for table, column in itertools.product(names, columns or ()):
            if column not in self.declared[table].schema.names:
                raise self.damaged(f"its table {table} has no column {column}")
        chosen = {name: self.declared[name] for name in names}
        if columns is not None:
            for name, whole in chosen.items():
                fields = [field for field in whole.schema if field.name in {*whole.key, *columns}]
                chosen[name] = Columns(name, whole.key, pa.schema(fields))
        return Reader(self._manifests.parts, self.manifest().parts, chosen)


def write_tables(
    run: RunStore, files: Files, kind: TableFormat = "parquet", without: Mapping[str, Collection[str]] = NO_COLUMNS
) -> dict[str, str]:
    """Write every table of the run, from its newest manifest. Returns table -> file name. `without`: table -> columns to leave
    out.

    Readers see complete files only. In CSV, lists are written as JSON, and texts that a spreadsheet would read as formulas are
    escaped. One piece of a table is in memory at a time.
    """
    now, written = run.at(), {}
    for table, columns in now.declared.items():
        written[table] = name = f"{table}/part-0.{kind}"
        with files.writing(name) as new:
            try:
                kept = [name for name in columns.schema.names if name not in without.get(table, ())]
                pieces = (piece.select(kept) for piece in now.pieces(table))
                if kind == "parquet":
                    shown = dataclasses.replace(columns, schema=pa.schema([columns.schema.field(name) for name in kept]))
                    write_parquet(new.path, shown, pieces, run.run_id)
                    continue
                with new.path.open("wb") as stream:
                    for n, piece in enumerate(pieces):
                        # Write the text here, since polars's own file errors have no errno.
                        is_json = kind == "jsonl"
                        text = piece.write_ndjson() if is_json else _flatten(piece, columns).write_csv(include_header=not n)
                        stream.write(text.encode())
            except OSError as error:
                if error.errno is None or error.filename is not None:
                    raise
                # For a full disk, the original error does not contain the path.
                raise OSError(error.errno, os.strerror(error.errno), str(new.path.parent)) from None
    return written


def _flatten(piece: pl.DataFrame, columns: Columns) -> pl.DataFrame:
    """Return the piece with lists as JSON, and with an apostrophe before texts that a spreadsheet would read as formulas."""
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
