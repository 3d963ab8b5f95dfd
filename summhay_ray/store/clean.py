"""Deletes files that no reader needs any more, but never answers, which only a person may delete (`summhay_ray.store.deletion`).

A reader opens the newest manifest, and then has `RETENTION_S` seconds to read its files. So a file is kept if it is in any
manifest that was the newest within that time. Segments of the log are kept equally long after they were merged. A run is skipped
if its driver is alive or if it is being imported, since its next manifest may contain new files.
"""

import contextlib
import math
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from summhay_ray.errors import StoreError
from summhay_ray.store.answers import FOLDER as LOG
from summhay_ray.store.answers import Name
from summhay_ray.store.commits import Manifests
from summhay_ray.store.drivers import FOLDER as DRIVERS
from summhay_ray.store.drivers import WATCH_S, has_ended, live_sessions, open_sessions, read_session
from summhay_ray.store.files import Files
from summhay_ray.store.money import MoneyRecords
from summhay_ray.store.records import Chain

RETENTION_S = 24 * 3600.0
"""Seconds for which replaced files are kept: longer than any reader needs them."""
DAILY_S = 5.0
"""Maximum duration of the daily cleaning at the end of a run. In a store with very many runs, only a random part of them is
checked."""
UNFINISHED_S = 600.0
"""Minimum seconds for which an unfinished file is kept after the last write to it."""
_MARK = "cleaned"
"""The file that records when the daily cleaning last began."""


@dataclass(frozen=True, slots=True)
class Unneeded:
    """A file that can be deleted, its size in bytes, and a description."""

    name: str
    size: int
    what: str


def clean_daily(files: Files) -> list[str]:
    """Delete unneeded files, unless that was done within the last day. On the first day of a store, nothing is unneeded. Errors
    are ignored, since the next cleaning tries again.

    Returns a line for each run or driver whose files were not deleted because its record is damaged.
    """
    damaged: list[str] = []
    with contextlib.suppress(StoreError, OSError):
        marked = [entry.written for entry in files.entries("") if entry.name == _MARK]
        if all(written < time.time() - RETENTION_S for written in marked):
            files.put(_MARK, b"")
            for file in unneeded(files, within_s=DAILY_S, damaged=damaged) if marked else ():
                files.delete(file.name)
    return damaged


def unneeded(
    files: Files, older_s: float = RETENTION_S, within_s: float = math.inf, damaged: list[str] | None = None
) -> Iterator[Unneeded]:
    """Yield the files that were not needed for `older_s` seconds, in the order in which they must be deleted.

    `within_s`: maximum duration of the search, without the search for live drivers. If it is finite, the runs are visited in
    random order. `damaged`: receives a line for each run whose newest manifest is unreadable, and one line if an ended driver's
    record is unreadable; the files of that run or of all drivers are then skipped. Raises StoreError if the record of a driver
    that has not ended is unreadable.
    """
    damaged = [] if damaged is None else damaged
    before = time.time() - older_s
    runs_of = {record.number: record.run for record in open_sessions(files)}
    driven = {runs_of[number] for number in live_sessions(files, runs_of, WATCH_S)}
    until = time.monotonic() + within_s
    yield from _unless_damaged(damaged, "the drivers are left as they are", _of_drivers(files, before))
    if not driven:
        yield from _of_log(files, before)
    yield from _unfinished(files, min(before, time.time() - UNFINISHED_S))
    runs = list(files.folders("runs"))
    if within_s < math.inf:
        random.shuffle(runs)
    for run_id in runs:
        if time.monotonic() > until:
            return
        # A run without a record is still being imported.
        if run_id not in driven and files.exists(f"runs/{run_id}/run.json"):
            yield from _unless_damaged(damaged, f"run {run_id} is damaged and left as it is", _of_run(files, run_id, before))


def _unless_damaged(damaged: list[str], what: str, found: Iterator[Unneeded]) -> Iterator[Unneeded]:
    """Yield the files that are found. If this raises for a damaged record, stop, and add a line about it to `damaged`."""
    try:
        yield from found
    except StoreError as error:
        damaged.append(f"{what}: {error}")


def _of_run(files: Files, run_id: str, before: float) -> Iterator[Unneeded]:
    manifests = Manifests(files, run_id)
    if folder := manifests.missing_folder():
        raise manifests.parts.damaged(folder)
    chain = manifests.chain
    replaced = {one.name: one for one in _of_chain(files, chain, before)}
    # Read one manifest at a time, since there may be hundreds, each with hundreds of parts.
    standing = (chain.read(number) for number in chain.numbers() if chain.name(number) not in replaced)
    standing_parts = (parts for body in standing if body is not None for parts in body["parts"])
    named = {part.name for parts in standing_parts for part in (parts.units, *parts.tables.values())}
    for entry in manifests.parts.existing():
        if entry.written < before and entry.name.rpartition("/")[2] not in named:
            yield Unneeded(entry.name, entry.size, "merged parts")
    yield from replaced.values()
    yield from _of_chain(files, MoneyRecords(files, run_id).chain, before)


def _of_chain(files: Files, chain: Chain[Any], before: float) -> Iterator[Unneeded]:
    """Yield the records that were replaced before the time `before`, oldest first."""
    entries = (entry for entry in files.entries(chain.folder) if entry.written < before)
    old = sorted((entry.name, entry.size) for entry in entries if PurePosixPath(entry.name).stem.isdecimal())
    # The last of these was still the newest record at that time, so keep it.
    yield from (Unneeded(name, size, "earlier records") for name, size in old[:-1])


def _of_log(files: Files, before: float) -> Iterator[Unneeded]:
    """Yield the segments of a bucket that were merged before the time `before`."""
    if files.folder is not None:
        return
    old = (entry for entry in files.entries(LOG) if entry.written < before)
    named = [(entry, name) for entry in old if (name := Name.of(entry.name)) is not None]
    merged = {name.merge for _, name in named if name.suffix == "merged"}
    for entry, name in named:
        if name.suffix == "jsonl" and name.merge in merged:
            yield Unneeded(entry.name, entry.size, "segments that are merged")


def _of_drivers(files: Files, before: float) -> Iterator[Unneeded]:
    """Yield files of ended drivers, oldest first. Keeps the files of each run's last driver, which record how the run ended."""
    entries = [(entry, entry.name.rpartition("/")[2].partition(".")[0]) for entry in files.entries(DRIVERS)]
    numbers = sorted({int(stem) for _, stem in entries if stem.isdecimal()})
    # This raises for a damaged record. It may belong to any run, so the last driver of a run would be unknown.
    records = [record for number in numbers if (record := read_session(files, number)) is not None]
    last = {*{record.run: record.number for record in records}.values()}
    ended = {number for number in numbers if number not in last and has_ended(files, number)}
    # Delete a driver's end last, since a record without its end would look like a running driver.
    for entry, stem in sorted(entries, key=lambda pair: (pair[1], len(pair[0].name))):
        if stem.isdecimal() and int(stem) in ended and entry.written < before:
            yield Unneeded(entry.name, entry.size, "ended drivers")


def _unfinished(files: Files, before: float) -> Iterator[Unneeded]:
    """Yield unfinished files of killed processes. A bucket has none, since its objects appear only when they are complete."""
    if files.folder is None:
        return
    for entry in files.entries("", deep=True):
        if entry.name.endswith(".part") and "/." in f"/{entry.name}" and entry.written < before:
            yield Unneeded(entry.name, entry.size, "unfinished files")
