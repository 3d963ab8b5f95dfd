"""The lines of the answers' log and the names of its files. Part of the store room.

The log holds answers, each durable before anything depends on it, and is shared by all runs of a store. A record is one line:
CRC-32 in hex, length of its head, length of its body (bytes), head, body, both JSON. The head has what the index needs: the key,
and what the answer cost which run; the body has the texts, which no index parses.

In a folder each writer appends to `answers/WRITER.jsonl`. In a bucket each durable write is a segment, `answers/WRITER.N.jsonl`,
and 64 segments at a time are written once more as one object, `answers/WRITER.M.SIZE.merged`. Its first line, of SIZE bytes, has
what an index needs of all its records.
"""

from __future__ import annotations

import json
import re
import zlib
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from summhay_ray.store.errors import StoreError
from summhay_ray.store.files.files import Files
from summhay_ray.store.log.answer_totals import AnswerTotals, Excess

FOLDER = "answers"
TOGETHER = 64
"""How many segments are merged into one object."""

ANSWER = "answer"
"""The kind of a record that holds an answer. There is room for others, which earlier versions refuse to read."""
INDEX = "index"
"""The kind of the first line of a merged object."""

_HEAD_FIELDS = ("kind", "key", "run", "stage", "model", "usd_micros", "input_tokens", "cached_tokens", "output_tokens")
_OPTIONAL = ("saved_micros", "claimed_tokens", "claimed_micros", "claimed_margin")
_compact = json.JSONEncoder(separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode
_START = re.compile(rb"([0-9a-f]{8}) (\d{1,15}) (\d{1,15}) ")


class Location(NamedTuple):
    """Where a record's line is: file name, offset and length in bytes."""

    name: str
    offset: int
    length: int


Heads = Mapping[str, Any]
"""What an index needs of the records in a stretch of a file: `damaged`, the number of damaged ones; `answers`, run -> the keys,
offsets in the stretch, lengths and micro-dollars of its answers, a list each; `totals`, an entry for each run, stage and model;
`excesses`, the heads of answers that claim more usage than was reserved."""


@dataclass(frozen=True, slots=True)
class Name:
    """What a file name of the log says."""

    writer: str
    number: int
    """Of the segment, or of the merged object; 0 in a folder."""
    suffix: str
    """`jsonl` or `merged`."""
    index_size: int = 0
    """Bytes of a merged object's first line."""

    @classmethod
    def of(cls, name: str) -> Name | None:
        """The parts of a file name; None if it is not a file of the log."""
        writer, *numbers, suffix = name.removeprefix(f"{FOLDER}/").split(".")
        most = {"jsonl": 1, "merged": 2}.get(suffix, -1)
        if not writer or len(numbers) > most or not all(part.isdigit() for part in numbers):
            return None
        number, index_size = [*map(int, numbers), 0, 0][:2]
        return cls(writer, number, suffix, index_size)

    @property
    def merge(self) -> tuple[str, int]:
        """Identifies the merged object that it is, or that its records will be in."""
        return self.writer, self.number if self.suffix == "merged" else self.number // TOGETHER


def file_name(writer: str, number: int) -> str:
    """The name of a segment."""
    return f"{FOLDER}/{writer}.{number:08d}.jsonl"


def encode(record: Mapping[str, Any]) -> bytes:
    """The record's line."""
    head = {name: record[name] for name in _HEAD_FIELDS} | {name: record[name] for name in _OPTIONAL if record.get(name)}
    return _line(head, {name: value for name, value in record.items() if name not in head and name not in _OPTIONAL})


def merged_object(writer: str, number: int, segments: bytes) -> tuple[str, bytes]:
    """The name and the content of a merged object."""
    line = _line({"kind": INDEX}, heads_of("", segments))
    return f"{FOLDER}/{writer}.{number:08d}.{len(line)}.merged", line + segments


def _line(head: Mapping[str, Any], body: Mapping[str, Any]) -> bytes:
    told, rest = _compact(head).encode("ascii"), _compact(body).encode("ascii")
    return b"%08x %d %d %s%s\n" % (zlib.crc32(rest, zlib.crc32(told)), len(told), len(rest), told, rest)


def decode(line: bytes) -> dict[str, Any] | None:
    """The record of a line, or None if it is damaged."""
    found = _record_at(line, 0)
    if found is None or len(line) - found[2] > 1:
        return None
    begins, body, ends = found
    return {**json.loads(line[begins:body]), **json.loads(line[body:ends])}


def _record_at(content: bytes, start: int) -> tuple[int, int, int] | None:
    """(start of the head, start of the body, its end) for the record that begins at `start`; None if it is damaged."""
    found = _START.match(content, start)
    if found is None:
        return None
    begins = found.end()
    body = begins + int(found[2])
    end = body + int(found[3])
    if end > len(content) or b"%08x" % zlib.crc32(memoryview(content)[begins:end]) != found[1]:
        return None
    return begins, body, end


def heads_of(name: str, content: bytes) -> Heads:
    """The heads of all records. An unfinished last line is left out.

    If a line break is damaged, one line holds two records, and the length of the first shows where the second begins. Raises
    StoreError for a record of a newer version.
    """
    heads, places, n_damaged = list[bytes](), list[tuple[int, int]](), 0
    start, last = 0, content.rfind(b"\n")
    while start <= last:
        if (record := _record_at(content, start)) is None:
            start, n_damaged = content.index(b"\n", start) + 1, n_damaged + 1
            continue
        head, body, end = record
        heads.append(content[head:body])
        places.append((start, end + 1 - start))
        start = end + 1
    answers = defaultdict[str, list[tuple[str, int, int, int]]](list)
    totals = defaultdict[tuple[str, str, str], AnswerTotals](AnswerTotals)
    excesses = []
    # One call for all heads takes half as long as one for each.
    for one, place in zip(json.loads(b"[%s]" % b",".join(heads)), places, strict=True):
        if one["kind"] == INDEX:
            continue
        if one["kind"] != ANSWER:
            raise StoreError(f"{name}: has a record of a kind ({str(one['kind'])[:40]!r}) of a newer version; upgrade")
        answers[one["run"]].append((one["key"], *place, one["usd_micros"]))
        totals[one["run"], one["stage"], one["model"]].add(one)
        excesses += [one] if Excess.of(one) else []
    return {
        "damaged": n_damaged,
        "answers": {run: list(zip(*rows, strict=True)) for run, rows in answers.items()},
        "totals": [{**dict(zip(("run", "stage", "model"), of, strict=True)), **asdict(sums)} for of, sums in totals.items()],
        "excesses": excesses,
    }


def read_at(files: Files, location: Location) -> dict[str, Any]:
    """The record at a location. Raises StoreError if it is missing or damaged."""
    name, mend = location.name, "run `summhay doctor --store` to see what is lost; a run that needs it asks again"
    try:
        record = decode(files.read_range(name, location.offset, location.length))
    except FileNotFoundError:
        raise StoreError(f"{files.where(name)} is gone; put it back from a copy, or {mend}") from None
    if record is None:
        raise StoreError(f"{files.where(name)}: the record at byte {location.offset} is damaged; {mend}")
    return record
