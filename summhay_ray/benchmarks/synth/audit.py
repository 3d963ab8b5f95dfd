"""The audit of a run's haystacks by a person: writes the sheet, and reads its labels.

After appendices A.1.2 and A.1.3 of the paper: its Table 4 (insights assigned to subtopics) and Table 5 (insights in documents).
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typing_extensions import TypedDict

from summhay_ray.benchmark import Chain, RunStore
from summhay_ray.benchmarks.summhay.haystacks.metadata import read_source
from summhay_ray.benchmarks.synth.tables import made_by
from summhay_ray.benchmarks.synth.topics import TOPICS
from summhay_ray.errors import UserError
from summhay_ray.inputs import read_file
from summhay_ray.synth import Labels, audit_sample, audit_tables, by_haystack, haystack_tables, read_audit, write_audit


@dataclass(frozen=True, slots=True)
class Sample:
    """The sample that a person is asked to label. As in the paper, it takes a few haystacks, and a few documents of each."""

    insights: int = 100
    documents: int = 10
    haystacks: int = 10
    """Maximum number of haystacks from which insights and documents are drawn."""
    seed: int = 0


def write_sheet(run: RunStore, path: Path, sample: Sample) -> dict[str, Any]:
    """Write the sheet. Returns its counts. Raises UserError if the run has no haystack, or if the file exists."""
    if path.exists():
        raise UserError(f"{path} exists and may hold a person's labels; give another file")
    if not path.parent.is_dir():
        raise UserError(f"{path.parent} is not a folder; make it first")
    sources = _sources(run)
    if not sources:
        raise UserError(f"{run.run_id} has no haystack yet; resume the run first")
    drawn = random.Random(f"audit {sample.seed}").sample(range(len(sources)), min(sample.haystacks, len(sources)))
    rows = audit_sample(_raws(run, [sources[place] for place in sorted(drawn)]), sample.insights, sample.documents, sample.seed)
    write_audit(path, rows)
    kinds = [row.kind for row in rows]
    return {
        "run": run.run_id,
        "file": str(path),
        "haystacks": len(drawn),
        "rows": len(rows),
        "insights": kinds.count("insight_subtopic"),
        "documents": len({(row.haystack, row.document) for row in rows if row.kind == "document_insight"}),
    }


def read_sheet(run: RunStore, path: Path) -> dict[str, Any]:
    """The figures of a labelled sheet: `insight_subtopic` and `document_insight`, each with a row per domain and one for all.

    The figures are stored with the run, and `export` adds them to its haystacks. Raises UserError for a label that cannot be
    read.
    """
    try:
        text = read_file(path).decode("utf-8-sig", "replace")
    except OSError as error:
        raise UserError(
            f"{path} cannot be read ({error.strerror}); give the sheet that `summhay audit --out` wrote, labelled"
        ) from error
    # Reads only the haystacks that the sheet names.
    raws = _raws(run, [source for source in _sources(run) if source["name"] in text])
    labels = read_audit(path, raws)
    _keep(_audits(run), by_haystack(labels))
    return {"run": run.run_id, "file": str(path), **audit_tables(labels)}


class _Audits(TypedDict):
    """Haystack -> table -> its figures, by the latest labels."""

    haystacks: dict[str, dict[str, dict[str, int | float | None]]]


def _keep(audits: Chain[_Audits], by_name: Mapping[str, Labels]) -> None:
    """Add the figures of labels to the stored ones. Another process may do so at the same time: it retries until it succeeds."""
    while True:
        number, body = audits.newest() or (0, _Audits(haystacks={}))
        kept = dict(body["haystacks"])
        for name, labels in by_name.items():
            tables = haystack_tables(labels)
            # A sheet with labels for only one table leaves the other unchanged.
            labelled = {"insight_subtopic": bool(labels.insights), "document_insight": bool(labels.documents)}
            kept[name] = {**tables, **kept.get(name, {}), **{table: row for table, row in tables.items() if labelled[table]}}
        if kept == body["haystacks"] and number or audits.append(number + 1, {"haystacks": kept}):
            return


def person_audits(run: RunStore) -> dict[str, Any]:
    """Name of a haystack -> the figures of its latest labels. Raises StoreError if they are damaged."""
    newest = _audits(run).newest()
    return dict(newest[1]["haystacks"]) if newest else {}


def _audits(run: RunStore) -> Chain[_Audits]:
    mend = "delete it and those after it, and read the sheet again"
    return Chain(run.store.files, f"runs/{run.run_id}/audits", _Audits, mend)


def _raws(run: RunStore, sources: Sequence[Mapping[str, str]]) -> list[dict[str, Any]]:
    return [{**read_source(run.store, source).raw, "topic_id": source["name"]} for source in sources]


def _sources(run: RunStore) -> list[dict[str, str]]:
    """The sources of a run's haystacks, from its record; for a synthesis, those made so far."""
    record = run.record
    return [haystack.source() for haystack in made_by(run).values()] if TOPICS in record else list(record["haystacks"])
