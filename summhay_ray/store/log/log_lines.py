"""The lines of the answer log and the names of its files.

The log holds answers and is shared by all runs of a store. An answer is durable before anything depends on it. A record is one
line: CRC-32 in hex, length of its head, length of its body (bytes), head, body, both JSON. The head has the fields that the index
reads: the key, the cost and the run. The body has the texts, which the index does not parse.

In a folder each writer appends to `answers/WRITER.jsonl`. In a bucket each durable write is a segment, `answers/WRITER.N.jsonl`.
Every 64 segments are merged into one object, `answers/WRITER.M.SIZE.merged`. Its first line, of SIZE bytes, holds the heads of
all its records for the index.
"""

from __future__ import annotations

import json
import re
import zlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

from summhay_ray.errors import StoreError
from summhay_ray.store.errors import DamagedRecord
from summhay_ray.store.files.files import Files
from summhay_ray.store.log.answer_record import (
    ANSWER,
    HEAD_FIELDS,
    INDEX,
    OPTIONAL,
    AnswerHead,
    Heads,
    Totals,
    read_body,
    read_head,
    read_index,
    read_kind,
)

FOLDER = "answers"
TOGETHER = 64
"""Number of segments that are merged into one object."""

_compact = json.JSONEncoder(separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode
_NOTHING = 0, 0, 0, 0
_START = re.compile(rb"([0-9a-f]{8}) (\d{1,15}) (\d{1,15}) ")


class Location(NamedTuple):
    """The location of a record's line: file name, offset and length in bytes."""

    name: str
    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class Name:
    """The parts of a file name of the log."""

    writer: str
    number: int
    """The number of the segment or the merged object; 0 in a folder."""
    suffix: str
    """`jsonl` or `merged`."""
    index_size: int = 0
    """Bytes of a merged object's first line."""

    @classmethod
    def of(cls, name: str) -> Name | None:
        """The parts of a file name; None if it is not a file of the log."""
        writer, *numbers, suffix = name.removeprefix(f"{FOLDER}/").split(".")
        most = {"jsonl": 1, "merged": 2}.get(suffix, -1)
        if not writer or len(numbers) > most or not all(part.isdecimal() for part in numbers):
            return None
        number, index_size = [*map(int, numbers), 0, 0][:2]
        return cls(writer, number, suffix, index_size)

    @property
    def merge(self) -> tuple[str, int]:
        """Identifies the merged object: this file itself, or the one that its records will be merged into."""
        return self.writer, self.number if self.suffix == "merged" else self.number // TOGETHER


def encode(record: Mapping[str, Any]) -> bytes:
    """The record's line."""
    head = {name: record[name] for name in HEAD_FIELDS if name not in OPTIONAL or record.get(name)}
    return _line(head, {name: value for name, value in record.items() if name not in HEAD_FIELDS})


def merge_segments(writer: str, number: int, segments: Sequence[bytes]) -> tuple[str, bytes]:
    """The name and the content of a merged object."""
    content = b"".join(segments)
    line = _line({"kind": INDEX}, heads_of("", content))
    return f"{FOLDER}/{writer}.{number:08d}.{len(line)}.merged", line + content


def _line(head: Mapping[str, Any], body: Mapping[str, Any]) -> bytes:
    first, rest = _compact(head).encode("ascii"), _compact(body).encode("ascii")
    return b"%08x %d %d %s%s\n" % (zlib.crc32(rest, zlib.crc32(first)), len(first), len(rest), first, rest)


def decode(line: bytes) -> dict[str, Any] | None:
    """The answer's record in a line, or None if it is damaged. The line break may be damaged."""
    _, begins, body, ends = next(_lines(line[:-1] + b"\n"), _NOTHING)
    head, rest = read_head(line[begins:body]), read_body(line[body : ends - 1])
    # The index has read only the head: the body must agree with it.
    return None if head is None or rest is None or ends < len(line) else {**rest, **head}


def index_of(line: bytes, size: int) -> Heads | None:
    """The heads of the `size` bytes after the first line of a merged object, by this line; None if it is damaged."""
    _, begins, body, ends = next(_lines(line), _NOTHING)
    is_index = read_kind(line[begins:body]) == INDEX and ends == len(line)
    return read_index(line[body : ends - 1], size) if is_index else None


def _lines(content: bytes) -> Iterator[tuple[int, int, int, int]]:
    """The offsets of each record, its head, its body and the next record; head and body are at 0 if the record is damaged.

    An unfinished last line is left out. If a line break is damaged, one line holds two records, and the length of the first shows
    where the second begins.
    """
    start, last, view = 0, content.rfind(b"\n"), memoryview(content)
    while start <= last:
        head = body = end = 0
        if (found := _START.match(content, start)) is not None:
            head = found.end()
            body = head + int(found[2])
            end = body + int(found[3])
        if found is None or end > last or b"%08x" % zlib.crc32(view[head:end]) != found[1]:
            head, body, end = 0, 0, content.index(b"\n", start)
        yield start, head, body, end + 1
        start = end + 1


def heads_of(name: str, content: bytes) -> Heads:
    """The heads of all answers in a stretch of a file. Raises StoreError for a record of a newer version."""
    answers = defaultdict[str, list[tuple[str, int, int, int]]](list)
    costs = defaultdict[tuple[str, str, str], list[tuple[int, ...]]](list)
    excesses, n_damaged = list[AnswerHead](), 0
    for start, begins, body, end in _lines(content):
        if (head := read_head(content[begins:body])) is None:
            _check_kind(name, content[begins:body])
            n_damaged += 1
            continue
        cost = head["usd_micros"], head["input_tokens"], head["cached_tokens"], head["output_tokens"]
        answers[head["run"]].append((head["key"], start, end - start, cost[0]))
        costs[head["run"], head["stage"], head["model"]].append((*cost, head.get("saved_micros", 0)))
        excesses += [head] if head.get("claimed_margin") else []
    columns = {run: tuple(zip(*rows, strict=True)) for run, rows in answers.items()}
    sums = ((*group, len(rows), *map(sum, zip(*rows, strict=True))) for group, rows in costs.items())
    totals = [dict(zip(Totals.__annotations__, values, strict=True)) for values in sums]
    return cast("Heads", {"damaged": n_damaged, "answers": columns, "totals": totals, "excesses": excesses})


def _check_kind(name: str, head: bytes) -> None:
    """Raises StoreError for the head of a record of a newer version."""
    if (kind := read_kind(head)) not in ("", ANSWER, INDEX):
        raise StoreError(f"{name}: has a record of a kind ({kind}) of a newer version; upgrade")


def damaged_places(name: str, content: bytes) -> list[int]:
    """The byte offsets of the damaged records of a whole file. An index that differs from the records is damaged, too.

    Also reads the bodies, and so takes longer than `heads_of`.
    """
    file, lines, places = Name.of(name), list(_lines(content)), list[int]()
    if file is not None and file.index_size and lines:
        (_, _, _, end), *lines = lines
        heads = index_of(content[:end], len(content) - end)
        whole = heads_of(name, content[end:])
        places += [] if heads is not None and _compact(heads) == _compact(whole) else [0]
    for start, begins, body, end in lines:
        if read_head(content[begins:body]) is None or read_body(content[body : end - 1]) is None:
            _check_kind(name, content[begins:body])
            places.append(start)
    return places


def read_at(files: Files, location: Location, key: str) -> dict[str, Any]:
    """The answer of a key at a location. Raises DamagedRecord if it is not there, StoreError if the file is gone."""
    name, mend = location.name, "a run that needs this answer asks for it again"
    try:
        record = decode(files.read_range(name, location.offset, location.length))
    except FileNotFoundError:
        raise StoreError(f"{files.where(name)} is gone; put it back from a copy; {mend}") from None
    # The key of an unusable answer begins with the request's key.
    if record is None or not f"{record['key']}/".startswith(f"{key}/"):
        raise DamagedRecord(f"{files.where(name)}: the record at byte {location.offset} is damaged; {mend}", files.uri)
    return record
