"""Deleting what no reader can need any more; answers never are. Part of the store room.

A reader takes the newest manifest and reads what it names. What an earlier manifest alone named is kept for as long as a reader
may have begun with it (`RETENTION_S`); so are segments of the log and drivers' records whose answers are in a pack. A run that
somebody drives, or that is being imported, is left alone: what no manifest names there may be named in a moment.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator, Mapping
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
            for one in unneeded(files):
                one.delete(files)


def _cleaned(files: Files) -> float:
    try:
        return float(json.loads(files.read(_MARK))["at"])
    except (FileNotFoundError, ValueError, TypeError, KeyError):
        return 0.0


def unneeded(files: Files, older_s: float = RETENTION_S) -> Iterator[Unneeded]:
    """What nobody needs and was written longer ago than that, in the order in which it is to be deleted.

    Raises StoreError where the newest of a chain is damaged: what it names is not known then.
    """
    before = time.time() - older_s
    driven = {record.run for record in open_sessions(files) if is_alive(files, record.number)}
    for run_id in files.folders("runs"):
        # One that is being imported has no record yet.
        if run_id not in driven and files.exists(f"runs/{run_id}/run.json"):
            yield from _of_run(files, run_id, before)
    packed = pack_chain(files).newest()
    # Who has read a segment goes on reading it, also when a pack has its answers.
    if packed is not None and not driven:
        yield from _of_log(files, packed[1], before)
    through = packed[1]["through"] if packed is not None else 0
    yield from _of_drivers(files, session_chain(files).latest() if files.folder is not None else through + 1, before)


def _of_run(files: Files, run_id: str, before: float) -> Iterator[Unneeded]:
    manifests = Manifests(files, run_id)
    named = {block.name for block in manifests.newest().blocks}
    for entry in _old(files, manifests.folder, before):
        if entry.name not in named:
            yield Unneeded(entry.name, entry.size, "merged parts")
    yield from _of_chain(files, manifests.chain, before)


def _of_chain(files: Files, chain: Chain, before: float) -> Iterator[Unneeded]:
    """The records before the newest, the first ones first: what is left has no gap, whenever the deleting is broken off."""
    newest = chain.name(chain.latest())
    first: Chain | None = chain
    for entry in sorted(_old(files, chain.folder, before), key=lambda one: one.name):
        if entry.name.endswith(".json") and entry.name < newest:
            yield Unneeded(entry.name, entry.size, "earlier manifests", first)
            first = None


def _of_log(files: Files, packed: Mapping[str, Any], before: float) -> Iterator[Unneeded]:
    named = {name for one in packed["packs"] for name in (one["data"], one["index"])}
    for entry in _old(files, PACKS, before):
        if entry.name not in named and entry.name.endswith((".jsonl", ".index")):
            yield Unneeded(entry.name, entry.size, "merged packs")
    yield from _of_chain(files, pack_chain(files), before)
    for writer in files.folders(LOG):
        number = writer.partition("-")[0]
        if number.isdigit() and (int(number) <= packed["through"] or int(number) in packed["others"]):
            for entry in _old(files, f"{LOG}/{writer}", before):
                yield Unneeded(entry.name, entry.size, "segments that are packed")


def _of_drivers(files: Files, below: int, before: float) -> Iterator[Unneeded]:
    """What drivers that have ended wrote, the first ones first; the last driver of each run says how that ended."""
    entries = [(entry, name.partition(".")[0]) for entry in files.entries(DRIVERS) if (name := entry.name.rpartition("/")[2])]
    numbers = sorted({int(stem) for _, stem in entries if stem.isdigit()})
    records = [record for number in numbers if (record := read_session(files, number)) is not None]
    last = {record.run: record.number for record in records}
    gone = {one.number for one in records if one.number < below and last[one.run] != one.number and has_ended(files, one.number)}
    for entry, stem in sorted(entries, key=lambda one: one[0].name):
        if stem.isdigit() and int(stem) in gone and entry.written < before:
            yield Unneeded(entry.name, entry.size, "ended drivers")


def _old(files: Files, folder: str, before: float) -> Iterator[Entry]:
    return (entry for entry in files.entries(folder) if entry.written < before)
