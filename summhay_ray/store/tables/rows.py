"""Reads tables from the parts of one manifest, and merges parts. Part of the store room."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import IO, Any, cast

import polars as pl
import pyarrow.parquet as pq

from summhay_ray.store.tables.parts import UNITS, Part, PartFiles, Parts, Stream, numbered, rows_of, with_rows, write_units
from summhay_ray.store.tables.tables import Columns, Digest, Tables

TOGETHER = 32 << 20
"""How many bytes of rows, as they are in memory, are sorted at a time when a table is read in pieces."""
_NTH = 64
"""One in so many keys is looked at to divide a table into pieces."""
_NO_UNITS = pl.DataFrame(schema={"kind": pl.String, "unit": pl.String, "retry": pl.Boolean})
_NO_OWNERS = pl.DataFrame(schema={"_rank": pl.Int32, "_row": pl.UInt32})

Keep = pl.Expr | None
"""Which rows are wanted, by the key; None: all."""


def winners(parts: Sequence[pl.DataFrame]) -> tuple[pl.DataFrame, list[pl.Series]]:
    """The units of all parts, each once, sorted; and for each part, its units' ranks among them.

    A unit's rank is null in all parts but the one whose rows are used: a success beats a failure, then the last part wins.
    """
    names = _NO_UNITS.columns
    every = pl.concat([_NO_UNITS, *(part.select(names) for part in parts)]).with_row_index("place")
    every = every.sort("kind", "unit", pl.col("retry").not_(), "place")
    # The last of equal neighbours.
    won = every.filter(pl.any_horizontal(pl.col(name).ne_missing(pl.col(name).shift(-1)) for name in ("kind", "unit")))
    ranks = pl.repeat(None, every.height, dtype=pl.Int32, eager=True).scatter(won["place"], range(won.height))
    starts = itertools.accumulate((part.height for part in parts), initial=0)
    return won.drop("place"), [ranks.slice(start, part.height) for start, part in zip(starts, parts, strict=False)]


class Reader:
    """Reads some tables of a manifest's parts: each row once, sorted by key, without those of units that others supersede.

    If several units have a row with the same key, the first unit's counts, in the order of kind and name. So a table is the same
    however its rows were committed and merged: rows with the same key are taken for equal, once they are in one part.
    """

    def __init__(self, files: PartFiles, parts: Sequence[Parts], tables: Tables) -> None:
        self._files, self._tables = files, tables
        # A part without such rows is included, because it may replace a unit of another one.
        self._parts = parts

    @property
    def is_plain(self) -> bool:
        """Whether the parts are the tables as they are: nothing supersedes anything."""
        return len(self._parts) == 1

    def units(self) -> tuple[pl.DataFrame, list[pl.Series], list[pl.DataFrame]]:
        """The units that count, sorted; their ranks in each of the parts (see `winners`); and the parts' lists of rows."""
        if not hasattr(self, "_units"):
            lists = [_NO_UNITS.columns + [rows_of(table) for table in self._tables if table in one.tables] for one in self._parts]
            listed = [self._listed(one, names) for one, names in zip(self._parts, lists, strict=True)]
            self._units = (*winners(listed), listed)
        return self._units

    def _listed(self, parts: Parts, names: Sequence[str]) -> pl.DataFrame:
        with self._files.opened(UNITS, parts.units) as stream:
            return _read(stream, names)

    def owners(self, place: int, table: str) -> pl.DataFrame:
        """Which unit's (`_rank`) each row (`_row`, its number) of a table in the place-th parts is; a row may be of several."""
        _, ranks, listed = self.units()
        if table not in self._parts[place].tables:
            return _NO_OWNERS
        return pl.DataFrame({"_rank": ranks[place], "_row": listed[place][rows_of(table)]}).drop_nulls().explode("_row")

    def table(self, table: str, units: Sequence[str] | None = None, unit: str = "") -> pl.DataFrame:
        """A whole table. `units`: only the rows of units with these names. `unit`: the name of a further column, with the unit
        that a row is of, if the table has no such column."""
        columns = self._tables[table]
        unit = "" if unit in columns.schema.names else unit
        with self._open(table) as streams:
            if self.is_plain and units is None and not unit:
                return _read(streams[0], columns.schema.names) if streams else columns.frame([])
            ranks = self._ranks(table, units)
            found = [rows.drop("_place", "_row") for rows in self._ranked(table, streams, ranks, columns.schema.names, None)]
        if unit:
            found = [rows.with_columns(self.units()[0]["unit"].gather(rows["_rank"]).alias(unit)) for rows in found]
        return columns.frame(found, *filter(None, [unit]))

    def pieces(self, table: str) -> Iterator[pl.DataFrame]:
        """A table in consecutive pieces; little more than one is in memory. Rows that are equal in the key's first column are in
        one piece."""
        columns = self._tables[table]
        if self.is_plain:
            with self._open(table) as streams:
                yield from (_row_groups(streams[0], columns) if streams else [columns.frame([])])
            return
        for rows in self.sorted_pieces(table):
            yield numbered(columns, rows)[0]
        if not any(table in one.tables for one in self._parts):
            yield columns.frame([])

    def between(self, table: str, low: Any, high: Any) -> pl.DataFrame:
        """The rows whose first key column is in this range, both ends included."""
        columns = self._tables[table]
        keep = pl.col(columns.key[0]).is_between(pl.lit(low), pl.lit(high))
        with self._open(table) as streams:
            if self.is_plain and streams:
                return _scan(streams[0]).filter(keep).select(columns.schema.names).collect()
            found = [*self._ranked(table, streams, self._ranks(table), columns.schema.names, keep)]
        return columns.frame([rows.drop("_place", "_row") for rows in found])

    def sorted_pieces(self, table: str) -> Iterator[pl.DataFrame]:
        """Like `pieces`, but with every row of a key, and the columns `_place` and `_row` (which row of which parts it is) and
        `_rank` (the first unit that it is of), by which rows with the same key are sorted."""
        columns, ranks = self._tables[table], self._ranks(table)
        with self._open(table) as streams:
            for keep in self._ranges(table, streams):
                found = [*self._ranked(table, streams, ranks, columns.schema.names, keep)]
                if found:
                    yield pl.concat(found).sort(*columns.key, "_rank")

    def shared_row(self, table: str, kind: str) -> tuple[str, str, tuple[Any, ...]] | None:
        """The first row that two units of a kind have: the units, and its key; None if there is none."""
        won, key, found = self.units()[0], list(self._tables[table].key), []
        of_kind = pl.col("_rank").is_in((won["kind"] == kind).arg_true().cast(pl.Int32).implode())
        owners = [self.owners(place, table).filter(of_kind) for place in range(len(self._parts))]
        if self.is_plain and owners[0]["_row"].is_unique().all():
            return None
        with self._open(table) as streams:
            for place, stream in streams.items():
                found.append(_read(stream, key)[owners[place]["_row"]].with_columns(owners[place]["_rank"]))
        if not found:
            return None
        rows = pl.concat(found).sort(*key, "_rank")
        again = rows.select(pl.all_horizontal(pl.col(name).eq_missing(pl.col(name).shift(-1)) for name in key)).to_series()
        twice = again.arg_true()
        if twice.is_empty():
            return None
        first, second = (won["unit"][rows["_rank"][int(place)]] for place in (twice[0], twice[0] + 1))
        return first, second, rows.select(key).row(twice[0])

    def by_unit(self) -> Iterator[tuple[str, dict[str, pl.DataFrame]]]:
        """Each unit that counts with its rows of these tables that it has some of, sorted by kind and name."""
        won, _, _ = self.units()
        places = [*enumerate(self._parts)]
        owners = {table: [self.owners(place, table) for place, _ in places] for table in self._tables}
        weights = [0] * won.height
        for table, found in owners.items():
            for (_, parts), owned in zip(places, found, strict=True):
                if part := parts.tables.get(table):
                    for rank, number in owned.group_by("_rank").len().iter_rows():
                        weights[rank] += number * part.unpacked // max(part.rows, 1)
        names, start = won["unit"].to_list(), 0
        while start < won.height:
            sums = itertools.accumulate(weights[start:])
            end = start + max(1, sum(1 for _ in itertools.takewhile(lambda total: total <= TOGETHER, sums)))
            frames = {table: self._of_units(table, owners[table], start, end) for table in self._tables}
            for rank in range(start, end):
                yield names[rank], {table: rows[rank,] for table, rows in frames.items() if (rank,) in rows}
            start = end

    def _of_units(self, table: str, owners: Sequence[pl.DataFrame], start: int, end: int) -> dict[Any, pl.DataFrame]:
        """Rank -> the rows of the unit, for the units from `start` to `end`."""
        names, found = self._tables[table].schema.names, []
        with self._open(table) as streams:
            for place, stream in streams.items():
                own = owners[place].filter(pl.col("_rank").is_between(start, end - 1))
                wanted = pl.col("_row").is_in(own["_row"].unique().implode())
                rows = _scan(stream).filter(wanted).select(*names, "_row").collect()
                found.append(own.join(rows, on="_row", maintain_order="right").select("_rank", *names))
        return pl.concat(found).partition_by("_rank", as_dict=True, include_key=False) if found else {}

    @contextlib.contextmanager
    def _open(self, table: str) -> Iterator[dict[int, Stream]]:
        """The content of each part of a table by the place of its parts. What was checked is what is read."""
        with contextlib.ExitStack() as stack:
            places = [place for place, parts in enumerate(self._parts) if table in parts.tables]
            yield {place: stack.enter_context(self._files.opened(table, self._parts[place].tables[table])) for place in places}

    def _ranks(self, table: str, units: Sequence[str] | None = None) -> dict[int, pl.Series]:
        """Place -> the rank of the first unit that each row of the table is of, null where none counts, or none of `units`."""
        won, ranks = self.units()[0], {}
        for place, parts in enumerate(self._parts):
            if part := parts.tables.get(table):
                owners = self.owners(place, table)
                if units is not None:
                    owners = owners.filter(won["unit"].is_in(pl.Series(units, dtype=pl.String).implode()).gather(owners["_rank"]))
                first = owners.group_by("_row").agg(pl.col("_rank").min())
                ranks[place] = pl.repeat(None, part.rows, dtype=pl.Int32, eager=True).scatter(first["_row"], first["_rank"])
        return ranks

    def _ranked(
        self, table: str, streams: Mapping[int, Stream], ranks: Mapping[int, pl.Series], names: Sequence[str], keep: Keep
    ) -> Iterator[pl.DataFrame]:
        for place, stream in streams.items():
            whole = _scan(stream)
            rows = (whole if keep is None else whole.filter(keep)).select(*names, "_row").collect()
            ranked = rows.with_columns(pl.lit(place, pl.Int32).alias("_place"), ranks[place].gather(rows["_row"]).alias("_rank"))
            yield ranked.drop_nulls("_rank")

    def _ranges(self, table: str, streams: Mapping[int, Stream]) -> list[Keep]:
        """Conditions for consecutive ranges of the key with about equally many rows, each small enough to be in memory."""
        count = 1 + sum(self._parts[place].tables[table].unpacked for place in streams) // TOGETHER
        if count == 1:
            return [None]
        name = self._tables[table].key[0]
        ordered = pl.concat([_read(stream, [name])[name].gather_every(_NTH) for stream in streams.values()]).sort()
        starts = sorted({ordered[len(ordered) * piece // count] for piece in range(1, count)})
        return [_from(name, low, high) for low, high in itertools.pairwise([None, *starts, None])]


def _from(name: str, low: Any, high: Any) -> pl.Expr:
    """The key is at least `low` and less than `high`; None: there is no such end."""
    ends = [*([] if low is None else [pl.col(name) >= low]), *([] if high is None else [pl.col(name) < high])]
    return pl.all_horizontal(ends)


def _scan(stream: Stream) -> pl.LazyFrame:
    # polars reads from where the stream stands.
    stream.seek(0)
    return pl.scan_parquet(cast("IO[bytes]", stream), row_index_name="_row")


def _read(stream: Stream, names: Sequence[str]) -> pl.DataFrame:
    return _scan(stream).select(names).collect()


def _row_groups(stream: Stream, columns: Columns) -> Iterator[pl.DataFrame]:
    """A part's row groups, of which each leaves the rows of its last key to the next: these may go on there."""
    names, key = columns.schema.names, columns.key[0]
    stream.seek(0)
    metadata = pq.read_metadata(stream)
    # Not by pyarrow's reader, which takes half as long again, and keeps tens of MiB for itself.
    table = _scan(stream).select(names)
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


def digests_of(reader: Reader, names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Table -> {"rows": number of rows, "sha256": hash of the sorted rows}. Holds little more than one piece in memory."""
    digests = {name: Digest() for name in names}
    for name, digest in digests.items():
        for piece in reader.pieces(name):
            digest.add(piece)
    return {name: digest.to_json() for name, digest in digests.items()}


def merge(files: PartFiles, tables: Tables, parts: Sequence[Parts], final: bool = False) -> Parts:
    """Merge parts that are adjacent in a manifest into one. Equal parts give equal files, whoever merges them.

    `final`: they are all of the run; tables without rows get a part as well. Holds little more than one piece in memory.
    """
    reader = Reader(files, parts, tables)
    units, merged = reader.units()[0], {}
    for table, columns in tables.items():
        places = [place for place, one in enumerate(parts) if table in one.tables]
        if not places and not final:
            continue
        owners = {place: reader.owners(place, table) for place in places}
        held = parts[places[0]].tables[table] if len(places) == 1 else None
        if held and (held.digest or not final) and owners[places[0]]["_row"].n_unique() == held.rows:
            merged[table] = held
            owned = owners[places[0]]
        else:
            held_there = {place: parts[place].tables[table] for place in places}
            merged[table], numbers = _merged(reader, files, columns, held_there, final)
            owned = pl.concat(
                [
                    _NO_OWNERS,
                    *(own.with_columns(numbers[place].gather(own["_row"]).alias("_row")) for place, own in owners.items()),
                ]
            )
        units = with_rows(units, table, owned)
    return Parts(write_units(files, units), merged, final)


def _merged(
    reader: Reader, files: PartFiles, columns: Columns, held: Mapping[int, Part], final: bool
) -> tuple[Part, dict[int, pl.Series]]:
    """A table's part, and place -> the number in it of each row of the part there."""
    numbers = {place: pl.repeat(None, part.rows, dtype=pl.UInt32, eager=True) for place, part in held.items()}
    digest = Digest()

    def pieces() -> Iterator[pl.DataFrame]:
        rows = 0
        for piece in reader.sorted_pieces(columns.table):
            first, others = numbered(columns, piece, rows)
            rows += first.height
            for place in held:
                own = others.filter(pl.col("_place") == place)
                numbers[place] = numbers[place].scatter(own["_row"], own["_number"].cast(pl.UInt32))
            if final:
                digest.add(first)
            yield first

    part = files.write(columns, pieces())
    return dataclasses.replace(part, digest=digest.sha256 if final else ""), numbers
