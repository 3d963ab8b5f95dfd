"""The memory of a waiting cell: its haystack while it is summarized, and little while it is judged."""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path
from typing import Any

import pytest
from summhay_grids import grid_of_files

from summhay_ray.benchmarks.summhay.haystacks.sources import Recent
from summhay_ray.engine.ask import Ask, Kept, Turns
from summhay_ray.engine.run.queues import WorkItem
from summhay_ray.engine.run.worker import Answered, answered
from summhay_ray.llm import RawAnswer, Request
from summhay_ray.outcome import Answer, Failed, Outcome
from summhay_ray.records import Haystack

pytestmark = pytest.mark.core

SMALL = {"documents": 6, "words": 40, "subtopics": 2, "insights": 3}
N_HAYSTACKS = 12


def alive() -> int:
    gc.collect()
    return sum(type(one) is Haystack for one in gc.get_objects())


class Provider:
    """Answers summaries. When every cell waits for its judge, it counts the haystacks in memory."""

    def __init__(self, cells: int) -> None:
        self.cells, self.waiting, self.alive = cells, 0, -1
        self.all_wait = asyncio.Event()

    async def complete(self, request: Request, stage: str, kept: Kept) -> Outcome[RawAnswer]:
        return kept(*await self.answer(request, stage))

    async def answer(self, request: Request, stage: str) -> tuple[Outcome[RawAnswer], RawAnswer | None]:
        if stage == "summarize":
            raw = RawAnswer(request.key, request.model, "- a bullet [1]", "stop", 1, 0, 1, 0, 1)
            return Answer(raw, raw.key), raw
        self.waiting += 1
        if self.waiting == self.cells:
            self.alive = alive()
            self.all_wait.set()
        await self.all_wait.wait()
        return Failed("refused", "no more is asked"), None


@pytest.mark.soak
def test_cells_that_wait_for_judges_hold_no_haystack(tmp_path: Path) -> None:
    others = alive()
    model = {"model": "openai/x", "price": 0}
    fields: dict[str, Any] = {"summarizers": [model], "judges": [{**model, "model": "openai/j"}]}
    grid, _ = grid_of_files(tmp_path, N_HAYSTACKS, SMALL, **fields)
    grid.grid.haystacks.recent = Recent(1)
    work = [WorkItem(item, grid.prepare(item.source, [item]).shared) for item in grid.items()]
    before = alive()

    async def answer_all() -> tuple[int, list[Answered]]:
        # A cell asks about all its insights at once, so that all calls of all cells wait at the same time.
        provider = Provider(sum(grid.grid.haystacks.metadata[0].n_insights[0] for _ in work))
        turns: Turns = {}
        done = await asyncio.gather(*(answered(grid, one, Ask(grid, one.item, provider.complete, turns)) for one in work))
        return provider.alive, done

    waiting, done = asyncio.run(answer_all())
    # One of twelve haystacks is kept for the next cell, and waiting cells hold none.
    assert before - others == 1 and waiting - others == 1
    assert [len(one.rows["summaries"]) for one in done] == [1] * 2 * N_HAYSTACKS
    assert {len(one.rows["failures"]) for one in done} == {3}
