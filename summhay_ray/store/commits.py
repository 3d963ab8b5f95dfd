"""The commits of a run: a chain of manifests, each of which lists all blocks of the run. Part of the store room.

`runs/<run>/commits/00000001.json`, ...: {"driver", "told", "added", "blocks"}. `driver` is the number of the driver
that owns the run, and `told` says where it runs. `added` counts all blocks ever added; merging does not change it.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from summhay_ray.store.blocks import Block, merge
from summhay_ray.store.chain import Chain
from summhay_ray.store.errors import StoreError, Superseded
from summhay_ray.store.files import Files
from summhay_ray.store.published import mark_name, published
from summhay_ray.store.tables import Tables

BLOCK_BYTES = 32 << 20
"""Largest size of a merged block."""
_UNPACKED = 3
"""How many times as large a merged block may be in memory: rankings unpack to thirty times their size."""
_FAN = 8
"""How many adjacent blocks of one level are merged: a row is rewritten at most log8(blocks) times before the run ends."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """One manifest; see the module for its fields. `number` 0: none was written yet."""

    number: int = 0
    driver: int = 0
    where: str = ""
    """Where the driver runs, for a message; `told` in the file."""
    added: int = 0
    blocks: tuple[Block, ...] = ()


def _mend_of(number: int, last: int) -> str:
    """What to do about a missing manifest. `last`: the number of the newest one that is there, which repeats all earlier ones."""
    if number < last:
        return "the newer ones say the same; summhay clean --older-than 0 deletes what is left of the earlier ones"
    again = "run or import again: what only it recorded is made again from the log, and no answer is paid for twice"
    return f"put it back from a copy, or {again}"


class Manifests:
    """The manifests of one run."""

    def __init__(self, files: Files, run_id: str) -> None:
        self.files = files
        self.run_id = run_id
        self.folder = f"runs/{run_id}/blocks"
        self.chain = Chain(files, f"runs/{run_id}/commits", "delete it and run or import again: no answer is paid for twice")

    def newest(self) -> Manifest:
        """The newest manifest, which is the current one. Raises StoreError if it is damaged."""
        newest = self.chain.newest()
        return Manifest() if newest is None else _manifest(*newest)

    def readable(self) -> tuple[Manifest, list[str]]:
        """The newest manifest that can be read, and a message for each one that is missing, or newer and damaged."""
        chain = self.chain
        last, gone = chain.known()
        problems = [f"{chain.files.where(chain.name(number))} is gone; {_mend_of(number, last)}" for number in gone]
        if lost := self.lost():
            problems.append(lost)
        for number in range(last, 0, -1):
            try:
                body = chain.read(number)
            except StoreError as error:
                problems.append(str(error))
                continue
            if body is not None:
                return _manifest(number, body), problems
        return Manifest(), problems

    def lost(self) -> str:
        """A line if the run has rows, or has published some, but no manifest that names them; else empty."""
        if self.chain.latest() or not (any(self.files.names(self.folder, ".block")) or self._has_published_rows()):
            return ""
        where = self.files.where(self.chain.folder)
        again = "run or import again: the rows are made again from the log, and no answer in it is paid for twice"
        return f"{where} is gone, and with it which rows the run has; put it back from a copy, or {again}"

    def _has_published_rows(self) -> bool:
        return self.files.exists(mark_name(self.run_id)) and not published(self.files, self.run_id, blocks=())

    def write(self, manifest: Manifest) -> bool:
        """Write the manifest under its number. Return False if another writer has taken the number."""
        body = {
            "driver": manifest.driver,
            "told": manifest.where,
            "added": manifest.added,
            "blocks": [block.to_json() for block in manifest.blocks],
        }
        return self.chain.append(manifest.number, body)

    def change(self, newest: Manifest, changed: Callable[[Manifest], Manifest]) -> Manifest:
        """Apply a change to the newest manifest, even while others write to the chain; return the manifest that is then newest.

        `newest`: the newest manifest that the caller knows. `changed` maps a manifest to its successor; it is called again if
        another writer appended first. If it returns its argument, nothing is written; what it raises passes through.
        """
        while True:
            wanted = changed(newest)
            if wanted is newest:
                return newest
            wanted = dataclasses.replace(wanted, number=newest.number + 1)
            if self.write(wanted):
                return wanted
            newest = self.newest()


class Committer:
    """Commits and merges blocks for the driver that owns the run. Thread-safe; made by `RunStore.committer`."""

    def __init__(self, manifests: Manifests, tables: Tables, driver: int, where: str = "") -> None:
        self.driver = driver
        self._where = where
        self._tables = tables
        self._manifests = manifests
        self._appending = threading.Lock()
        self._merging = threading.Lock()
        self._added: set[str] = set()
        self._newest = manifests.change(manifests.newest(), self._claimed)

    def _claimed(self, newest: Manifest) -> Manifest:
        """The manifest with this driver as owner; the same object if it owns the run already. Raises Superseded."""
        if newest.driver > self.driver:
            who = f" ({newest.where})" if newest.where else ""
            raise Superseded(
                f"run {self._manifests.run_id}: another driver{who} took the run over; this one stops, nothing is lost"
            )
        if (newest.driver, newest.where) == (self.driver, self._where):
            return newest
        return dataclasses.replace(newest, driver=self.driver, where=self._where)

    def add(self, blocks: Sequence[Block]) -> None:
        """Commit the blocks by one manifest. A block that was added before is not added again. Raises Superseded."""

        def added(newest: Manifest) -> Manifest:
            known = self._added.union(block.name for block in newest.blocks)
            new = {block.name: block for block in blocks if block.name not in known}
            mine = self._claimed(newest)
            return _with(mine, list(new.values())) if new else mine

        with self._appending:
            self._newest = self._manifests.change(self._newest, added)
            self._added.update(block.name for block in blocks)

    def compact(self) -> int:
        """Merge the blocks that are due and return how many were merged. `add` may run meanwhile. Raises Superseded."""
        with self._merging:
            return self._merge(due(self._newest.blocks))

    def finish(self) -> None:
        """Merge all blocks into as few as the size limit allows. Raises Superseded."""
        with self._merging:
            piles = [pile for single in _by_stage(self._newest.blocks) for pile in _packed(single)]
            self._merge([dataclasses.replace(pile, level=pile.level + 1) for pile in piles])

    def _merge(self, piles: Sequence[_Pile]) -> int:
        files, folder = self._manifests.files, self._manifests.folder
        groups = [pile for pile in piles if len(pile.blocks) > 1]
        merged = [(pile.blocks, merge(files, folder, self._tables, pile.blocks, pile.level)) for pile in groups]

        def replaced(newest: Manifest) -> Manifest:
            mine = self._claimed(newest)
            blocks = mine.blocks
            for group, block in merged:
                blocks = _replaced(blocks, group, block)
            return mine if blocks is mine.blocks else dataclasses.replace(mine, blocks=blocks)

        if merged:
            with self._appending:
                self._newest = self._manifests.change(self._newest, replaced)
        return sum(len(pile.blocks) for pile in groups)


def add_block(manifests: Manifests, block: Block) -> None:
    """Commit a block on top of the newest manifest without changing the run's owner."""

    def added(newest: Manifest) -> Manifest:
        return newest if block.name in {known.name for known in newest.blocks} else _with(newest, [block])

    manifests.change(manifests.newest(), added)


def _manifest(number: int, body: Mapping[str, Any]) -> Manifest:
    blocks = tuple(map(Block.from_json, body["blocks"]))
    return Manifest(number, body["driver"], body["told"], body["added"], blocks)


def _with(manifest: Manifest, new: Sequence[Block]) -> Manifest:
    return dataclasses.replace(manifest, added=manifest.added + len(new), blocks=(*manifest.blocks, *new))


def _replaced(blocks: tuple[Block, ...], group: Sequence[Block], merged: Block) -> tuple[Block, ...]:
    """The blocks with `merged` at the position of the group's first; unchanged if another driver has merged some of the group."""
    sought = {block.name for block in group}
    if not sought <= {block.name for block in blocks}:
        return blocks
    return tuple(
        merged if block.name == group[0].name else block for block in blocks if block.name not in sought - {group[0].name}
    )


@dataclass(frozen=True, slots=True)
class _Pile:
    """Consecutive blocks of one stage that are to become one block."""

    level: int
    size: int
    blocks: tuple[Block, ...]


def _by_stage(blocks: Sequence[Block]) -> Iterator[list[_Pile]]:
    """Each stage's blocks. Stages are not merged with each other, so that reading judgments does not read documents."""
    for stage in sorted({block.stage for block in blocks}):
        yield [_Pile(block.level, _weight(block), (block,)) for block in blocks if block.stage == stage]


def _weight(block: Block) -> int:
    """The block's size, as it counts against `BLOCK_BYTES`."""
    return max(block.size, sum(piece.unpacked for piece in block.slices.values()) // _UNPACKED)


def due(blocks: Sequence[Block]) -> list[_Pile]:
    """A manifest's blocks as piles: 8 adjacent blocks of one level form one pile, or a few if one would be too large."""
    return [pile for piles in _by_stage(blocks) for pile in _due(piles)]


def _due(single: Sequence[_Pile]) -> list[_Pile]:
    piles: list[_Pile] = []
    for pile in single:
        piles.append(pile)
        # The merged pile may itself be the eighth of its level.
        while len(last := piles[-_FAN:]) == _FAN and _alike(last):
            piles[-_FAN:] = [new if new in last else dataclasses.replace(new, level=new.level + 1) for new in _packed(last)]
    return piles


def _alike(piles: Sequence[_Pile]) -> bool:
    return len({pile.level for pile in piles}) == 1 and max(pile.size for pile in piles) < BLOCK_BYTES // 2


def _packed(piles: Sequence[_Pile]) -> list[_Pile]:
    """Adjacent piles joined as long as each stays within `BLOCK_BYTES`."""
    packed: list[_Pile] = []
    for pile in piles:
        if packed and packed[-1].size + pile.size <= BLOCK_BYTES:
            last = packed.pop()
            pile = _Pile(max(last.level, pile.level), last.size + pile.size, last.blocks + pile.blocks)
        packed.append(pile)
    return packed
