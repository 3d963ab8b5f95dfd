"""The lines of the answers' log and the names of its files. Part of the store room.

The log holds answers, each durable before anything depends on it, and is shared by all runs of a store. A record is one line:
CRC-32 in hex, length of its head, length of its body (bytes), head, body, both JSON. The head has what the index needs: the key,
and what the answer cost which run; the body has the texts, which no index parses.

In a folder each writer appends to `answers/WRITER.jsonl`. In a bucket each durable write is a segment, `answers/WRITER.N.jsonl`,
and 64 segments at a time are written once more as one object, `answers/WRITER.M.merged`, with `answers/WRITER.M.index` beside it:
the heads, each with its place in the merged object.
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
from summhay_ray.store.files.files import Files, read_whole

FOLDER = "answers"
TOGETHER = 64
"""How many segments are merged into one object."""

ANSWER = "answer"
"""The kind of a record that holds an answer. There is room for others, which earlier versions refuse to read."""

_HEAD_FIELDS = ("kind", "key", "run", "stage", "model", "usd_micros", "input_tokens", "cached_tokens", "output_tokens")
_OPTIONAL = ("saved_micros", "claimed_tokens", "claimed_micros", "claimed_margin")
_compact = json.JSONEncoder(separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode
_START = re.compile(rb"([0-9a-f]{8}) (\d{1,15}) (\d{1,15}) ")


class Location(NamedTuple):
    """Where a record's line is: file name, offset and length in bytes."""

    name: str
    offset: int
    length: int


Head = Mapping[str, Any]
"""The fields of a record that the index needs."""


@dataclass(frozen=True, slots=True)
class Name:
    """What a file name of the log says."""

    writer: str
    number: int
    """Of the segment, or of the merged object; 0 in a folder."""
    suffix: str
    """`jsonl`, `merged` or `index`."""

    @classmethod
    def of(cls, name: str) -> Name | None:
        """The parts of a file name; None if it is not a file of the log."""
        writer, *number, suffix = name.removeprefix(f"{FOLDER}/").split(".")
        if not writer or len(number) > 1 or not all(part.isdigit() for part in number):
            return None
        return cls(writer, int(number[0]) if number else 0, suffix) if suffix in ("jsonl", "merged", "index") else None

    @property
    def session(self) -> int:
        """The number of the driver's session that the writer belongs to; 0 if it names none."""
        session = self.writer.partition("-")[0]
        return int(session) if session.isdigit() else 0


def file_name(writer: str, number: int, suffix: str = "jsonl") -> str:
    """The name of a segment, or of a merged object or its index."""
    return f"{FOLDER}/{writer}.{number:08d}.{suffix}"


def encode(record: Mapping[str, Any]) -> bytes:
    """The record's line."""
    head = {name: record[name] for name in _HEAD_FIELDS} | {name: record[name] for name in _OPTIONAL if record.get(name)}
    return _line(head, {name: value for name, value in record.items() if name not in head and name not in _OPTIONAL})


def index_line(head: Head, place: tuple[int, int]) -> bytes:
    """The line of an index: a head, and its record's offset and length in the merged object."""
    return _line({**head, "at": place}, {})


def _line(head: Mapping[str, Any], body: Mapping[str, Any]) -> bytes:
    told, rest = _compact(head).encode("ascii"), _compact(body).encode("ascii")
    return b"%08x %d %d %s%s\n" % (zlib.crc32(rest, zlib.crc32(told)), len(told), len(rest), told, rest)


def decode(line: bytes) -> dict[str, Any] | None:
    """The record of a line, or None if it is damaged."""
    found = _record_at(line, 0)
    if found is None or len(line) - found[2] > 1:
        return None
    head, begins, ends = found
    return {**head, **json.loads(line[begins:ends])}


def _record_at(line: bytes, start: int) -> tuple[dict[str, Any], int, int] | None:
    """(head, start of the body, its end) for the record that begins at `start`; None if it is damaged."""
    found = _START.match(line, start)
    if found is None:
        return None
    body = found.end() + int(found[2])
    end = body + int(found[3])
    if end > len(line) or b"%08x" % zlib.crc32(line[found.end() : end]) != found[1]:
        return None
    return json.loads(line[found.end() : body]), body, end


def heads_of(name: str, content: bytes, offset: int = 0) -> Iterator[tuple[Location, Head | None]]:
    """The location and head of each record; the head is None if the record is damaged. An unfinished last line is left out.

    `offset`: where `content` begins in its file. If a line break is damaged, one line holds two records, and the length of the
    first shows where the second begins. Raises StoreError for a record of a newer version.
    """
    for line in io.BytesIO(content):
        start = 0
        while line.endswith(b"\n") and start < len(line):
            found = _record_at(line, start)
            end = len(line) if found is None else found[2] + 1
            if found is not None and found[0]["kind"] != ANSWER:
                raise StoreError(f"{name}: has a record of a kind ({str(found[0]['kind'])[:40]!r}) of a newer version; upgrade")
            yield Location(name, offset + start, end - start), found[0] if found else None
            start = end
        offset += len(line)


def read_at(files: Files, location: Location) -> dict[str, Any]:
    """The record at a location. Raises StoreError if it is missing or damaged."""
    name, mend = location.name, "run `summhay doctor --store` to see what is lost; a run that needs it asks again"
    try:
        record = read_whole(lambda: files.read_range(name, location.offset, location.length), decode)
    except FileNotFoundError:
        raise StoreError(f"{files.where(name)} is gone; put it back from a copy, or {mend}") from None
    if record is None:
        raise StoreError(f"{files.where(name)}: the record at byte {location.offset} is damaged; {mend}")
    return record
