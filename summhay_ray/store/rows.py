"""Reads tables from the blocks of one manifest. Part of the store room."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import polars as pl

from summhay_ray.store.blocks import UNIT, Block, Keep, Slice, only, read_block, winners
from summhay_ray.store.files import Files
from summhay_ray.store.tables import Columns, Digest, Tables

TOGETHER = 32 << 20
"""How many bytes of rows, as they are in memory, are sorted at a time when a table is read in pieces."""
_RATIO, _ROW = 4, 64
"""Where the size in memory is not known: so many times what is stored, and at least so many bytes a row."""
_NTH = 64
"""One in so many keys is looked at to divide a table into pieces."""


def finished_of(files: Files, blocks: Sequence[Block], stage: str) -> dict[str, bool]:
    """Unit -> whether it may be retried, for the units of one stage."""
    won, _ = winners([read_block(files, block, {}).units for block in blocks if block.stage == stage])
    return dict(won.select("unit", "retry").iter_rows())


def frames_of(
    files: Files, blocks: Sequence[Block], wanted: Tables, units: Sequence[str] | None = None, unit: str = ""
) -> dict[str, pl.DataFrame]:
    """The tables, each row once, sorted by primary key. `units`: only the rows of units with these names.

    If several units have a row with the same key, the first unit wins, in the order of stage and name. So a table is the same
    however its rows were batched and merged. `unit`: the name of a further column, with the unit that each row is of, of the
    tables that have no column of this name.
    """
    return _frames(files, blocks, wanted, None if units is None else _of_units(units), unit)


def _frames(files: Files, blocks: Sequence[Block], wanted: Tables, keep: Keep | None, unit: str = "") -> dict[str, pl.DataFrame]:
    parts = [read_block(files, block, wanted, keep) for block in _with_any(blocks, wanted)]
    won, ranks = winners([part.units for part in parts])
    collected: dict[str, list[pl.DataFrame]] = {name: [] for name in wanted}
    # Each part is let go once its rows are collected.
    for own in ranks:
        for name, rows in only(parts.pop(0), own).items():
            collected[name].append(rows)
    named = {name: unit if unit not in columns.schema.names else "" for name, columns in wanted.items()}
    return {
        name: columns.frame(_named(collected.pop(name), won, named[name]), *filter(None, [named[name]]))
        for name, columns in wanted.items()
    }


def _named(found: Sequence[pl.DataFrame], won: pl.DataFrame, unit: str) -> Sequence[pl.DataFrame]:
    """The frames with the name of each row's unit as the column `unit`, if that is not empty."""
    return [rows.with_columns(won["unit"].gather(rows[UNIT]).alias(unit)) for rows in found] if unit else found


def _with_any(blocks: Sequence[Block], wanted: Tables) -> list[Block]:
    """All blocks of the stages that have rows of these tables.

    A block without such rows is included, because it may replace a unit of another block.
    """
    stages = {block.stage for block in blocks if not block.slices.keys().isdisjoint(wanted)}
    return [block for block in blocks if block.stage in stages]


def _of_units(units: Sequence[str]) -> Keep:
    wanted = pl.Series(units, dtype=pl.String)
    return lambda among: pl.col(UNIT).is_in(among["unit"].is_in(wanted.implode()).arg_true().cast(pl.Int32).implode())


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
    return piece.unpacked or max(piece.length * _RATIO, piece.rows * _ROW)


def units_of(files: Files, blocks: Sequence[Block], wanted: Tables) -> Iterator[tuple[str, Mapping[str, pl.DataFrame]]]:
    """Each unit with its rows of the wanted tables, in the order of the blocks. Holds one block in memory."""
    blocks = _with_any(blocks, wanted)
    _, ranks = winners([read_block(files, block, {}).units for block in blocks])
    for block, own in zip(blocks, ranks, strict=True):
        part = read_block(files, block, wanted)
        by_index = {name: rows.partition_by(UNIT, as_dict=True) for name, rows in part.rows.items()}
        for index, (unit, rank) in enumerate(zip(part.units["unit"], own, strict=True)):
            if rank is not None:
                yield unit, {name: frames[index,].drop(UNIT) for name, frames in by_index.items() if (index,) in frames}


def digests_of(files: Files, blocks: Sequence[Block], tables: Tables) -> dict[str, dict[str, Any]]:
    """Table -> {"rows": number of rows, "sha256": hash of the sorted rows}. Holds little more than one block in memory."""
    digests = {name: Digest() for name in tables}
    for name, pieces in pieces_of(files, blocks, tables):
        for piece in pieces:
            digests[name].add(piece)
    return {name: digest.to_json() for name, digest in digests.items()}


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
        _, self._ranks = winners([read_block(files, block, {}).units for block in self._blocks])

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
        parts = [read_block(self._files, self._blocks[place], only_key) for place in places]
        ordered = pl.concat([part.rows[self._name][self._key].gather_every(_NTH) for part in parts]).sort()
        starts = sorted({ordered[len(ordered) * piece // count] for piece in range(1, count)})
        return [_between(self._key, low, high) for low, high in zip([None, *starts], [*starts, None], strict=True)]

    def _piece(self, places: Sequence[int], keep: Keep | None) -> pl.DataFrame:
        rows = []
        for place in places:
            part = read_block(self._files, self._blocks[place], self._wanted, keep)
            rows.append(only(part, self._ranks[place])[self._name])
        return self._wanted[self._name].frame(rows)


def _between(column: str, low: Any, high: Any) -> Keep:
    key = pl.col(column)
    if low is None:
        return lambda _: key < high
    return lambda _: key >= low if high is None else (key >= low) & (key < high)
