"""The rows that count in the blocks of one manifest, by table. Part of the store room."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from summhay_ray.store.blocks import UNIT, Block, Part, Unit, only, read_block, winners
from summhay_ray.store.files import Files
from summhay_ray.store.tables import Columns, Tables, digest_of

TOGETHER = 16 << 20
"""So many stored bytes of rows are unpacked and sorted at a time where they are only needed for a moment."""

Keep = Callable[[pa.Table, Part], pa.Table]
"""Rows of a block, the block's units -> the rows that are wanted."""


def finished_of(files: Files, blocks: Sequence[Block], stage: str) -> dict[str, bool]:
    """Unit -> whether it may be tried again, of one stage."""
    parts = [read_block(files, block, {}).units for block in blocks if block.stage == stage]
    return {unit: retry for (_, unit), (_, retry) in winners(parts).items()}


def frames_of(
    files: Files, blocks: Sequence[Block], wanted: Tables, units: Sequence[str] | None = None
) -> dict[str, pl.DataFrame]:
    """The tables, each row once, sorted by primary key; of these units only where they are given.

    Of rows with one key that several units brought the first unit's counts, in the order of stages and names: however the
    rows were batched and merged, the table is the same.
    """
    return _frames(files, blocks, wanted, None if units is None else _of_units(units))


def _frames(files: Files, blocks: Sequence[Block], wanted: Tables, keep: Keep | None) -> dict[str, pl.DataFrame]:
    parts = [_read(files, block, wanted, keep) for block in _with_any(blocks, wanted)]
    won = winners([part.units for part in parts])
    ranks = {unit: rank for rank, unit in enumerate(sorted(won))}
    found: dict[str, list[pa.Table]] = {name: [] for name in wanted}
    for place in range(len(parts)):
        part, parts[place] = parts[place], Part([], {})
        for name, rows in only(part, _own(part, place, won, ranks)).items():
            found[name].append(rows)
    return {name: columns.frame(found.pop(name)) for name, columns in wanted.items()}


def _own(part: Part, place: int, won: Mapping[Unit, tuple[int, bool]], ranks: Mapping[Unit, int]) -> dict[Unit, int]:
    return {unit: ranks[unit] for unit, _ in part.units if won[unit][0] == place}


def _with_any(blocks: Sequence[Block], wanted: Tables) -> list[Block]:
    """The blocks of the stages that bring rows of these tables: one without such rows may finish a unit of another anew."""
    stages = {block.stage for block in blocks if not block.slices.keys().isdisjoint(wanted)}
    return [block for block in blocks if block.stage in stages]


def _read(files: Files, block: Block, wanted: Tables, keep: Keep | None) -> Part:
    part = read_block(files, block, wanted)
    return part if keep is None else Part(part.units, {name: keep(rows, part) for name, rows in part.rows.items()})


def _of_units(units: Sequence[str]) -> Keep:
    wanted = set(units)

    def keep(rows: pa.Table, part: Part) -> pa.Table:
        places = [place for place, ((_, unit), _) in enumerate(part.units) if unit in wanted]
        # Not pa.array, which would load pandas.
        return rows.filter(pc.is_in(rows[UNIT], pl.Series(places, dtype=pl.Int32).to_arrow()))

    return keep


def pieces_of(files: Files, blocks: Sequence[Block], tables: Tables) -> Iterator[tuple[str, Iterable[pl.DataFrame]]]:
    """Each table with its rows in pieces, one behind the other in the order of its key; each is to be read before the next.

    Holds little more than one block at a time.
    """
    sizes = {name: sum(block.slices[name].length for block in blocks if name in block.slices) for name in tables}
    for group in _groups({name: size for name, size in sizes.items() if size <= TOGETHER}):
        frames = _frames(files, blocks, {name: tables[name] for name in group}, None)
        for name in group:
            yield name, [frames.pop(name)]
    for name in tables:
        if sizes[name] > TOGETHER:
            yield name, _Pieces(files, blocks, tables[name])


def units_of(files: Files, blocks: Sequence[Block], wanted: Tables) -> Iterator[tuple[str, Mapping[str, pl.DataFrame]]]:
    """Each unit that counts with its rows of the wanted tables, in the order of the blocks. Holds one block at a time."""
    blocks = _with_any(blocks, wanted)
    won = winners([read_block(files, block, {}).units for block in blocks])
    for place, block in enumerate(blocks):
        part = read_block(files, block, wanted)
        frames = {name: _frame(rows).partition_by(UNIT, as_dict=True) for name, rows in part.rows.items()}
        for index, ((stage, unit), _) in enumerate(part.units):
            if won[stage, unit][0] == place:
                own = {name: found[index,].drop(UNIT) for name, found in frames.items() if (index,) in found}
                yield unit, own


def _frame(rows: pa.Table) -> pl.DataFrame:
    frame = pl.from_arrow(rows)
    assert isinstance(frame, pl.DataFrame)
    return frame


def digests_of(files: Files, blocks: Sequence[Block], tables: Tables) -> dict[str, dict[str, Any]]:
    """Table -> its number of rows and the hash of its sorted rows. Holds little more than one block at a time."""
    found = {name: _digest(pieces) for name, pieces in pieces_of(files, blocks, tables)}
    return {name: found[name] for name in tables}


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
    """The tables in groups that are small enough together, so that each block is read as seldom as may be."""
    group: list[str] = []
    for name in sorted(sizes, key=sizes.__getitem__):
        if group and sum(sizes[one] for one in group) + sizes[name] > 2 * TOGETHER:
            yield group
            group = []
        group.append(name)
    if group:
        yield group


class _Pieces:
    """A large table in pieces, one behind the other in the order of its key; rows of one key are in one piece."""

    def __init__(self, files: Files, blocks: Sequence[Block], columns: Columns) -> None:
        self._files, self._name = files, columns.table
        self._wanted = {columns.table: columns}
        self._key = columns.key[0]
        self._blocks = _with_any(blocks, self._wanted)
        self._won = winners([read_block(files, block, {}).units for block in self._blocks])
        self._ranks = {unit: rank for rank, unit in enumerate(sorted(self._won))}

    def __iter__(self) -> Iterator[pl.DataFrame]:
        for places in self._apart():
            size = sum(self._blocks[place].slices[self._name].length for place in places)
            # A merged block is unpacked at once in any case.
            count = 1 if len(places) == 1 and size <= 2 * TOGETHER else 1 + size // TOGETHER
            for keep in self._ranges(places, count):
                yield self._piece(places, keep)

    def _apart(self) -> list[list[int]]:
        """The places of the blocks that have rows, in groups of which each ends before the next begins."""
        found = [(block.slices[self._name], place) for place, block in enumerate(self._blocks) if self._name in block.slices]
        groups: list[list[int]] = []
        end = None
        for one, place in sorted(found, key=lambda item: (item[0].low, item[1])):
            if end is None or one.low > end:
                groups.append([])
            groups[-1].append(place)
            end = one.high if end is None else max(end, one.high)
        return [sorted(group) for group in groups]

    def _ranges(self, places: Sequence[int], count: int) -> list[Keep | None]:
        """Ranges of the key with about as many rows each; each is read through all these blocks, of which one is unpacked."""
        if count == 1:
            return [None]
        keys = [read_block(self._files, self._blocks[place], self._wanted).rows[self._name][self._key] for place in places]
        ordered = pa.concat_arrays([chunk for column in keys for chunk in column.chunks]).sort()
        starts = sorted({ordered[len(ordered) * piece // count].as_py() for piece in range(1, count)})
        return [_between(self._key, low, high) for low, high in zip([None, *starts], [*starts, None], strict=True)]

    def _piece(self, places: Sequence[int], keep: Keep | None) -> pl.DataFrame:
        found = []
        for place in places:
            part = _read(self._files, self._blocks[place], self._wanted, keep)
            found.append(only(part, _own(part, place, self._won, self._ranks))[self._name])
        return self._wanted[self._name].frame(found)


def _between(column: str, low: Any, high: Any) -> Keep:
    def keep(rows: pa.Table, part: Part) -> pa.Table:
        if low is not None:
            rows = rows.filter(pc.greater_equal(rows[column], low))
        return rows if high is None else rows.filter(pc.less(rows[column], high))

    return keep
