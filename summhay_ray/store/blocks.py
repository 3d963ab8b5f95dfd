"""Blocks: immutable objects that hold the rows of many finished units of one stage. Part of the store room.

A block is one object, `<folder>/<sha256>.block`: concatenated Parquet files. The first lists the units that the block finishes
(columns `unit`, `retry`); one for each table follows. Each row carries the index of its unit in the first file (`_unit`,
dropped on reading), so that when several blocks finish the same unit, the rows of only one of them are used. The manifest that
names a block (`summhay_ray.store.commits`) says where each table lies in it, so a reader requests the whole object once, or a
slice of it.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import itertools
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import polars as pl
import pyarrow.parquet as pq

from summhay_ray.store.errors import Damaged
from summhay_ray.store.files import Files, read_whole
from summhay_ray.store.tables import Tables

UNITS = "_units"
UNIT = "_unit"
_NO_UNITS = pl.DataFrame(schema={"stage": pl.String, "unit": pl.String, "retry": pl.Boolean})
_SMALL = 1 << 20
"""Below this size (bytes) the whole object is read: another request would cost more than the unneeded bytes."""
_BEGIN = 12
"""How many characters of a key a manifest holds: enough to tell apart blocks whose key ranges do not overlap."""

_GROUP, _GROUP_BYTES = 1 << 16, 8 << 20
"""Most rows and bytes (in memory, about) of a row group: a reader of one range of keys unpacks only the groups that have some."""

Keep = Callable[[pl.DataFrame], pl.Expr]
"""Which rows of a block are wanted: the block's units, as in `Part` -> a condition on the rows."""


@dataclass(frozen=True, slots=True)
class Finished:
    """One finished unit (a cell, a context, a haystack) and its rows (table -> records)."""

    unit: str
    rows: Mapping[str, Sequence[Any]]
    retry: bool = False
    """Whether the unit failed in a way that a later run may retry."""


class Slice(NamedTuple):
    """A table's slice of a block: offset and length in bytes, number of rows, CRC-32 of the bytes, and its range of keys.

    `low` and `high` are the first characters of the smallest and the largest key; empty if the first key column is not text.
    `unpacked` is the size of the rows in memory (bytes, about); 0 where an earlier version wrote the block.
    """

    offset: int
    length: int
    rows: int
    crc: int
    low: str = ""
    high: str = ""
    unpacked: int = 0


@dataclass(frozen=True, slots=True)
class Block:
    """One block as a manifest lists it. `units`: how many units it finishes; `level`: how often its rows were merged."""

    name: str
    sha256: str
    size: int
    level: int
    stage: str
    units: int
    slices: Mapping[str, Slice]

    def to_json(self) -> dict[str, Any]:
        """The block's entry in a manifest; each slice is [offset, length, rows, crc, low, high, unpacked]."""
        fields = {name: getattr(self, name) for name in self.__slots__}
        return {**fields, "slices": {table: list(piece) for table, piece in self.slices.items()}}

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Block:
        """The inverse of `to_json`."""
        return cls(**{**body, "slices": {table: Slice(*values) for table, values in body["slices"].items()}})


@dataclass(frozen=True, slots=True)
class Part:
    """What was read from a block: its units (`stage`, `unit`, `retry`), and its rows by table, with the column `_unit`."""

    units: pl.DataFrame
    rows: Mapping[str, pl.DataFrame]


def write_block(files: Files, folder: str, tables: Tables, stage: str, finished: Sequence[Finished]) -> Block:
    """Write the rows of one or more units as one block. If a unit is given twice, a success beats a failure, then the last wins.

    `tables`: all tables of the run; rows of any other table are not written.
    """
    if not finished:
        raise ValueError("a block holds one unit at least")
    kept: dict[str, Finished] = {}
    for unit in finished:
        if unit.unit not in kept or not unit.retry or kept[unit.unit].retry:
            kept[unit.unit] = unit
    rows = {}
    for table, columns in tables.items():
        records = [record for unit in kept.values() for record in unit.rows.get(table, ())]
        indices = [index for index, unit in enumerate(kept.values()) for _ in unit.rows.get(table, ())]
        if records:
            rows[table] = columns.as_frame(records).hstack([pl.Series(UNIT, indices, pl.Int32)])
    units = {"unit": list(kept), "retry": [unit.retry for unit in kept.values()]}
    return _put(files, folder, tables, Part(_of_stage(pl.DataFrame(units), stage), rows), 0)


def read_block(files: Files, block: Block, wanted: Tables, keep: Keep | None = None) -> Part:
    """The block's units and its rows of the wanted tables. Raises StoreError if the block is missing or damaged.

    `keep`: only these rows, chosen while they are unpacked, so that little more than the wanted ones is in memory.
    """
    slices = [block.slices[table] for table in block.slices if table in {UNITS, *wanted}]
    # One request for everything, unless most of the bytes would be unneeded.
    if block.size <= _SMALL or (len(slices) > 2 and sum(piece.length for piece in slices) > block.size // 2):
        return _unpacked(block, _whole(files, block), wanted, keep)
    contents = {table: _slice(files, block, block.slices[table]) for table in {UNITS, *wanted} & block.slices.keys()}
    return _part(block, contents, wanted, keep)


def _unpacked(block: Block, whole: memoryview, wanted: Tables, keep: Keep | None = None) -> Part:
    slices = {table: piece for table, piece in block.slices.items() if table == UNITS or table in wanted}
    contents = {table: whole[piece.offset : piece.offset + piece.length] for table, piece in slices.items()}
    return _part(block, contents, wanted, keep)


def _part(block: Block, contents: Mapping[str, memoryview], wanted: Tables, keep: Keep | None) -> Part:
    stored = {table: pl.scan_parquet(io.BytesIO(content)) for table, content in contents.items()}
    units = _of_stage(stored.pop(UNITS).collect(), block.stage)
    kept = stored if keep is None else {table: rows.filter(keep(units)) for table, rows in stored.items()}
    return Part(units, {table: rows.select(*wanted[table].schema.names, UNIT).collect() for table, rows in kept.items()})


def _of_stage(units: pl.DataFrame, stage: str) -> pl.DataFrame:
    return units.select(pl.lit(stage).alias("stage"), "unit", "retry")


def winners(parts: Sequence[pl.DataFrame]) -> tuple[pl.DataFrame, list[pl.Series]]:
    """The units of all parts, each once, sorted; and for each part, its units' ranks among them.

    A unit's rank is null in all parts but the one whose rows are used: a success beats a failure, then the last part wins.
    """
    every = pl.concat([_NO_UNITS, *parts]).with_row_index("place")
    every = every.sort("stage", "unit", pl.col("retry").not_(), "place")
    # The last of equal neighbours.
    won = every.filter(pl.any_horizontal(pl.col(name).ne_missing(pl.col(name).shift(-1)) for name in ("stage", "unit")))
    ranks = pl.repeat(None, every.height, dtype=pl.Int32, eager=True).scatter(won["place"], range(won.height))
    starts = itertools.accumulate((part.height for part in parts), initial=0)
    return won.drop("place"), [ranks.slice(start, part.height) for start, part in zip(starts, parts, strict=False)]


def only(part: Part, ranks: pl.Series) -> dict[str, pl.DataFrame]:
    """The rows of the units that have a rank, by table, with `_unit` replaced by the unit's rank."""
    ranked = {table: rows.with_columns(ranks.gather(rows[UNIT]).alias(UNIT)) for table, rows in part.rows.items()}
    return {table: rows.drop_nulls(UNIT) for table, rows in ranked.items()}


def merge(files: Files, folder: str, tables: Tables, blocks: Sequence[Block], level: int) -> Block:
    """Merge blocks of one stage that are adjacent in a manifest into one block of `level`; `winners` chooses each unit's rows.

    Holds in memory the blocks as stored and the rows that are kept.
    """
    contents = [_whole(files, block) for block in blocks]
    won, ranks = winners([_unpacked(block, content, {}).units for block, content in zip(blocks, contents, strict=True)])
    kept: dict[str, list[pl.DataFrame]] = {}
    for block, content, own in zip(blocks, contents, ranks, strict=True):
        for table, rows in only(_unpacked(block, content, tables), own).items():
            if len(rows):
                kept.setdefault(table, []).append(rows)
    merged = {table: pl.concat(kept.pop(table)) for table in sorted(kept)}
    return _put(files, folder, tables, Part(won, merged), level)


def _put(files: Files, folder: str, tables: Tables, part: Part, level: int) -> Block:
    stage = part.units["stage"][0]
    # The stage is part of the content, hence of the hash: equal units of two stages make two blocks.
    contents, slices, offset = [], {}, 0
    for table, rows in {UNITS: part.units.drop("stage"), **part.rows}.items():
        key = () if table == UNITS else tables[table].key
        ordered = rows.sort(*key, UNIT, maintain_order=True) if key else rows
        content, unpacked = _parquet(ordered, stage, key)
        slices[table] = Slice(offset, len(content), len(rows), zlib.crc32(content), *_ends(ordered, key), unpacked)
        contents.append(content)
        offset += len(content)
    whole = b"".join(contents)
    digest = hashlib.sha256(whole).hexdigest()
    block = Block(f"{folder}/{digest}.block", digest, len(whole), level, stage, len(part.units), slices)
    if not files.create(block.name, whole):
        _whole(files, block)
    return block


def _parquet(rows: pl.DataFrame, stage: str, key: Sequence[str]) -> tuple[bytes, int]:
    """The rows as a Parquet file, which says the smallest and the largest key of each row group, and their size in memory."""
    sink, unpacked = io.BytesIO(), 0
    height = min(_GROUP, 1 + _GROUP_BYTES * len(rows) // max(int(rows.estimated_size()), 1))
    groups = (group.to_arrow(compat_level=pl.CompatLevel.oldest()) for group in rows.iter_slices(height))
    first = next(groups).replace_schema_metadata({"stage": stage})
    with pq.ParquetWriter(sink, first.schema, compression="zstd", write_statistics=[*key[:1]]) as writer:
        for group in itertools.chain([first], groups):
            writer.write_table(group)
            unpacked += group.nbytes
    return sink.getvalue(), unpacked


def _ends(rows: pl.DataFrame, key: Sequence[str]) -> tuple[str, str]:
    """The first characters of the smallest and the largest key of sorted rows; empty if the keys are not text."""
    if not key or rows.schema[key[0]] != pl.String:
        return "", ""
    return rows[key[0]][0][:_BEGIN], rows[key[0]][-1][:_BEGIN]


def _whole(files: Files, block: Block) -> memoryview:
    def checked(content: bytes) -> memoryview | None:
        return memoryview(content) if hashlib.sha256(content).hexdigest() == block.sha256 else None

    return _undamaged(files, block, lambda: files.read(block.name), checked)


def _slice(files: Files, block: Block, piece: Slice) -> memoryview:
    def checked(content: bytes) -> memoryview | None:
        return memoryview(content) if len(content) == piece.length and zlib.crc32(content) == piece.crc else None

    return _undamaged(files, block, lambda: files.read_range(block.name, piece.offset, piece.length), checked)


def _undamaged(
    files: Files, block: Block, read: Callable[[], bytes], checked: Callable[[bytes], memoryview | None]
) -> memoryview:
    with contextlib.suppress(FileNotFoundError):
        if (content := read_whole(read, checked)) is not None:
            return content
    raise _damaged(files, block)


def check_block(files: Files, block: Block) -> None:
    """Raise Damaged if the block is missing or damaged."""
    _whole(files, block)


def _damaged(files: Files, block: Block) -> Damaged:
    commits = files.where(f"{block.name.rsplit('/', 2)[0]}/commits")
    is_there = files.exists(block.name)
    what = "damaged; delete it and the folder" if is_there else "gone; delete the folder"
    return Damaged(
        f"{files.where(block.name)} is {what} {commits}, and run or import again: no answer of the "
        f"log is paid for twice; or put it back from a copy (it has {block.units} units of {block.stage})"
    )
