"""Import released files into a store, as one run.

Files are read twice, a few at a time. The first pass checks all of them, so that nothing is written if one is broken. The
second writes their rows into parts. A single commit then names all parts, so an import that is killed leaves no run.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from summhay_ray.benchmark import Counted, RunStore, Store, Table
from summhay_ray.benchmarks.hub_files import HUB, hub_content, hub_entries
from summhay_ray.benchmarks.summhay.haystacks.metadata import (
    FIELDS_OF_HAYSTACKS,
    STAGE,
    TABLES,
    haystack_rows,
    keep_metadata,
    metadata_of,
    source_bytes,
)
from summhay_ray.benchmarks.summhay.haystacks.sources import changed_error
from summhay_ray.benchmarks.summhay.workload import Summaries
from summhay_ray.errors import UserError
from summhay_ray.haystack import InvalidHaystack, ReleasedFile, imported_rows, read_released
from summhay_ray.inputs import read_json
from summhay_ray.metrics import score_summary
from summhay_ray.records import Failure, Judgment, Score

COUNTED = ("summaries", "judgments", "failures")
"""Tables whose rows an import counts."""
FILES_A_BLOCK = 16
"""Number of files whose rows are written together, in one part for each table."""


class Import(Summaries[Any]):
    """A run of summaries and judgments made elsewhere. It makes no call."""

    kind = "import"
    counted = Counted(prefix="i")
    tables: ClassVar[Sequence[Table]] = TABLES
    imported = True
    record_fields: ClassVar[Mapping[str, Any]] = {"name": str, **FIELDS_OF_HAYSTACKS}

    @classmethod
    def n_items_of(cls, run: RunStore) -> int:
        return run.table("summaries").height


@dataclass(frozen=True)
class ImportResult:
    """The counts of an import."""

    run: str
    haystacks: int
    documents: int
    queries: int
    summaries: int
    judgments: int
    failures: int
    """Number of judgments without a summary or with an unusable answer. They are imported, and listed as failures."""
    warnings: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the JSON document that `summhay import` prints."""
        return {name: value for name, value in asdict(self).items() if name != "warnings"}


def import_released(paths: Sequence[str], store: Store) -> ImportResult:
    """Import released files as one run. Every file is checked before anything is written. Raises InvalidHaystack."""
    paths = [one for path in paths for one in (hub_entries(path) if path.startswith(HUB) else [path])]
    metadata = [metadata_of(read_file(path)) for path in paths]
    first: dict[str, str] = {}
    for path, haystack in zip(paths, metadata, strict=True):
        if haystack.haystack_id in first:
            raise InvalidHaystack(f"{path}: has the same content as {first[haystack.haystack_id]}; remove one")
        first[haystack.haystack_id] = path
    run_id = "i" + hashlib.sha256("\n".join(sorted(first)).encode()).hexdigest()[:12]
    written: list[Mapping[str, Any]] = []
    counted = Counter(dict.fromkeys(COUNTED, 0))
    files = list(first.items())
    for start in range(0, len(files), FILES_A_BLOCK):
        parts, rows = keep_files(store, run_id, files[start : start + FILES_A_BLOCK])
        written.append(parts)
        counted.update({table: rows.get(table, 0) for table in COUNTED})
    name = ", ".join(haystack.name for haystack in metadata)
    run = Import.run_in(store, run_id, {"kind": Import.kind, "name": name, **keep_metadata(store, metadata)})
    if not first.keys() <= run.finished(STAGE).keys():
        run.commit_written(written)
    run.end()
    return ImportResult(
        run=run_id,
        haystacks=len(metadata),
        documents=sum(haystack.n_documents for haystack in metadata),
        queries=sum(len(haystack.n_insights) for haystack in metadata),
        warnings=tuple(warning for haystack in metadata for warning in haystack.warnings),
        **counted,
    )


def keep_files(store: Store, run_id: str, files: Iterable[tuple[str, str]]) -> tuple[Mapping[str, Any], Mapping[str, int]]:
    """Put the files, given as (haystack_id, path), into the store, and their rows into parts. Returns the rows by table.

    Raises UserError for a file that has changed since it was checked.
    """
    units: dict[str, dict[str, list[Any]]] = {}
    counted: Counter[str] = Counter()
    for haystack_id, path in files:
        source = read_file(path)
        if source.haystack.haystack_id != haystack_id:
            raise changed_error(path)
        store.put_object("haystack", source_bytes(source.raw))
        rows, gold = imported_rows(source), source.haystack.gold
        judged: dict[str, list[Judgment]] = {}
        for judgment in rows.judgments:
            judged.setdefault(judgment.cell_id, []).append(judgment)
        scored = [
            row.of(summary) if isinstance(row, Score) else row
            for summary in rows.summaries
            for row in score_summary(judged.get(summary.cell_id, []), summary.bullets, gold)
        ]
        units[haystack_id] = {
            **haystack_rows(source),
            "summaries": list(rows.summaries),
            "judgments": list(rows.judgments),
            "scores": [row for row in scored if isinstance(row, Score)],
            "failures": [*rows.failures, *(row for row in scored if isinstance(row, Failure))],
        }
        counted.update({table: len(records) for table, records in units[haystack_id].items()})
    # The run itself is created after all parts are written.
    return Import.run_in(store, run_id).write_units(STAGE, units), counted


def read_file(path: str) -> ReleasedFile:
    """Read a released file. Raises InvalidHaystack."""
    try:
        return read_released(hub_content(path) if path.startswith(HUB) else read_json(path), path)
    except OSError as error:
        raise InvalidHaystack(f"{path}: cannot be read ({error.strerror}); expected a released JSON file") from error
    except UserError as error:
        raise InvalidHaystack(str(error)) from error
