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
from dataclasses import astuple, dataclass, field
from typing import Any, NamedTuple

from summhay_ray.store.errors import StoreError
from summhay_ray.store.files.files import Files, read_whole
from summhay_ray.store.log.answer_totals import AnswerTotals, Excess, Purpose

FOLDER = "answers"
TOGETHER = 64
"""How many segments are merged into one object."""

ANSWER = "answer"
"""The kind of a record that holds an answer. There is room for others, which earlier versions refuse to read."""
INDEX = "index"
"""The kind of the first line of a merged object."""

_HEAD_FIELDS = ("kind", "key", "run", "stage", "model", "usd_micros", "input_tokens", "cached_tokens", "output_tokens")
_OPTIONAL = ("saved_micros", "claimed_tokens", "claimed_micros", "claimed_margin")
_LISTS = ("keys", "offsets", "lengths", "usd_micros")
_compact = json.JSONEncoder(separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode
_START = re.compile(rb"([0-9a-f]{8}) (\d{1,15}) (\d{1,15}) ")


class Location(NamedTuple):
    """Where a record's line is: file name, offset and length in bytes."""

    name: str
    offset: int
    length: int


@dataclass
class RunHeads:
    """The heads of one run's answers: an entry of each list for each answer."""

    keys: list[str] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    """Bytes of the line."""
    usd_micros: list[int] = field(default_factory=list)
    totals: defaultdict[Purpose, AnswerTotals] = field(default_factory=lambda: defaultdict(AnswerTotals))
    excesses: dict[str, Excess] = field(default_factory=dict)
    """Key -> the usage above what was reserved, of the answers that have it."""


@dataclass
class Heads:
    """What an index needs of the records in a stretch of a file."""

    runs: defaultdict[str, RunHeads] = field(default_factory=lambda: defaultdict(RunHeads))
    n_damaged: int = 0
    """Number of damaged records, of which nothing else is known."""


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
    runs = {
        run: {
            **{name: getattr(heads, name) for name in _LISTS},
            "totals": [[*purpose, *astuple(totals)] for purpose, totals in heads.totals.items()],
            "excesses": [[key, *excess] for key, excess in heads.excesses.items()],
        }
        for run, heads in heads_of("", segments).runs.items()
    }
    line = _line({"kind": INDEX, "runs": runs}, {})
    return f"{FOLDER}/{writer}.{number:08d}.{len(line)}.merged", line + segments


def index_of(line: bytes) -> Heads | None:
    """The heads of all records in a merged object, by its first line; None if that is damaged."""
    index, found = decode(line), Heads()
    if index is None:
        return None
    for run, heads in index["runs"].items():
        totals = {(stage, model): AnswerTotals(*of) for stage, model, *of in heads["totals"]}
        excesses = {key: Excess(*of) for key, *of in heads["excesses"]}
        lists = {name: heads[name] for name in _LISTS}
        # They are told from the end of the line.
        lists["offsets"] = [len(line) + offset for offset in lists["offsets"]]
        found.runs[run] = RunHeads(**lists, totals=defaultdict(AnswerTotals, totals), excesses=excesses)
    return found


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


def heads_of(name: str, content: bytes, offset: int = 0) -> Heads:
    """The heads of all records. An unfinished last line is left out. `offset`: where `content` begins in its file.

    If a line break is damaged, one line holds two records, and the length of the first shows where the second begins. Raises
    StoreError for a record of a newer version.
    """
    found, heads, places = Heads(), [], []
    start, last = 0, content.rfind(b"\n")
    while start <= last:
        record = _record_at(content, start)
        end = content.index(b"\n", start) + 1 if record is None else record[2] + 1
        if record is None:
            found.n_damaged += 1
        else:
            heads.append(content[record[0] : record[1]])
            places.append((offset + start, end - start))
        start = end
    # One call for all of them takes half as long.
    for head, (at, length) in zip(json.loads(b"[%s]" % b",".join(heads)), places, strict=True):
        if head["kind"] == INDEX:
            continue
        if head["kind"] != ANSWER:
            raise StoreError(f"{name}: has a record of a kind ({str(head['kind'])[:40]!r}) of a newer version; upgrade")
        of_run = found.runs[head["run"]]
        of_run.keys.append(head["key"])
        of_run.offsets.append(at)
        of_run.lengths.append(length)
        of_run.usd_micros.append(head["usd_micros"])
        of_run.totals[head["stage"], head["model"]].add(AnswerTotals.of(head))
        if (excess := Excess.of(head)) is not None:
            of_run.excesses[head["key"]] = excess
    return found


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
