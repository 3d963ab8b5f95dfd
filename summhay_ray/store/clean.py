"""Deleting what no reader can need any more; answers never are. Part of the store room.

A reader takes the newest manifest and reads what it names. It may do so for as long as `RETENTION_S`: what any manifest names
that was the newest within that time is kept. So are segments of the log and drivers' records, from when a pack has their answers.
A run that somebody drives, or that is being imported, is left alone: what no manifest names there may be named in a moment.
"""

from __future__ import annotations

import contextlib
import json
import math
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from summhay_ray.store.chain import Chain
from summhay_ray.store.commits import Manifests
from summhay_ray.store.drivers import FOLDER as DRIVERS
from summhay_ray.store.drivers import has_ended, is_alive, open_sessions, read_session, session_chain
from summhay_ray.store.entry import Entry
from summhay_ray.store.errors import StoreError
from summhay_ray.store.files import Files
from summhay_ray.store.log_lines import FOLDER as LOG
from summhay_ray.store.packs import FOLDER as PACKS
from summhay_ray.store.packs import pack_chain

RETENTION_S = 24 * 3600.0
"""How long what was replaced is kept: longer than anybody reads."""
DAILY_S = 5.0
"""So long the end of a run may take for it: of a store with very many runs some are looked at, each day others."""
_MARK = "cleaned.json"


@dataclass(frozen=True, slots=True)
class Unneeded:
    """A file that nobody needs, its size in bytes, and what it is."""

    name: str
    size: int
    what: str
    chain: Chain | None = None
    """The chain whose first record it is: whoever looks for its newest must know that the first is gone."""

    def delete(self, files: Files) -> None:
        """Delete it. Raises StoreError, OSError."""
        if self.chain is not None:
            self.chain.delete_before(self.chain.latest())
        files.delete(self.name)


def clean_daily(files: Files) -> None:
    """Delete what nobody needs, where that was not done for a day. A store that cannot be cleaned now is another day."""
    with contextlib.suppress(StoreError, OSError):
        if time.time() - _cleaned(files) > RETENTION_S:
            files.put(_MARK, json.dumps({"at": time.time()}).encode())
            for one in unneeded(files, within_s=DAILY_S):
                one.delete(files)


def _cleaned(files: Files) -> float:
    try:
        return float(json.loads(files.read(_MARK))["at"])
    except (FileNotFoundError, ValueError, TypeError, KeyError):
        return 0.0


def unneeded(
    files: Files, older_s: float = RETENTION_S, within_s: float = math.inf, damaged: list[str] | None = None
) -> Iterator[Unneeded]:
    """What nobody has needed for so long, in the order in which it is to be deleted.

    `within_s`: looks for so long at most, at the runs in any order. `damaged`: gets a line for each run whose newest manifest
    cannot be read: what it names is not known, and the run is left alone. Raises StoreError where that is so of the packs.
    """
    before, until = time.time() - older_s, time.monotonic() + within_s
    driven = {record.run for record in open_sessions(files) if is_alive(files, record.number)}
    packs = _standing(files, pack_chain(files), before)
    # Who has read a segment goes on reading it, also when a pack has its answers.
    if packs and not driven:
        yield from _of_log(files, packs, before)
    through = packs[0]["through"] if packs else 0
    yield from _of_drivers(files, session_chain(files).latest() if files.folder is not None else through + 1, before)
    runs = list(files.folders("runs"))
    if within_s < math.inf:
        random.shuffle(runs)
    for run_id in runs:
        if time.monotonic() > until:
            return
        # One that is being imported has no record yet.
        if run_id not in driven and files.exists(f"runs/{run_id}/run.json"):
            try:
                yield from _of_run(files, run_id, before)
            except StoreError as error:
                if damaged is not None:
                    damaged.append(f"run {run_id} is damaged and left as it is: {error}")


def _standing(files: Files, chain: Chain, before: float) -> list[Mapping[str, Any]]:
    """The records that were the newest at that time or later, in their order; none where there is none."""
    newest = chain.newest()
    if newest is None:
        return []
    numbers = {int(stem): entry.written for entry in files.entries(chain.folder) if (stem := _stem(entry)).isdigit()}
    first = max((number for number, written in numbers.items() if written < before), default=min(numbers, default=newest[0]))
    later = [chain.read(number) for number in sorted(numbers) if first <= number < newest[0]]
    return [*(body for body in later if body is not None), newest[1]]


def _of_run(files: Files, run_id: str, before: float) -> Iterator[Unneeded]:
    manifests = Manifests(files, run_id)
    named = {block["name"] for body in _standing(files, manifests.chain, before) for block in body["blocks"]}
    for entry in _old(files, manifests.folder, before):
        if entry.name not in named:
            yield Unneeded(entry.name, entry.size, "merged parts")
    yield from _of_chain(files, manifests.chain, before)


def _of_chain(files: Files, chain: Chain, before: float) -> Iterator[Unneeded]:
    """The records that were replaced by then, the first ones first: what is left has no gap, wherever that is broken off."""
    old = sorted((entry for entry in _old(files, chain.folder, before) if _stem(entry).isdigit()), key=lambda one: one.name)
    first: Chain | None = chain
    # The last of these was the newest at that time.
    for entry in old[:-1]:
        yield Unneeded(entry.name, entry.size, "earlier manifests", first)
        first = None


def _of_log(files: Files, packs: Sequence[Mapping[str, Any]], before: float) -> Iterator[Unneeded]:
    named = {name for body in packs for one in body["packs"] for name in (one["data"], one["index"])}
    for entry in _old(files, PACKS, before):
        if entry.name not in named and entry.name.endswith((".jsonl", ".index")):
            yield Unneeded(entry.name, entry.size, "merged packs")
    yield from _of_chain(files, pack_chain(files), before)
    if not _are_there(files, packs):
        return
    for writer in files.folders(LOG):
        number = writer.partition("-")[0]
        if number.isdigit() and (int(number) <= packs[0]["through"] or int(number) in packs[0]["others"]):
            for entry in _old(files, f"{LOG}/{writer}", before):
                yield Unneeded(entry.name, entry.size, "segments that are packed")


def _are_there(files: Files, packs: Sequence[Mapping[str, Any]]) -> bool:
    """Whether every pack is in the store, of its size. The segments are the only other copy of the answers in them."""
    sizes = {entry.name: entry.size for entry in files.entries(PACKS)}
    return all(sizes.get(one["data"]) == one["size"] and one["index"] in sizes for body in packs for one in body["packs"])


def _of_drivers(files: Files, below: int, before: float) -> Iterator[Unneeded]:
    """What drivers that have ended wrote, the first ones first; the last driver of each run says how that ended."""
    entries = [(entry, _stem(entry)) for entry in files.entries(DRIVERS)]
    numbers = sorted({int(stem) for _, stem in entries if stem.isdigit()})
    records = [record for number in numbers if (record := read_session(files, number)) is not None]
    last = {record.run: record.number for record in records}
    gone = {one.number for one in records if one.number < below and last[one.run] != one.number and has_ended(files, one.number)}
    for entry, stem in sorted(entries, key=lambda one: one[0].name):
        if stem.isdigit() and int(stem) in gone and entry.written < before:
            yield Unneeded(entry.name, entry.size, "ended drivers")


def _stem(entry: Entry) -> str:
    """What stands before the first point in the name of the file."""
    return entry.name.rpartition("/")[2].partition(".")[0]


def _old(files: Files, folder: str, before: float) -> Iterator[Entry]:
    return (entry for entry in files.entries(folder) if entry.written < before)
