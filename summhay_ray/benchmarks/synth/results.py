"""The haystacks and the failed topics of a synthesis; haystacks as released files."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from summhay_ray.benchmark import RunStore
from summhay_ray.benchmarks.summhay.haystacks.export import file_names, released_text, taken, write_files
from summhay_ray.benchmarks.summhay.haystacks.metadata import read_source
from summhay_ray.benchmarks.summhay.haystacks.tables import rows_of
from summhay_ray.benchmarks.synth.audit import person_audits
from summhay_ray.benchmarks.synth.make_haystack import BY_PERSON, SYNTHESIS, synthesis_of
from summhay_ray.benchmarks.synth.recipe import Recipe
from summhay_ray.benchmarks.synth.tables import Made, made_by
from summhay_ray.benchmarks.synth.topics import stored_topics
from summhay_ray.errors import UserError
from summhay_ray.haystack import ReleasedFile, without_labels
from summhay_ray.inputs import read_json
from summhay_ray.outcome import MICROS
from summhay_ray.records import Failure


@dataclass(frozen=True, slots=True)
class MadeHaystack:
    """A finished haystack: verified and in the store. `entry` names it in another run's spec."""

    name: str
    haystack_id: str
    entry: str
    topic: str
    domain: str
    documents: int
    subtopics: int
    """Subtopics with a query."""
    distractors: int
    """Subtopics without a query; the documents contain their insights, too."""
    insights: int
    """Insights of the subtopics with a query."""
    tokens: int
    """cl100k tokens of the documents."""
    words: int
    checks: int
    checks_by_model: int
    """Number of checks that a model decided, because the offline check was unsure."""
    corrections: int
    """Chapters written again, and rounds of editing."""
    usd: float
    """Cost of its answers, regardless of which run paid for them."""


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

    def details(self) -> dict[str, Any]:
        """The fields of the run's JSON document."""
        made, failed = ([asdict(one) for one in listed] for listed in (self.haystacks, self.failed))
        return {"haystacks": made, "failed": failed, "files": []}


def export_made(run: RunStore, folder: Path, again: bool = False) -> list[Path]:
    """Write the haystacks as released JSON. `again`: overwrite files that differ only in a person's labels."""
    entries = [haystack.source() for haystack in made_by(run).values()]
    if again and not entries:
        return []
    audits = person_audits(run)
    contents = (audited(read_source(run.store, entry), audits.get(entry["name"])) for entry in entries)
    same = (lambda old, new: unaudited(old) == unaudited(new)) if again else None
    return write_files(folder, zip(file_names(entries), contents, strict=True), same)


def check_folder(run: RunStore, recipe: Recipe, out: Path) -> None:
    """Raises UserError for a folder that is not writable; checks this before the run."""
    if out.exists() and not out.is_dir():
        raise UserError(f"{out} is a file; give a folder")
    made = made_by(run) if out.exists() else {}
    for topic in recipe.topics if out.exists() else ():
        done = made.get(recipe.cell_id(topic))
        path, source = out / f"{topic.name}.json", read_source(run.store, done.source()) if done else None
        if path.exists() and (source is None or unaudited(path) != json.loads(released_text(source.raw))):
            raise UserError(taken(path))


def unaudited(path: Path) -> Any:
    """A file's JSON without the figures from a person's labels; None if it is not a JSON object."""
    try:
        content = json.loads(read_json(path))
    except (UserError, ValueError, RecursionError):
        return None
    return without_labels(content) if isinstance(content, dict) else None


def audited(source: ReleasedFile, audit: Mapping[str, Any] | None) -> dict[str, Any]:
    """A synthesized haystack's JSON, with the figures of a person's labels if there are any."""
    raw, synthesis = source.raw, synthesis_of(source)
    if audit is None or not synthesis:
        return raw
    synthesis = {**synthesis, "audit": {**synthesis.get("audit", {}), BY_PERSON: audit}}
    return {**raw, "topic_metadata": {**raw["topic_metadata"], SYNTHESIS: synthesis}}


def made_haystacks(run: RunStore) -> list[MadeHaystack]:
    """The haystacks of a synthesis, in the spec's order. They are read one at a time."""
    return [described_haystack(made, read_source(run.store, made.source())) for made in made_by(run).values()]


def described_haystack(made: Made, source: ReleasedFile) -> MadeHaystack:
    """A finished haystack with its sizes and its cost."""
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


def failed_topics(run: RunStore) -> list[FailedTopic]:
    """The topics without a haystack, in the spec's order."""
    rows: dict[str, Failure] = {failure.cell_id: failure for failure in rows_of(run, "failures")}
    return [
        FailedTopic(topic.topic, topic.name, cell, failure.stage, failure.error, failure.message, failure.usd_micros / MICROS)
        for cell, topic in stored_topics(run.store, run.record)
        if (failure := rows.get(cell)) is not None
    ]
