"""Haystacks out of topics: a run whose cells are topics. Part of the grid room; `run.py` starts Ray.

It goes through the same lanes, workers, ledger, budget and commits as any run, and is resumed by the same command.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from summhay_ray.grid.exporting import check_target, export
from summhay_ray.grid.plan import PlanResult
from summhay_ray.grid.progress import Progress
from summhay_ray.grid.run import Start, cell_counts
from summhay_ray.grid.sources import read_source
from summhay_ray.grid.standing import StillRun, standing_of
from summhay_ray.grid.synth_cell import synthesis_of
from summhay_ray.grid.synth_plan import plan_synth
from summhay_ray.grid.synth_topics import stored_topics
from summhay_ray.grid.synthesizing import Made, Synthesizing, made_by, synth_record
from summhay_ray.problems import Problem
from summhay_ray.records import MICROS, Failure
from summhay_ray.store import LogIndex, RunStore, Store, to_records


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


@dataclass(frozen=True)
class SynthResult:
    """What became of a synthesis. `calls` are of this time alone; `reused` answers were paid before, or for another topic."""

    run: str
    status: str
    """done, budget (stopped at it; resumable), or partial (finished, with topics that failed)."""
    cells: Mapping[str, int]
    """Topics: all, those with a haystack, those that failed."""
    haystacks: Sequence[MadeHaystack]
    failed: Sequence[FailedTopic]
    calls: Mapping[str, int]
    usd: Mapping[str, float | None]
    seconds: float
    stopped_models: Mapping[str, str] = field(default_factory=dict)
    left: Mapping[str, Any] | None = None
    """Where the budget stopped it, what is left: topics, calls, and their dollars at least, expected and at most."""
    warnings: tuple[str, ...] = ()
    files: Sequence[str] = ()
    """The released JSON files, where a folder was asked for."""

    def to_json(self) -> dict[str, Any]:
        """The JSON document of `summhay synth`."""
        names = ("run", "status", "cells", "calls", "usd", "left", "seconds")
        return {
            **{name: getattr(self, name) for name in names},
            "stopped_models": dict(self.stopped_models),
            "haystacks": [asdict(one) for one in self.haystacks],
            "failed": [asdict(one) for one in self.failed],
            "files": list(self.files),
        }


def open_synth(grid: Synthesizing, store: Store) -> RunStore:
    """The run of a synthesis in the store, with its record and its topics."""
    return store.create_run(grid.run_id, synth_record(grid, store))


def run_synth(
    grid: Synthesizing,
    store: Store,
    budget_usd: float | None = None,
    address: str = "local",
    watch: Callable[[Progress], None] | None = None,
    out: Path | None = None,
) -> SynthResult:
    """Make the haystacks that are not made yet. `budget_usd` replaces the spec's; `watch` as in `run_grid`.

    `out`: a folder that gets those that are done as released JSON. Raises Problem where it holds another file of such a name.
    """
    began = time.monotonic()
    store.files.check()
    run = open_synth(grid, store)
    if out is not None:
        _check_folder(run, grid, out)
    still = StillRun(run)
    budget_usd = budget_usd if budget_usd is not None else grid.spec.budget_usd
    start = _Start(run, grid, standing_of(grid, still), budget_usd, began)
    return start.made(*start.finished(still, address, watch), out)


def _check_folder(run: RunStore, grid: Synthesizing, out: Path) -> None:
    """What would be refused at the end is refused before anything is paid."""
    if out.exists() and not out.is_dir():
        raise Problem(f"{out} is a file; give a folder")
    made = made_by(run) if out.exists() else {}
    for topic in grid.topics if out.exists() else ():
        done = made.get(grid.cell_id(topic))
        check_target(out / f"{topic.name}.json", read_source(run.store, done.source()) if done else None)


class _Start(Start):
    """One start of a synthesis."""

    def plan(self) -> PlanResult:
        """What is left to ask."""
        assert isinstance(self.grid, Synthesizing)
        return plan_synth(self.grid, self.run.store, self.budget_usd)

    def used(self, still: StillRun) -> int:
        """How many answers the finished topics stand on."""
        return still.table("raw_answers").height

    def made(self, run: StillRun, snapshot: Mapping[str, Any], out: Path | None) -> SynthResult:
        """What the synthesis holds now."""
        cells = cell_counts(run, self.standing.total)
        index = LogIndex(run.store.files)
        index.refresh()
        finished = "done" if cells["done"] == cells["total"] else "partial"
        stopped: Mapping[str, Mapping[str, str]] = snapshot.get("stopped", {})
        made = made_haystacks(run)
        files = export(run, out, again=True) if out is not None and made else []
        return SynthResult(
            run=run.run_id,
            status="budget" if snapshot.get("left") else finished,
            cells=cells,
            haystacks=made,
            failed=failed_topics(run),
            calls={name: snapshot.get(name, 0) for name in ("made", "reused", "failed")},
            usd={"spent": index.spent(run.run_id) / MICROS, "budget": self.budget_usd},
            seconds=round(time.monotonic() - self.began, 3),
            stopped_models={model: f"{why['error']}: {why['reason']}" for model, why in stopped.items()},
            left=snapshot.get("left"),
            warnings=tuple(snapshot.get("warnings", ())),
            files=[str(path) for path in files],
        )


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
    rows: dict[str, Failure] = {one.cell_id: one for one in to_records("failures", run.table("failures"))}
    return [
        FailedTopic(topic.topic, topic.name, cell, one.stage, one.error, one.message, one.usd_micros / MICROS)
        for cell, topic in stored_topics(run.store, run.record)
        if (one := rows.get(cell)) is not None
    ]
