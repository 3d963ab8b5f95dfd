"""Reads tables from the parts of one manifest, and merges parts.

The column `_row` numbers the rows of a table across all its parts. The column `_rank` numbers the valid units, sorted by kind and
name.
"""

import contextlib
import dataclasses
import functools
import hashlib
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import IO, Any, NamedTuple, cast

import polars as pl
import pyarrow.parquet as pq

from summhay_ray.store.parts import ROWS, UNITS, Part, PartFiles, Parts, Stream, numbered, with_rows, write_units
from summhay_ray.store.tables import Columns, Tables, digest, hash_rows

TOGETHER = 32 << 20
"""If a table is read in pieces, rows of about this many bytes are sorted at a time."""
_NTH = 64
"""Every 64th key is sampled to divide a table into pieces."""
_NO_UNITS = pl.DataFrame(schema={"kind": pl.String, "unit": pl.String, "retry": pl.Boolean})
_NO_OWNERS = pl.DataFrame(schema={"_rank": pl.Int32, "_row": pl.UInt32})

Keep = pl.Expr | None
"""A condition for the rows to read; None: all rows."""
Streams = Sequence[tuple[int, Stream]]
"""(The number of the first row, the content) of each part of a table."""


class Units(NamedTuple):
    """The units that a manifest's parts list."""

    valid: pl.DataFrame
    """The valid units without duplicates, sorted by kind and name."""
    listed: pl.DataFrame
    """All units, in the order of the parts, with their lists of rows and their `_rank`, which is null if the rows are
    superseded."""


@dataclasses.dataclass(eq=False)
class Reader:
    """Reads some tables from a manifest's parts, sorted by key. Leaves out repeated rows and rows of superseded units.

    If several units have a row with the same key, the row of the first unit (by kind and name) is used. So a table does not
    depend on how its rows were committed and merged.
    """

    files: PartFiles
    parts: Sequence[Parts]
    """All parts of the manifest, since even a part without rows of these tables may supersede a unit of another part. In a single
    part, no unit is superseded, so it is used as it is."""
    tables: Tables
    without: pl.DataFrame | None = None
    """Kinds and names of units to leave out."""

    @functools.cached_property
    def units(self) -> Units:
        """The units of all parts. If a unit occurs twice, a success is preferred to a failure, and a later part to an earlier
        one."""
        lists = []
        for place, parts in enumerate(self.parts):
            starts = {table + ROWS: self._starts(table)[place] for table in self.tables if table in parts.tables}
            with self.files.open_part(UNITS, parts.units) as stream:
                listed = _scan(stream).select([*_NO_UNITS.columns, *starts]).collect()
            lists.append(listed.with_columns(pl.col(name) + pl.lit(start, pl.UInt32) for name, start in starts.items()))
        listed = pl.concat([_NO_UNITS, *lists], how="diagonal")
        every = listed.select(_NO_UNITS.columns).with_row_index("_at").sort("kind", "unit", pl.col("retry").not_(), "_at")
        # Keep the last row of each unit.
        won = every.filter(pl.any_horizontal(pl.col(name).ne_missing(pl.col(name).shift(-1)) for name in ("kind", "unit")))
        if self.without is not None:
            won = won.join(self.without, on=["kind", "unit"], how="anti", maintain_order="left")
        ranks = pl.repeat(None, every.height, dtype=pl.Int32, eager=True).scatter(won["_at"], range(won.height))
        return Units(won.drop("_at"), listed.with_columns(_rank=ranks))

    def _starts(self, table: str) -> list[int]:
        """Return the number of the table's first row in each part, followed by the total number of rows."""
        counts = (parts.tables[table].rows if table in parts.tables else 0 for parts in self.parts)
        return [*itertools.accumulate(counts, initial=0)]

    def owners(self, table: str) -> pl.DataFrame:
        """Return the unit (`_rank`) of each row (`_row`) of a table. A row may belong to several units."""
        listed, name = self.units.listed, table + ROWS
        if name not in listed.columns:
            return _NO_OWNERS
        owners = listed.select("_rank", pl.col(name).alias("_row")).drop_nulls().explode("_row")
        if not owners.is_empty() and int(owners["_row"].max()) >= self._starts(table)[-1]:  # type: ignore[arg-type]
            raise self.files.damaged(f"its units have more rows of {table} than its manifest names")
        return owners

    def units_with(self, table: str, condition: pl.Expr) -> pl.DataFrame:
        """Return the valid units that have a row of the table for which the condition holds."""
        with self._open(table) as streams:
            found = [_scan(stream, condition, start).select("_row").collect()["_row"] for start, stream in streams]
        if not found:
            return _NO_UNITS
        owners = self.owners(table).filter(pl.col("_row").is_in(pl.concat(found).implode()))
        return self.units.valid[owners["_rank"].unique()]

    def table(
        self, table: str, units: Sequence[str] | None = None, unit: str = "", between: tuple[Any, Any] | None = None
    ) -> pl.DataFrame:
        """Return a table. `units`: only the rows of units with these names. `unit`: the name of a column to add with the name of
        each row's unit, unless the table has a column of this name. `between`: only the rows whose first key column is in this
        range, including both ends."""
        columns = self.tables[table]
        keep = None if between is None else pl.col(columns.key[0]).is_between(pl.lit(between[0]), pl.lit(between[1]))
        unit = "" if unit in columns.schema.names else unit
        with self._open(table) as streams:
            if len(self.parts) == 1 and units is None and not unit:
                return _scan(streams[0][1], keep).select(columns.schema.names).collect() if streams else columns.frame([])
            frames = [rows.drop("_row") for rows in _scan_ranked(columns, streams, self._ranks(table, units), keep)]
        if unit:
            frames = [rows.with_columns(self.units.valid["unit"].gather(rows["_rank"]).alias(unit)) for rows in frames]
        return columns.frame(frames, *filter(None, [unit]))

    def pieces(self, table: str) -> Iterator[pl.DataFrame]:
        """Yield a table in consecutive pieces, with about one piece in memory at a time. Rows with the same value in the first
        key column are in one piece."""
        columns = self.tables[table]
        if len(self.parts) == 1:
            with self._open(table) as streams:
                for _, stream in streams:
                    name = columns.key[0]
                    stream.seek(0)
                    metadata = pq.read_metadata(stream)
                    column = metadata.schema.names.index(name)
                    bounds = [metadata.row_group(group).column(column).statistics for group in range(1, metadata.num_row_groups)]
                    # The statistics do not contain very long keys.
                    for keep in _ranges_from(name, (one.min for one in bounds if one is not None and one.has_min_max)):
                        yield _scan(stream, keep).select(columns.schema.names).collect()
        else:
            for rows in self.sorted_pieces(table):
                yield numbered(columns, rows)[0]
        if not any(table in one.tables for one in self.parts):
            yield columns.frame([])

    def sorted_pieces(self, table: str) -> Iterator[pl.DataFrame]:
        """Like `pieces`, but with all rows of each key, and with the columns `_row` and `_rank` (the row's first unit). Rows with
        the same key are sorted by `_rank`."""
        columns, ranks = self.tables[table], self._ranks(table)
        n_bytes = sum(parts.tables[table].unpacked for parts in self.parts if table in parts.tables)
        count, name, starts = 1 + n_bytes // TOGETHER, columns.key[0], list[Any]()
        with self._open(table) as streams:
            if count > 1:
                # Divide the keys into ranges that have similar numbers of rows and fit into memory.
                ordered = [_scan(stream).select([name]).collect()[name].gather_every(_NTH) for _, stream in streams]
                sample = pl.concat(ordered).sort()
                starts = [sample[len(sample) * piece // count] for piece in range(1, count)]
            for keep in _ranges_from(name, starts):
                frames = [*_scan_ranked(columns, streams, ranks, keep)]
                if frames:
                    yield pl.concat(frames).sort(*columns.key, "_rank")

    def shared_row(self, table: str, kind: str) -> tuple[str, str, tuple[Any, ...]] | None:
        """Return the first row that two units of a kind share, as (first unit, second unit, the row's key); None if there is
        none."""
        won, key = self.units.valid, list(self.tables[table].key)
        owners = self.owners(table).filter(pl.col("_rank").is_in((won["kind"] == kind).arg_true().cast(pl.Int32).implode()))
        if len(self.parts) == 1 and owners["_row"].is_unique().all() or owners.is_empty():
            return None
        with self._open(table) as streams:
            keys = pl.concat(_scan(stream).select(key).collect() for _, stream in streams)
        rows = keys[owners["_row"]].with_columns(owners["_rank"]).sort(*key, "_rank")
        again = rows.select(pl.all_horizontal(pl.col(name).eq_missing(pl.col(name).shift(-1)) for name in key)).to_series()
        twice = again.arg_true()
        if twice.is_empty():
            return None
        first, second = (won["unit"][rows["_rank"][int(place)]] for place in (twice[0], twice[0] + 1))
        return first, second, rows.select(key).row(twice[0])

    def by_unit(self) -> Iterator[tuple[str, dict[str, pl.DataFrame]]]:
        """Yield each valid unit with its rows of these tables, sorted by kind and name. Tables without rows of the unit are left
        out."""
        names, owners = self.units.valid["unit"].to_list(), {table: self.owners(table) for table in self.tables}
        weights = [0] * len(names)
        for table, owned in owners.items():
            unpacked = sum(parts.tables[table].unpacked for parts in self.parts if table in parts.tables)
            for rank, number in owned.group_by("_rank").len().iter_rows():
                weights[rank] += number * unpacked // self._starts(table)[-1]
        start = 0
        while start < len(names):
            sums = itertools.accumulate(weights[start:])
            end = start + max(1, sum(1 for _ in itertools.takewhile(lambda total: total <= TOGETHER, sums)))
            frames = {table: self._of_units(table, owners[table], start, end) for table in self.tables}
            for rank in range(start, end):
                yield names[rank], {table: rows[rank,] for table, rows in frames.items() if (rank,) in rows}
            start = end

    def _of_units(self, table: str, owners: pl.DataFrame, start: int, end: int) -> dict[Any, pl.DataFrame]:
        """Return rank -> the rows of the unit, for the units from rank `start` to before rank `end`."""
        own, found = owners.filter(pl.col("_rank").is_between(start, end - 1)), []
        wanted = pl.col("_row").is_in(own["_row"].unique().implode())
        with self._open(table) as streams:
            for first, stream in streams:
                rows = _scan(stream, wanted, first).collect()
                found.append(own.join(rows, on="_row", maintain_order="right").drop("_row"))
        return pl.concat(found).partition_by("_rank", as_dict=True, include_key=False) if found else {}

    @contextlib.contextmanager
    def _open(self, table: str) -> Iterator[Streams]:
        """Return a context with the content of each part of a table. Exactly the bytes that were checked are read."""
        with contextlib.ExitStack() as stack:
            places = zip(self._starts(table), self.parts, strict=False)
            held = [(start, one.tables[table]) for start, one in places if table in one.tables]
            yield [(start, stack.enter_context(self.files.open_part(table, part))) for start, part in held]

    def _ranks(self, table: str, units: Sequence[str] | None = None) -> pl.Series:
        """Return the rank of each row's first unit; null if the row has no valid unit, or if none of its units is in `units`."""
        owners = self.owners(table)
        if units is not None:
            wanted = self.units.valid["unit"].is_in(pl.Series(units, dtype=pl.String).implode())
            owners = owners.filter(wanted.gather(owners["_rank"]))
        # A row's first unit is assigned last, so it remains.
        owners = owners.sort("_rank", descending=True)
        return pl.repeat(None, self._starts(table)[-1], dtype=pl.Int32, eager=True).scatter(owners["_row"], owners["_rank"])

    def merge_table(self, table: str, final: bool) -> tuple[Part, pl.Series]:
        """Write one part with all rows of a table. Returns the part, and the new number of each row."""
        columns, hasher = self.tables[table], hashlib.sha256()
        numbers = pl.repeat(None, self._starts(table)[-1], dtype=pl.UInt32, eager=True)

        def pieces() -> Iterator[pl.DataFrame]:
            nonlocal numbers
            rows = 0
            for piece in self.sorted_pieces(table):
                first, others = numbered(columns, piece, rows)
                rows += first.height
                numbers = numbers.scatter(others["_row"], others["_number"].cast(pl.UInt32))
                if final:
                    hash_rows(hasher, first)
                yield first

        part = self.files.write_rows(columns, pieces())
        return dataclasses.replace(part, digest=hasher.hexdigest() if final else ""), numbers


def _scan_ranked(columns: Columns, streams: Streams, ranks: pl.Series, keep: Keep = None) -> Iterator[pl.DataFrame]:
    """Yield the valid rows of each part, with `_row` and `_rank`."""
    for start, stream in streams:
        rows = _scan(stream, keep, start).select(*columns.schema.names, "_row").collect()
        yield rows.with_columns(ranks.gather(rows["_row"]).alias("_rank")).drop_nulls("_rank")


def _ranges_from(name: str, starts: Iterable[Any]) -> list[Keep]:
    """Return conditions for consecutive ranges of the key. Each range begins at one of `starts`; the first one has no
    beginning."""
    conditions: list[Keep] = []
    for low, high in itertools.pairwise([None, *sorted(set(starts)), None]):
        ends = [*([] if low is None else [pl.col(name) >= low]), *([] if high is None else [pl.col(name) < high])]
        conditions.append(pl.all_horizontal(ends) if ends else None)
    return conditions


def _scan(stream: Stream, keep: Keep = None, start: int = 0) -> pl.LazyFrame:
    """Return the selected rows of a part, with `_row`, which is `start` for the part's first row."""
    # polars begins to read at the stream's position.
    stream.seek(0)
    whole = pl.scan_parquet(cast("IO[bytes]", stream), row_index_name="_row", row_index_offset=start)
    return whole if keep is None else whole.filter(keep)


def merge(
    files: PartFiles, tables: Tables, parts: Sequence[Parts], final: bool = False, without: pl.DataFrame | None = None
) -> Parts:
    """Merge adjacent parts of a manifest into one. Equal parts give equal files on every machine.

    `final`: these are all parts of the run, and even tables without rows get a part. `without`: kinds and names of units to leave
    out. About one piece is in memory at a time.
    """
    reader = Reader(files, parts, tables, without)
    units, merged = reader.units.valid, {}
    for table, columns in tables.items():
        held = [one.tables[table] for one in parts if table in one.tables]
        if not held and not final:
            continue
        owned, known = reader.owners(table), bool(held and held[0].digest) or not final
        if not held:
            merged[table] = dataclasses.replace(files.write_rows(columns, ()), digest=hashlib.sha256().hexdigest())
        # A single part whose rows are all valid stays as it is. Exception: in the final merge, a large part without a digest is
        # written again, since its row groups may differ from those of a merged part.
        elif len(held) == 1 and (known or held[0].unpacked <= TOGETHER) and owned["_row"].n_unique() == held[0].rows:
            merged[table] = held[0] if known else dataclasses.replace(held[0], digest=digest(reader.table(table)))
        else:
            merged[table], numbers = reader.merge_table(table, final)
            owned = owned.with_columns(_row=numbers.gather(owned["_row"]))
        units = with_rows(units, table, owned)
    return Parts(write_units(files, units), merged, final)
