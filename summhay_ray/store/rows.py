"""Reads tables from the blocks of one manifest. Part of the store room."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from summhay_ray.store.blocks import UNIT, Block, Keep, Part, Slice, Unit, only, read_block, winners
from summhay_ray.store.files import Files
from summhay_ray.store.tables import Columns, Tables, digest_of

TOGETHER = 16 << 20
"""How many stored bytes of rows are unpacked and sorted at a time when a table is read in pieces."""
_ROW = 64
"""A row counts as so many stored bytes at least: in memory it takes more, however well it was compressed."""
_NTH = 64
"""One in so many keys is looked at to divide a table into pieces."""


def finished_of(files: Files, blocks: Sequence[Block], stage: str) -> dict[str, bool]:
    """Unit -> whether it may be retried, for the units of one stage."""
    parts = [read_block(files, block, {}).units for block in blocks if block.stage == stage]
    return {unit: retry for (_, unit), (_, retry) in winners(parts).items()}


def frames_of(
    files: Files, blocks: Sequence[Block], wanted: Tables, units: Sequence[str] | None = None
) -> dict[str, pl.DataFrame]:
    """The tables, each row once, sorted by primary key. `units`: only the rows of units with these names.

    If several units have a row with the same key, the first unit wins, in the order of stage and name. So a table is the same
    however its rows were batched and merged.
    """
    return _frames(files, blocks, wanted, None if units is None else _of_units(units))


def _frames(files: Files, blocks: Sequence[Block], wanted: Tables, keep: Keep | None) -> dict[str, pl.DataFrame]:
    parts = [read_block(files, block, wanted, keep) for block in _with_any(blocks, wanted)]
    won = winners([part.units for part in parts])
    ranks = {unit: rank for rank, unit in enumerate(sorted(won))}
    collected: dict[str, list[pa.Table]] = {name: [] for name in wanted}
    for index in range(len(parts)):
        # Each part is let go once its rows are collected.
        part, parts[index] = parts[index], Part([], {})
        for name, rows in only(part, _winning(part, index, won, ranks)).items():
            collected[name].append(rows)
    return {name: columns.frame(collected.pop(name)) for name, columns in wanted.items()}


def _winning(part: Part, index: int, won: Mapping[Unit, tuple[int, bool]], ranks: Mapping[Unit, int]) -> dict[Unit, int]:
    """The units whose rows are taken from the part of this index, with their ranks."""
    return {unit: ranks[unit] for unit, _ in part.units if won[unit][0] == index}


def _with_any(blocks: Sequence[Block], wanted: Tables) -> list[Block]:
    """All blocks of the stages that have rows of these tables.

    A block without such rows is included, because it may replace a unit of another block.
    """
    stages = {block.stage for block in blocks if not block.slices.keys().isdisjoint(wanted)}
    return [block for block in blocks if block.stage in stages]


def _of_units(units: Sequence[str]) -> Keep:
    wanted = set(units)

    def keep(rows: pa.Table, among: Sequence[tuple[Unit, bool]]) -> pa.Table:
        indices = [index for index, ((_, unit), _) in enumerate(among) if unit in wanted]
        # pa.array would import pandas.
        return rows.filter(pc.is_in(rows[UNIT], pl.Series(indices, dtype=pl.Int32).to_arrow()))

    return keep


def pieces_of(files: Files, blocks: Sequence[Block], tables: Tables) -> Iterator[tuple[str, Iterable[pl.DataFrame]]]:
    """Each table with its rows in consecutive pieces, in the order of its key. Exhaust one table before taking the next.

    Holds little more than one piece in memory.
    """
    sizes = {name: sum(_size(block.slices[name]) for block in blocks if name in block.slices) for name in tables}
    for group in _groups({name: size for name, size in sizes.items() if size <= TOGETHER}):
        frames = _frames(files, blocks, {name: tables[name] for name in group}, None)
        for name in group:
            yield name, [frames.pop(name)]
    for name in tables:
        if sizes[name] > TOGETHER:
            yield name, _Pieces(files, blocks, tables[name])


def _size(piece: Slice) -> int:
    return max(piece.length, piece.rows * _ROW)


def units_of(files: Files, blocks: Sequence[Block], wanted: Tables) -> Iterator[tuple[str, Mapping[str, pl.DataFrame]]]:
    """Each unit with its rows of the wanted tables, in the order of the blocks. Holds one block in memory."""
    blocks = _with_any(blocks, wanted)
    won = winners([read_block(files, block, {}).units for block in blocks])
    for place, block in enumerate(blocks):
        part = read_block(files, block, wanted)
        by_index = {name: _frame(rows).partition_by(UNIT, as_dict=True) for name, rows in part.rows.items()}
        for index, ((stage, unit), _) in enumerate(part.units):
            if won[stage, unit][0] == place:
                yield unit, {name: frames[index,].drop(UNIT) for name, frames in by_index.items() if (index,) in frames}


def _frame(rows: pa.Table) -> pl.DataFrame:
    frame = pl.from_arrow(rows)
    assert isinstance(frame, pl.DataFrame)
    return frame


def digests_of(files: Files, blocks: Sequence[Block], tables: Tables) -> dict[str, dict[str, Any]]:
    """Table -> {"rows": number of rows, "sha256": hash of the sorted rows}. Holds little more than one block in memory."""
    digests = {name: _digest(pieces) for name, pieces in pieces_of(files, blocks, tables)}
    return {name: digests[name] for name in tables}


def _digest(pieces: Iterable[pl.DataFrame]) -> dict[str, Any]:
    rows = 0

    def counted() -> Iterator[pl.DataFrame]:
        nonlocal rows
        for piece in pieces:
            rows += piece.height
            yield piece

    digest = digest_of(counted())
    return {"rows": rows, "sha256": digest}


def _groups(sizes: Mapping[str, int]) -> Iterator[list[str]]:
    """The tables in groups, each small enough to hold in memory, so that each block is read only a few times."""
    group: list[str] = []
    for name in sorted(sizes, key=sizes.__getitem__):
        if group and sum(sizes[table] for table in group) + sizes[name] > 2 * TOGETHER:
            yield group
            group = []
        group.append(name)
    if group:
        yield group


class _Pieces:
    """A large table in consecutive pieces, in the order of its key; rows with the same key are in the same piece."""

    def __init__(self, files: Files, blocks: Sequence[Block], columns: Columns) -> None:
        self._files, self._name = files, columns.table
        self._wanted = {columns.table: columns}
        self._key = columns.key[0]
        self._blocks = _with_any(blocks, self._wanted)
        self._won = winners([read_block(files, block, {}).units for block in self._blocks])
        self._ranks = {unit: rank for rank, unit in enumerate(sorted(self._won))}

    def __iter__(self) -> Iterator[pl.DataFrame]:
        for places in self._apart():
            size = sum(_size(self._blocks[place].slices[self._name]) for place in places)
            # A single block of up to twice the size is one piece: it must be unpacked whole in any case.
            count = 1 if len(places) == 1 and size <= 2 * TOGETHER else 1 + size // TOGETHER
            for keep in self._ranges(places, count):
                yield self._piece(places, keep)

    def _apart(self) -> list[list[int]]:
        """Indices of the blocks that have rows, in groups whose ranges of keys do not overlap, in the order of the key."""
        slices = [(block.slices[self._name], place) for place, block in enumerate(self._blocks) if self._name in block.slices]
        groups: list[list[int]] = []
        end = None
        for piece, place in sorted(slices, key=lambda item: (item[0].low, item[1])):
            if end is None or piece.low > end:
                groups.append([])
            groups[-1].append(place)
            end = piece.high if end is None else max(end, piece.high)
        return [sorted(group) for group in groups]

    def _ranges(self, places: Sequence[int], count: int) -> list[Keep | None]:
        """Filters for `count` ranges of the key with about equally many rows; [None] if one piece is enough.

        Each range is then read from all these blocks, one after the other.
        """
        if count == 1:
            return [None]
        only_key = {name: columns.only(()) for name, columns in self._wanted.items()}
        parts = (read_block(self._files, self._blocks[place], only_key) for place in places)
        ordered = pl.concat([_frame(part.rows[self._name])[self._key].gather_every(_NTH) for part in parts]).sort()
        starts = sorted({ordered[len(ordered) * piece // count] for piece in range(1, count)})
        return [_between(self._key, low, high) for low, high in zip([None, *starts], [*starts, None], strict=True)]

    def _piece(self, places: Sequence[int], keep: Keep | None) -> pl.DataFrame:
        rows = []
        for place in places:
            part = read_block(self._files, self._blocks[place], self._wanted, keep)
            rows.append(only(part, _winning(part, place, self._won, self._ranks))[self._name])
        return self._wanted[self._name].frame(rows)


def _between(column: str, low: Any, high: Any) -> Keep:
    def keep(rows: pa.Table, _: Sequence[tuple[Unit, bool]]) -> pa.Table:
        if low is not None:
            rows = rows.filter(pc.greater_equal(rows[column], low))
        return rows if high is None else rows.filter(pc.less(rows[column], high))

    return keep
