"""Packs: the log of ended sessions in a few large objects. Only in a bucket. Part of the store room.

A pack is a data object (`log/packs/<sha256>.jsonl`: the lines of the answers, at most 64 MiB) and an index (`<sha256>.index`,
JSON compressed by zlib: the keys and lengths of the answers, and the totals of all records). The chain `log/packs/` names the
current packs and the sessions that they cover. The segments are kept for another day, for readers that have already read some
of them, and until the packs were read and found whole (`clean`).
"""

from __future__ import annotations

import hashlib
import json
import math
import time
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from typing import Any

from summhay_ray.store.chain import Chain
from summhay_ray.store.drivers import SessionRecord, has_ended, mark_closed, sessions
from summhay_ray.store.errors import StoreError
from summhay_ray.store.files import Files
from summhay_ray.store.log_books import Books, Excess, Open, Tally
from summhay_ray.store.log_lines import FOLDER as LOG
from summhay_ray.store.log_lines import PACKS, Location, Mark, entries_of, mark_of, mend_packs, segment_name, writer_name
from summhay_ray.store.sweep import free_number, read_mark

SIZE = 64 << 20
SMALL = 1 << 20
"""Packs up to about this size (bytes) are merged into the next one, so that many small runs do not make many packs."""

AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class PackTotals:
    """The totals of all packs, and the sessions that they cover: those up to `through`, and `others`."""

    books: Books
    through: int = 0
    others: frozenset[int] = frozenset()


@dataclass
class _Pack:
    """A pack that is being built."""

    content: bytearray = field(default_factory=bytearray)
    keys: list[str] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    books: Books = field(default_factory=Books)
    """The totals, without the answers' locations, which are not known yet."""

    def add(self, key: str, line: bytes) -> None:
        self.content += line
        self.keys.append(key)
        self.lengths.append(len(line))


def read_packs(files: Files) -> PackTotals:
    """Read the indexes of all packs; empty if there are none. Raises StoreError if one is damaged."""
    newest = pack_chain(files).newest()
    if newest is None:
        return PackTotals(Books())
    body = newest[1]
    books = Books()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for pack, index in zip(body["packs"], pool.map(lambda pack: _read_index(files, pack), body["packs"]), strict=True):
            later = books_of(index["books"])
            for key, location in locations(pack, index):
                later.answers.setdefault(key, location)
            books.merge(later)
    return PackTotals(books, body["through"], frozenset(body["others"]))


def locations(pack: Mapping[str, Any], index: Mapping[str, Any]) -> Iterator[tuple[str, Location]]:
    """(key, location) of a pack's answers. `pack`: its entry in the chain."""
    offset = 0
    for key, length in zip(index["keys"], index["lengths"], strict=True):
        yield key, Location(pack["data"], offset, length)
        offset += length


def flaws(files: Files, packs: Sequence[Mapping[str, Any]], until: float = math.inf) -> list[str] | None:
    """`PATH is damaged` or `PATH is gone` for each object of these packs that is so. Reads them all.

    Returns None if `time.monotonic()` passes `until` before all are read.
    """
    found = []
    for pack in packs:
        for name in (pack["index"], pack["data"]):
            if time.monotonic() > until:
                return None
            found += [flaw] if (flaw := read_object(files, name)[1]) else []
    return found if time.monotonic() <= until else None


def pack(files: Files) -> int:
    """Pack the log of every session that has ended with all its writers; return how many sessions were packed.

    Does nothing for a local store. If two processes pack at the same time, one wins and the other's work is discarded.
    """
    if files.folder is not None:
        return 0
    chain = pack_chain(files)
    number, body = chain.newest() or (0, {"packs": [], "through": 0, "others": []})
    done = set(body["others"])
    ready: list[int] = []
    writers: list[tuple[str, int]] = []
    records = {record.number: record for record in sessions(files, body["through"])}
    if cleaned := {*range(body["through"] + 1, max(records, default=0))} - records.keys():
        # The packs were deleted. Of sessions that have neither record nor segments nothing is left to pack. A record is cleaned
        # a day after its segments were written at the earliest, and no listing lags so long.
        there = {writer.partition("-")[0] for writer in files.folders(LOG)}
        done |= {session for session in cleaned if f"{session:08d}" not in there}
    for record in records.values():
        ended = None if record.number in done or not has_ended(files, record.number) else _ended_writers(files, record)
        if ended is not None:
            ready.append(record.number)
            writers += ended
    if not ready:
        return 0
    for session in ready:
        mark_closed(files, session)
    packs = _write(files, writers, body["packs"])
    through, others = _covered(body["through"], done | set(ready))
    return len(ready) if chain.append(number + 1, {"packs": packs, "through": through, "others": others}) else 0


def _covered(through: int, done: set[int]) -> tuple[int, list[int]]:
    """(last session up to which all are packed, later ones that are packed)."""
    while through + 1 in done:
        through += 1
    return through, sorted(number for number in done if number > through)


def _ended_writers(files: Files, record: SessionRecord) -> list[tuple[str, int]] | None:
    """Close a session's seats; return (writer, number of segments) for its writers, or None if one has not ended."""
    writers: list[tuple[str, int]] = []
    for seat in record.seat_names():
        incarnation = 0
        while True:
            writer = writer_name(record.number, seat, incarnation)
            # A writer that began after the end of its session would write records that no reader looks for.
            if files.create(segment_name(writer, 0), Mark(0, end=True, closed=True).line()):
                break
            n = free_number(files, writer, 1)
            last = read_mark(files, writer, n - 1)
            if last is None or not last.end:
                return None
            if last.closed:
                break
            writers.append((writer, n))
            incarnation += 1
    return writers


def _write(files: Files, writers: Sequence[tuple[str, int]], before: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Pack the log of these writers; return the entries of all packs, including those from `before` that stay."""
    packs, now, seen = list(before), _Pack(), set()
    books = Books()
    for writer, number, content, mark in _segments(files, writers):
        for location, record in entries_of(segment_name(writer, number), content):
            books.take(location, record)
            if record is not None and record.get("kind") == "answer" and record.get("key") in books.answers:
                line, key = content[location.offset : location.offset + location.length], record["key"]
                if key not in seen:
                    seen.add(key)
                    if now.content and len(now.content) + len(line) > SIZE:
                        packs.append(_keep(files, now))
                        now = _Pack()
                    now.add(key, line)
        books.segment(writer, (), mark)
    now.books = books
    while len(packs) <= len(before) and packs and _absorbs(now, packs[-1]):
        now = _absorb(files, packs.pop(), now)
    return [*packs, _keep(files, now)]


def _segments(files: Files, writers: Sequence[tuple[str, int]]) -> Iterator[tuple[str, int, bytes, Mark | None]]:
    """(writer, number, records, mark) of all segments in order; some are read ahead."""
    places = [(writer, number) for writer, n in writers for number in range(n)]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for start in range(0, len(places), 4 * AT_ONCE):
            some = places[start : start + 4 * AT_ONCE]
            contents = pool.map(lambda place: files.read(segment_name(*place)), some)
            for (writer, number), content in zip(some, contents, strict=True):
                end, mark = mark_of(content)
                yield writer, number, content[:end], mark


def _absorbs(now: _Pack, before: Mapping[str, Any]) -> bool:
    small = before["size"] <= 2 * max(len(now.content), SMALL)
    return bool(small and before["size"] + len(now.content) <= SIZE)


def _absorb(files: Files, before: Mapping[str, Any], now: _Pack) -> _Pack:
    """The two packs merged; the answers of `before` come first."""
    index, content = _read_index(files, before), _read(files, before["data"])
    joined = _Pack(bytearray(content), list(index["keys"]), list(index["lengths"]), books_of(index["books"]))
    known, offset = set(joined.keys), 0
    for key, length in zip(now.keys, now.lengths, strict=True):
        if key not in known:
            joined.add(key, bytes(now.content[offset : offset + length]))
        offset += length
    joined.books.merge(now.books)
    return joined


def _keep(files: Files, pack: _Pack) -> dict[str, Any]:
    """Write the pack's two objects and return its entry in the chain."""
    data = _create(files, bytes(pack.content), "jsonl")
    index = {"keys": pack.keys, "lengths": pack.lengths, "books": _books_to_json(pack.books)}
    body = zlib.compress(json.dumps(index, separators=(",", ":")).encode("ascii"), 6)
    return {"data": data, "size": len(pack.content), "index": _create(files, body, "index")}


def _create(files: Files, content: bytes, suffix: str) -> str:
    name = f"{PACKS}/{hashlib.sha256(content).hexdigest()}.{suffix}"
    files.create(name, content)
    return name


def _read_index(files: Files, pack: Mapping[str, Any]) -> dict[str, Any]:
    return index_of(_read(files, pack["index"]))


def index_of(content: bytes) -> dict[str, Any]:
    """The index in an object's content: `keys`, `lengths` and `books`."""
    index: dict[str, Any] = json.loads(zlib.decompress(content))
    return index


def _read(files: Files, name: str) -> bytes:
    content, flaw = read_object(files, name)
    if flaw:
        raise StoreError(f"{flaw}; {mend_packs()}")
    return content


def read_object(files: Files, name: str) -> tuple[bytes, str]:
    """(content, flaw) of one of a pack's objects; the flaw is `PATH is damaged`, `PATH is gone`, or empty."""
    content = b""
    # Twice: see `read_whole`.
    for _ in range(2):
        try:
            content = files.read(name)
        except FileNotFoundError:
            return b"", f"{files.where(name)} is gone"
        if hashlib.sha256(content).hexdigest() == name.rpartition("/")[2].partition(".")[0]:
            return content, ""
    return content, f"{files.where(name)} is damaged"


def _books_to_json(books: Books) -> dict[str, Any]:
    return {
        "damaged": dict(books.damaged),
        "tallies": [
            [run, writer, *purpose, list(asdict(tally).values())]
            for run, writers in books.tallies.items()
            for writer, purposes in writers.items()
            for purpose, tally in purposes.items()
        ],
        "open": {call: [intent.writer, intent.key, intent.usd_micros] for call, intent in books.open.items()},
        "void": {writer: sorted(keys) for writer, keys in books.void.items()},
        "sealed": sorted(books.sealed),
        "ends": books.ends,
        "excesses": books.excesses,
    }


def books_of(body: Mapping[str, Any]) -> Books:
    """The totals in a pack's index."""
    damaged = body["damaged"]
    # Earlier versions wrote only the number of damaged records, not their files.
    books = Books(damaged=Counter(damaged if isinstance(damaged, dict) else {PACKS: damaged} if damaged else {}))
    for run, writer, stage, model, numbers in body["tallies"]:
        books.tally(run, writer, (stage, model)).add(Tally(*numbers))
    books.open.update({call: Open(*intent) for call, intent in body["open"].items()})
    for writer, keys in body["void"].items():
        books.void[writer].update(keys)
    # Packs of earlier versions have no sealed writers and no excesses.
    books.sealed.update(body.get("sealed", ()))
    for run, excesses in body.get("excesses", {}).items():
        books.excesses[run] = {key: Excess(*values) for key, values in excesses.items()}
    books.ends.extend((call, run, writer, stage, model) for call, run, writer, stage, model in body["ends"])
    return books


def pack_chain(files: Files) -> Chain:
    """The chain of records that list the current packs."""
    return Chain(files, PACKS, mend=mend_packs())
