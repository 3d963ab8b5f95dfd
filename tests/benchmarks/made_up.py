"""Made-up summaries and judgments of all cells of a grid, written directly into a store: data to score, without a model."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import groupby

from summhay_ray.benchmarks.summhay import SummHay
from summhay_ray.engine import ITEM, Item
from summhay_ray.records import Insight, Judgment, Summary
from summhay_ray.store import Finished, RunStore

VERDICTS = ("FULL_COVERAGE", "PARTIAL_COVERAGE", "NO_COVERAGE")


def commit_all(grid: SummHay, run: RunStore, seed: int = 1) -> None:
    """Commit every cell, one haystack at a time."""
    for haystack_id, cells in groupby(grid.items(), lambda cell: str(cell.data["unit"][0])):
        haystack, rng = grid.grid.haystacks[haystack_id], random.Random(f"{seed} {haystack_id}")
        run.commit(ITEM, [finished(grid, cell, haystack.insights_of(cell.data["unit"][1]), rng) for cell in cells])


def finished(grid: SummHay, cell: Item, insights: Sequence[Insight], rng: random.Random) -> Finished:
    """One cell: as many bullets as insights, each citing three documents, with random verdicts."""
    cited = [sorted(rng.sample(range(1, 101), 3)) for _ in insights]
    haystack_id, subtopic_id, retriever, ordering = cell.data["unit"]
    summary = Summary(
        cell_id=cell.id,
        haystack_id=haystack_id,
        subtopic_id=subtopic_id,
        system=cell.data["system"],
        retriever=retriever,
        ordering=ordering,
        model=grid.spec.summarizers[cell.data["summarizer"]].label,
        repeat=cell.data["repeat"],
        context_id="",
        key="",
        bullets=tuple(f"A sentence of a summary that says what some documents say {numbers}." for numbers in cited),
    )
    judgments = [
        Judgment(cell.id, judge.label, one.insight_id, place, "", rng.choice(VERDICTS), str(rng.randint(1, len(insights))))
        for judge in grid.spec.judges
        for place, one in enumerate(insights)
    ]
    return Finished(cell.id, {"summaries": [summary], "judgments": judgments})
