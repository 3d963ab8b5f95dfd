"""A ledger and gateways over a store far away, for tests: each worker's log lies on its own disk until it is shipped."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from far_files import FarFiles
from gateway_room import OPEN, Room
from ledger_desk import ModelQueue

from summhay_ray.llm import Budgets, Gateway, Ledger, LedgerService, Limits, LocalPort
from summhay_ray.store import LogIndex, begin, open_log
from summhay_ray.store.spool import SpoolWriter
from summhay_ray.store.spool_folder import spool_of

SEATS = {"calling": 4}


def far_store(root: Path, run: str) -> FarFiles:
    """A store of a run that has begun, with its seats."""
    files = FarFiles(root)
    begin(files, run, True, SEATS)
    return files


def take_seat(files: FarFiles, seat: int) -> SpoolWriter:
    """The log of the worker in a seat."""
    log = open_log(files, 1, f"calling-{seat}")
    assert isinstance(log, SpoolWriter)
    return log


def die(log: SpoolWriter, *, disk_too: bool = False) -> None:
    """As if its process were killed: nothing more is shipped, and the lock is free. `disk_too`: nobody can sweep it."""
    with log._changed:
        log._ended = True
        log._changed.notify_all()
    log._thread.join()
    if disk_too:
        shutil.rmtree(log._held.folder)


def spooled(files: FarFiles) -> list[Path]:
    """What is left on this disk."""
    return sorted(spool_of(files).rglob("*.jsonl"))


class FarDesk(ModelQueue):
    """A ledger over such a store; `recover` is what its keeper does when the disk of the dead was looked at."""

    def __init__(self, files: FarFiles, budget: int | None = None, limits: Mapping[str, Limits] | None = None) -> None:
        super().__init__(files.root / "nothing")
        self.books = Ledger("r", LogIndex(files), Budgets(budget), limits or {})

    def reread(self) -> None:
        """What others wrote."""
        index = self.books.index
        self.books.due = False
        self.books.reread(index.fetch(but=set(self.books.account.writers)))

    def recovered(self, worker: str, now: float) -> None:
        """All that the worker wrote is in the store."""
        writers = set(self.books.membership.writers_of(worker))
        fetched = self.books.index.fetch(but=set(self.books.account.writers) - writers)
        self.books.recovered(worker, fetched, now)


class FarRoom(Room):
    """`Room` over such a store: `worker()` takes the next seat."""

    def __post_init__(self) -> None:
        self.files = far_store(self.root, self.run_id)
        limits = {settings.model: settings.limits for settings in self.settings}
        self.ledger = Ledger(self.run_id, LogIndex(self.files), Budgets(self.budget_micros), limits)
        self.service = LedgerService(self.ledger)
        self.seat = 0
        self.gateway, self.log = self.worker()  # type: ignore[assignment]

    def worker(self) -> tuple[Gateway, Any]:
        log = take_seat(self.files, self.seat)
        self.seat += 1
        models = {settings.model: settings for settings in self.settings}
        gateway = Gateway(models, LocalPort(self.service, log.writer), self.files, log, self.run_id)
        OPEN.append(gateway)
        return gateway, log

    def index(self) -> LogIndex:
        index = LogIndex(self.files)
        index.refresh()
        return index

    def records(self) -> list[dict[str, Any]]:
        """Every record that is in the store."""
        from summhay_ray.store.log_lines import entries_of

        contents = [path.read_bytes() for path in sorted((self.root / "log").glob("*-*/*.jsonl"))]
        return [record for content in contents for _, record in entries_of("", content) if record and "key" in record]
