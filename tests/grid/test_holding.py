"""What a cell holds while it waits: its haystack while it is summarized, and little while it is judged."""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path
from typing import Any

import pytest
from big_haystacks import write_haystacks
from inprocess import SAMPLE

from summhay_ray.grid import Grid, load_grid, parse_spec
from summhay_ray.grid.answering import answer_cell
from summhay_ray.grid.contexts import make_context, rank
from summhay_ray.grid.lanes import Gates
from summhay_ray.grid.sources import Haystacks
from summhay_ray.llm import Gateway, Request
from summhay_ray.outcome import Answer, Failed, Outcome
from summhay_ray.records import Context, Haystack, RawAnswer

pytestmark = pytest.mark.core

SMALL = {"documents": 6, "words": 40, "subtopics": 2, "insights": 3}
N_HAYSTACKS = 12


class Provider(Gateway):
    """Answers summaries; when every cell waits for its judge, it counts the haystacks that are alive."""

    def __init__(self, cells: int) -> None:
        self.cells, self.waiting, self.alive = cells, 0, -1
        self.all_wait = asyncio.Event()

    async def complete(self, request: Request, stage: str) -> tuple[Outcome[RawAnswer], RawAnswer | None]:
        if stage == "summarize":
            raw = RawAnswer(request.key, request.model, "- a bullet [1]", "stop", 1, 0, 1, 0, 1)
            return Answer(raw, raw.key), raw
        self.waiting += 1
        if self.waiting == self.cells:
            gc.collect()
            self.alive = sum(isinstance(one, Haystack) for one in gc.get_objects())
            self.all_wait.set()
        await self.all_wait.wait()
        return Failed("refused", "no more is asked"), None


def context_of(grid: Grid, unit: Any) -> Context:
    haystack = grid.haystacks[unit.haystack_id]
    context, _, _ = make_context(grid, haystack, unit, lambda _, subtopic, name: rank(grid, haystack, subtopic, name))
    assert context is not None
    return context


def test_cells_that_wait_for_judges_hold_no_haystack(tmp_path: Path) -> None:
    paths = write_haystacks(tmp_path, N_HAYSTACKS, **SMALL)
    model = {"model": "openai/x", "price": 0}
    fields = {"summarizers": [model], "judges": [{**model, "model": "openai/j"}], "haystacks": [path.name for path in paths]}
    grid = load_grid(parse_spec({**SAMPLE, **fields}), tmp_path)
    grid = Grid(grid.spec, grid.sources, grid.prompts, Haystacks(list(grid.haystacks), grid.haystacks.content, kept=1))
    cells = [(cell, context_of(grid, cell.unit)) for cell in grid.cells()]
    gc.collect()
    before = sum(isinstance(one, Haystack) for one in gc.get_objects())

    async def work() -> tuple[int, list[Any]]:
        # A cell asks for all its insights at once, so that all calls of all cells wait together.
        provider = Provider(sum(grid.sources[0].n_insights[0] for _ in cells))
        rows = await asyncio.gather(
            *(answer_cell(grid, cell, context, provider, Gates({"openai/x": 2})) for cell, context in cells)
        )
        return provider.alive, rows

    alive, rows = asyncio.run(work())
    # Of twelve haystacks one is kept for the next that asks, and none is held by the cells that wait.
    assert before == 1 and alive == 1
    assert [len(one.rows["summaries"]) for one in rows] == [1] * 2 * N_HAYSTACKS
    assert {len(one.rows["failures"]) for one in rows} == {3}
