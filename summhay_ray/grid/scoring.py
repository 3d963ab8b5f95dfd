"""The scores of a stored run, from its judgments, without a call. Part of the grid room; no Ray."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import polars as pl

from summhay_ray.grid.cells import grid_of, read_source
from summhay_ray.haystack import RELEASED_JUDGE, ReleasedFile
from summhay_ray.records import Failure, Judgment, Score, Summary
from summhay_ray.score import (
    Compat,
    PositionSensitivity,
    SystemScore,
    position_sensitivity,
    score_summary,
    system_scores,
    words_per_bullet,
)
from summhay_ray.store import RunStore, to_records

SYSTEM = ("system", "retriever", "ordering", "model")
_TEXT = dict.fromkeys((*SYSTEM, "judge", "haystack_id", "subtopic_id"), pl.String)
_VALUES = dict.fromkeys(("coverage", "citation_precision", "citation_recall", "citation_f1", "joint"), pl.Float64)


@dataclass(frozen=True)
class ScoreResult:
    """The scores of a run: pooled over its haystacks, for each haystack, and how much the order of documents matters."""

    run: str
    compat: Compat
    systems: list[SystemScore]
    haystacks: dict[str, list[SystemScore]]
    """Name of the haystack -> its systems."""
    position: list[PositionSensitivity]
    failures: list[Failure]
    """Judgments that scoring could not use."""

    def to_json(self) -> dict[str, Any]:
        """The JSON document of `summhay score`."""
        return {
            "run": self.run,
            "compat": self.compat,
            "systems": [asdict(system) for system in self.systems],
            "haystacks": {name: [asdict(system) for system in systems] for name, systems in self.haystacks.items()},
            "position_sensitivity": [asdict(row) for row in self.position],
            "unusable_judgments": len(self.failures),
        }

    @property
    def table(self) -> pl.DataFrame:
        """One row a system."""
        return pl.DataFrame([{**asdict(system), "ci": None} for system in self.systems], infer_schema_length=None).drop("ci")


@dataclass(frozen=True)
class _Frames:
    insights: pl.DataFrame
    expected: pl.DataFrame
    words: pl.DataFrame
    failures: list[Failure]


def score_run(run: RunStore, compat: Compat = "default", samples: int = 1000) -> ScoreResult:
    """Score what the run holds now; what it does not hold yet is expected and not scored."""
    record = run.record
    sources = [read_source(run.store, entry) for entry in record["haystacks"]]
    names = {source.haystack.haystack_id: source.haystack.name for source in sources}
    frames = _frames(run, record, sources, compat)
    seed = record["spec"]["seed"] if record["kind"] == "grid" else 0
    pooled = system_scores(frames.insights, frames.expected, frames.words, seed, samples)
    by_haystack = {}
    for haystack_id, name in names.items():
        mine = pl.col("haystack_id") == haystack_id
        insights, expected, words = (frame.filter(mine) for frame in (frames.insights, frames.expected, frames.words))
        label = name if list(names.values()).count(name) == 1 else f"{name} ({haystack_id})"
        by_haystack[label] = system_scores(insights, expected, words, seed, samples) if len(names) > 1 else pooled
    return ScoreResult(run.run_id, compat, pooled, by_haystack, position_sensitivity(pooled), frames.failures)


def _frames(run: RunStore, record: Mapping[str, Any], sources: Iterable[ReleasedFile], compat: Compat) -> _Frames:
    summaries: list[Summary] = to_records("summaries", run.table("summaries"))
    judged: dict[str, list[Judgment]] = defaultdict(list)
    for judgment in to_records("judgments", run.table("judgments")):
        judged[judgment.cell_id].append(judgment)
    gold = {source.haystack.haystack_id: source.haystack.gold() for source in sources}
    insights: list[dict[str, Any]] = []
    words: list[dict[str, Any]] = []
    failures: list[Failure] = []
    for summary in summaries:
        system = {name: getattr(summary, name) for name in SYSTEM}
        place = {"haystack_id": summary.haystack_id, "subtopic_id": summary.subtopic_id}
        words.append({**system, **place, "words_per_bullet": words_per_bullet(summary.bullets)})
        for scored in score_summary(judged[summary.cell_id], summary.bullets, gold[summary.haystack_id], compat):
            if isinstance(scored, Score):
                values = {name: getattr(scored, name) for name in _VALUES}
                insights.append({**system, "judge": scored.judge, **place, **values})
            else:
                failures.append(scored)
    text = {name: kind for name, kind in _TEXT.items() if name != "judge"}
    return _Frames(
        pl.DataFrame(insights, schema={**_TEXT, **_VALUES}),
        pl.DataFrame(list(_expected(run, record, sources, summaries)), schema={**_TEXT, "n_expected": pl.Int64}),
        pl.DataFrame(words, schema={**text, "words_per_bullet": pl.Float64}),
        failures,
    )


def _expected(
    run: RunStore, record: Mapping[str, Any], sources: Iterable[ReleasedFile], summaries: Iterable[Summary]
) -> Iterator[dict[str, Any]]:
    """How many insights each system must be judged on, query by query: what a denominator is held against."""
    if record["kind"] == "grid":
        grid = grid_of(run.store, record)
        combos = [(system, *combo) for combo, system in grid.systems.items()]
        labels = [summarizer.label for summarizer in grid.spec.summarizers]
        samples = {(system, retriever, order, labels[index]): grid.spec.repeats for system, retriever, order, index in combos}
        judges = [judge.label for judge in grid.spec.judges]
    else:
        samples, judges = {}, [RELEASED_JUDGE]
        for summary in summaries:
            named = (summary.system, summary.retriever, summary.ordering, summary.model)
            samples[named] = max(samples.get(named, 0), summary.repeat + 1)
    for source in sources:
        haystack = source.haystack
        for subtopic in haystack.subtopics:
            n_insights = len(haystack.insights_of(subtopic.subtopic_id))
            place = {"haystack_id": haystack.haystack_id, "subtopic_id": subtopic.subtopic_id}
            for named, repeats in samples.items():
                system = {**dict(zip(SYSTEM, named, strict=True)), **place, "n_expected": repeats * n_insights}
                for judge in judges:
                    yield {**system, "judge": judge}
