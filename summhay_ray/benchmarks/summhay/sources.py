"""The haystacks of a grid: a light outline of each, and whole ones, loaded when they are asked for.

A run of a thousand haystacks must not hold a thousand haystacks. What cells, budgets and scores are made of is an outline (a
few kilobytes); documents are read from where they lie (the spec's file, a sample, the store's object), and few are kept.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import json
import re
import threading
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, fields
from typing import Any, overload

from summhay_ray.errors import UserError
from summhay_ray.haystack import ReleasedFile, read_released
from summhay_ray.records import Haystack, Subtopic
from summhay_ray.store import Store, StoreError

KEPT = 8
KEPT_BYTES = 64 * 2**20
"""Of the haystacks that are loaded, so many are kept, as long as their sources are no larger together."""

OUTLINES = "outlines"
"""Kind of the store's object that holds the outlines of a run, and the field of its record that names it."""

BY_GRAMMAR = "made by a grammar (offline/writer): for demos, tests and load, not to measure models on"
"""What a person must know of such prose."""

STORE = "store/"
"""How an entry of a spec's haystacks begins that lies in the store."""

_PLACE = ("haystack_id", "position")
_IN_STORE = re.compile(STORE + r"([0-9a-f]{64})(?:/[^/]+)?")


@dataclass(frozen=True, slots=True)
class Outline:
    """What a grid needs to know of a haystack besides its documents."""

    haystack_id: str
    name: str
    domain: str
    n_documents: int
    subtopics: tuple[Subtopic, ...]
    n_insights: tuple[int, ...]
    """Of each subtopic."""
    released: tuple[str, ...]
    """Names of the retrievers whose scores the source holds, sorted."""
    warnings: tuple[str, ...]
    digest: str
    """Of the source, as the store keeps it (`source_bytes`)."""
    marks: str
    """`gold` as JSON: text, since it takes a tenth of the room."""
    by_grammar: bool = False
    """Its prose is by `offline/writer`, as the source says."""

    def gold(self) -> dict[str, frozenset[int]]:
        """As `Haystack.gold`: insight_id -> numbers of the documents that contain it."""
        return {insight_id: frozenset(numbers) for insight_id, numbers in json.loads(self.marks).items()}

    def to_json(self) -> dict[str, Any]:
        """The outline as JSON."""
        found = {one.name: getattr(self, one.name) for one in fields(self)}
        if not self.by_grammar:
            # As outlines were written before there was such a field.
            del found["by_grammar"]
        subtopics = [{name: value for name, value in asdict(one).items() if name not in _PLACE} for one in self.subtopics]
        return {**found, "subtopics": subtopics}

    @classmethod
    def from_json(cls, written: Mapping[str, Any]) -> Outline:
        """What `to_json` wrote. Raises KeyError, TypeError for anything else."""
        listed = {name: tuple(written[name]) for name in ("n_insights", "released", "warnings")}
        known = written["haystack_id"]
        subtopics = tuple(Subtopic(haystack_id=known, position=place, **one) for place, one in enumerate(written["subtopics"]))
        return cls(**{**written, **listed, "subtopics": subtopics})


def outline_of(source: ReleasedFile) -> Outline:
    """The outline of a source that was read."""
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
    """A source as the store keeps it: its parsed JSON, every field and the order of fields kept."""
    return json.dumps(raw, ensure_ascii=True, separators=(",", ":"), allow_nan=False).encode("ascii")


def in_store(entry: str) -> str | None:
    """The digest of the object in the store that an entry of a spec's haystacks names; None where it names something else.

    Such an entry is `store/SHA256`, or `store/SHA256/NAME`, whose haystack has the name that it would have from a file NAME.
    """
    found = _IN_STORE.fullmatch(entry)
    return found and found[1]


def store_entry(outline: Outline) -> str:
    """The entry of a spec's haystacks that names a source as `put_object` keeps it: the haystack is the same in all."""
    return f"{STORE}{outline.digest}/{outline.name}.json"


class Haystacks(Mapping[str, Haystack]):
    """The haystacks by id, loaded when they are asked for; any thread may ask, and one loads at a time.

    `read` gives a source's content and what to call it in errors. A haystack whose content is another one by now is refused
    with a UserError; `read` raises what it likes.
    """

    def __init__(self, ids: Iterable[str], read: Callable[[str], tuple[bytes, str]], kept: int = KEPT) -> None:
        self._ids = dict.fromkeys(ids)
        self._read = read
        self._most = kept
        self._kept: OrderedDict[str, tuple[ReleasedFile, int]] = OrderedDict()
        self._look, self._load = threading.Lock(), threading.Lock()
        self._thread: ThreadPoolExecutor | None = None

    def __getitem__(self, haystack_id: str) -> Haystack:
        return self.file(haystack_id).haystack

    def __iter__(self) -> Iterator[str]:
        return iter(self._ids)

    def __len__(self) -> int:
        return len(self._ids)

    def file(self, haystack_id: str) -> ReleasedFile:
        """The haystack and the JSON that it came from. Raises KeyError for a haystack that is none of the grid's."""
        kept = self._known(haystack_id)
        if kept is not None:
            return kept
        with self._load:
            return self._known(haystack_id) or self._loaded(haystack_id)

    async def fetch(self, haystack_id: str) -> Haystack:
        """The haystack; where it must be loaded, the event loop goes on meanwhile."""
        kept = self._known(haystack_id)
        if kept is None:
            self._thread = self._thread or ThreadPoolExecutor(max_workers=1, thread_name_prefix="haystacks")
            kept = await asyncio.get_running_loop().run_in_executor(self._thread, self.file, haystack_id)
        return kept.haystack

    def content(self, haystack_id: str) -> tuple[bytes, str]:
        """A source as it lies there, not kept, and what to call it. Raises KeyError as `file` does."""
        if haystack_id not in self._ids:
            raise KeyError(haystack_id)
        return self._read(haystack_id)

    def _known(self, haystack_id: str) -> ReleasedFile | None:
        with self._look:
            if haystack_id not in self._kept:
                return None
            self._kept.move_to_end(haystack_id)
            return self._kept[haystack_id][0]

    def _loaded(self, haystack_id: str) -> ReleasedFile:
        content, name = self.content(haystack_id)
        source = read_released(content, name)
        if source.haystack.haystack_id != haystack_id:
            raise changed(name)
        with self._look:
            self._kept[haystack_id] = (source, len(content))
            while len(self._kept) > 1 and self._too_much():
                self._kept.popitem(last=False)
        return source

    def _too_much(self) -> bool:
        return len(self._kept) > self._most or sum(size for _, size in self._kept.values()) > KEPT_BYTES


def changed(name: str) -> UserError:
    """The error for a source that is not what it was."""
    return UserError(f"{name}: was changed since it was read; put back what it was, or start again")


class LateOutlines(Sequence[Outline]):
    """Outlines that are read when the first one is asked for: a worker never does."""

    def __init__(self, read: Callable[[], Sequence[Outline]]) -> None:
        self._read = functools.cache(read)

    @overload
    def __getitem__(self, index: int) -> Outline: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Outline]: ...
    def __getitem__(self, index: int | slice) -> Outline | Sequence[Outline]:
        return self._read()[index]

    def __len__(self) -> int:
        return len(self._read())


def keep_outlines(store: Store, outlines: Iterable[Outline]) -> str:
    """Put the outlines into the store; the digest of their object."""
    text = json.dumps([outline.to_json() for outline in outlines], ensure_ascii=True, separators=(",", ":"))
    return store.put_object(OUTLINES, zlib.compress(text.encode("ascii")))


def stored_outlines(store: Store, record: Mapping[str, Any]) -> Sequence[Outline]:
    """The outlines of a stored run, in its order; where its record names none, each source is read, one at a time."""
    if OUTLINES not in record:
        return tuple(outline_of(read_source(store, entry)) for entry in record["haystacks"])
    content = store.get_object(OUTLINES, record[OUTLINES])
    try:
        return tuple(map(Outline.from_json, json.loads(zlib.decompress(content))))
    except (ValueError, TypeError, KeyError, zlib.error) as error:
        raise StoreError(f"store {store.uri!r}: the outlines {record[OUTLINES]} are of another version: {error}") from error


def haystack_entries(sources: Iterable[Outline]) -> list[dict[str, str]]:
    """How a run's record names its sources."""
    return [{"haystack_id": source.haystack_id, "name": source.name, "object": source.digest} for source in sources]


def read_source(store: Store, entry: Mapping[str, str]) -> ReleasedFile:
    """A source that a run's record names."""
    return read_released(store.get_object("haystack", entry["object"]), entry["name"])


def stored_haystacks(store: Store, entries: Iterable[tuple[str, str, str]]) -> Haystacks:
    """Haystacks out of the store, by (haystack_id, digest of its object, name)."""
    known = {haystack_id: (digest, name) for haystack_id, digest, name in entries}

    def read(haystack_id: str) -> tuple[bytes, str]:
        digest, name = known[haystack_id]
        return store.get_object("haystack", digest), name

    return Haystacks(known, read)
