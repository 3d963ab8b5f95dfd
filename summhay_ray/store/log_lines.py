"""The lines of the response log and the names of its files. Part of the store room.

The log has every answer, durable before anything depends on it, and is shared by all runs of a store. There are three kinds of
record: `intent` (a call that costs money is about to be sent; its worst price), `answer` (the answer and its price) and `void`
(the call ended without an answer; what is charged for it). An intent without an answer or void stays charged at its worst price.
Each record names the run, stage and model that the money is spent on.

Each record is one line: CRC-32 in hex, length in bytes, JSON. In a folder each writer appends to `log/<writer>.jsonl`. In a
bucket it creates segments, `log/<writer>/00000000.jsonl` and so on; the last line of a segment is a `Mark`, which tells readers
the state of the writer.
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
from summhay_ray.store.files import Files, read_whole

FOLDER = "log"
PACKS = f"{FOLDER}/packs"
_compact = json.JSONEncoder(separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode
_HEAD = re.compile(rb"([0-9a-f]{8}) (\d{1,15}) ")


class Location(NamedTuple):
    """Where a record's line is: file name, offset and length in bytes."""

    name: str
    offset: int
    length: int


LocatedRecord = tuple[Location, Mapping[str, Any] | None]
"""(location, record) of a line; the record is None if it is damaged."""

Charge = tuple[str, str, str, int]
"""(run, stage, model, micro-dollars)."""


@dataclass(frozen=True, slots=True)
class Mark:
    """The last line of a segment: its number, what its writer may spend before the next segment, and whether it is the last."""

    number: int
    allowance: tuple[Charge, ...] = ()
    """The worst prices of calls that may have been sent but are in no segment yet."""
    end: bool = False
    """Whether this is the writer's last segment."""
    sealed: bool = False
    """The writer was ended by another process, which could not read its unshipped records: the allowance stays charged."""
    closed: bool = False
    """There is no writer of this name: the seat is closed, and no writer may begin in it."""
    owner: str = ""
    """In a first segment: the token of the writer's spool folder."""

    def line(self) -> bytes:
        """The mark as a line of the log."""
        required: dict[str, Any] = {"kind": "segment", "n": self.number, "allowance": self.allowance, "end": self.end}
        optional = {name: getattr(self, name) for name in ("sealed", "closed", "owner") if getattr(self, name)}
        return encode({**required, **optional})


def encode(record: Mapping[str, Any]) -> bytes:
    """The record's line."""
    body = _compact(record).encode("ascii")
    return b"%08x %d %s\n" % (zlib.crc32(body), len(body), body)


def decode(line: bytes) -> dict[str, Any] | None:
    """The record of a line, or None if its length or checksum is wrong."""
    found = _record_at(line, 0)
    return found[0] if found is not None and len(line) - found[1] <= 1 else None


def _record_at(line: bytes, start: int) -> tuple[dict[str, Any], int] | None:
    """(record, end of its body) for the record that begins at `start`; None if it is damaged."""
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
    """(start, end, record) for each record of a line; the record is None if it is damaged.

    If a line break is corrupted, one line holds two records; the length of the first shows where the second begins.
    """
    start = 0
    while start < len(line):
        found = _record_at(line, start)
        end = len(line) if found is None else found[1] + 1
        yield start, end, None if found is None else found[0]
        start = end


def entries_of(name: str, content: bytes) -> Iterator[LocatedRecord]:
    """The records in a file's content, each with its location."""
    offset = 0
    for line in io.BytesIO(content):
        for start, end, record in records_of(line):
            yield Location(name, offset + start, end - start), record
        offset += len(line)


def mark_of(content: bytes) -> tuple[int, Mark | None]:
    """(end of the segment's records in bytes, its mark); (full length, None) if the mark is missing or damaged."""
    start = content.rfind(b"\n", 0, max(0, len(content) - 1)) + 1
    record = decode(content[start:])
    if record is None or record.get("kind") != "segment":
        return len(content), None
    allowance = tuple((str(run), str(stage), str(model), int(micros)) for run, stage, model, micros in record["allowance"])
    fields = {name: record[name] for name in ("end", "sealed", "closed", "owner") if name in record}
    return start, Mark(record["n"], allowance, **fields)


def intact_length(content: bytes) -> int:
    """Where the last complete record of a file ends, in bytes; what follows was cut off when its writer died."""
    end = 0
    for location, record in entries_of("", content):
        if record is not None and content[location.offset + location.length - 1 : location.offset + location.length] == b"\n":
            end = location.offset + location.length
    return end


def writer_of(name: str) -> str:
    """The name of the writer of a log file."""
    return name.removeprefix(f"{FOLDER}/").split("/")[0].split(".")[0]


def segment_name(writer: str, number: int) -> str:
    """The name of a writer's segment."""
    return f"{FOLDER}/{writer}/{number:08d}.jsonl"


def segment_number(name: str) -> int | None:
    """The number of the segment with this file name; None if it is not a segment."""
    number = name.rpartition("/")[2].removesuffix(".jsonl")
    return int(number) if name.count("/") == 2 and number.isdigit() else None


def writer_name(session: int, seat: str, incarnation: int) -> str:
    """The name of the writer that holds a seat of a session; `incarnation` counts the seat's writers from 0."""
    return f"{session:08d}-{seat}-{incarnation}"


def read_at(files: Files, location: Location) -> dict[str, Any]:
    """The record at a location. Raises StoreError if it is missing or damaged."""
    name, is_packed = location.name, location.name.startswith(f"{PACKS}/")
    try:
        record = read_whole(lambda: files.read_range(name, location.offset, location.length), decode)
    except FileNotFoundError:
        mend = mend_packs() if is_packed else "put it back, or run again to ask again"
        raise StoreError(f"{files.where(name)} is gone; {mend}") from None
    if record is None:
        # An object in a bucket cannot be edited; the next start counts a damaged record of a segment as no answer.
        again = "run again to ask again" if files.folder is None else "delete the line to ask again"
        mend = mend_packs() if is_packed else again
        raise StoreError(f"{files.where(name)}: the record at byte {location.offset} is damaged; {mend}")
    return record


def mend_packs(n_lost: int | None = None) -> str:
    """What to do about a missing or damaged pack. `n_lost`: how many answers are in packs alone; None if that is not counted."""
    number = "" if n_lost is None else f" ({n_lost})"
    return (
        f"put it back from a copy; or delete the folder {PACKS}: answers whose segments were cleaned{number} are then lost, and "
        "a run that needs them pays for them again, but not for what is finished"
    )
