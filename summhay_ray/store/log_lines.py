"""A record's line in the response log, and the names of the log's files. Part of the store room.

One line a record: CRC-32 in hex, length in bytes, JSON. In a folder each writer appends to `log/<writer>.jsonl`; in a bucket it
creates segments, `log/<writer>/00000000.jsonl` and so on, whose last line is a `Mark`: what a reader must know of the writer.
"""

from __future__ import annotations

import io
import json
import re
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from summhay_ray.store.errors import StoreError
from summhay_ray.store.files import Files

FOLDER = "log"
_HEAD = re.compile(rb"([0-9a-f]{8}) (\d{1,15}) ")


class Location(NamedTuple):
    """Where a record's line stands."""

    name: str
    offset: int
    length: int


Entry = tuple[Location, Mapping[str, Any] | None]
"""A line and its record, None where it is damaged."""

Charge = tuple[str, str, str, int]
"""Run, stage, model, micro-dollars."""


@dataclass(frozen=True, slots=True)
class Mark:
    """The last line of a segment: its number, what its writer may spend before the next one appears, and whether one will."""

    number: int
    allowance: tuple[Charge, ...] = ()
    """The worst cases of calls that may have been sent and that no segment tells of yet."""
    end: bool = False
    sealed: bool = False
    """The end was set by another, who could not read what the writer may still hold: the allowance stays charged."""
    closed: bool = False
    """No writer is behind it: the seat is closed, and none may begin in it."""
    owner: str = ""

    def line(self) -> bytes:
        """The mark as a line of the log."""
        told: dict[str, Any] = {"kind": "segment", "n": self.number, "allowance": self.allowance, "end": self.end}
        said = {name: getattr(self, name) for name in ("sealed", "closed", "owner") if getattr(self, name)}
        return encode({**told, **said})


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


def records_of(line: bytes) -> Iterator[tuple[int, int, dict[str, Any] | None]]:
    """(start, end, record) of a line; None for what is damaged.

    A flipped line break joins two lines: the length of the first still says where the second begins.
    """
    start = 0
    while start < len(line):
        found = _record_at(line, start)
        end = len(line) if found is None else found[1] + 1
        yield start, end, None if found is None else found[0]
        start = end


def entries_of(name: str, content: bytes) -> Iterator[Entry]:
    """The records of a file's bytes, each with its place."""
    offset = 0
    for line in io.BytesIO(content):
        for start, end, record in records_of(line):
            yield Location(name, offset + start, end - start), record
        offset += len(line)


def mark_of(content: bytes) -> tuple[int, Mark | None]:
    """Where a segment's records end, and its mark; None (and the whole length) where it has none that is whole."""
    start = content.rfind(b"\n", 0, max(0, len(content) - 1)) + 1
    record = decode(content[start:])
    if record is None or record.get("kind") != "segment":
        return len(content), None
    allowance = tuple((str(run), str(stage), str(model), int(micros)) for run, stage, model, micros in record["allowance"])
    said = {name: record[name] for name in ("end", "sealed", "closed", "owner") if name in record}
    return start, Mark(record["n"], allowance, **said)


def whole(content: bytes) -> int:
    """Where the last whole record of a file ends: what stands behind it was torn off when its writer died."""
    end = 0
    for location, record in entries_of("", content):
        if record is not None and content[location.offset + location.length - 1 : location.offset + location.length] == b"\n":
            end = location.offset + location.length
    return end


def writer_of(name: str) -> str:
    """The writer of a log file."""
    return name.removeprefix(f"{FOLDER}/").split("/")[0].split(".")[0]


def segment_name(writer: str, number: int) -> str:
    """The name of a writer's segment."""
    return f"{FOLDER}/{writer}/{number:08d}.jsonl"


def segment_number(name: str) -> int | None:
    """The number of a segment, None for another file's name."""
    number = name.rpartition("/")[2].removesuffix(".jsonl")
    return int(number) if name.count("/") == 2 and number.isdigit() else None


def writer_name(session: int, seat: str, incarnation: int) -> str:
    """The name of the writer that has a seat of a session for the n-th time."""
    return f"{session:08d}-{seat}-{incarnation}"


def read_at(files: Files, location: Location) -> dict[str, Any]:
    """The record at a location. Raises StoreError where it is absent or damaged."""
    try:
        line = files.read_range(location.name, location.offset, location.length)
    except FileNotFoundError:
        raise StoreError(f"{location.name}: the log file is gone; put it back, or run again to ask again") from None
    record = decode(line)
    if record is None:
        raise StoreError(f"{location.name}: the record at byte {location.offset} is damaged; delete the line to ask again")
    return record
