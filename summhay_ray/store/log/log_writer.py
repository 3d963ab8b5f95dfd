"""Writers of the answers' log: group commit, in a folder and in a bucket. Part of the store room.

One durable write is under way at a time, and what arrives meanwhile joins the next (`Batched` in the llm room): in a folder an
append and fsync, in a bucket a create-only segment.
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
from summhay_ray.store.log.log_lines import FOLDER, TOGETHER, Location, encode, file_name, merged_object


class LogWriter:
    """Appends to the log for one worker, under a name that no other writer has. `session`: the number of the driver's session."""

    def __init__(self, files: Files, session: int) -> None:
        self._files = files
        self.writer = f"{session:08d}-{uuid.uuid4().hex[:12]}"
        self._to: _File | _Segments = _Segments(files, self.writer) if files.folder is None else _File(files.folder, self.writer)

    def append(self, records: Sequence[Mapping[str, Any] | bytes]) -> list[Location]:
        """Write records, or their lines, which are durable when it returns, and return their locations. One caller at a time.

        Raises OSError (disk full, ...) or StoreError; then none of the records counts.
        """
        lines = [record if isinstance(record, bytes) else encode(record) for record in records]
        name, offset = self._to.append(b"".join(lines))
        locations = []
        for line in lines:
            locations.append(Location(name, offset, len(line)))
            offset += len(line)
        return locations

    def close(self) -> None:
        """Close the file; in a bucket, merge the last segments."""
        self._to.close()


class _File:
    """A writer's file in a folder."""

    def __init__(self, root: Path, writer: str) -> None:
        self._root, self._writer = root, writer
        self._descriptor: int | None = None
        self._n_files = self._offset = 0
        self._name = ""

    def append(self, content: bytes) -> tuple[str, int]:
        descriptor, self._descriptor = self._begin() if self._descriptor is None else self._descriptor, None
        start, whole = self._offset, False
        try:
            write_all(descriptor, content)
            os.fdatasync(descriptor)
            whole = True
        finally:
            # A record after an incomplete one could not be read, so the next append begins a new file.
            if not whole:
                with contextlib.suppress(OSError):
                    os.ftruncate(descriptor, start)
                os.close(descriptor)
        self._descriptor, self._offset = descriptor, start + len(content)
        return self._name, start

    def _begin(self) -> int:
        self._name = f"{FOLDER}/{self._writer}.jsonl" if not self._n_files else file_name(self._writer, self._n_files)
        path = path_in(self._root, self._name)
        make_folder(path.parent)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o644)
        sync_folder(path.parent)
        self._n_files, self._offset = self._n_files + 1, 0
        return descriptor

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


class _Segments:
    """A writer's segments in a bucket. Every 64 of them are merged, so that a reader need not read them one by one."""

    def __init__(self, files: Files, writer: str) -> None:
        self._files, self._writer = files, writer
        self._n = 0
        self._unmerged: list[bytes] = []
        self._merging: threading.Thread | None = None

    def append(self, content: bytes) -> tuple[str, int]:
        name = file_name(self._writer, self._n)
        try:
            # The name is this writer's alone: if it is taken, an earlier try was written whose reply was lost.
            if not self._files.create(name, content) and self._files.read(name) != content:
                raise StoreError(f"{self._files.where(name)} is another's; run again")
        except (StoreError, OSError):
            # It may have been written all the same: its name is not used again, and the segments before it stay unmerged.
            self._n, self._unmerged = (self._n // TOGETHER + 1) * TOGETHER, []
            raise
        self._unmerged.append(content)
        self._n += 1
        if self._n % TOGETHER == 0:
            self._start_merging()
        return name, 0

    def _start_merging(self) -> None:
        self._wait()
        contents, self._unmerged = self._unmerged, []
        self._merging = threading.Thread(target=self._merge, args=((self._n - 1) // TOGETHER, contents), daemon=True)
        self._merging.start()

    def _merge(self, number: int, contents: Sequence[bytes]) -> None:
        # Merging only saves reads.
        with contextlib.suppress(StoreError, OSError):
            self._files.create(*merged_object(self._writer, number, b"".join(contents)))

    def _wait(self) -> None:
        if self._merging is not None:
            self._merging.join()

    def close(self) -> None:
        if len(self._unmerged) > 1:
            self._start_merging()
        self._wait()
        self._unmerged = []


def write_all(descriptor: int, content: bytes) -> None:
    """Write all bytes of `content`. The OSError that it raises names the folder."""
    block = memoryview(content)
    try:
        while block:
            block = block[os.write(descriptor, block) :]
    except OSError as error:
        # The error of a full disk does not say which disk it is.
        raise OSError(error.errno, error.strerror, str(Path(f"/proc/self/fd/{descriptor}").resolve().parent)) from error
