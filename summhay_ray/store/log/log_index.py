"""An index of the answers' log, in a folder or in a bucket. Part of the store room.

Both are read alike: list the log's files, and read what is new in each. A service's listing must show what was written before,
as those of S3, Google, Azure and MinIO do; where it does not, an answer may be asked for once more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from summhay_ray.store.files.entry import Entry
from summhay_ray.store.files.files import Files
from summhay_ray.store.log.answer_totals import AnswerTotals, Excess, Purpose
from summhay_ray.store.log.log_lines import FOLDER, TOGETHER, Head, Location, Name, file_name, heads_of, read_at

AT_ONCE = 16
"""Number of objects that are read in parallel."""
PIECE_BYTES = 8 << 20
"""Of a long file, so much is read at a time."""


@dataclass(frozen=True, slots=True)
class News:
    """What is new in one file: the heads of its records in the bytes up to `end`."""

    name: str
    end: int
    heads: tuple[tuple[Location, Head | None], ...]


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
    damaged_files: Counter[str] = field(default_factory=Counter)
    """File -> number of its damaged records."""
    _totals: dict[str, dict[Purpose, AnswerTotals]] = field(default_factory=dict)
    _excesses: dict[str, dict[str, Excess]] = field(default_factory=dict)
    _read_to: dict[str, int] = field(default_factory=dict)
    _begun: set[str] = field(default_factory=set)
    """The indexes of which a segment was read before they were there."""

    @property
    def damaged(self) -> int:
        """Number of damaged records."""
        return self.damaged_files.total()

    def refresh(self) -> None:
        """Read what was written since the last refresh. Raises StoreError or OSError."""
        for news in self._new():
            self._enter(news)

    def fetch(self) -> Fetched:
        """Read what `refresh` would read, without changing the index. Raises StoreError or OSError."""
        return tuple(self._new())

    def take(self, fetched: Fetched) -> None:
        """Enter what `fetch` read."""
        for news in fetched:
            self._enter(news)

    def _new(self) -> Iterator[News]:
        entries = {entry.name: entry for entry in self.files.entries(FOLDER)}
        local = self.files.folder is not None
        new = []
        for name, entry in entries.items():
            known = Name.of(name)
            if known is None or known.suffix == "merged" or entry.size <= self._read_to.get(name, 0):
                continue
            # What is merged is read from the merged object's index, unless the first of its segments were read before it was.
            index = name if known.suffix == "index" else file_name(known.writer, known.number // TOGETHER, "index")
            merged = index in entries and index not in self._begun
            if merged == (name == index):
                new.append(entry)
        if local:
            for entry in new:
                yield from self._read(entry)
            return
        with ThreadPoolExecutor(AT_ONCE) as pool:
            for news in pool.map(lambda entry: tuple(self._read(entry)), new):
                yield from news

    def _read(self, entry: Entry) -> Iterator[News]:
        start, name = self._read_to.get(entry.name, 0), entry.name
        known = Name.of(name)
        while start < entry.size:
            content = self.files.read_range(name, start, min(PIECE_BYTES, entry.size - start))
            # A record may be longer than a piece.
            while b"\n" not in content and start + len(content) < entry.size:
                content += self.files.read_range(name, start + len(content), PIECE_BYTES)
            content = content[: content.rfind(b"\n") + 1]
            if not content:
                return
            heads = tuple(heads_of(name, content, start))
            if known is not None and known.suffix == "index":
                merged = file_name(known.writer, known.number, "merged")
                heads = tuple((Location(merged, *head["at"]) if head else place, head) for place, head in heads)
            start += len(content)
            yield News(name, start, heads)

    def _enter(self, news: News) -> None:
        self._read_to[news.name] = news.end
        name = Name.of(news.name)
        if name is not None and name.suffix == "jsonl":
            self._begun.add(file_name(name.writer, name.number // TOGETHER, "index"))
        for location, head in news.heads:
            if head is None:
                self.damaged_files[news.name] += 1
                continue
            self.answers.setdefault(head["key"], location)
            purpose = head["stage"], head["model"]
            self._totals.setdefault(head["run"], {}).setdefault(purpose, AnswerTotals()).add(head)
            if (excess := Excess.of(head)) is not None:
                self._excesses.setdefault(head["run"], {})[head["key"]] = excess

    def totals(self, run: str) -> dict[Purpose, AnswerTotals]:
        """Purpose -> the totals of the run's answers."""
        return self._totals.get(run, {})

    def excesses(self, run: str) -> Mapping[str, Excess]:
        """Key -> the excess usage, for the run's answers whose claimed usage exceeds their reservation."""
        return self._excesses.get(run, {})

    def read(self, key: str) -> dict[str, Any] | None:
        """The answer record of a key, or None if it has no answer."""
        location = self.answers.get(key)
        return None if location is None else read_at(self.files, location)


def damaged_records(files: Files) -> dict[str, int]:
    """File of the log -> number of its records that are damaged. Reads everything."""
    found: dict[str, int] = {}
    for entry in files.entries(FOLDER):
        if Name.of(entry.name) is not None:
            damaged = sum(head is None for _, head in heads_of(entry.name, files.read(entry.name)))
            found |= {entry.name: damaged} if damaged else {}
    return found
