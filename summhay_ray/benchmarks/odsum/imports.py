"""Imports a collection from a folder into a store, where specs name it by its content hash."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from summhay_ray.benchmark import Store
from summhay_ray.benchmarks.odsum.on_collection import COLLECTION
from summhay_ray.benchmarks.odsum.reading import read_collection


@dataclass(frozen=True)
class CollectionImport:
    """Summary of an imported collection."""

    corpus: str
    """`store/SHA256`: the value of `corpus` in a spec that uses the same store."""
    documents: int
    blank: int
    """Documents of only white space; they are kept."""
    queries: int
    references: int
    """Queries with a reference summary."""
    gold: int
    """Queries with gold documents."""
    attribution: str
    warnings: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """The JSON document of `summhay import FOLDER`."""
        return {name: value for name, value in asdict(self).items() if name != "warnings"}


def import_collection(folder: str | Path, store: Store) -> CollectionImport:
    """Store the collection in a folder. Raises SpecError, naming the file, if the folder is not a collection."""
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
