"""Commits of a run: a chain of manifests, each of which names all blocks that count. Part of the store room.

`runs/<run>/commits/00000001.json`, ...: {"driver", "told", "added", "blocks"}. `driver` is the number of the driver whose the
run is and `told` says where it works; `added` counts the blocks that were ever added, which merging leaves as it is.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from summhay_ray.store.blocks import Block, merge
from summhay_ray.store.chain import Chain
from summhay_ray.store.errors import Superseded
from summhay_ray.store.files import Files

BLOCK_BYTES = 32 << 20
"""Merged blocks are no larger. A reader holds what it wants of one block at a time, several times as large when unpacked."""
_FAN = 8
"""So many adjacent blocks of one level are merged: a row is written again at most log8(blocks) times before the run ends."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """One manifest. `number` 0: none was written yet."""

    number: int = 0
    driver: int = 0
    told: str = ""
    added: int = 0
    blocks: tuple[Block, ...] = ()


class Manifests:
    """The manifests of one run."""

    def __init__(self, files: Files, run_id: str) -> None:
        self.files = files
        self.run_id = run_id
        self.folder = f"runs/{run_id}/blocks"
        self.chain = Chain(files, f"runs/{run_id}/commits", "delete it and run or import again: no answer is paid twice")

    def newest(self) -> Manifest:
        """The manifest that counts."""
        found = self.chain.newest()
        if found is None:
            return Manifest()
        number, body = found
        blocks = tuple(map(Block.from_json, body["blocks"]))
        return Manifest(number, body["driver"], body["told"], body["added"], blocks)

    def follow(self, manifest: Manifest) -> bool:
        """Write the manifest under its number; False where another has it."""
        body = {
            "driver": manifest.driver,
            "told": manifest.told,
            "added": manifest.added,
            "blocks": [block.to_json() for block in manifest.blocks],
        }
        return self.chain.append(manifest.number, body)

    def change(self, stands: Manifest, changed: Callable[[Manifest], Manifest]) -> Manifest:
        """Bring a change of the newest manifest into the chain, whoever else writes to it; gives the manifest that stands then.

        `stands`: the newest as far as the caller knows. `changed` is asked again for each manifest that came between; where
        it gives back what it got, nothing is written. What it raises ends the change.
        """
        while True:
            wanted = changed(stands)
            if wanted is stands:
                return stands
            wanted = dataclasses.replace(wanted, number=stands.number + 1)
            if self.follow(wanted):
                return wanted
            stands = self.newest()


class Committer:
    """Commits blocks for the driver whose the run is, and merges them. Any thread may call; `RunStore.committer` makes it."""

    def __init__(self, manifests: Manifests, driver: int, told: str = "") -> None:
        self.driver = driver
        self._told = told
        self._manifests = manifests
        self._appending = threading.Lock()
        self._merging = threading.Lock()
        self._added: set[str] = set()
        self._stands = manifests.change(manifests.newest(), self._mine)

    def _mine(self, stands: Manifest) -> Manifest:
        if stands.driver > self.driver:
            who = f" ({stands.told})" if stands.told else ""
            raise Superseded(
                f"run {self._manifests.run_id}: another driver{who} took the run over; this one stops, nothing is lost"
            )
        if (stands.driver, stands.told) == (self.driver, self._told):
            return stands
        return dataclasses.replace(stands, driver=self.driver, told=self._told)

    def add(self, blocks: Sequence[Block]) -> None:
        """Make the blocks count, by one manifest. A block that was added before is not added again. Raises Superseded."""

        def added(stands: Manifest) -> Manifest:
            known = self._added.union(block.name for block in stands.blocks)
            new = {block.name: block for block in blocks if block.name not in known}
            mine = self._mine(stands)
            return _with(mine, list(new.values())) if new else mine

        with self._appending:
            self._stands = self._manifests.change(self._stands, added)
            self._added.update(block.name for block in blocks)

    def compact(self) -> int:
        """Merge what is due; how many blocks were merged. Reads and writes blocks while `add` goes on. Raises Superseded."""
        with self._merging:
            return self._merge(due(self._stands.blocks))

    def finish(self) -> None:
        """Merge all into few blocks. Raises Superseded."""
        with self._merging:
            piles = [pile for single in _by_stage(self._stands.blocks) for pile in _packed(single)]
            self._merge([dataclasses.replace(pile, level=pile.level + 1) for pile in piles])

    def _merge(self, piles: Sequence[_Pile]) -> int:
        files, folder = self._manifests.files, self._manifests.folder
        groups = [pile for pile in piles if len(pile.blocks) > 1]
        merged = [(pile.blocks, merge(files, folder, pile.blocks, pile.level)) for pile in groups]

        def replaced(stands: Manifest) -> Manifest:
            mine = self._mine(stands)
            blocks = mine.blocks
            for group, block in merged:
                blocks = _replaced(blocks, group, block)
            return mine if blocks is mine.blocks else dataclasses.replace(mine, blocks=blocks)

        if merged:
            with self._appending:
                self._stands = self._manifests.change(self._stands, replaced)
        return sum(len(pile.blocks) for pile in groups)


def add_blocks(manifests: Manifests, blocks: Sequence[Block], driver: int = 0) -> None:
    """Make the blocks count on top of whatever manifest stands; whose the run is stays, `driver`'s where it is nobody's."""

    def added(stands: Manifest) -> Manifest:
        known = {block.name for block in stands.blocks}
        new = [block for block in blocks if block.name not in known]
        mine = stands if stands.number else dataclasses.replace(stands, driver=driver)
        return _with(mine, new) if new else stands

    manifests.change(manifests.newest(), added)


def _with(manifest: Manifest, new: Sequence[Block]) -> Manifest:
    return dataclasses.replace(manifest, added=manifest.added + len(new), blocks=(*manifest.blocks, *new))


def _replaced(blocks: tuple[Block, ...], group: Sequence[Block], merged: Block) -> tuple[Block, ...]:
    """The blocks with the group's as one, in the place of the first; as they are where another has merged some of it."""
    sought = {block.name for block in group}
    if not sought <= {block.name for block in blocks}:
        return blocks
    return tuple(
        merged if block.name == group[0].name else block for block in blocks if block.name not in sought - {group[0].name}
    )


@dataclass(frozen=True, slots=True)
class _Pile:
    """Blocks of one stage, one behind the other, that are to become one."""

    level: int
    size: int
    blocks: tuple[Block, ...]


def _by_stage(blocks: Sequence[Block]) -> Iterator[list[_Pile]]:
    """Each stage's blocks. Stages are not merged with each other: who wants judgments need not read past documents."""
    for stage in sorted({block.stage for block in blocks}):
        yield [_Pile(block.level, block.size, (block,)) for block in blocks if block.stage == stage]


def due(blocks: Sequence[Block]) -> list[_Pile]:
    """A manifest's blocks as piles: where 8 of one level lie side by side they become one, or few where that grows large."""
    return [pile for piles in _by_stage(blocks) for pile in _due(piles)]


def _due(single: Sequence[_Pile]) -> list[_Pile]:
    piles: list[_Pile] = []
    for pile in single:
        piles.append(pile)
        # What was merged may be the eighth of its own level.
        while len(last := piles[-_FAN:]) == _FAN and _alike(last):
            piles[-_FAN:] = [one if one in last else dataclasses.replace(one, level=one.level + 1) for one in _packed(last)]
    return piles


def _alike(piles: Sequence[_Pile]) -> bool:
    return len({pile.level for pile in piles}) == 1 and max(pile.size for pile in piles) < BLOCK_BYTES // 2


def _packed(piles: Sequence[_Pile]) -> list[_Pile]:
    """Piles put together with those beside them as long as they stay small enough."""
    packed: list[_Pile] = []
    for pile in piles:
        if packed and packed[-1].size + pile.size <= BLOCK_BYTES:
            last = packed.pop()
            pile = _Pile(max(last.level, pile.level), last.size + pile.size, last.blocks + pile.blocks)
        packed.append(pile)
    return packed
