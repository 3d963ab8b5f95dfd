"""Writers of the response log: the protocol, and the writer for a local store. Part of the store room."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from summhay_ray.store.files import Files, LocalFiles, make_folder, sync_folder
from summhay_ray.store.log_lines import FOLDER, Location, encode, writer_name
from summhay_ray.store.spool import SpoolWriter
from summhay_ray.store.spool_folder import write_all


class Writer(Protocol):
    """Appends to the log; no other writer has the same name."""

    @property
    def writer(self) -> str:
        """The writer's name, unique in the store."""
        ...

    def append(self, records: Sequence[Mapping[str, Any]]) -> list[Location]:
        """Write the records and return their locations. They then survive the death of this process. One caller at a time.

        Raises OSError (disk full, ...), in which case none of the records is valid; StoreError if they are on this machine but
        the store cannot be reached, which it waits for only where the records hold intents; and `Evicted` if another process has
        ended this writer.
        """
        ...

    def flush(self) -> None:
        """Wait until all appended records are in the store. Raises StoreError or OSError."""
        ...

    def unshipped(self, location: Location) -> dict[str, Any] | None:
        """The record at a location if this writer wrote it and it has not reached the store yet; else None."""
        ...

    def close(self) -> None:
        """Flush, and mark the writer as ended for its readers."""
        ...


class LogWriter:
    """The writer for a local store; see `Writer`. It appends to files of its own in the log folder."""

    def __init__(self, files: LocalFiles, writer: str) -> None:
        if not writer or "/" in writer or "." in writer:
            raise ValueError(f"log writer {writer!r}: expected a name without / and .")
        self._files = files
        self.writer = writer
        self._n_files = 0
        self._descriptor: int | None = self._begin()

    def _begin(self) -> int:
        part = f".{self._n_files}" if self._n_files else ""
        self.name = f"{FOLDER}/{self.writer}{part}.jsonl"
        path = self._files.path(self.name)
        make_folder(path.parent)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o644)
        self._n_files += 1
        self._offset = 0
        sync_folder(path.parent)
        return descriptor

    def append(self, records: Sequence[Mapping[str, Any]]) -> list[Location]:
        """See `Writer`. Waits for the disk once for all records."""
        lines = [encode(record) for record in records]
        descriptor = self._begin() if self._descriptor is None else self._descriptor
        self._descriptor = None
        whole = False
        try:
            write_all(descriptor, b"".join(lines))
            os.fsync(descriptor)
            whole = True
        finally:
            # A record after an incomplete one could not be read, so the next append begins a new file.
            if not whole:
                with contextlib.suppress(OSError):
                    os.ftruncate(descriptor, self._offset)
                os.close(descriptor)
        self._descriptor = descriptor
        locations = []
        for line in lines:
            locations.append(Location(self.name, self._offset, len(line)))
            self._offset += len(line)
        return locations

    def flush(self) -> None:
        """See `Writer`. Does nothing: appended records are in the store already."""

    def unshipped(self, location: Location) -> dict[str, Any] | None:
        """See `Writer`. Always None: appended records are in the store already."""
        return None

    def close(self) -> None:
        """Close the log file."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def open_log(files: Files, session: int, seat: str) -> Writer:
    """Open the log for the worker in a seat (`calling-3`) of a session. Each opening makes a writer with a new name.

    Raises StoreError if the store or the spool cannot be written, `Evicted` if the seat is closed.
    """
    if files.folder is None:
        return SpoolWriter(files, session, seat)
    for incarnation in itertools.count():
        try:
            return LogWriter(LocalFiles(files.folder), writer_name(session, seat, incarnation))
        except FileExistsError:
            continue
    raise AssertionError
