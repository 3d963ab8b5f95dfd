"""Blocks: immutable objects that hold the rows of many finished units of one stage. Part of the store room.

A block is one object, `<folder>/<sha256>.block`: the Parquet files of its tables one behind the other, before them one of
the units that it finishes (`unit`, `retry`). Each row carries the place of its unit in that table (`_unit`, dropped on
reading), so that of a unit which several blocks finish the rows of one count. What a block is made of stands in the manifest
that names it (`summhay_ray.store.commits`), so a reader asks for the whole object once, or for a slice of it.
"""

from __future__ import annotations

import hashlib
import io
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from summhay_ray.store.errors import Damaged
from summhay_ray.store.files import Files
from summhay_ray.store.tables import Tables

UNITS = "_units"
UNIT = "_unit"
_UNITS = pa.schema([pa.field("unit", pa.string()), pa.field("retry", pa.bool_())])
_SMALL = 1 << 20
"""Below this size (bytes) the whole object is asked for: one request costs more than what it brings too much."""
_BEGIN = 12
"""So many characters of a key stand in a manifest: enough to tell blocks apart that follow each other."""

Unit = tuple[str, str]
"""Stage and name."""


@dataclass(frozen=True, slots=True)
class Finished:
    """One unit (a cell, a context, a haystack) that is finished, and its rows (table -> records)."""

    unit: str
    rows: Mapping[str, Sequence[Any]]
    retry: bool = False
    """Whether a later run may try it again."""


@dataclass(frozen=True, slots=True)
class Slice:
    """Where a table lies in a block: bytes, rows and the CRC-32 of the bytes; how its least and its largest key begin.

    Both are empty where the first column of the key is no text.
    """

    offset: int
    length: int
    rows: int
    crc: int
    low: str = ""
    high: str = ""


@dataclass(frozen=True, slots=True)
class Block:
    """One block as a manifest names it. `units`: how many it finishes; `level`: how often its rows were merged."""

    name: str
    sha256: str
    size: int
    level: int
    stage: str
    units: int
    slices: Mapping[str, Slice]

    def to_json(self) -> dict[str, Any]:
        """What stands in a manifest; a slice as [offset, length, rows, crc, low, high]."""
        return {**asdict(self), "slices": {table: list(asdict(one).values()) for table, one in self.slices.items()}}

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Block:
        """The block of `to_json`."""
        return cls(**{**body, "slices": {table: Slice(*one) for table, one in body["slices"].items()}})


@dataclass(frozen=True, slots=True)
class Part:
    """What was read of a block: its units with their `retry`, and rows by table, each with `_unit`."""

    units: Sequence[tuple[Unit, bool]]
    rows: Mapping[str, pa.Table]


def write_block(files: Files, folder: str, tables: Tables, stage: str, finished: Sequence[Finished]) -> Block:
    """Write the rows of one unit or more as one block. Of a unit given twice a success counts before a failure, then the last.

    `tables`: all that the run has; the rows of no others are written.
    """
    if not finished:
        raise ValueError("a block holds one unit at least")
    kept: dict[str, Finished] = {}
    for one in finished:
        if one.unit not in kept or not one.retry or kept[one.unit].retry:
            kept[one.unit] = one
    rows = {}
    for table, columns in tables.items():
        records = [record for one in kept.values() for record in one.rows.get(table, ())]
        places = [place for place, one in enumerate(kept.values()) for _ in one.rows.get(table, ())]
        if records:
            rows[table] = columns.arrow(records).append_column(UNIT, pa.array(places, pa.int32()))
    return _put(files, folder, tables, Part([((stage, one.unit), one.retry) for one in kept.values()], rows), 0)


def read_block(files: Files, block: Block, wanted: Tables) -> Part:
    """The block's units and its rows of the wanted tables. Raises StoreError where it is absent or damaged."""
    places = [block.slices[table] for table in block.slices if table in {UNITS, *wanted}]
    # One request for all, unless it would bring much that nobody wants.
    if block.size <= _SMALL or (len(places) > 2 and sum(place.length for place in places) > block.size // 2):
        return _unpacked(block, _whole(files, block), wanted)
    contents = {table: _slice(files, block, block.slices[table]) for table in {UNITS, *wanted} & block.slices.keys()}
    return _part(block, contents, wanted)


def _unpacked(block: Block, whole: memoryview, wanted: Tables) -> Part:
    places = {table: place for table, place in block.slices.items() if table == UNITS or table in wanted}
    return _part(block, {table: whole[place.offset : place.offset + place.length] for table, place in places.items()}, wanted)


def _part(block: Block, contents: Mapping[str, memoryview], wanted: Tables) -> Part:
    names = {table: None if table == UNITS else [*wanted[table].schema.names, UNIT] for table in contents}
    rows = {table: pq.ParquetFile(pa.BufferReader(one)).read(columns=names[table]) for table, one in contents.items()}
    units = rows.pop(UNITS)
    columns = (units[name].to_pylist() for name in ("unit", "retry"))
    found = [((block.stage, unit), retry) for unit, retry in zip(*columns, strict=True)]
    return Part(found, {table: wanted[table].read(one, UNIT) for table, one in rows.items()})


def winners(parts: Sequence[Sequence[tuple[Unit, bool]]]) -> dict[Unit, tuple[int, bool]]:
    """Unit -> the place of the part whose rows count, and `retry`: a success before a failure, then the last part."""
    found: dict[Unit, tuple[int, bool]] = {}
    for place, units in enumerate(parts):
        for unit, retry in units:
            known = found.get(unit)
            if known is None or not retry or known[1]:
                found[unit] = (place, retry)
    return found


def only(part: Part, ranks: Mapping[Unit, int]) -> dict[str, pa.Table]:
    """The rows of the units in `ranks`, `_unit` replaced by their rank."""
    # pa.array would load pandas, for a fifth of a second.
    by_place = pl.Series([ranks.get(unit) for unit, _ in part.units], dtype=pl.Int32).to_arrow()
    found = {}
    for table, rows in part.rows.items():
        ranked = by_place.take(rows[UNIT].combine_chunks())
        rows = rows.set_column(rows.column_names.index(UNIT), UNIT, ranked)
        found[table] = rows.filter(ranked.is_valid()) if ranked.null_count else rows
    return found


def merge(files: Files, folder: str, tables: Tables, blocks: Sequence[Block], level: int) -> Block:
    """Write a stage's blocks, adjacent in a manifest, as one of that level: of each unit the rows that count among them.

    Holds the blocks as they are stored, and unpacked what is kept and one block more.
    """
    contents = [_whole(files, block) for block in blocks]
    units = [_unpacked(block, content, {}).units for block, content in zip(blocks, contents, strict=True)]
    won = winners(units)
    ranks = {unit: rank for rank, unit in enumerate(sorted(won))}
    kept: dict[str, list[pa.Table]] = {}
    for place, block in enumerate(blocks):
        own = {unit: ranks[unit] for unit, _ in units[place] if won[unit][0] == place}
        for table, rows in only(_unpacked(block, contents[place], tables), own).items():
            if rows.num_rows:
                kept.setdefault(table, []).append(rows)
    merged = {table: pa.concat_tables(kept.pop(table)) for table in sorted(kept)}
    return _put(files, folder, tables, Part([(unit, won[unit][1]) for unit in ranks], merged), level)


def _put(files: Files, folder: str, tables: Tables, part: Part, level: int) -> Block:
    names, retries = [unit for (_, unit), _ in part.units], [retry for _, retry in part.units]
    stage = part.units[0][0][0]
    # The stage is part of the content, hence of the name: equal units of two stages are two blocks.
    units = pa.table([names, retries], schema=_UNITS.with_metadata({"stage": stage}))
    contents, slices, offset = [], {}, 0
    for table, rows in {UNITS: units, **part.rows}.items():
        sink = io.BytesIO()
        pq.write_table(rows, sink, compression="zstd", write_statistics=False)
        content = sink.getvalue()
        ends = ("", "") if table == UNITS else _ends(rows[tables[table].key[0]])
        slices[table] = Slice(offset, len(content), rows.num_rows, zlib.crc32(content), *ends)
        contents.append(content)
        offset += len(content)
    whole = b"".join(contents)
    digest = hashlib.sha256(whole).hexdigest()
    block = Block(f"{folder}/{digest}.block", digest, len(whole), level, stage, len(names), slices)
    if not files.create(block.name, whole):
        _whole(files, block)
    return block


def _ends(keys: pa.ChunkedArray) -> tuple[str, str]:
    """How the least and the largest of them begin."""
    if keys.type != pa.string():
        return "", ""
    ends = pc.min_max(keys).as_py()
    return ends["min"][:_BEGIN], ends["max"][:_BEGIN]


def _whole(files: Files, block: Block) -> memoryview:
    try:
        content = files.read(block.name)
    except FileNotFoundError:
        content = b""
    if hashlib.sha256(content).hexdigest() != block.sha256:
        raise _damaged(files, block)
    return memoryview(content)


def _slice(files: Files, block: Block, place: Slice) -> memoryview:
    try:
        content = files.read_range(block.name, place.offset, place.length)
    except FileNotFoundError:
        content = b""
    if len(content) != place.length or zlib.crc32(content) != place.crc:
        raise _damaged(files, block)
    return memoryview(content)


def check_block(files: Files, block: Block) -> None:
    """Raises Damaged where the block is absent or damaged."""
    _whole(files, block)


def _damaged(files: Files, block: Block) -> Damaged:
    commits = files.where(f"{block.name.rsplit('/', 2)[0]}/commits")
    return Damaged(
        f"{files.where(block.name)} is absent or damaged; delete it and the folder {commits}, and run or import again: "
        f"no answer of the log is paid twice; or put it back from a copy, with the rows of {block.units} units ({block.stage})"
    )
