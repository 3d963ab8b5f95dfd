"""The index and the writer of the answers log, for folders and buckets.

Folders and buckets are read in the same way: list the log's files, and read the new bytes of each file. If a service's listing
lags behind, a question may be asked twice. The listings of S3, Google, Azure and MinIO do not lag.

There is one durable write at a time. In a folder, it is an append and fsync; in a bucket, it creates a segment. Records that
arrive in the meantime are written together by the next write (`loops.Batched`). Every 64 segments are merged, so that readers
need not read them one by one.
"""

from __future__ import annotations

import contextlib
import os
import threading
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from summhay_ray.errors import StoreError
from summhay_ray.store.answers import (
    FOLDER,
    TOGETHER,
    AnswerTotals,
    Excess,
    Heads,
    Location,
    Name,
    Purpose,
    damaged_places,
    encode,
    heads_of,
    merge_segments,
    read_at,
    read_index,
)
from summhay_ray.store.files import Files, LocalFiles, make_folder, sync_folder
from summhay_ray.store.names import DamagedRecord, Entry
from summhay_ray.store.places import NewPlaces, Places

AT_ONCE = 16
"""Number of files that are read in parallel."""
PIECE_BYTES = 8 << 20
"""Bytes per read of a long file."""
LONGEST_BYTES = 64 << 20
"""Maximum length of a record. If there is no line break within this many bytes, the rest of the file counts as one damaged
record."""


@dataclass(frozen=True, slots=True)
class News:
    """The new records of one file, in the bytes from `start` to `end`: their heads, and the locations of their answers."""

    name: str
    start: int
    end: int
    heads: Heads
    places: NewPlaces


Fetched = tuple[News, ...]
"""The result of `LogIndex.fetch`, for `LogIndex.take`."""


@dataclass
class LogIndex:
    """An index of the log: the location of each key's answer, and the cost of each run's answers. `refresh` reads new records.

    Reading takes time, so there are also two separate steps. `fetch` reads without changing the index, so it may run in another
    thread. `take` adds the result to the index.
    """

    files: Files
    answers: Places = field(default_factory=Places)
    """Key -> location of its answer. The writer of an answer may add it here before the log is read."""
    damaged: int = 0
    """Number of damaged records."""
    _further: dict[str, list[Location]] = field(default_factory=dict)
    """Key -> the locations of its further answers, in case the first one is damaged."""
    _totals: dict[str, dict[Purpose, AnswerTotals]] = field(default_factory=dict)
    _excesses: dict[str, dict[str, Excess]] = field(default_factory=dict)
    _read_to: dict[str, int] = field(default_factory=dict)
    _begun: set[tuple[str, int]] = field(default_factory=set)
    """The merged objects, existing or future, of which a segment was already read. They are not read, since that segment's
    records would count twice; their segments are read instead."""

    def refresh(self) -> None:
        """Read the records that were written since the last refresh. Raises StoreError or OSError."""
        self.take(self.fetch(with_keys=False))

    def fetch(self, with_keys: bool = True) -> Fetched:
        """Read the new records without changing the index. Raises StoreError or OSError.

        `with_keys`: whether the result has the keys and costs of the answers in addition to their locations.
        """
        named = [(entry, name) for entry in self.files.entries(FOLDER) if (name := Name.of(entry.name)) is not None]
        # Read a merged object instead of its segments, unless one of them was read before the object existed.
        merged = {name.merge for _, name in named if name.suffix == "merged"} - self._begun
        new = [
            (entry, name.index_size)
            for entry, name in named
            if entry.size > self._read_to.get(entry.name, 0) and (name.merge in merged) == (name.suffix == "merged")
        ]
        with ThreadPoolExecutor(AT_ONCE) as pool:
            return tuple(news for some in pool.map(lambda one: [*self._read(one[0], one[1], with_keys)], new) for news in some)

    def take(self, fetched: Fetched) -> None:
        """Add the result of `fetch` to the index."""
        for key, location in self.answers.add(news.places for news in fetched):
            self._further.setdefault(key, []).append(location)
        for news in fetched:
            self._read_to[news.name] = news.end
            name, heads = Name.of(news.name), news.heads
            if name is not None and name.suffix == "jsonl":
                self._begun.add(name.merge)
            self.damaged += heads["damaged"]
            for totals in heads["totals"]:
                purpose = totals["stage"], totals["model"]
                self._totals.setdefault(totals["run"], {}).setdefault(purpose, AnswerTotals()).add(totals)
            for head in heads["excesses"]:
                if (excess := Excess.of(head)) is not None:
                    self._excesses.setdefault(head["run"], {})[head["key"]] = excess

    def _read(self, entry: Entry, index_size: int, with_keys: bool) -> Iterator[News]:
        start, name, index = self._read_to.get(entry.name, 0), entry.name, None
        if 0 < index_size <= entry.size and not start:
            index = read_index(self.files.read(name, 0, index_size), entry.size - index_size)
        stretches = _stretches(self.files, name, start, entry.size) if index is None else ()
        read = ((begin, end, heads_of(name, content)) for begin, end, content in stretches)
        for begin, end, heads in read if index is None else [(index_size, entry.size, index)]:
            columns = ((keys, offsets, lengths) for keys, offsets, lengths, _ in heads["answers"].values())
            places = NewPlaces.of(name, begin, columns)
            yield News(name, begin, end, heads if with_keys else {**heads, "answers": {}}, places)

    def totals(self, run: str) -> dict[Purpose, AnswerTotals]:
        """Return purpose -> the totals of the run's answers."""
        return self._totals.get(run, {})

    def excesses(self, run: str) -> Mapping[str, Excess]:
        """Return key -> the excess, for the run's answers whose reported usage exceeds their reservation."""
        return self._excesses.get(run, {})

    def answered(self, run: str, keys: Iterable[str]) -> set[str]:
        """Return the keys that have an answer for which this run paid. Reads the answers. Raises StoreError or OSError."""
        known = [key for key in keys if key in self.answers]
        with ThreadPoolExecutor(AT_ONCE) as pool:
            records = pool.map(self.read, known)
            return {key for key, record in zip(known, records, strict=True) if record is not None and record["run"] == run}

    def read(self, key: str) -> dict[str, Any] | None:
        """Return the answer record of a key, or None if it has no answer. Skips damaged records."""
        while (location := self.answers.get(key)) is not None:
            try:
                return read_at(self.files, location, key)
            except DamagedRecord:
                self.drop(key, location)
        return None

    def drop(self, key: str, location: Location) -> None:
        """Mark the key's answer at this location as unusable. The key's next answer is used instead, if there is one."""
        if self.answers.get(key) == location:
            self.damaged += 1
            further = self._further.get(key)
            if further:
                self.answers[key] = further.pop(0)
            else:
                del self.answers[key]


def damaged_records(files: Files) -> dict[str, list[int]]:
    """Return file of the log -> the byte offsets of its damaged records. Reads the whole log, one object at a time."""
    found: dict[str, list[int]] = {}
    for entry in files.entries(FOLDER):
        if (name := Name.of(entry.name)) is None:
            continue
        if name.index_size:
            # Compare the index of a merged object with all of its records.
            places = damaged_places(entry.name, files.read(entry.name, is_large=True))
        else:
            stretches = _stretches(files, entry.name, 0, entry.size)
            places = [begin + place for begin, _, content in stretches for place in damaged_places(entry.name, content)]
        found |= {entry.name: places} if places else {}
    return found


def log_pieces(files: Files, entry: Entry, name: Name) -> Iterator[tuple[bytes, bytes]]:
    """Yield (first line, rest) of a merged object. For another file, yield (empty bytes, complete lines), a few MB at a time."""
    if name.index_size:
        content = files.read(entry.name, is_large=True)
        yield content[: name.index_size], content[name.index_size :]
    else:
        for _, _, content in _stretches(files, entry.name, 0, entry.size):
            yield b"", content


def _stretches(files: Files, name: str, start: int, size: int) -> Iterator[tuple[int, int, bytes]]:
    """Yield the complete lines of a file from `start` on, in sections of a few MB: (begin, end, content) of each.

    An unfinished last line is left out. If there is no line break within `LONGEST_BYTES`, the rest of the file is returned as an
    empty line.
    """
    while start < size:
        content = files.read(name, start, min(PIECE_BYTES, size - start))
        # A record may be longer than a piece.
        while b"\n" not in content and start + len(content) < size:
            if len(content) >= LONGEST_BYTES:
                yield start, size, b"\n"
                return
            content += files.read(name, start + len(content), PIECE_BYTES)
        content = content[: content.rfind(b"\n") + 1]
        if not content:
            return
        yield start, start + len(content), content
        start += len(content)


class LogWriter:
    """Appends to the log for one worker, to files that no other writer uses. `session`: the number of the driver's session."""

    def __init__(self, files: Files, session: int) -> None:
        self._files = files
        self.writer = f"{session:08d}-{uuid.uuid4().hex[:12]}"
        self._n = 0
        """Number of files or segments that were begun."""
        self._name = ""
        self._descriptor: int | None = None
        self._offset = 0
        self._unmerged: list[bytes] = []
        self._merging: threading.Thread | None = None

    def append(self, records: Sequence[Mapping[str, Any] | bytes]) -> list[Location]:
        """Write records (or their lines) durably, and return their locations. Only one caller at a time is allowed.

        Raises OSError (such as a full disk) or StoreError. None of the records then counts as written.
        """
        lines = [record if isinstance(record, bytes) else encode(record) for record in records]
        content = b"".join(lines)
        if isinstance(self._files, LocalFiles) and self._files.folder is not None:
            offset = self._append_to_file(self._files, content)
        else:
            offset = self._create_segment(content)
        locations = []
        for line in lines:
            locations.append(Location(self._name, offset, len(line)))
            offset += len(line)
        return locations

    def close(self) -> None:
        """Close the file. In a bucket, merge the last segments."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
        if len(self._unmerged) > 1:
            self._start_merging()
        if self._merging is not None:
            self._merging.join()
        self._unmerged = []

    def _append_to_file(self, files: LocalFiles, content: bytes) -> int:
        """Append to the writer's file, and return the offset."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is None:
            number = f".{self._n:08d}" if self._n else ""
            self._name = f"{FOLDER}/{self.writer}{number}.jsonl"
            path = files.path(self._name)
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
            # For a full disk, the original error does not contain the path.
            raise OSError(error.errno, error.strerror, str((files.root / FOLDER).resolve())) from error
        finally:
            # Records after an incomplete one would be unreadable, so the next append begins a new file.
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
            # No other writer uses this name, so the file cannot exist.
            if not self._files.create(self._name, content):
                raise StoreError(f"{self._files.where(self._name)} was written by another process; run again")
        except (StoreError, OSError):
            # The segment may have been written anyway. So do not use its name again, and do not merge the segments before it.
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
            # Merging only makes later reads faster.
            with contextlib.suppress(StoreError, OSError):
                self._files.create(*merge_segments(self.writer, number, contents))

        self._merging = threading.Thread(target=merge, daemon=True)
        self._merging.start()
