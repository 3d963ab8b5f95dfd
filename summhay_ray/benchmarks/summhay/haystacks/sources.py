"""The haystacks of a run: a small outline of each in memory, whole haystacks loaded on demand.

A run of a thousand haystacks must not keep them all in memory. Cells, budgets and scores need only outlines (a few kilobytes
each). Documents are read from their source (the spec's file, a sample, or an object of the store), and few are kept.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import hashlib
import json
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, fields
from typing import Any, NamedTuple

from summhay_ray.benchmark import Store
from summhay_ray.errors import UserError
from summhay_ray.haystack import ReleasedFile, read_released
from summhay_ray.records import Haystack, Subtopic

KEPT = 8
KEPT_BYTES = 64 * 2**20
"""At most KEPT loaded haystacks are kept, and fewer if their sources exceed KEPT_BYTES together; the last is always kept."""

WRITTEN_AT_ONCE, WRITTEN_A_BLOCK = 8, 16
"""Sources written to the store concurrently, of so many outlines."""

OUTLINES = "outlines"
"""Kind of the store object that holds a run's outlines, and the field of the run's record with its digest."""

BY_GRAMMAR = "made from templates (offline/writer): for demos, tests and load, not to measure models on"
"""The note that reports show for haystacks whose prose is made from templates."""

STORE = "store/"
"""Prefix of an entry of a spec's haystacks that names an object in the store."""

_PLACE = ("haystack_id", "position")
_IN_STORE = re.compile(STORE + r"([0-9a-f]{64})(?:/[^/]+)?")


@dataclass(frozen=True, slots=True)
class Outline:
    """All that a run needs to know of a haystack, except its documents and the texts of its insights."""

    haystack_id: str
    name: str
    domain: str
    n_documents: int
    subtopics: tuple[Subtopic, ...]
    n_insights: tuple[int, ...]
    """Number of insights of each subtopic, in the order of `subtopics`."""
    released: tuple[str, ...]
    """Names of the retrievers whose released scores the source holds, sorted."""
    warnings: tuple[str, ...]
    digest: str
    """sha256 (hex) of the source as stored (`source_bytes`)."""
    marks: str
    """`gold` as JSON text, which takes a tenth of the memory."""
    by_grammar: bool = False
    """Whether the source says that `offline/writer` wrote its prose."""

    def gold(self) -> dict[str, frozenset[int]]:
        """insight_id -> numbers of the documents that contain it, as `Haystack.gold`."""
        return {insight_id: frozenset(numbers) for insight_id, numbers in json.loads(self.marks).items()}

    def to_json(self) -> dict[str, Any]:
        """The outline as JSON."""
        content = {item.name: getattr(self, item.name) for item in fields(self)}
        if not self.by_grammar:
            # Omitted when False, so that outlines keep the digest they had before this field existed.
            del content["by_grammar"]
        subtopics = [
            {name: value for name, value in asdict(subtopic).items() if name not in _PLACE} for subtopic in self.subtopics
        ]
        return {**content, "subtopics": subtopics}

    @classmethod
    def from_json(cls, written: Mapping[str, Any]) -> Outline:
        """Read what `to_json` wrote. Raises KeyError or TypeError for anything else."""
        listed = {name: tuple(written[name]) for name in ("n_insights", "released", "warnings")}
        haystack_id = written["haystack_id"]
        subtopics = tuple(
            Subtopic(haystack_id=haystack_id, position=position, **subtopic)
            for position, subtopic in enumerate(written["subtopics"])
        )
        return cls(**{**written, **listed, "subtopics": subtopics})


def outline_of(source: ReleasedFile) -> Outline:
    """The outline of a source."""
    haystack = source.haystack
    gold = {insight_id: sorted(numbers) for insight_id, numbers in haystack.gold().items()}
    return Outline(
        haystack_id=haystack.haystack_id,
        name=haystack.name,
        domain=haystack.domain,
        n_documents=len(haystack.documents),
        subtopics=haystack.subtopics,
        n_insights=tuple(len(haystack.insights_of(subtopic.subtopic_id)) for subtopic in haystack.subtopics),
        released=tuple(sorted({name for scores in haystack.released_scores.values() for name in scores})),
        warnings=source.warnings,
        digest=hashlib.sha256(source_bytes(source.raw)).hexdigest(),
        marks=json.dumps(gold, separators=(",", ":")),
        by_grammar=source.by_grammar,
    )


def source_bytes(raw: Mapping[str, Any]) -> bytes:
    """A source as the store keeps it: its JSON without spaces, with all fields in their order."""
    return json.dumps(raw, ensure_ascii=True, separators=(",", ":"), allow_nan=False).encode("ascii")


def in_store(entry: str) -> str | None:
    """The digest in an entry of a spec's haystacks that names an object in the store; None for any other entry.

    Such an entry is `store/SHA256` or `store/SHA256/NAME`. With NAME, the haystack is called as if read from a file NAME.
    """
    match = _IN_STORE.fullmatch(entry)
    return match and match[1]


def store_entry(outline: Outline) -> str:
    """The entry that names the stored copy of an outline's source; it gives exactly the same haystack."""
    return f"{STORE}{outline.digest}/{outline.name}.json"


class Loaded(NamedTuple):
    """A loaded haystack, and the size of its source in bytes."""

    file: ReleasedFile
    size: int


class Recent:
    """The haystacks that were loaded last: at most `most`, and fewer if they are large. Safe for threads."""

    def __init__(self, most: int = KEPT) -> None:
        self._most = most
        self._kept: OrderedDict[str, Loaded] = OrderedDict()
        self._look = threading.Lock()

    def find(self, haystack_id: str) -> ReleasedFile | None:
        """A kept haystack, which is now the last to be dropped; None if it is not kept."""
        with self._look:
            if haystack_id not in self._kept:
                return None
            self._kept.move_to_end(haystack_id)
            return self._kept[haystack_id].file

    def keep(self, loaded: Loaded) -> None:
        """Keep a haystack, and drop the oldest if these are too many."""
        with self._look:
            self._kept[loaded.file.haystack.haystack_id] = loaded
            while len(self._kept) > 1 and self._too_much():
                self._kept.popitem(last=False)

    def _too_much(self) -> bool:
        return len(self._kept) > self._most or sum(kept.size for kept in self._kept.values()) > KEPT_BYTES


class Haystacks(Mapping[str, Haystack]):
    """haystack_id -> haystack, loaded on demand. Safe for threads; one haystack is loaded at a time.

    `read`: haystack_id -> (content of its source, name of the source for messages). Its errors pass through. A source whose
    content has changed raises UserError. `outlines`: reads the outlines. `recent`: keeps the haystacks that are loaded, and may
    have some already.
    """

    def __init__(
        self,
        ids: Iterable[str],
        read: Callable[[str], tuple[bytes, str]],
        outlines: Callable[[], Sequence[Outline]] = tuple,
        recent: Recent | None = None,
    ) -> None:
        self._ids = dict.fromkeys(ids)
        self._read = read
        self._outlines = outlines
        self._kept_in = ""
        self.recent = recent or Recent()
        self._load = threading.Lock()
        self._thread: ThreadPoolExecutor | None = None

    @functools.cached_property
    def outlines(self) -> Sequence[Outline]:
        """An outline of each haystack, read on first use: the workers of a run use none."""
        return self._outlines()

    def insight_counts(self) -> dict[tuple[str, str], int]:
        """(haystack_id, subtopic_id) -> the number of the subtopic's insights."""
        return {
            (outline.haystack_id, subtopic.subtopic_id): n
            for outline in self.outlines
            for subtopic, n in zip(outline.subtopics, outline.n_insights, strict=True)
        }

    def __getitem__(self, haystack_id: str) -> Haystack:
        return self.file(haystack_id).haystack

    def __iter__(self) -> Iterator[str]:
        return iter(self._ids)

    def __len__(self) -> int:
        return len(self._ids)

    def file(self, haystack_id: str) -> ReleasedFile:
        """The haystack and the JSON it was read from. Raises KeyError for a haystack_id that is not in the run."""
        kept = self.recent.find(haystack_id)
        if kept is not None:
            return kept
        with self._load:
            return self.recent.find(haystack_id) or self._loaded(haystack_id)

    async def fetch(self, haystack_id: str) -> Haystack:
        """The haystack, loaded in a thread if necessary so that the event loop is not blocked."""
        kept = self.recent.find(haystack_id)
        if kept is None:
            self._thread = self._thread or ThreadPoolExecutor(max_workers=1, thread_name_prefix="haystacks")
            kept = await asyncio.get_running_loop().run_in_executor(self._thread, self.file, haystack_id)
        return kept.haystack

    def content(self, haystack_id: str) -> tuple[bytes, str]:
        """(content of the source, its name for messages), without caching. Raises KeyError as `file` does."""
        if haystack_id not in self._ids:
            raise KeyError(haystack_id)
        return self._read(haystack_id)

    def keep(self, store: Store) -> None:
        """Put the missing sources into the store, from which they are read from then on. Raises UserError for a source that has
        changed since its outline was made."""

        def keep(outline: Outline) -> None:
            if store.files.exists(f"objects/haystack/{outline.digest}"):
                return
            content, name = self.content(outline.haystack_id)
            try:
                kept = source_bytes(json.loads(content))
            except ValueError:
                raise changed(name) from None
            if hashlib.sha256(kept).hexdigest() != outline.digest:
                raise changed(name)
            store.put_object("haystack", kept)

        if self._kept_in == store.files.uri:
            return
        with ThreadPoolExecutor(max_workers=WRITTEN_AT_ONCE) as threads:
            for start in range(0, len(self.outlines), WRITTEN_A_BLOCK):
                list(threads.map(keep, self.outlines[start : start + WRITTEN_A_BLOCK]))
        self._read, self._kept_in = _reader(store, haystack_entries(self.outlines)), store.files.uri

    def recorded(self, store: Store) -> dict[str, Any]:
        """Keep the haystacks and their outlines in the store. Returns the fields of a run's record that name them."""
        self.keep(store)
        return {"haystacks": haystack_entries(self.outlines), OUTLINES: keep_outlines(store, self.outlines)}

    def _loaded(self, haystack_id: str) -> ReleasedFile:
        content, name = self.content(haystack_id)
        source = read_released(content, name)
        if source.haystack.haystack_id != haystack_id:
            raise changed(name)
        self.recent.keep(Loaded(source, len(content)))
        return source


def changed(name: str) -> UserError:
    """The error for a source whose content has changed."""
    return UserError(f"{name}: was changed since it was read; put back what it was, or start again")


def keep_outlines(store: Store, outlines: Iterable[Outline]) -> str:
    """Put the outlines into the store as one object. Returns its digest."""
    text = json.dumps([outline.to_json() for outline in outlines], ensure_ascii=True, separators=(",", ":"))
    return store.put_object(OUTLINES, text.encode("ascii"))


def stored_outlines(store: Store, record: Mapping[str, Any]) -> Sequence[Outline]:
    """The outlines of a stored run, in its order; where another version kept them, made from the sources, one at a time."""
    if OUTLINES in record:
        with contextlib.suppress(ValueError, TypeError, KeyError):
            return tuple(map(Outline.from_json, json.loads(store.get_object(OUTLINES, record[OUTLINES]))))
    return tuple(outline_of(read_source(store, entry)) for entry in record["haystacks"])


def haystack_entries(sources: Iterable[Outline]) -> list[dict[str, str]]:
    """The field `haystacks` of a run's record."""
    return [{"haystack_id": source.haystack_id, "name": source.name, "object": source.digest} for source in sources]


def read_source(store: Store, entry: Mapping[str, str]) -> ReleasedFile:
    """Read the source that an entry of a run's record names."""
    return read_released(store.get_object("haystack", entry["object"]), entry["name"])


def stored_haystacks(store: Store, record: Mapping[str, Any]) -> Haystacks:
    """The haystacks that a run's record names, read from the store."""
    entries = record["haystacks"]
    return Haystacks([entry["haystack_id"] for entry in entries], _reader(store, entries), lambda: stored_outlines(store, record))


def _reader(store: Store, entries: Iterable[Mapping[str, str]]) -> Callable[[str], tuple[bytes, str]]:
    known = {entry["haystack_id"]: entry for entry in entries}
    return lambda haystack_id: (store.get_object("haystack", known[haystack_id]["object"]), known[haystack_id]["name"])
