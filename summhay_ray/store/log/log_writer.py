"""Writes the answer log, in a folder or in a bucket.

There is one durable write at a time: in a folder an append and fsync, in a bucket a create-only segment. Records that arrive
meanwhile are written together by the next one (`llm.calls.batching.Batched`). Every 64 segments are merged, so that a reader need
not read them one by one.
"""

from __future__ import annotations

import contextlib
import os
import threading
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from summhay_ray.errors import StoreError
from summhay_ray.store.files.files import Files, make_folder, path_in, sync_folder
from summhay_ray.store.log.log_lines import FOLDER, TOGETHER, Location, encode, merge_segments


class LogWriter:
    """Appends to the log for one worker, under a name that no other writer has. `session`: the number of the driver's session."""

    def __init__(self, files: Files, session: int) -> None:
        self._files = files
        self.writer = f"{session:08d}-{uuid.uuid4().hex[:12]}"
        self._n = 0
        """Number of files or segments begun."""
        self._name = ""
        self._descriptor: int | None = None
        self._offset = 0
        self._unmerged: list[bytes] = []
        self._merging: threading.Thread | None = None

    def append(self, records: Sequence[Mapping[str, Any] | bytes]) -> list[Location]:
        """Write records (or their lines) durably and return their locations. One caller at a time.

        Raises OSError (disk full, ...) or StoreError; then none of the records counts.
        """
        lines = [record if isinstance(record, bytes) else encode(record) for record in records]
        content = b"".join(lines)
        offset = (
            self._append_to_file(self._files.folder, content) if self._files.folder is not None else self._create_segment(content)
        )
        locations = []
        for line in lines:
            locations.append(Location(self._name, offset, len(line)))
            offset += len(line)
        return locations

    def close(self) -> None:
        """Close the file; in a bucket, merge the last segments."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
        if len(self._unmerged) > 1:
            self._start_merging()
        if self._merging is not None:
            self._merging.join()
        self._unmerged = []

    def _append_to_file(self, root: Path, content: bytes) -> int:
        """Append to the writer's file, and return the offset."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is None:
            number = f".{self._n:08d}" if self._n else ""
            self._name = f"{FOLDER}/{self.writer}{number}.jsonl"
            path = path_in(root, self._name)
            make_folder(path.parent)
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o644)
            sync_folder(path.parent)
            self._n, self._offset = self._n + 1, 0
        start, whole, block = self._offset, False, memoryview(content)
        try:
            while block:
                block = block[os.write(descriptor, block) :]
            os.fdatasync(descriptor)
            whole = True
        except OSError as error:
            # The error of a full disk does not say which disk it is.
            raise OSError(error.errno, error.strerror, str((root / FOLDER).resolve())) from error
        finally:
            # A record after an incomplete one could not be read, so the next append begins a new file.
            if not whole:
                with contextlib.suppress(OSError):
                    os.ftruncate(descriptor, start)
                os.close(descriptor)
        self._descriptor, self._offset = descriptor, start + len(content)
        return start

    def _create_segment(self, content: bytes) -> int:
        """Write the next segment, and return the offset, 0."""
        self._name = f"{FOLDER}/{self.writer}.{self._n:08d}.jsonl"
        try:
            # Only this writer uses the name.
            if not self._files.create(self._name, content):
                raise StoreError(f"{self._files.where(self._name)} is another's; run again")
        except (StoreError, OSError):
            # It may have been written nevertheless: its name is not used again, and the segments before it stay unmerged.
            self._n, self._unmerged = (self._n // TOGETHER + 1) * TOGETHER, []
            raise
        self._unmerged.append(content)
        self._n += 1
        if self._n % TOGETHER == 0:
            self._start_merging()
        return 0

    def _start_merging(self) -> None:
        if self._merging is not None:
            self._merging.join()
        number, contents, self._unmerged = (self._n - 1) // TOGETHER, self._unmerged, []

        def merge() -> None:
            # Merging only saves reads.
            with contextlib.suppress(StoreError, OSError):
                self._files.create(*merge_segments(self.writer, number, contents))

        self._merging = threading.Thread(target=merge, daemon=True)
        self._merging.start()
