"""Haystacks out of topics: what a synthesis holds, and its haystacks as released files."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from summhay_ray.benchmark import Results
from summhay_ray.benchmarks.summhay.export import file_names, released_text, taken, write_files
from summhay_ray.benchmarks.summhay.sources import BY_GRAMMAR, read_source
from summhay_ray.benchmarks.summhay.tables import rows_of
from summhay_ray.benchmarks.synth.audit import person_audits
from summhay_ray.benchmarks.synth.made import Made, made_by
from summhay_ray.benchmarks.synth.spec import WRITER
from summhay_ray.benchmarks.synth.topic import BY_PERSON, SYNTHESIS, synthesis_of
from summhay_ray.benchmarks.synth.topics import stored_topics
from summhay_ray.engine import RunOptions, RunResult, run_workload
from summhay_ray.errors import UserError
from summhay_ray.haystack import ReleasedFile, without_labels
from summhay_ray.inputs import read_json
from summhay_ray.outcome import MICROS
from summhay_ray.records import Failure
from summhay_ray.store import RunStore, Store

if TYPE_CHECKING:
    from summhay_ray.benchmarks.synth.workload import Synth


@dataclass(frozen=True, slots=True)
class MadeHaystack:
    """A haystack that is done: verified, in the store, and named by `entry` in a run's spec."""

    name: str
    haystack_id: str
    entry: str
    topic: str
    domain: str
    documents: int
    subtopics: int
    """Those that are asked about."""
    distractors: int
    """Subtopics beside those, whose insights are in the documents, too."""
    insights: int
    """Of the subtopics that are asked about."""
    tokens: int
    """cl100k tokens of the documents."""
    words: int
    checks: int
    checks_by_model: int
    """Of the checks, those that the offline ones were unsure of."""
    corrections: int
    """Chapters written again and rounds of editing."""
    usd: float
    """What the answers that it stands on cost, whichever run paid them."""


@dataclass(frozen=True, slots=True)
class FailedTopic:
    """A topic that gave no haystack, and why."""

    topic: str
    name: str
    cell_id: str
    stage: str
    error: str
    message: str
    usd: float


def run_synth(workload: Synth, store: Store, options: RunOptions = RunOptions(), out: Path | None = None) -> RunResult:
    """Make the haystacks that are not made yet.

    `out`: a folder that gets those that are done as released JSON. Raises UserError where it holds another file of such a name.
    """
    if out is not None:
        store.files.check()
        _check_folder(workload.open(store), workload, out)
    result = run_workload(workload, store, options)
    run = store.run(result.run)
    files = export_made(run, out, again=True) if out is not None and made_by(run) else []
    written = [str(path) for path in files]
    details, scores = {**result.results.details, "files": written}, replace(result.results.scores, files=written)
    return replace(result, results=replace(result.results, details=details, scores=scores))


def results(run: RunStore) -> Results:
    """The haystacks of a synthesis, and the topics that gave none."""
    made, failed = made_haystacks(run), failed_topics(run)
    details = {"haystacks": [asdict(one) for one in made], "failed": [asdict(one) for one in failed], "files": []}
    by_grammar = run.record["spec"]["models"]["write"]["model"] == WRITER
    notes = (f"the prose is {BY_GRAMMAR}",) if by_grammar else ()
    return Results(details, Haystacks(made, failed), notes=notes)


@dataclass(frozen=True)
class Haystacks:
    """What a synthesis came to."""

    haystacks: list[MadeHaystack]
    failed: list[FailedTopic]
    files: Sequence[str] = ()
    """The released JSON files, where a folder was asked for."""


def _check_folder(run: RunStore, workload: Synth, out: Path) -> None:
    """What would be refused at the end is refused before anything is paid."""
    if out.exists() and not out.is_dir():
        raise UserError(f"{out} is a file; give a folder")
    made = made_by(run) if out.exists() else {}
    for topic in workload.topics if out.exists() else ():
        done = made.get(workload.cell_id(topic))
        path, source = out / f"{topic.name}.json", read_source(run.store, done.source()) if done else None
        if path.exists() and (source is None or _unaudited(path) != json.loads(released_text(source.raw))):
            raise UserError(taken(path))


def export_made(run: RunStore, folder: Path, again: bool = False) -> list[Path]:
    """The haystacks as released JSON, as they were made. `again`: over files that hold the same but for a person's labels."""
    entries = [one.source() for one in made_by(run).values()]
    audits = person_audits(run)
    contents = (audited(read_source(run.store, entry), audits.get(entry["name"])) for entry in entries)
    same = (lambda old, new: _unaudited(old) == _unaudited(new)) if again else None
    return write_files(folder, zip(file_names(entries), contents, strict=True), same)


def _unaudited(path: Path) -> Any:
    """The JSON of a file without what a person's labels say; None where it is none that could be a haystack."""
    try:
        content = json.loads(read_json(path))
    except (UserError, ValueError, RecursionError):
        return None
    return without_labels(content) if isinstance(content, dict) else None


def audited(source: ReleasedFile, audit: Mapping[str, Any] | None) -> dict[str, Any]:
    """A synthesized haystack's JSON, with what a person's labels say of it, where they were read."""
    raw, told = source.raw, synthesis_of(source)
    if audit is None or not told:
        return raw
    metadata = raw["topic_metadata"]
    return {**raw, "topic_metadata": {**metadata, SYNTHESIS: {**told, "audit": {**told.get("audit", {}), BY_PERSON: audit}}}}


def made_haystacks(run: RunStore) -> list[MadeHaystack]:
    """The haystacks of a synthesis, in the spec's order; one is read at a time."""
    return [_described(run.store, one) for one in made_by(run).values()]


def _described(store: Store, made: Made) -> MadeHaystack:
    source = read_source(store, made.source())
    haystack, told = source.haystack, synthesis_of(source)
    numbers = {name: int(told[name]) for name in ("tokens", "words", "checks", "checks_by_model", "corrections")}
    return MadeHaystack(
        name=made.name,
        haystack_id=made.haystack_id,
        entry=made.entry,
        topic=haystack.topic,
        domain=haystack.domain,
        documents=len(haystack.documents),
        subtopics=len(haystack.subtopics),
        distractors=len(told["distractors"]),
        insights=len(haystack.insights),
        usd=told["usd_micros"] / MICROS,
        **numbers,
    )


def failed_topics(run: RunStore) -> list[FailedTopic]:
    """The topics that gave no haystack, in the spec's order."""
    rows: dict[str, Failure] = {one.cell_id: one for one in rows_of(run, "failures")}
    return [
        FailedTopic(topic.topic, topic.name, cell, one.stage, one.error, one.message, one.usd_micros / MICROS)
        for cell, topic in stored_topics(run.store, run.record)
        if (one := rows.get(cell)) is not None
    ]
