"""Read the haystacks that a spec names: files, samples, objects of a store, and the output of other specs."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from summhay_ray.benchmark import Benchmark, Inputs, Spec, Store
from summhay_ray.benchmarks.summhay.haystacks.metadata import HaystackMetadata, metadata_of
from summhay_ray.benchmarks.summhay.haystacks.sources import (
    STORE,
    Haystacks,
    Loaded,
    Recent,
    in_store,
    store_entry,
    stored_haystacks,
)
from summhay_ray.errors import SpecError, StoreError
from summhay_ray.haystack import UNREAD, health, holds_nuggets, load_sample, read_nuggets, read_released
from summhay_ray.plugins import UnknownName

SAMPLE = "sample/"
_SPECS = (".yaml", ".yml")
"""File endings of an entry that is itself a spec, whose run makes haystacks (synth)."""
_LINES = (".jsonl", ".ndjson")
"""File endings of an entry that must be a file of nuggets; a JSON file may be one."""
READS_AT_ONCE = 8
"""Sources read from the store concurrently."""

S = TypeVar("S", bound=Spec)


def haystacks_of(named: Sequence[str], inputs: Inputs, documents: str = "") -> Haystacks:
    """The haystacks that a spec names; for a stored run, those that it kept. Raises SpecError, InvalidHaystack.

    `documents`: the folder of the documents that nuggets files refer to; empty without one.
    """
    if inputs.record is not None and inputs.store is not None:
        return stored_haystacks(inputs.store, inputs.record)
    entries: dict[str, str] = {}
    recent = Recent()
    read = functools.partial(_content, inputs, documents)
    metadata = _metadata(named, read, recent)
    if documents and not any(one.importance for one in metadata):
        raise SpecError("spec: documents: no haystack is a file of nuggets, and others have their own documents; remove it")
    for index, (entry, one) in enumerate(zip(named, metadata, strict=True)):
        first = entries.setdefault(one.haystack_id, entry)
        if first != entry:
            raise SpecError(f"spec: haystacks[{index}]: {entry!r} has the same content as {first!r}; remove one")
    return Haystacks(entries, lambda haystack_id: (read(entries[haystack_id]), entries[haystack_id]), lambda: metadata, recent)


def _content(inputs: Inputs, documents: str, entry: str) -> bytes:
    """The JSON text of one entry of a spec's haystacks."""
    if digest := in_store(entry):
        return _stored(entry, digest, inputs.store)
    if not entry.startswith(SAMPLE):
        content = _file(inputs, entry)
        return _nuggets(inputs, documents, entry, content) if entry.endswith(_LINES) or holds_nuggets(content) else content
    try:
        return json.dumps(load_sample(entry.removeprefix(SAMPLE))).encode("ascii")
    except UnknownName as error:
        raise SpecError(f"spec: haystacks: {error}") from error


def _nuggets(inputs: Inputs, documents: str, entry: str, content: bytes) -> bytes:
    """A file of nuggets as the JSON text of a haystack."""
    # It imports mining and synthesis, which other runs do not need.
    from summhay_ray.mine import read_folder

    folder = inputs.path(documents) if documents else None
    if folder is not None and not folder.is_dir():
        raise SpecError(f"spec: documents: {documents!r} is no folder; give the folder of the documents that nuggets refer to")
    sources, unread = ([], []) if folder is None else read_folder(folder)
    haystack = read_nuggets(content, entry, [(one.document_id, one.text) for one in sources])
    lost = [f"{one.document_id}: {one.message}" for one in unread]
    return json.dumps({**haystack, UNREAD: lost} if lost else haystack).encode("ascii")


def _file(inputs: Inputs, entry: str) -> bytes:
    try:
        if inputs.path(entry).is_dir():
            mend = f"name the JSON files in it; of documents without queries, summhay mine {entry} --out mine.json makes one"
            raise SpecError(f"spec: haystacks: {entry} is a folder; {mend}")
        return inputs.read(entry)
    except SpecError as error:
        if not entry.startswith(STORE):
            raise
        raise SpecError(f"{error}; one in the store is {STORE} and its 64 hex digits") from error


def doubts_of(haystacks: Haystacks) -> Sequence[str]:
    """Oddities of the haystacks, such as an insight that is in no document; limits of confidence in mined ones come first."""
    mined = [(one.name, one.facts) for one in haystacks.metadata]
    known = health(mined, sum(len(one.subtopics) for one in haystacks.metadata)) if any(facts for _, facts in mined) else None
    return [*(known.lines() if known else ()), *(warning for one in haystacks.metadata for warning in one.warnings)]


def by_store(named: Sequence[str], haystacks: Haystacks) -> Mapping[str, str]:
    """The haystacks in files, which a job reads from the store: entry of the spec -> entry that names the stored copy."""
    entries = zip(named, haystacks.metadata, strict=True)
    return {entry: store_entry(one) for entry, one in entries if not entry.startswith(SAMPLE) and in_store(entry) is None}


def with_made(spec: S, inputs: Inputs) -> S:
    """The spec with each entry that is itself a spec replaced by the haystacks its run has made. Raises SpecError, StoreError."""
    listed: list[str] = spec.haystacks  # type: ignore[attr-defined]
    if inputs.record is not None or not any(entry.endswith(_SPECS) for entry in listed):
        return spec
    entries: list[str] = []
    for entry in listed:
        made = _made_by(entry, inputs) if entry.endswith(_SPECS) else [entry]
        entries += [haystack for haystack in made if haystack not in entries]
    return spec.model_copy(update={"haystacks": entries})


def _made_by(entry: str, inputs: Inputs) -> list[str]:
    if inputs.store is None:
        raise SpecError(f"spec: haystacks: what {entry!r} makes lies in a store; give the store")
    path = inputs.path(entry)
    maker = Benchmark.load(path, inputs)
    entries: Callable[[Store, str], list[str]] | None = getattr(maker, "entries", None)
    if entries is None:
        raise SpecError(f"spec: haystacks: {entry}: a spec of kind {maker.kind!r} makes no haystacks")
    try:
        return entries(inputs.store, str(path))
    except SpecError as error:
        raise SpecError(f"spec: haystacks: {entry}: {error}") from error


def _metadata(entries: Sequence[str], read: Callable[[str], bytes], recent: Recent) -> tuple[HaystackMetadata, ...]:
    """The metadata of sources. `recent` keeps the last of the haystacks, which a small run need not read again."""

    def read_one(entry: str) -> HaystackMetadata:
        content = read(entry)
        file = read_released(content, entry)
        recent.keep(Loaded(file, len(content)))
        return metadata_of(file)

    if not any(map(in_store, entries)):
        return tuple(map(read_one, entries))
    with ThreadPoolExecutor(max_workers=READS_AT_ONCE) as threads:
        return tuple(threads.map(read_one, entries))


def _stored(entry: str, digest: str, store: Store | None) -> bytes:
    if store is None:
        raise SpecError(f"spec: haystacks: {entry!r} lies in a store; give the store, or the haystack's file")
    try:
        return store.get_object("haystack", digest)
    except StoreError as error:
        if store.files.exists(f"objects/haystack/{digest}"):
            raise
        mend = "run or submit the spec once with its file, or give the store that holds it"
        raise SpecError(f"spec: haystacks: {entry!r}: store {store.uri!r} holds no such source; {mend}") from error
