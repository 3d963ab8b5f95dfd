"""Who appends to the response log, near by: a file of one's own in the store's folder. Part of the store room."""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from summhay_ray.store.files import Files, LocalFiles, sync_folder
from summhay_ray.store.log_lines import FOLDER, Location, encode, writer_name
from summhay_ray.store.spool import SpoolWriter
from summhay_ray.store.spool_folder import write_all


class Writer(Protocol):
    """Appends to the log under a name of its own."""

    @property
    def writer(self) -> str:
        """Its name, unique among all writers of the store."""
        ...

    def append(self, records: Sequence[Mapping[str, Any]]) -> list[Location]:
        """Write the records; they survive this process when it returns. One caller at a time.

        Raises OSError (disk full, ...): then none of them counts; `Evicted` where another has ended this writer.
        """
        ...

    def flush(self) -> None:
        """Return when all that was appended is in the store. Raises StoreError, OSError."""
        ...

    def unshipped(self, location: Location) -> dict[str, Any] | None:
        """The record there, where this writer wrote it and the store lacks it yet."""
        ...

    def close(self) -> None:
        """`flush`, and tell readers that nothing more will come."""
        ...


class LogWriter:
    """Appends to log files of its own in a folder. `append` returns when the records are on disk. One caller at a time.

    `writer` is unique among all writers of a store.
    """

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
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o644)
        self._n_files += 1
        self._offset = 0
        sync_folder(path.parent)
        return descriptor

    def append(self, records: Sequence[Mapping[str, Any]]) -> list[Location]:
        """Write the records and wait for the disk once. Raises OSError (disk full, ...): then none of them counts."""
        lines = [encode(record) for record in records]
        descriptor = self._begin() if self._descriptor is None else self._descriptor
        self._descriptor = None
        whole = False
        try:
            write_all(descriptor, b"".join(lines))
            os.fsync(descriptor)
            whole = True
        finally:
            # What follows a torn record would be lost with it, so the next append begins a new file.
            if not whole:
                os.close(descriptor)
        self._descriptor = descriptor
        locations = []
        for line in lines:
            locations.append(Location(self.name, self._offset, len(line)))
            self._offset += len(line)
        return locations

    def flush(self) -> None:
        """See `Writer`: what was appended is in the store."""

    def unshipped(self, location: Location) -> dict[str, Any] | None:
        """See `Writer`: nothing ever is."""
        return None

    def close(self) -> None:
        """Give the file back."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def open_log(files: Files, session: int, seat: str) -> Writer:
    """The log of whoever has the seat (`calling-3`) in a session now; each time it is opened the writer is another.

    Raises StoreError where the store or the spool cannot be written, `Evicted` where the seat is closed.
    """
    if files.folder is None:
        return SpoolWriter(files, session, seat)
    for incarnation in itertools.count():
        try:
            return LogWriter(LocalFiles(files.folder), writer_name(session, seat, incarnation))
        except FileExistsError:
            continue
    raise AssertionError
