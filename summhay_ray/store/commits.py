"""Commits of a run: a chain of manifests, each of which names all blocks that count. Part of the store room.

`runs/<run>/commits/00000001.json`, ...: {"driver", "told", "added", "blocks", "spent"}. `driver` is the number of the driver
whose the run is and `told` says where it works; `added` counts the blocks that were ever added, which merging leaves as it is.
`spent` is what the run had spent by then, so that money is known where the log is lost: log writer -> a row for each stage and
model, [stage, model, micro-dollars, those of calls in flight at their worst price, answers]. Earlier versions did not write it.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from summhay_ray.store.blocks import Block, merge
from summhay_ray.store.chain import Chain
from summhay_ray.store.errors import StoreError, Superseded
from summhay_ray.store.files import Files
from summhay_ray.store.log_books import Spent, Tally
from summhay_ray.store.tables import Tables

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
    spent: Spent = field(default_factory=dict)


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
        return _manifest(*found)

    def readable(self) -> tuple[Manifest, list[str]]:
        """The newest manifest that can be read, and a line for each that is gone, or later and damaged."""
        chain = self.chain
        last, gone = chain.known()
        found = [
            f"{chain.files.where(chain.name(number))} is gone; put it back from a copy, or run again: "
            "what it alone told is made again from the log, and no answer is paid twice"
            for number in gone
        ]
        for number in range(last, 0, -1):
            try:
                body = chain.read(number)
            except StoreError as error:
                found.append(str(error))
                continue
            if body is not None:
                return _manifest(number, body), found
        return Manifest(), found

    def follow(self, manifest: Manifest) -> bool:
        """Write the manifest under its number; False where another has it."""
        body = {
            "driver": manifest.driver,
            "told": manifest.told,
            "added": manifest.added,
            "blocks": [block.to_json() for block in manifest.blocks],
            "spent": _told_spent(manifest.spent),
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

    def __init__(self, manifests: Manifests, tables: Tables, driver: int, told: str = "") -> None:
        self.driver = driver
        self._told = told
        self._tables = tables
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

    @property
    def spent(self) -> Spent:
        """What the run had spent when it was last told."""
        return self._stands.spent

    def add(self, blocks: Sequence[Block], spent: Spent | None = None) -> None:
        """Make the blocks count, by one manifest. A block that was added before is not added again. Raises Superseded.

        `spent`: what the run has spent by now, all of it; None: as it was last told.
        """

        def added(stands: Manifest) -> Manifest:
            known = self._added.union(block.name for block in stands.blocks)
            new = {block.name: block for block in blocks if block.name not in known}
            mine = self._mine(stands)
            if spent is not None and _told_spent(spent) != _told_spent(mine.spent):
                mine = dataclasses.replace(mine, spent=spent)
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
        merged = [(pile.blocks, merge(files, folder, self._tables, pile.blocks, pile.level)) for pile in groups]

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


def _manifest(number: int, body: Mapping[str, Any]) -> Manifest:
    blocks = tuple(map(Block.from_json, body["blocks"]))
    return Manifest(number, body["driver"], body["told"], body["added"], blocks, _spent_of(body.get("spent", {})))


def _told_spent(spent: Spent) -> dict[str, list[list[Any]]]:
    return {
        writer: [
            [*purpose, tally.usd_micros, tally.open_micros, tally.answers]
            for purpose, tally in sorted(purposes.items())
            if tally.usd_micros or tally.answers
        ]
        for writer, purposes in spent.items()
    }


def _spent_of(told: Mapping[str, Sequence[Sequence[Any]]]) -> Spent:
    return {
        writer: {(stage, model): Tally(micros, answers, open_micros=at_most) for stage, model, micros, at_most, answers in rows}
        for writer, rows in told.items()
    }


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
