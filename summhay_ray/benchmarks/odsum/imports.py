"""A folder with a collection into a store, where specs name it by its content."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from summhay_ray.benchmarks.odsum.held import COLLECTION
from summhay_ray.benchmarks.odsum.reading import read_collection
from summhay_ray.store import Store


@dataclass(frozen=True)
class CollectionImport:
    """What an import kept of a collection."""

    corpus: str
    """What a spec writes, with the same store: `corpus: store/SHA256`."""
    documents: int
    blank: int
    """Documents that hold nothing but white space; they are kept."""
    queries: int
    references: int
    """Queries that have a reference summary."""
    gold: int
    """Queries whose gold documents are known."""
    attribution: str
    warnings: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """The JSON document of `summhay import FOLDER`."""
        return {name: value for name, value in asdict(self).items() if name != "warnings"}


def import_collection(folder: str | Path, store: Store) -> CollectionImport:
    """Keep the collection of a folder. Raises SpecError, in one line that names the file, where it is none."""
    found = read_collection(Path(folder), str(folder))
    return CollectionImport(
        corpus=f"store/{store.put_object(COLLECTION, found.to_bytes())}",
        documents=len(found.documents),
        blank=sum(one.blank for one in found.documents),
        queries=len(found.queries),
        references=sum(any(map(str.strip, one.references)) for one in found.queries),
        gold=sum(bool(one.gold) for one in found.queries),
        attribution=found.attribution,
        warnings=found.warnings,
    )
