"""The format of the answers log: the schema of a record, its line in a file, and the names of the files.

All runs of a store share the log. An answer is durable before anything depends on it. A record is one line: CRC-32 in hex, length
of its head, length of its body (both in bytes), head, body. Head and body are JSON. The head has the fields that the index reads:
the key, the cost and the run. The body has the texts, which the index does not parse.

In a folder, each writer appends to `answers/WRITER.jsonl`. In a bucket, each durable write creates a segment,
`answers/WRITER.N.jsonl`, and every 64 segments are merged into one object, `answers/WRITER.M.SIZE.merged`. The first line of this
object has SIZE bytes; it contains the heads of all its records for the index.
"""

from __future__ import annotations

import json
import re
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import add
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, cast

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError, with_config
from typing_extensions import TypedDict

from summhay_ray.errors import StoreError
from summhay_ray.store.files import Files
from summhay_ray.store.names import DamagedRecord
from summhay_ray.store.records import Amount, Count, Saving, Total, as_record

FOLDER = "answers"
TOGETHER = 64
"""Number of segments that are merged into one object."""
ANSWER = "answer"
"""The kind of a record that contains an answer. A version of this package refuses kinds of records that it does not know."""
INDEX = "index"
"""The kind of the first line of a merged object."""
DELETED = "deleted/"
"""Replaces as many characters at the beginning of a deleted answer's key. No request has a key that begins in this way."""


@with_config(ConfigDict(strict=True, extra="allow"))
class AnswerHead(TypedDict):
    """The part of an answer that the index reads, with its key, its cost and its run."""

    kind: Literal["answer"]
    key: str
    run: str
    stage: str
    model: str
    usd_micros: Count
    input_tokens: Count
    cached_tokens: Count
    output_tokens: Count
    saved_micros: NotRequired[Saving]
    claimed_tokens: NotRequired[Count]
    """This and the next two: the provider's reported usage, if it exceeds the reservation; see `Excess`."""
    claimed_micros: NotRequired[Count]
    claimed_margin: NotRequired[Amount]


@with_config(ConfigDict(strict=True, extra="allow"))
class AnswerBody(TypedDict):
    """The rest of an answer. Other fields, such as the provider's own `raw`, may contain anything."""

    text: str
    finish_reason: str
    attempts: Count
    cache_write_tokens: NotRequired[Count]
    reasoning_tokens: NotRequired[Count]
    zero_vectors: NotRequired[Count]
    further_texts: NotRequired[list[str]]
    logprobs: NotRequired[str]
    origin: NotRequired[str]
    flaw: NotRequired[str]


class AnyHead(TypedDict):
    """The fields of every kind of record."""

    kind: Annotated[str, Field(pattern="^[a-z_]{1,40}$")]


class Totals(TypedDict):
    """The totals of a run's answers, for one stage and model."""

    run: str
    stage: str
    model: str
    answers: Total
    usd_micros: Total
    input_tokens: Total
    cached_tokens: Total
    output_tokens: Total
    saved_micros: Saving


class Heads(TypedDict):
    """What the index reads from a section of a file."""

    damaged: Count
    """The number of damaged records."""
    answers: dict[str, tuple[list[str], list[Count], list[Count], list[Count]]]
    """Run -> the keys, offsets in the section, lengths and micro-dollars of its answers."""
    totals: list[Totals]
    excesses: list[AnswerHead]
    """The heads of answers whose reported usage exceeds the reservation."""


HEAD_FIELDS = tuple(AnswerHead.__annotations__)
OPTIONAL = ("saved_micros", "claimed_tokens", "claimed_micros", "claimed_margin")
"""The fields of a head that are left out if they are 0."""

_BLANK_COLON = re.compile(rb"\s:")
_PAIRS = json.JSONDecoder(object_pairs_hook=list)

# Keep the validator, since it is called at least 100,000 times when a run starts.
_HEAD = TypeAdapter(AnswerHead).validator


def read_head(text: bytes) -> AnswerHead | None:
    """Return the head of an answer from its JSON text; None if the text does not fit the schema of `AnswerHead`, or repeats a
    field."""
    try:
        head: AnswerHead = _HEAD.validate_json(text)
    except ValidationError:
        return None
    # pydantic accepts repeated fields, so count the fields by their colons. This quick count may be too high, but never too low.
    n = len(head)
    if text.count(b":") == n or (text.count(b'":') == n and not _BLANK_COLON.search(text)):
        return head
    return head if len(_PAIRS.decode(text.decode("utf-8"))) == n else None


Purpose = tuple[str, str]
"""(stage, model): the purpose for which money is spent."""


class Excess(NamedTuple):
    """A reported usage that exceeds the call's reservation: the amounts that the provider claimed, and the amounts that were
    charged."""

    model: str
    claimed_tokens: int
    charged_tokens: int
    claimed_micros: int
    charged_micros: int
    token_margin: float
    """The model's `token_margin` with which the reservation would have been sufficient."""

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Excess | None:
        """Return the excess in an answer's record or head; None if the usage was within the reservation."""
        if not record.get("claimed_margin"):
            return None
        # Fields with the value 0 are left out, such as the price of a free model.
        tokens, micros = record.get("claimed_tokens", 0), record.get("claimed_micros", 0)
        charged_tokens = record["input_tokens"] + record["output_tokens"]
        return cls(record["model"], tokens, charged_tokens, micros, record["usd_micros"], record["claimed_margin"])


@dataclass
class AnswerTotals:
    """The totals of one run's answers for one purpose."""

    usd_micros: int = 0
    answers: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    saved_micros: int = 0
    """The amount by which the answers would have cost more without the provider's cache."""

    def add(self, totals: Totals) -> None:
        """Add the totals of further answers."""
        self.answers += totals["answers"]
        self.usd_micros += totals["usd_micros"]
        self.input_tokens += totals["input_tokens"]
        self.cached_tokens += totals["cached_tokens"]
        self.output_tokens += totals["output_tokens"]
        self.saved_micros += totals["saved_micros"]


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
        """Return the parts of a file name; None if it is not a file of the log."""
        writer, *numbers, suffix = name.removeprefix(f"{FOLDER}/").split(".")
        most = {"jsonl": 1, "merged": 2}.get(suffix, -1)
        if not writer or len(numbers) > most or not all(part.isdecimal() for part in numbers):
            return None
        number, index_size = [*map(int, numbers), 0, 0][:2]
        return cls(writer, number, suffix, index_size)

    @property
    def session(self) -> int:
        """The number of the driver's session that wrote the file; 0 if the name has no number."""
        number = self.writer.partition("-")[0]
        return int(number) if number.isdecimal() else 0

    @property
    def merge(self) -> tuple[str, int]:
        """Identifies a merged object: this file, or the object into which this segment will be merged."""
        return self.writer, self.number if self.suffix == "merged" else self.number // TOGETHER


def encode(record: Mapping[str, Any]) -> bytes:
    """Return the record's line."""
    head = {name: record[name] for name in HEAD_FIELDS if name not in OPTIONAL or record.get(name)}
    in_head = AnswerHead.__annotations__
    return _line(head, {name: value for name, value in record.items() if name not in in_head})


def merge_segments(writer: str, number: int, segments: Sequence[bytes]) -> tuple[str, bytes]:
    """Return the name and the content of a merged object."""
    content = b"".join(segments)
    line = _line({"kind": INDEX}, heads_of("", content))
    return f"{FOLDER}/{writer}.{number:08d}.{len(line)}.merged", line + content


def answers_in(content: bytes) -> Iterator[tuple[int, int, AnswerHead]]:
    """Yield (start, end, head) of each undamaged answer in a section of a file."""
    for start, begins, body, end in _lines(content):
        if (head := read_head(content[begins:body])) is not None:
            yield start, end, head


def delete_answers(index: bytes, content: bytes, selected: Callable[[AnswerHead, bytes], bool]) -> tuple[bytes, bytes]:
    """Delete the selected answers from the first line of a merged object (`index`, empty for other files) and a section of a
    file.

    Returns the new line and the new section. `selected` gets an answer's head and its line. A deleted answer keeps its cost, but
    loses its key and its texts. All sizes and offsets stay the same, so that running readers are not disturbed.
    """
    new = bytearray(content)
    for start, end, head in answers_in(content):
        line = content[start:end]
        if selected(head, line):
            _, begins, body, _ = next(_lines(line))
            numbers = {name: value for name, value in json.loads(line[body:]).items() if type(value) is int}
            blank = {**json.loads(line[begins:body]), "key": DELETED + head["key"][len(DELETED) :]}
            new[start:end] = _line(blank, {**numbers, "text": "", "finish_reason": ""}, len(line) - body - 1)
    if index and (found := _START.match(index)) is not None:
        index = _line({"kind": INDEX}, heads_of("", bytes(new)), int(found[3]))
    return index, bytes(new)


def _line(head: Mapping[str, Any], body: Mapping[str, Any], size: int = 0) -> bytes:
    """Return a record's line. `size`: minimum length of the body in bytes; a shorter body is padded with blanks."""
    first, rest = _compact(head).encode("ascii"), _compact(body).encode("ascii").ljust(size)
    return b"%08x %d %d %s%s\n" % (zlib.crc32(rest, zlib.crc32(first)), len(first), len(rest), first, rest)


def decode(line: bytes) -> dict[str, Any] | None:
    """Return the answer's record in a line, or None if it is damaged. A damaged line break does not matter."""
    _, begins, body, ends = next(_lines(line[:-1] + b"\n"), _NOTHING)
    head, rest = read_head(line[begins:body]), as_record(AnswerBody, line[body : ends - 1])
    # The index has read only the head, so check the body as well.
    return None if head is None or rest is None or ends < len(line) else {**rest, **head}


def read_index(line: bytes, size: int) -> Heads | None:
    """Return the heads in the first line of a merged object, which describe the next `size` bytes. Returns None if the line is
    damaged or contradicts itself."""
    _, begins, body, ends = next(_lines(line), _NOTHING)
    if as_record(AnyHead, line[begins:body]) != {"kind": INDEX} or ends != len(line):
        return None
    if (heads := as_record(Heads, line[body : ends - 1])) is None:
        return None
    costs = Counter[str](), Counter[str]()
    for run, (keys, offsets, lengths, micros) in heads["answers"].items():
        if not len(keys) == len(offsets) == len(lengths) == len(micros) or max(map(add, offsets, lengths), default=0) > size:
            return None
        costs[0][run], costs[1][run] = len(keys), sum(micros)
    for total in heads["totals"]:
        costs[0][total["run"]] -= total["answers"]
        costs[1][total["run"]] -= total["usd_micros"]
    return None if any(map(any, (cost.values() for cost in costs))) else heads


def _lines(content: bytes) -> Iterator[tuple[int, int, int, int]]:
    """Yield the offsets of each record, of its head, of its body and of the next record. For a damaged record, head and body have
    offset 0.

    An unfinished last line is left out. If a line break is damaged, a line contains two records; the length of the first one
    shows where the second one begins.
    """
    start, last, view = 0, content.rfind(b"\n"), memoryview(content)
    while start <= last:
        head = body = end = 0
        if (sizes := _START.match(content, start)) is not None:
            head = sizes.end()
            body = head + int(sizes[2])
            end = body + int(sizes[3])
        if sizes is None or end > last or b"%08x" % zlib.crc32(view[head:end]) != sizes[1]:
            head, body, end = 0, 0, content.index(b"\n", start)
        yield start, head, body, end + 1
        start = end + 1


def heads_of(name: str, content: bytes) -> Heads:
    """Return the heads of all answers in a section of a file. Raises StoreError for a record of a newer version."""
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
    """Raise StoreError if the head is that of a record of a newer version."""
    found = as_record(AnyHead, head)
    if found is not None and found["kind"] not in (ANSWER, INDEX):
        raise StoreError(f"{name}: has a record of a kind ({found['kind']}) of a newer version; upgrade")


def damaged_places(name: str, content: bytes) -> list[int]:
    """Return the byte offsets of the damaged records in a whole file. An index that differs from the records also counts as
    damaged.

    This takes longer than `heads_of`, since it also reads the bodies.
    """
    file, lines, places = Name.of(name), list(_lines(content)), list[int]()
    if file is not None and file.index_size and lines:
        (_, _, _, end), *lines = lines
        heads = read_index(content[:end], len(content) - end)
        whole = heads_of(name, content[end:])
        places += [] if heads is not None and _compact(heads) == _compact(whole) else [0]
    for start, begins, body, end in lines:
        if read_head(content[begins:body]) is None or as_record(AnswerBody, content[body : end - 1]) is None:
            _check_kind(name, content[begins:body])
            places.append(start)
    return places


def read_at(files: Files, location: Location, key: str) -> dict[str, Any]:
    """Return the answer of a key at a location. Raises DamagedRecord if it is not there, and StoreError if the file is
    missing."""
    name, mend = location.name, "a run that needs this answer asks for it again"
    try:
        record = decode(files.read(name, location.offset, location.length))
    except FileNotFoundError:
        raise StoreError(f"{files.where(name)} is gone; put it back from a copy; {mend}") from None
    # The key of an unusable answer begins with the request's key.
    if record is None or not f"{record['key']}/".startswith(f"{key}/"):
        raise DamagedRecord(f"{files.where(name)}: the record at byte {location.offset} is damaged; {mend}", files.uri)
    return record
