"""Base class of workloads over a collection: it keeps the collection in the store and restores a stored run from it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, TypeVar

from summhay_ray.benchmark import Benchmark, Inputs, RunStore, Spec, Store
from summhay_ray.benchmarks.odsum.collection import Collection
from summhay_ray.benchmarks.odsum.reading import read_collection
from summhay_ray.errors import SpecError, StoreError

COLLECTION = "collection"
"""Kind of the store objects that hold collections, and the field of a run's record with the digest of its collection."""
_IN_STORE = re.compile(r"store/([0-9a-f]{64})")

S = TypeVar("S", bound=Spec)


class OnCollection(Benchmark[S]):
    """A benchmark whose spec has a `corpus`; `_whole` is that collection."""

    record_fields: ClassVar[Mapping[str, Any]] = {**Benchmark.record_fields, COLLECTION: str}

    def __init__(self, spec: S, inputs: Inputs) -> None:
        super().__init__(spec, inputs)
        record = inputs.record
        self._whole = _collection(self._corpus() if record is None else f"store/{record[COLLECTION]}", inputs)

    def _corpus(self) -> str:
        corpus: str = getattr(self.spec, "corpus")  # noqa: B009
        return corpus

    def record(self, store: Store) -> dict[str, Any]:
        """See `Workload`. Stores the collection, and records its digest and attribution."""
        kept = {
            COLLECTION: store.put_object(COLLECTION, self._whole.to_bytes()),
            # Files that `summhay export` writes in addition to the tables.
            "attribution": self._whole.attribution,
        }
        return {**super().record(store), **kept}

    @classmethod
    def objects(cls, run: RunStore) -> Iterable[tuple[str, str]]:
        yield from super().objects(run)
        yield COLLECTION, run.record[COLLECTION]

    def by_store(self) -> Mapping[str, str]:
        return {} if _IN_STORE.fullmatch(self._corpus()) else {self._corpus(): f"store/{self._whole.stored_as}"}

    def keep_by_store(self, store: Store) -> None:
        store.put_object(COLLECTION, self._whole.to_bytes())


def _collection(entry: str, inputs: Inputs) -> Collection:
    """The collection that a spec names, by folder or by store/SHA256. Raises SpecError, StoreError."""
    match = _IN_STORE.fullmatch(entry)
    if match is None:
        return read_collection(inputs.path(entry), entry)
    if inputs.store is None:
        raise SpecError(f"spec: corpus: {entry!r} is in a store; name the store, or give the collection's folder")
    try:
        return Collection.from_bytes(inputs.store.get_object(COLLECTION, match[1]))
    except (ValueError, TypeError, KeyError) as error:
        raise StoreError(f"store {inputs.store.uri!r}: collection {match[1]} cannot be read: {error}") from error
