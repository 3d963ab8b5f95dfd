"""The haystacks of a spec: the metadata of each is in memory; whole haystacks are loaded on demand.

An entry of a spec is a file, a sample, an object of the store, a data set of the Hub, or another spec whose run makes
haystacks.

A run of a thousand haystacks must not keep them all in memory. Cells, budgets and scores need only their `metadata` (a few
kilobytes each). Documents are read from their source (the spec's file, a sample, or an object of the store), and only a few
haystacks stay loaded.
"""

import asyncio
import functools
import hashlib
import json
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from summhay_ray.benchmark import Benchmark, Inputs, Spec, Store
from summhay_ray.benchmarks.hub_files import HUB, hub_content, hub_entries
from summhay_ray.benchmarks.summhay.haystacks.metadata import (
    HaystackMetadata,
    metadata_of,
    source_bytes,
    stored_metadata,
)
from summhay_ray.errors import SpecError, StoreError, UserError
from summhay_ray.haystack import (
    UNREAD,
    InvalidHaystack,
    ReleasedFile,
    health,
    holds_nuggets,
    load_sample,
    read_nuggets,
    read_released,
)
from summhay_ray.plugins import UnknownName
from summhay_ray.records import Haystack

KEPT = 8
KEPT_BYTES = 64 * 2**20
"""At most KEPT loaded haystacks stay in memory, and fewer if their sources exceed KEPT_BYTES in total. The latest one always
stays."""

BY_GRAMMAR = "made from templates (offline/writer): for demos, tests and load, not to measure models on"
"""The note in reports for haystacks whose prose is made from templates."""

STORE = "store/"
"""Prefix of an entry in a spec's `haystacks` that refers to an object in the store."""

SAMPLE = "sample/"
_SPECS = (".yaml", ".yml")
"""File suffixes of an entry that is itself a spec, whose run makes haystacks (synth)."""
_LINES = (".jsonl", ".ndjson")
"""File suffixes of an entry that must be a file of nuggets. A JSON file may be one."""
READS_AT_ONCE = 8
"""Number of sources that are read from the store concurrently."""
MANY = 50
"""From this many sources on, the cluster reads them, if the run uses one."""
TOGETHER = 8
"""Number of sources that one task of a cluster reads, or that are written to the store concurrently."""

_IN_STORE = re.compile(STORE + r"([0-9a-f]{64})(?:/[^/]+)?")

S = TypeVar("S", bound=Spec)
T = TypeVar("T")


def stored_digest(entry: str) -> str | None:
    """Return the digest in an entry that refers to an object in the store, or None for any other entry.

    Such an entry is `store/SHA256` or `store/SHA256/NAME`. With NAME, the haystack is named as if read from a file NAME.
    """
    match = _IN_STORE.fullmatch(entry)
    return match and match[1]


class Loaded(NamedTuple):
    """A loaded haystack, and the size of its source in bytes."""

    file: ReleasedFile
    size: int


@dataclass(eq=False)
class Recent:
    """The most recently loaded haystacks: at most `most`, and fewer if they are large. Safe for threads."""

    most: int = KEPT
    _kept: OrderedDict[str, Loaded] = field(init=False, default_factory=OrderedDict)
    _look: threading.Lock = field(init=False, default_factory=threading.Lock)

    def find(self, haystack_id: str) -> ReleasedFile | None:
        """Return a kept haystack, which then becomes the last to be dropped. None if it is not kept."""
        with self._look:
            if haystack_id not in self._kept:
                return None
            self._kept.move_to_end(haystack_id)
            return self._kept[haystack_id].file

    def keep(self, loaded: Loaded) -> None:
        """Keep a haystack, and drop the oldest ones beyond the limit."""
        with self._look:
            haystacks = self._kept
            haystacks[loaded.file.haystack.haystack_id] = loaded
            while len(haystacks) > 1 and (len(haystacks) > self.most or sum(one.size for one in haystacks.values()) > KEPT_BYTES):
                haystacks.popitem(last=False)


@dataclass(eq=False)
class Haystacks(Mapping[str, Haystack]):
    """Maps haystack_id to a haystack, loaded on demand, one at a time. Safe for threads. A source whose content has changed
    raises UserError."""

    ids: Collection[str]
    read: Callable[[str], tuple[bytes, str]]
    """haystack_id -> (content of its source, name of the source for messages). Raises KeyError for an id that is not in the
    run. Other errors are not caught."""
    read_metadata: Callable[[], Sequence[HaystackMetadata]] = tuple
    recent: Recent = field(default_factory=Recent)
    """The loaded haystacks. It may already contain some."""
    mapped: Callable[..., Iterator[Any]] | None = None
    """See `Inputs.on_cluster`. None if this process reads and writes the sources."""
    _kept_in: str = field(default="", init=False)
    _load: threading.Lock = field(default_factory=threading.Lock, init=False)
    _thread: ThreadPoolExecutor | None = field(default=None, init=False)

    @functools.cached_property
    def metadata(self) -> Sequence[HaystackMetadata]:
        """The metadata of each haystack. It is read on first use, because the workers of a run need none."""
        return self.read_metadata()

    def __getitem__(self, haystack_id: str) -> Haystack:
        return self.file(haystack_id).haystack

    def __iter__(self) -> Iterator[str]:
        return iter(self.ids)

    def __len__(self) -> int:
        return len(self.ids)

    def file(self, haystack_id: str) -> ReleasedFile:
        """Return the haystack and the JSON from which it was read. Raises KeyError for a haystack_id that is not in the run."""
        source = self.recent.find(haystack_id)
        if source is not None:
            return source
        with self._load:
            source = self.recent.find(haystack_id)
            if source is None:
                content, name = self.read(haystack_id)
                source = read_released(content, name)
                if source.haystack.haystack_id != haystack_id:
                    raise changed_error(name)
                self.recent.keep(Loaded(source, len(content)))
            return source

    async def fetch(self, haystack_id: str) -> Haystack:
        """Return the haystack. If necessary, it is loaded in a thread, so that the event loop is not blocked."""
        source = self.recent.find(haystack_id)
        if source is None:
            self._thread = self._thread or ThreadPoolExecutor(max_workers=1, thread_name_prefix="haystacks")
            source = await asyncio.get_running_loop().run_in_executor(self._thread, self.file, haystack_id)
        return source.haystack

    def keep(self, store: Store) -> None:
        """Put missing sources into the store, from which they are read from then on. Raises UserError for a source that has
        changed since its metadata was made."""
        if self._kept_in == store.files.uri:
            return
        there = set(store.files.names("objects/haystack"))
        absent = [one for one in self.metadata if f"objects/haystack/{one.digest}" not in there]
        blocks = (absent[start : start + TOGETHER] for start in range(0, len(absent), TOGETHER))
        read = ([(one.digest, *self.read(one.haystack_id)) for one in block] for block in blocks)
        if self.mapped is None:
            for block in read:
                _put(store, block)
        else:
            uri = store.files.uri
            for _ in self.mapped(lambda block: _put(_opened(uri), block), read, UserError):
                continue
        known = {one.haystack_id: (one.digest, one.name) for one in self.metadata}
        self.read = lambda haystack_id: (store.get_object("haystack", known[haystack_id][0]), known[haystack_id][1])
        self._kept_in = store.files.uri


@functools.lru_cache(maxsize=1)
def _opened(uri: str) -> Store:
    """Return the store, which a process that runs tasks opens only once: for a bucket this takes a tenth of a second."""
    return Store(uri)


def _put(store: Store, sources: Iterable[tuple[str, bytes, str]]) -> None:
    """Put sources, given as (digest, content, name), into the store. Raises UserError if a source does not have its digest."""

    def put(source: tuple[str, bytes, str]) -> None:
        digest, content, name = source
        try:
            body = source_bytes(json.loads(content))
        except ValueError:
            raise changed_error(name) from None
        if hashlib.sha256(body).hexdigest() != digest:
            raise changed_error(name)
        store.put_object("haystack", body)

    with ThreadPoolExecutor(max_workers=TOGETHER) as threads:
        list(threads.map(put, sources))


def changed_error(name: str) -> UserError:
    """Return the error for a source whose content has changed."""
    return UserError(f"{name}: was changed since it was read; put back what it was, or start again")


def stored_haystacks(store: Store, record: Mapping[str, Any]) -> Haystacks:
    """Return the haystacks in a run's record, which are read from the store."""
    known = {entry["haystack_id"]: (entry["object"], entry["name"]) for entry in record["haystacks"]}
    return Haystacks(
        known,
        lambda haystack_id: (store.get_object("haystack", known[haystack_id][0]), known[haystack_id][1]),
        lambda: stored_metadata(store, record),
    )


def haystacks_of(named: Sequence[str], inputs: Inputs, documents: str = "") -> Haystacks:
    """Return the haystacks of a spec; for a stored run, those that the run stored. Raises SpecError, InvalidHaystack.

    `documents`: the folder of the documents to which nuggets files refer; empty without one.
    """
    if inputs.record is not None and inputs.store is not None:
        return stored_haystacks(inputs.store, inputs.record)
    recent, first = Recent(), dict[str, str]()

    def read(entry: str) -> HaystackMetadata:
        content = _content(inputs, documents, entry)
        file = read_released(content, entry)
        # A small run need not read it again.
        recent.keep(Loaded(file, len(content)))
        return metadata_of(file)

    mapped = inputs.on_cluster if len(named) >= MANY else None
    if mapped is not None:
        metadata = tuple(_read_by(mapped, named, inputs, documents))
    elif any(map(stored_digest, named)):
        with ThreadPoolExecutor(max_workers=READS_AT_ONCE) as threads:
            metadata = tuple(threads.map(read, named))
    else:
        metadata = tuple(map(read, named))
    if documents and not any(one.contents["importance"] for one in metadata):
        raise SpecError("spec: documents: no haystack is a file of nuggets, and others have their own documents; remove it")
    for index, (entry, one) in enumerate(zip(named, metadata, strict=True)):
        if first.setdefault(one.haystack_id, entry) != entry:
            same = first[one.haystack_id]
            raise SpecError(f"spec: haystacks[{index}]: {entry!r} has the same content as {same!r}; remove one")
    return Haystacks(first, lambda one: (_content(inputs, documents, first[one]), first[one]), lambda: metadata, recent, mapped)


def _read_by(
    mapped: Callable[..., Iterator[Any]], named: Sequence[str], inputs: Inputs, documents: str
) -> Iterator[HaystackMetadata]:
    """Yield the metadata of haystacks, made on a cluster. Its nodes read the sources in the store; this process reads the
    other files."""
    uri = None if inputs.store is None else inputs.store.files.uri

    def metadata(block: Sequence[tuple[str, bytes | None]]) -> list[HaystackMetadata]:
        store = None if uri is None else _opened(uri)
        return [metadata_of(read_released(_of_store(store, entry) if got is None else got, entry)) for entry, got in block]

    blocks = (named[start : start + TOGETHER] for start in range(0, len(named), TOGETHER))
    read = (
        [(entry, None if stored_digest(entry) else _content(inputs, documents, entry)) for entry in block] for block in blocks
    )
    try:
        for found in mapped(metadata, read, InvalidHaystack):
            yield from found
    except InvalidHaystack:
        raise
    except UserError as error:
        raise SpecError(str(error)) from error


def _of_store(store: Store | None, entry: str) -> bytes:
    """Return the JSON text of an entry that refers to an object of the store."""
    if store is None:
        raise SpecError(f"spec: haystacks: {entry!r} is in a store; give the store, or the haystack's file")
    digest = str(stored_digest(entry))
    try:
        return store.get_object("haystack", digest)
    except StoreError as error:
        if store.files.exists(f"objects/haystack/{digest}"):
            raise
        mend = "run or submit the spec once with its file, or give the store that holds it"
        raise SpecError(f"spec: haystacks: {entry!r}: store {store.uri!r} holds no such source; {mend}") from error


def _content(inputs: Inputs, documents: str, entry: str) -> bytes:
    """Return the JSON text of one entry of a spec's haystacks."""
    if stored_digest(entry):
        return _of_store(inputs.store, entry)
    if entry.startswith(SAMPLE):
        try:
            return json.dumps(load_sample(entry.removeprefix(SAMPLE))).encode("ascii")
        except UnknownName as error:
            raise SpecError(f"spec: haystacks: {error}") from error
    if entry.startswith(HUB):
        return _of_hub(hub_content, entry)
    try:
        content = inputs.read(entry)
    except SpecError as error:
        if entry.startswith(STORE):
            raise SpecError(f"{error}; one in the store is {STORE} and its 64 hex digits") from error
        if inputs.path(entry).is_dir():
            mend = f"name the JSON files in it; of documents without queries, summhay mine {entry} --out mine.json makes one"
            raise SpecError(f"spec: haystacks: {entry} is a folder; {mend}") from None
        raise
    return _nuggets(inputs, documents, entry, content) if entry.endswith(_LINES) or holds_nuggets(content) else content


def _of_hub(read: Callable[[str], T], entry: str) -> T:
    try:
        return read(entry)
    except UserError as error:
        raise SpecError(f"spec: haystacks: {error}") from error


def _nuggets(inputs: Inputs, documents: str, entry: str, content: bytes) -> bytes:
    """Return a file of nuggets as the JSON text of a haystack."""
    # Imported here: it imports mining and synthesis, which other runs do not need.
    from summhay_ray.mine import read_folder

    folder = inputs.path(documents) if documents else None
    if folder is not None and not folder.is_dir():
        raise SpecError(f"spec: documents: {documents!r} is not a folder; give the folder of the documents that nuggets refer to")
    sources, unread = ([], []) if folder is None else read_folder(folder)
    haystack = read_nuggets(content, entry, [(one.document_id, one.text) for one in sources])
    lost = [f"{one.document_id}: {one.message}" for one in unread]
    return json.dumps({**haystack, UNREAD: lost} if lost else haystack).encode("ascii")


def haystack_warnings(haystacks: Haystacks) -> Sequence[str]:
    """Return oddities of the haystacks, such as an insight that is in no document. Limits of confidence in mined haystacks
    come first."""
    mined = [(one.name, one.facts) for one in haystacks.metadata]
    known = health(mined, sum(len(one.n_insights) for one in haystacks.metadata)) if any(facts for _, facts in mined) else None
    return [*(known.lines() if known else ()), *(warning for one in haystacks.metadata for warning in one.warnings)]


def by_store(named: Sequence[str], haystacks: Haystacks) -> Mapping[str, str]:
    """Map each entry that is a file to an entry that refers to its copy in the store, from which a job reads it. The copy
    gives exactly the same haystack."""
    return {
        entry: f"{STORE}{one.digest}/{one.name}.json"
        for entry, one in zip(named, haystacks.metadata, strict=True)
        if not entry.startswith(SAMPLE) and stored_digest(entry) is None
    }


def expand_entries(spec: S, inputs: Inputs) -> S:
    """Replace each entry that is itself a spec by the haystacks that its run has made, and each data set of the Hub by its
    haystacks. Raises SpecError, StoreError."""
    listed: list[str] = spec.haystacks  # type: ignore[attr-defined]
    if inputs.record is not None or not any(entry.startswith(HUB) or entry.endswith(_SPECS) for entry in listed):
        return spec
    entries: list[str] = []
    for entry in listed:
        made = _of_hub(hub_entries, entry) if entry.startswith(HUB) else [entry]
        if entry.endswith(_SPECS):
            if inputs.store is None:
                raise SpecError(f"spec: haystacks: what {entry!r} makes is in a store; give the store")
            path = inputs.path(entry)
            maker = Benchmark.load(path, inputs)
            made_in: Callable[[Store, str], list[str]] | None = getattr(maker, "entries", None)
            if made_in is None:
                raise SpecError(f"spec: haystacks: {entry}: a spec of kind {maker.kind!r} makes no haystacks")
            try:
                made = made_in(inputs.store, str(path))
            except SpecError as error:
                raise SpecError(f"spec: haystacks: {entry}: {error}") from error
        entries += [haystack for haystack in made if haystack not in entries]
    return spec.model_copy(update={"haystacks": entries})
