"""The response log: every answer, durable before anything depends on it, shared by all runs of a store. Part of the store room.

One file a writer, under `log/`, appended only; one line a record: CRC-32 in hex, length in bytes, JSON. A torn or flipped
line fails its length or checksum and is never read as an answer. Three kinds of record:
`intent` (a call that costs money is about to be sent: its worst price), `answer` (what came back, and its price), `void`
(the call ended without an answer: what it is charged). An intent with neither stays charged at its worst price.
"""

from __future__ import annotations

import json
import os
import zlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from summhay_ray.store.errors import StoreError
from summhay_ray.store.files import LocalFiles

FOLDER = "log"


class Location(NamedTuple):
    """Where a record's line stands."""

    name: str
    offset: int
    length: int


def encode(record: Mapping[str, Any]) -> bytes:
    """The record's line."""
    body = json.dumps(record, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode("ascii")
    return b"%08x %d %s\n" % (zlib.crc32(body), len(body), body)


def decode(line: bytes) -> dict[str, Any] | None:
    """The record of a line, or None where length or checksum is wrong."""
    checksum, _, rest = line.rstrip(b"\n").partition(b" ")
    length, _, body = rest.partition(b" ")
    if not length.isdigit() or int(length) != len(body) or len(checksum) != 8 or b"%08x" % zlib.crc32(body) != checksum:
        return None
    record = json.loads(body)
    return record if isinstance(record, dict) else None


class LogWriter:
    """Appends to one log file of its own. `append` returns when the records are on disk."""

    def __init__(self, files: LocalFiles, writer: str) -> None:
        self.name = f"{FOLDER}/{writer}.jsonl"
        path = files.path(self.name)
        path.parent.mkdir(parents=True, exist_ok=True)
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o644)
        self._offset = 0

    def append(self, records: Sequence[Mapping[str, Any]]) -> list[Location]:
        """Write the records and wait for the disk once. Raises OSError (disk full, ...): then none of them counts."""
        lines = [encode(record) for record in records]
        block = memoryview(b"".join(lines))
        while block:
            block = block[os.write(self._descriptor, block) :]
        os.fsync(self._descriptor)
        locations = []
        for line in lines:
            locations.append(Location(self.name, self._offset, len(line)))
            self._offset += len(line)
        return locations

    def close(self) -> None:
        """Give the file back."""
        os.close(self._descriptor)


def read_at(files: LocalFiles, location: Location) -> dict[str, Any]:
    """The record at a location. Raises StoreError where it is damaged."""
    with files.path(location.name).open("rb") as stream:
        stream.seek(location.offset)
        record = decode(stream.read(location.length))
    if record is None:
        raise StoreError(f"{location.name}: the record at byte {location.offset} is damaged; delete the line to ask again")
    return record


@dataclass
class LogIndex:
    """What the log holds: where each key's answer is, and what each run has spent. `refresh` reads what is new."""

    files: LocalFiles
    answers: dict[str, Location] = field(default_factory=dict)
    damaged: int = 0
    _read_to: dict[str, int] = field(default_factory=dict)
    _spent: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    _open: dict[str, tuple[str, int]] = field(default_factory=dict)

    def refresh(self) -> None:
        """Read what the writers appended since the last refresh; a line without its end is left for the next one."""
        for name in self.files.names(FOLDER, ".jsonl"):
            with self.files.path(name).open("rb") as stream:
                offset = self._read_to.get(name, 0)
                stream.seek(offset)
                for line in stream:
                    if not line.endswith(b"\n"):
                        break
                    self._take(name, offset, line)
                    offset += len(line)
            self._read_to[name] = offset

    def _take(self, name: str, offset: int, line: bytes) -> None:
        record = decode(line)
        if record is None:
            self.damaged += 1
            return
        call, run = record["call"], record["run"]
        if record["kind"] == "intent":
            self._open[call] = (run, record["usd_micros"])
            return
        self._open.pop(call, None)
        self._spent[run] += record["usd_micros"]
        if record["kind"] == "answer":
            self.answers.setdefault(record["key"], Location(name, offset, len(line)))

    def spent(self, run: str) -> int:
        """Micro-dollars of the run: real prices, and the worst price of calls whose end no record tells."""
        return self._spent.get(run, 0) + sum(usd for owner, usd in self._open.values() if owner == run)

    def read(self, key: str) -> dict[str, Any] | None:
        """The answer record of a key, or None."""
        location = self.answers.get(key)
        return None if location is None else read_at(self.files, location)

    def has(self, keys: Iterable[str]) -> int:
        """How many of the keys have an answer."""
        return sum(key in self.answers for key in keys)
