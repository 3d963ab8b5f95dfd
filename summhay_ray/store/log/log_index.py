"""An index of the answers' log, in a folder or in a bucket.

Both are read alike: list the log's files, and read what is new in each. A service's listing must show what was written before,
as those of S3, Google, Azure and MinIO do; where it does not, an answer may be asked for once more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any

from summhay_ray.store.errors import DamagedRecord
from summhay_ray.store.files.entry import Entry
from summhay_ray.store.files.files import Files, object_mb
from summhay_ray.store.log.answer_record import AnswerTotals, Excess, Heads, Purpose
from summhay_ray.store.log.log_lines import FOLDER, Location, Name, damaged_places, heads_of, index_of, read_at

AT_ONCE = 16
"""Number of files that are read in parallel."""
PIECE_BYTES = 8 << 20
"""Bytes per read of a long file."""
LONGEST_BYTES = 64 << 20
"""No record is longer: bytes without a line break are read no further, and are one damaged record to the end of the file."""


@dataclass(frozen=True, slots=True)
class News:
    """The news of one file: the heads of its records in the bytes from `start` to `end`."""

    name: str
    start: int
    end: int
    heads: Heads


Fetched = tuple[News, ...]
"""What `LogIndex.fetch` has read, for `LogIndex.take`."""


@dataclass
class LogIndex:
    """Where each key's answer is, and what each run's answers have cost. `refresh` reads what is new.

    Reading takes time, so `refresh` can be done in two steps: `fetch` reads and changes nothing, and may run in another thread;
    `take` enters what was read.
    """

    files: Files
    answers: dict[str, Location] = field(default_factory=dict)
    """Key -> location of its answer. Who learns of an answer before the log is read may add it."""
    damaged: int = 0
    """Number of damaged records."""
    _further: dict[str, list[Location]] = field(default_factory=dict)
    """Key -> the locations of its other answers, for when the first turns out to be damaged."""
    _totals: dict[str, dict[Purpose, AnswerTotals]] = field(default_factory=dict)
    _excesses: dict[str, dict[str, Excess]] = field(default_factory=dict)
    _read_to: dict[str, int] = field(default_factory=dict)
    _begun: set[tuple[str, int]] = field(default_factory=set)
    """The merged objects of which a segment was read before they were there."""

    def refresh(self) -> None:
        """Read what was written since the last refresh. Raises StoreError or OSError."""
        self.take(self.fetch())

    def fetch(self) -> Fetched:
        """Read what `refresh` would read, without changing the index. Raises StoreError or OSError."""
        named = [(entry, name) for entry in self.files.entries(FOLDER) if (name := Name.of(entry.name)) is not None]
        # What is merged is read from the merged object, unless the first of its segments were read before it was there.
        merged = {name.merge for _, name in named if name.suffix == "merged"} - self._begun
        new = [
            (entry, name.index_size)
            for entry, name in named
            if entry.size > self._read_to.get(entry.name, 0) and (name.merge in merged) == (name.suffix == "merged")
        ]
        with ThreadPoolExecutor(AT_ONCE) as pool:
            return tuple(news for found in pool.map(lambda one: [*self._read(*one)], new) for news in found)

    def take(self, fetched: Fetched) -> None:
        """Enter what `fetch` read."""
        for news in fetched:
            self._read_to[news.name] = news.end
            name, heads = Name.of(news.name), news.heads
            if name is not None and name.suffix == "jsonl":
                self._begun.add(name.merge)
            self.damaged += heads["damaged"]
            for columns in heads["answers"].values():
                keys, offsets, lengths, _ = columns
                for key, location in zip(
                    keys, map(Location, repeat(news.name), map(news.start.__add__, offsets), lengths), strict=True
                ):
                    if (first := self.answers.setdefault(key, location)) is not location and first != location:
                        self._further.setdefault(key, []).append(location)
            for totals in heads["totals"]:
                purpose = totals["stage"], totals["model"]
                self._totals.setdefault(totals["run"], {}).setdefault(purpose, AnswerTotals()).add(totals)
            for head in heads["excesses"]:
                if (excess := Excess.of(head)) is not None:
                    self._excesses.setdefault(head["run"], {})[head["key"]] = excess

    def _read(self, entry: Entry, index_size: int) -> Iterator[News]:
        start, name = self._read_to.get(entry.name, 0), entry.name
        if 0 < index_size <= entry.size and not start:
            index = index_of(self.files.read_range(name, 0, index_size), entry.size - index_size)
            if index is not None:
                yield News(name, index_size, entry.size, index)
                return
        for begin, end, content in _stretches(self.files, name, start, entry.size):
            yield News(name, begin, end, heads_of(name, content))

    def totals(self, run: str) -> dict[Purpose, AnswerTotals]:
        """Purpose -> the totals of the run's answers."""
        return self._totals.get(run, {})

    def excesses(self, run: str) -> Mapping[str, Excess]:
        """Key -> the excess usage, for the run's answers whose claimed usage exceeds their reservation."""
        return self._excesses.get(run, {})

    def read(self, key: str) -> dict[str, Any] | None:
        """The answer record of a key, or None if it has no answer. Damaged records are skipped."""
        while (location := self.answers.get(key)) is not None:
            try:
                return read_at(self.files, location, key)
            except DamagedRecord:
                self.drop(key, location)
        return None

    def drop(self, key: str, location: Location) -> None:
        """Note that no answer of the key is at the location: its next one counts, if there is one."""
        if self.answers.get(key) == location:
            self.damaged += 1
            further = self._further.get(key)
            if further:
                self.answers[key] = further.pop(0)
            else:
                del self.answers[key]


def damaged_records(files: Files) -> dict[str, list[int]]:
    """File of the log -> where its damaged records begin, in bytes. Reads everything, and at most an object at a time."""
    found: dict[str, list[int]] = {}
    for entry in files.entries(FOLDER):
        if (name := Name.of(entry.name)) is None:
            continue
        if name.index_size:
            # An index is held against all records of its object.
            places = damaged_places(entry.name, files.read(entry.name, object_mb()))
        else:
            stretches = _stretches(files, entry.name, 0, entry.size)
            places = [begin + place for begin, _, content in stretches for place in damaged_places(entry.name, content)]
        found |= {entry.name: places} if places else {}
    return found


def _stretches(files: Files, name: str, start: int, size: int) -> Iterator[tuple[int, int, bytes]]:
    """The whole lines of a file from `start` on, a few MB at a time: where each stretch begins and ends, and its content.

    An unfinished last line is left out. What has no line break for `LONGEST_BYTES` is an empty line up to the end of the file.
    """
    while start < size:
        content = files.read_range(name, start, min(PIECE_BYTES, size - start))
        # A record may be longer than a piece.
        while b"\n" not in content and start + len(content) < size:
            if len(content) >= LONGEST_BYTES:
                yield start, size, b"\n"
                return
            content += files.read_range(name, start + len(content), PIECE_BYTES)
        content = content[: content.rfind(b"\n") + 1]
        if not content:
            return
        yield start, start + len(content), content
        start += len(content)
