"""The results of a synthesis: its haystacks and failed topics, haystacks as released files, and their audit by a person.

The audit follows appendices A.1.2 and A.1.3 of the paper: its Table 4 (insights assigned to subtopics) and Table 5 (insights in
documents).
"""

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typing_extensions import TypedDict

from summhay_ray.benchmark import Chain, RunStore
from summhay_ray.benchmarks.summhay.haystacks.export import exists_message, file_names, released_text, write_files
from summhay_ray.benchmarks.summhay.haystacks.metadata import read_source, rows_of
from summhay_ray.benchmarks.synth.make_haystack import BY_PERSON, SYNTHESIS, synthesis_of
from summhay_ray.benchmarks.synth.recipe import Recipe
from summhay_ray.benchmarks.synth.topics import TOPICS, Made, made_by, stored_topics
from summhay_ray.errors import UserError
from summhay_ray.haystack import ReleasedFile, remove_labels
from summhay_ray.inputs import read_file, read_json
from summhay_ray.outcome import MICROS
from summhay_ray.records import Failure
from summhay_ray.synth import audit_sample, audit_tables, by_haystack, haystack_tables, read_audit, write_audit


@dataclass(frozen=True, slots=True)
class MadeHaystack:
    """A finished haystack, verified and in the store. `entry` is its name in the spec of another run."""

    name: str
    haystack_id: str
    entry: str
    topic: str
    domain: str
    documents: int
    subtopics: int
    """Number of subtopics with a query."""
    distractors: int
    """Number of subtopics without a query; the documents contain their insights, too."""
    insights: int
    """Number of insights of the subtopics with a query."""
    tokens: int
    """Number of cl100k tokens of the documents."""
    words: int
    checks: int
    checks_by_model: int
    """Number of checks that a model decided, because the offline check was unsure."""
    corrections: int
    """Number of chapters written again and of rounds of editing."""
    usd: float
    """Cost of its answers, whichever run paid for them."""


@dataclass(frozen=True, slots=True)
class FailedTopic:
    """A topic without a haystack, and the reason."""

    topic: str
    name: str
    cell_id: str
    stage: str
    error: str
    message: str
    usd: float


@dataclass(frozen=True)
class Haystacks:
    """The results of a synthesis."""

    haystacks: list[MadeHaystack]
    failed: list[FailedTopic]
    files: Sequence[str] = ()
    """Paths of the released JSON files, if a folder was given."""


def export_made(run: RunStore, folder: Path, again: bool = False) -> list[Path]:
    """Write the haystacks as released JSON. `again`: overwrite files that differ only in a person's labels."""
    entries = [haystack.source() for haystack in made_by(run).values()]
    if again and not entries:
        return []
    audits = person_audits(run)
    contents = (_with_audit(read_source(run.store, entry), audits.get(entry["name"])) for entry in entries)
    same = (lambda old, new: unaudited(old) == unaudited(new)) if again else None
    return write_files(folder, zip(file_names(entries), contents, strict=True), same)


def _with_audit(source: ReleasedFile, audit: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return a synthesized haystack's JSON, with the figures of a person's labels if there are any."""
    raw, synthesis = source.raw, synthesis_of(source)
    if audit is None or not synthesis:
        return raw
    synthesis = {**synthesis, "audit": {**synthesis.get("audit", {}), BY_PERSON: audit}}
    return {**raw, "topic_metadata": {**raw["topic_metadata"], SYNTHESIS: synthesis}}


def check_folder(run: RunStore, recipe: Recipe, out: Path) -> None:
    """Check before the run that a folder is writable. Raises UserError."""
    if out.exists() and not out.is_dir():
        raise UserError(f"{out} is a file; give a folder")
    made = made_by(run) if out.exists() else {}
    for topic in recipe.topics if out.exists() else ():
        done = made.get(recipe.cell_id(topic))
        path, source = out / f"{topic.name}.json", read_source(run.store, done.source()) if done else None
        if path.exists() and (source is None or unaudited(path) != json.loads(released_text(source.raw))):
            raise UserError(exists_message(path))


def unaudited(path: Path) -> Any:
    """Return a file's JSON without the figures from a person's labels. None if it is not a JSON object."""
    try:
        content = json.loads(read_json(path))
    except (UserError, ValueError, RecursionError):
        return None
    return remove_labels(content) if isinstance(content, dict) else None


def described_haystack(made: Made, source: ReleasedFile) -> MadeHaystack:
    haystack, synthesis = source.haystack, synthesis_of(source)
    numbers = {name: int(synthesis[name]) for name in ("tokens", "words", "checks", "checks_by_model", "corrections")}
    return MadeHaystack(
        name=made.name,
        haystack_id=made.haystack_id,
        entry=made.entry,
        topic=haystack.topic,
        domain=haystack.domain,
        documents=len(haystack.documents),
        subtopics=len(haystack.subtopics),
        distractors=len(synthesis["distractors"]),
        insights=len(haystack.insights),
        usd=synthesis["usd_micros"] / MICROS,
        **numbers,
    )


def read_haystacks(run: RunStore) -> Haystacks:
    rows: dict[str, Failure] = {failure.cell_id: failure for failure in rows_of(run, "failures")}
    failed = [
        FailedTopic(topic.topic, topic.name, cell, failure.stage, failure.error, failure.message, failure.usd_micros / MICROS)
        for cell, topic in stored_topics(run.store, run.record)
        if (failure := rows.get(cell)) is not None
    ]
    made = [described_haystack(made, read_source(run.store, made.source())) for made in made_by(run).values()]
    return Haystacks(made, failed)


@dataclass(frozen=True, slots=True)
class Sample:
    """The sample that a person is asked to label: as in the paper, a few haystacks, and a few documents of each."""

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
    chosen = [sources[place] for place in sorted(drawn)]
    raws = [{**read_source(run.store, source).raw, "topic_id": source["name"]} for source in chosen]
    rows = audit_sample(raws, sample.insights, sample.documents, sample.seed)
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
    """Return the figures of a labelled sheet, `insight_subtopic` and `document_insight`, each by domain and for all. They are
    stored with the run, and `export` adds them to its haystacks. Raises UserError for a label that cannot be read."""
    try:
        text = read_file(path).decode("utf-8-sig", "replace")
    except OSError as error:
        raise UserError(
            f"{path} cannot be read ({error.strerror}); give the sheet that `summhay audit --out` wrote, labelled"
        ) from error
    # Read only the haystacks that the sheet names.
    named = [source for source in _sources(run) if source["name"] in text]
    labels = read_audit(path, [{**read_source(run.store, source).raw, "topic_id": source["name"]} for source in named])
    # Retry until it succeeds: another process may add figures at the same time.
    audits, appended = Chain(run.store.files, f"runs/{run.run_id}/audits", _Audits, _MEND), False
    while not appended:
        number, body = audits.newest() or (0, _Audits(haystacks={}))
        kept = dict(body["haystacks"])
        for name, given in by_haystack(labels).items():
            tables = haystack_tables(given)
            # A sheet with labels for only one table leaves the figures of the other table unchanged.
            labelled = {"insight_subtopic": bool(given.insights), "document_insight": bool(given.documents)}
            kept[name] = {**tables, **kept.get(name, {}), **{table: row for table, row in tables.items() if labelled[table]}}
        unchanged = kept == body["haystacks"] and number > 0
        appended = unchanged or audits.append(number + 1, {"haystacks": kept})
    return {"run": run.run_id, "file": str(path), **audit_tables(labels)}


_MEND = "delete it and those after it, and read the sheet again"


class _Audits(TypedDict):
    """Haystack -> table -> its figures, by the latest labels."""

    haystacks: dict[str, dict[str, dict[str, int | float | None]]]


def person_audits(run: RunStore) -> dict[str, Any]:
    """Map the name of each haystack to the figures of its latest labels. Raises StoreError if they are damaged."""
    newest = Chain(run.store.files, f"runs/{run.run_id}/audits", _Audits, _MEND).newest()
    return dict(newest[1]["haystacks"]) if newest else {}


def _sources(run: RunStore) -> list[dict[str, str]]:
    """Return the sources of a run's haystacks, from its record. For a synthesis, these are the haystacks made so far."""
    record = run.record
    return [haystack.source() for haystack in made_by(run).values()] if TOPICS in record else list(record["haystacks"])
