"""Units with rows, and files that count, stop or fill up, for the tests of commits."""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from summhay_ray.llm import RawAnswer
from summhay_ray.records import Document, Failure, Judgment, Score, Summary
from summhay_ray.store import Finished, LocalFiles, RunStore, Store, Table

TABLES = (
    Table("documents", Document, ("haystack_id", "number")),
    Table("raw_answers", RawAnswer, ("key",)),
    Table("summaries", Summary, ("cell_id",)),
    Table("judgments", Judgment, ("cell_id", "judge", "position")),
    Table("scores", Score, ("cell_id", "judge", "position")),
    Table("failures", Failure, ("cell_id", "stage", "judge", "insight_id", "error", "message")),
)
NAMES = [table.name for table in TABLES]


def new_run(root: Path, run_id: str = "run") -> RunStore:
    return Store(str(root)).create_run(run_id, {"kind": "mine"}, TABLES)


def done(cell: str, word: str = "") -> Finished:
    """A cell with a summary, a judgment and an answer, and one answer that all cells share."""
    rows: dict[str, list[Any]] = {
        "summaries": [Summary(cell, "h", "s", "sys", "bm25", "given", "m", 0, "x", f"key-{cell}", (f"{word}{cell}",))],
        "judgments": [Judgment(cell, "j", "i", 0, f"jkey-{cell}", "NO_COVERAGE", '"NA"')],
        "raw_answers": [
            RawAnswer("shared", "m", "shared", "stop", 1, 0, 1, 1, 1),
            RawAnswer(f"key-{cell}", "m", cell, "stop", 1, 0, 1, 1, 1),
        ],
    }
    return Finished(cell, rows)


def lost(cell: str) -> Finished:
    """A cell with a failure that may be tried again, and an answer from before it."""
    rows: dict[str, list[Any]] = {
        "failures": [Failure(cell, "summarize", "", "", "failed", "timeout", "m", f"key-{cell}", 1, 1)],
        "raw_answers": [RawAnswer("shared", "m", "shared", "stop", 1, 0, 1, 1, 1)],
    }
    return Finished(cell, rows, retry=True)


def commit(run: RunStore, finished: Sequence[Finished]) -> None:
    run.commit("item", finished)


def batches(items: Sequence[Any], size: int) -> Iterable[Sequence[Any]]:
    return (items[start : start + size] for start in range(0, len(items), size))


class Stopped(Exception):
    """The process ended here."""


class Watched(LocalFiles):
    """Counts the operations on a folder, and ends before or after its n-th write."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.asked: Counter[str] = Counter()
        self.stop_at = -1
        self.stop_after = False
        self._lock = threading.Lock()

    def _count(self, what: str) -> None:
        with self._lock:
            self.asked[what] += 1

    def read(self, name: str, offset: int = 0, length: int | None = None, *, is_large: bool = False) -> bytes:
        self._count("read")
        return super().read(name, offset, length, is_large=is_large)

    def exists(self, name: str) -> bool:
        self._count("exists")
        return super().exists(name)

    def create(self, name: str, content: bytes) -> bool:
        with self._writing():
            return super().create(name, content)

    def put(self, name: str, content: bytes) -> None:
        with self._writing():
            super().put(name, content)

    def move(self, name: str, to: str) -> None:
        with self._writing():
            super().move(name, to)

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        self._end(False)
        yield
        self._end(True)

    def _end(self, after: bool) -> None:
        if after == self.stop_after:
            self.stop_at -= 1
            if self.stop_at == -1:
                raise Stopped


def watched_run(root: Path, run_id: str = "run") -> tuple[RunStore, Watched]:
    """A run whose files are watched; it is created if it does not exist."""
    store = Store(str(root))
    store.create_run(run_id, {"kind": "mine"}, TABLES)
    store.files = files = Watched(root)
    return RunStore(store, run_id), files
