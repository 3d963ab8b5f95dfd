"""The response log: every answer, durable before anything depends on it, shared by all runs of a store. Part of the store room.

Each file has one writer, lies under `log/` and is appended only; one line a record: CRC-32 in hex, length in bytes, JSON. A
torn or flipped line fails its length or checksum and is never read as an answer. Three kinds of record:
`intent` (a call that costs money is about to be sent: its worst price), `answer` (what came back, and its price), `void`
(the call ended without an answer: what it is charged). An intent with neither stays charged at its worst price. Each says
for which stage and model of which run the money is.
"""

from __future__ import annotations

import json
import os
import re
import zlib
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from summhay_ray.store.errors import StoreError
from summhay_ray.store.files import LocalFiles, sync_folder

FOLDER = "log"
_HEAD = re.compile(rb"([0-9a-f]{8}) (\d{1,15}) ")


Purpose = tuple[str, str]
"""What money was spent on: stage (summarize, judge, ...) and model."""


@dataclass
class Tally:
    """What the calls of one purpose in one run came to."""

    usd_micros: int = 0
    """All that is charged: answers, and calls that ended without one."""
    answers: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    saved_micros: int = 0
    """What the answers would have cost more without the provider's cache."""


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
    found = _record_at(line, 0)
    return found[0] if found is not None and len(line) - found[1] <= 1 else None


def _record_at(line: bytes, start: int) -> tuple[dict[str, Any], int] | None:
    """The record whose head stands at `start`, and where its body ends."""
    head = _HEAD.match(line, start)
    if head is None:
        return None
    end = head.end() + int(head[2])
    body = line[head.end() : end]
    if end > len(line) or b"%08x" % zlib.crc32(body) != head[1]:
        return None
    record = json.loads(body)
    return (record, end) if isinstance(record, dict) else None


def _records_of(line: bytes) -> Iterator[tuple[int, int, dict[str, Any] | None]]:
    """(start, end, record) of a line; None for what is damaged.

    A flipped line break joins two lines: the length of the first still says where the second begins.
    """
    start = 0
    while start < len(line):
        found = _record_at(line, start)
        end = len(line) if found is None else found[1] + 1
        yield start, end, None if found is None else found[0]
        start = end


def _writer_of(name: str) -> str:
    return name.removeprefix(f"{FOLDER}/").split(".")[0]


class LogWriter:
    """Appends to log files of its own. `append` returns when the records are on disk. One caller at a time.

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
            block = memoryview(b"".join(lines))
            while block:
                block = block[os.write(descriptor, block) :]
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

    def close(self) -> None:
        """Give the file back."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def read_at(files: LocalFiles, location: Location) -> dict[str, Any]:
    """The record at a location. Raises StoreError where it is absent or damaged."""
    try:
        with files.path(location.name).open("rb") as stream:
            stream.seek(location.offset)
            record = decode(stream.read(location.length))
    except FileNotFoundError:
        raise StoreError(f"{location.name}: the log file is gone; put it back, or run again to ask again") from None
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
    _tallies: dict[str, dict[str, dict[Purpose, Tally]]] = field(default_factory=dict)
    _open: dict[str, tuple[str, str, int]] = field(default_factory=dict)
    _void: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    def refresh(self, but: Collection[str] = ()) -> None:
        """Read what the writers appended since the last refresh, `but` for some of them (a later refresh reads them).

        A line without its end is left for the next one.
        """
        for name in self.files.names(FOLDER, ".jsonl"):
            if _writer_of(name) in but:
                continue
            offset = self._read_to.get(name, 0)
            if self.files.path(name).stat().st_size <= offset:
                continue
            with self.files.path(name).open("rb") as stream:
                stream.seek(offset)
                for line in stream:
                    if not line.endswith(b"\n"):
                        break
                    for start, end, record in _records_of(line):
                        self._take(Location(name, offset + start, end - start), record)
                    offset += len(line)
            self._read_to[name] = offset

    def _take(self, location: Location, record: dict[str, Any] | None) -> None:
        if record is None or not {"kind", "call", "run", "key", "usd_micros"} <= record.keys():
            self.damaged += 1
            return
        writer = _writer_of(location.name)
        tally = self._tally(writer, record)
        tally.usd_micros += record["usd_micros"]
        if record["kind"] == "intent":
            self._open[record["call"]] = (writer, record["key"], record["usd_micros"])
            return
        if record["call"] in self._open:
            tally.usd_micros -= self._open.pop(record["call"])[2]
        if record["kind"] == "answer":
            self.answers.setdefault(record["key"], location)
            tally.answers += 1
            for name in ("input_tokens", "cached_tokens", "output_tokens", "saved_micros"):
                setattr(tally, name, getattr(tally, name) + record.get(name, 0))
        elif record["kind"] == "void":
            self._void[writer].add(record["key"])

    def _tally(self, writer: str, record: Mapping[str, Any]) -> Tally:
        writers = self._tallies.setdefault(record["run"], {})
        purpose = (record.get("stage", ""), record.get("model", ""))
        return writers.setdefault(writer, {}).setdefault(purpose, Tally())

    def spent(self, run: str) -> int:
        """Micro-dollars of the run: real prices, and the worst price of calls whose end no record tells."""
        return sum(tally.usd_micros for tally in self.tallies(run).values())

    def spent_by(self, run: str) -> dict[str, dict[Purpose, int]]:
        """The same for each writer and purpose."""
        written = self._tallies.get(run, {})
        return {name: {purpose: tally.usd_micros for purpose, tally in tallies.items()} for name, tallies in written.items()}

    def tallies(self, run: str) -> dict[Purpose, Tally]:
        """Purpose -> what the run's calls came to, over all writers."""
        found: dict[Purpose, Tally] = {}
        for tallies in self._tallies.get(run, {}).values():
            for purpose, tally in tallies.items():
                total = found.setdefault(purpose, Tally())
                for name, amount in vars(tally).items():
                    setattr(total, name, getattr(total, name) + amount)
        return found

    def unanswered(self, writer: str) -> set[str]:
        """The keys of a writer's calls that cost money and that no answer ends: void, or with no end at all."""
        return {key for owner, key, _ in self._open.values() if owner == writer} | self._void.get(writer, set())

    def read(self, key: str) -> dict[str, Any] | None:
        """The answer record of a key, or None."""
        location = self.answers.get(key)
        return None if location is None else read_at(self.files, location)

    def has(self, keys: Iterable[str]) -> int:
        """How many of the keys have an answer."""
        return sum(key in self.answers for key in keys)
