"""Collections in a store: imported from a folder, and stored by the workloads that use them.

A spec names an imported collection by its content hash. A stored run is restored from the collection that its record names.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from summhay_ray.benchmark import Benchmark, Inputs, RunStore, Spec, Store
from summhay_ray.benchmarks.odsum.collection import Collection
from summhay_ray.benchmarks.odsum.reading import read_collection
from summhay_ray.errors import SpecError, StoreError

COLLECTION = "collection"
"""The kind of the store's objects that hold collections. A run's record has the digest of its collection in a field of this
name."""
_IN_STORE = re.compile(r"store/([0-9a-f]{64})")

S = TypeVar("S", bound=Spec)


class OnCollection(Benchmark[S]):
    """A benchmark whose spec has a `corpus`. `_whole` is that collection."""

    record_fields: ClassVar[Mapping[str, Any]] = {**Benchmark.record_fields, COLLECTION: str}

    def __init__(self, spec: S, inputs: Inputs) -> None:
        super().__init__(spec, inputs)
        self._corpus: str = getattr(spec, "corpus")  # noqa: B009
        entry = self._corpus if inputs.record is None else f"store/{inputs.record[COLLECTION]}"
        if (match := _IN_STORE.fullmatch(entry)) is None:
            self._whole = read_collection(inputs.path(entry), entry)
            return
        if inputs.store is None:
            raise SpecError(f"spec: corpus: {entry!r} is in a store; name the store, or give the collection's folder")
        try:
            self._whole = Collection.from_bytes(inputs.store.get_object(COLLECTION, match[1]))
        except (ValueError, TypeError, KeyError) as error:
            raise StoreError(f"store {inputs.store.uri!r}: collection {match[1]} cannot be read: {error}") from error

    def record(self, store: Store) -> dict[str, Any]:
        """See `Workload`. Stores the collection, and returns its digest and attribution."""
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
        if _IN_STORE.fullmatch(self._corpus):
            return {}
        return {self._corpus: f"store/{hashlib.sha256(self._whole.to_bytes()).hexdigest()}"}

    def keep_by_store(self, store: Store) -> None:
        store.put_object(COLLECTION, self._whole.to_bytes())


@dataclass(frozen=True)
class CollectionImport:
    """The summary of an imported collection."""

    corpus: str
    """`store/SHA256`: the value for `corpus` in a spec that uses the same store."""
    documents: int
    blank: int
    """Number of documents of only white space; they are kept."""
    queries: int
    references: int
    """Number of queries with a reference summary."""
    gold: int
    """Number of queries with gold documents."""
    attribution: str
    warnings: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the JSON document of `summhay import FOLDER`."""
        return {name: value for name, value in asdict(self).items() if name != "warnings"}


def import_collection(folder: str | Path, store: Store) -> CollectionImport:
    """Store the collection in a folder. Raises SpecError, with the file's name, if the folder is not a collection."""
    collection = read_collection(Path(folder), str(folder))
    return CollectionImport(
        corpus=f"store/{store.put_object(COLLECTION, collection.to_bytes())}",
        documents=len(collection.documents),
        blank=sum(document.blank for document in collection.documents),
        queries=len(collection.queries),
        references=sum(any(map(str.strip, query.references)) for query in collection.queries),
        gold=sum(bool(query.gold) for query in collection.queries),
        attribution=collection.attribution,
        warnings=collection.warnings,
    )
