"""The haystacks of a run: the metadata of each in memory, whole haystacks loaded on demand.

A run of a thousand haystacks must not keep them all in memory. Cells, budgets and scores need only their `metadata` (a few
kilobytes each). Documents are read from their source (the spec's file, a sample, or an object of the store), and few are kept.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import json
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from summhay_ray.benchmark import Store
from summhay_ray.benchmarks.summhay.haystacks.metadata import (
    HaystackMetadata,
    haystack_entries,
    keep_metadata,
    source_bytes,
    stored_metadata,
)
from summhay_ray.errors import UserError
from summhay_ray.haystack import ReleasedFile, read_released
from summhay_ray.records import Haystack

KEPT = 8
KEPT_BYTES = 64 * 2**20
"""At most KEPT loaded haystacks stay in memory, and fewer if their sources exceed KEPT_BYTES in total; the latest always
stays."""

WRITTEN_AT_ONCE, WRITTEN_A_BLOCK = 8, 16
"""Number of haystacks whose sources are written to the store concurrently."""

BY_GRAMMAR = "made from templates (offline/writer): for demos, tests and load, not to measure models on"
"""The note that reports show for haystacks whose prose is made from templates."""

STORE = "store/"
"""Prefix of an entry of a spec's haystacks that names an object in the store."""

_IN_STORE = re.compile(STORE + r"([0-9a-f]{64})(?:/[^/]+)?")


def in_store(entry: str) -> str | None:
    """The digest in an entry of a spec's haystacks that names an object in the store; None for any other entry.

    Such an entry is `store/SHA256` or `store/SHA256/NAME`. With NAME, the haystack is named as if read from a file NAME.
    """
    match = _IN_STORE.fullmatch(entry)
    return match and match[1]


def store_entry(haystack: HaystackMetadata) -> str:
    """The entry that names the stored copy of a haystack's source; it gives exactly the same haystack."""
    return f"{STORE}{haystack.digest}/{haystack.name}.json"


class Loaded(NamedTuple):
    """A loaded haystack, and the size of its source in bytes."""

    file: ReleasedFile
    size: int


class Recent:
    """The most recently loaded haystacks: at most `most`, and fewer if they are large. Safe for threads."""

    def __init__(self, most: int = KEPT) -> None:
        self._most = most
        self._kept: OrderedDict[str, Loaded] = OrderedDict()
        self._look = threading.Lock()

    def find(self, haystack_id: str) -> ReleasedFile | None:
        """A kept haystack, now the last to be dropped; None if it is not kept."""
        with self._look:
            if haystack_id not in self._kept:
                return None
            self._kept.move_to_end(haystack_id)
            return self._kept[haystack_id].file

    def keep(self, loaded: Loaded) -> None:
        """Keep a haystack, and drop the oldest ones beyond the limit."""
        with self._look:
            self._kept[loaded.file.haystack.haystack_id] = loaded
            while len(self._kept) > 1 and self._too_much():
                self._kept.popitem(last=False)

    def _too_much(self) -> bool:
        return len(self._kept) > self._most or sum(kept.size for kept in self._kept.values()) > KEPT_BYTES


class Haystacks(Mapping[str, Haystack]):
    """haystack_id -> haystack, loaded on demand. Safe for threads; one haystack is loaded at a time.

    `read`: haystack_id -> (content of its source, name of the source for messages). Its errors pass through. A source whose
    content has changed raises UserError. `metadata`: reads the metadata. `recent`: keeps the haystacks that are loaded, and may
    have some already.
    """

    def __init__(
        self,
        ids: Iterable[str],
        read: Callable[[str], tuple[bytes, str]],
        metadata: Callable[[], Sequence[HaystackMetadata]] = tuple,
        recent: Recent | None = None,
    ) -> None:
        self._ids = dict.fromkeys(ids)
        self._read = read
        self._metadata = metadata
        self._kept_in = ""
        self.recent = recent or Recent()
        self._load = threading.Lock()
        self._thread: ThreadPoolExecutor | None = None

    @functools.cached_property
    def metadata(self) -> Sequence[HaystackMetadata]:
        """The metadata of each haystack, read on first use: the workers of a run use none."""
        return self._metadata()

    def insight_counts(self) -> dict[tuple[str, str], int]:
        """(haystack_id, subtopic_id) -> the number of the subtopic's insights."""
        return {
            (one.haystack_id, subtopic.subtopic_id): n
            for one in self.metadata
            for subtopic, n in zip(one.subtopics, one.n_insights, strict=True)
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
        """Put missing sources into the store; later reads use the store. Raises UserError for a source that has changed since
        its metadata was made."""

        def keep(haystack: HaystackMetadata) -> None:
            if store.files.exists(f"objects/haystack/{haystack.digest}"):
                return
            content, name = self.content(haystack.haystack_id)
            try:
                kept = source_bytes(json.loads(content))
            except ValueError:
                raise changed(name) from None
            if hashlib.sha256(kept).hexdigest() != haystack.digest:
                raise changed(name)
            store.put_object("haystack", kept)

        if self._kept_in == store.files.uri:
            return
        with ThreadPoolExecutor(max_workers=WRITTEN_AT_ONCE) as threads:
            for start in range(0, len(self.metadata), WRITTEN_A_BLOCK):
                list(threads.map(keep, self.metadata[start : start + WRITTEN_A_BLOCK]))
        self._read, self._kept_in = _reader(store, haystack_entries(self.metadata)), store.files.uri

    def recorded(self, store: Store) -> dict[str, Any]:
        """Keep the haystacks and their metadata in the store. Returns the fields of a run's record that name them."""
        self.keep(store)
        return keep_metadata(store, self.metadata)

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


def stored_haystacks(store: Store, record: Mapping[str, Any]) -> Haystacks:
    """The haystacks that a run's record names, read from the store."""
    entries = record["haystacks"]
    return Haystacks([entry["haystack_id"] for entry in entries], _reader(store, entries), lambda: stored_metadata(store, record))


def _reader(store: Store, entries: Iterable[Mapping[str, str]]) -> Callable[[str], tuple[bytes, str]]:
    known = {entry["haystack_id"]: entry for entry in entries}
    return lambda haystack_id: (store.get_object("haystack", known[haystack_id]["object"]), known[haystack_id]["name"])
