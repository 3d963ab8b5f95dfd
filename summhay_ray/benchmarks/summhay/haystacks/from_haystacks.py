"""Read the haystacks that a spec names: files, samples, objects of a store, and the output of other specs.

Every benchmark on haystacks inherits from `FromHaystacks`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from summhay_ray.benchmark import Inputs, Spec, SpecError
from summhay_ray.benchmarks.summhay.haystacks.opening import keep_sources
from summhay_ray.benchmarks.summhay.haystacks.sources import (
    STORE,
    Haystacks,
    Loaded,
    Outline,
    Recent,
    in_store,
    outline_of,
    store_entry,
)
from summhay_ray.engine import load_workload
from summhay_ray.haystack import load_sample, read_released
from summhay_ray.plugins import UnknownName
from summhay_ray.store import Store, StoreError, StoreUnavailable

SAMPLE = "sample/"
_SPECS = (".yaml", ".yml")
"""File endings of an entry that is itself a spec, whose run makes haystacks (synth)."""
READS_AT_ONCE = 8
"""Sources read from the store concurrently."""

S = TypeVar("S", bound=Spec)


class FromHaystacks:
    """Mixin for a workload whose spec has the field `haystacks`."""

    spec: Any
    inputs: Inputs
    sources: Sequence[Outline]
    """An outline of each haystack: all but its documents."""
    haystacks: Haystacks
    """The haystacks, loaded on demand."""

    def read_sources(self) -> tuple[Outline, ...]:
        """Read every source that the spec names, set `haystacks`, and return the outlines. Raises SpecError, InvalidHaystack."""
        entries: dict[str, str] = {}
        recent = Recent()
        sources = _outlines(self.spec.haystacks, self._content, recent)
        for index, (entry, source) in enumerate(zip(self.spec.haystacks, sources, strict=True)):
            first = entries.setdefault(source.haystack_id, entry)
            if first != entry:
                raise SpecError(f"spec: haystacks[{index}]: {entry!r} has the same content as {first!r}; remove one")
        self.haystacks = Haystacks(
            entries, lambda haystack_id: (self._content(entries[haystack_id]), entries[haystack_id]), recent
        )
        return sources

    def _content(self, entry: str) -> bytes:
        """The JSON text of one entry of the spec's haystacks."""
        if digest := in_store(entry):
            return _stored(entry, digest, self.inputs.store)
        if not entry.startswith(SAMPLE):
            return self._file(entry)
        try:
            return json.dumps(load_sample(entry.removeprefix(SAMPLE))).encode("ascii")
        except UnknownName as error:
            raise SpecError(f"spec: haystacks: {error}") from error

    def _file(self, entry: str) -> bytes:
        try:
            if self.inputs.path(entry).is_dir():
                mend = f"name the JSON files in it; of documents without queries, summhay mine {entry} --out mine.json makes one"
                raise SpecError(f"spec: haystacks: {entry} is a folder; {mend}")
            return self.inputs.read(entry)
        except SpecError as error:
            if not entry.startswith(STORE):
                raise
            raise SpecError(f"{error}; one in the store is {STORE} and its 64 hex digits") from error

    def doubts(self) -> Sequence[str]:
        """See `Workload`: what is odd in the haystacks, such as an insight that is in no document."""
        return [warning for source in self.sources for warning in source.warnings]

    def by_store(self) -> Mapping[str, str]:
        """See `Workload`: haystacks in files are sent through the store."""
        entries = zip(self.spec.haystacks, self.sources, strict=True)
        return {
            entry: store_entry(source) for entry, source in entries if not entry.startswith(SAMPLE) and in_store(entry) is None
        }

    def keep_by_store(self, store: Store) -> None:
        keep_sources(self.haystacks, self.sources, store)


def with_made(spec: S, inputs: Inputs) -> S:
    """The spec with each entry that is itself a spec replaced by the haystacks its run has made. Raises SpecError, StoreError."""
    listed: list[str] = spec.haystacks  # type: ignore[attr-defined]
    if not any(entry.endswith(_SPECS) for entry in listed):
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
    maker = load_workload(path, store=inputs.store, untrusted=inputs.untrusted)
    entries: Callable[[Store, str], list[str]] | None = getattr(maker, "entries", None)
    if entries is None:
        raise SpecError(f"spec: haystacks: {entry}: a spec of kind {maker.kind!r} makes no haystacks")
    try:
        return entries(inputs.store, str(path))
    except SpecError as error:
        raise SpecError(f"spec: haystacks: {entry}: {error}") from error


def _outlines(entries: Sequence[str], read: Callable[[str], bytes], recent: Recent) -> tuple[Outline, ...]:
    """The outlines of sources. `recent` keeps the last of the haystacks, which a small run need not read again."""

    def outline(entry: str) -> Outline:
        content = read(entry)
        file = read_released(content, entry)
        recent.keep(Loaded(file, len(content)))
        return outline_of(file)

    if not any(map(in_store, entries)):
        return tuple(map(outline, entries))
    with ThreadPoolExecutor(max_workers=READS_AT_ONCE) as threads:
        return tuple(threads.map(outline, entries))


def _stored(entry: str, digest: str, store: Store | None) -> bytes:
    if store is None:
        raise SpecError(f"spec: haystacks: {entry!r} lies in a store; give the store, or the haystack's file")
    try:
        return store.get_object("haystack", digest)
    except StoreUnavailable:
        raise
    except StoreError as error:
        if store.files.exists(f"objects/haystack/{digest}"):
            raise
        mend = "run or submit the spec once with its file, or give the store that holds it"
        raise SpecError(f"spec: haystacks: {entry!r}: store {store.uri!r} holds no such source; {mend}") from error
