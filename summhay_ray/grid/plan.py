"""What a run will ask and cost, before any call. Part of the grid room; no Ray, no calls.

The run's own strategies are asked with an `ask` that only looks into the response log: what is there is reused, what is not is
a call to come. So prompts of summaries are exact; prompts of judgments are exact where the summary is known, and elsewhere
those of a summary of the expected length.
"""

from __future__ import annotations

import asyncio
import math
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from typing import Any

from summhay_ray.grid.answering import judge_settings, task_of
from summhay_ray.grid.cells import Cell, Grid, Unit
from summhay_ray.grid.contexts import make_context, rank
from summhay_ray.judge import make_judge
from summhay_ray.llm import ModelSettings, Request, count_tokens, read_answer
from summhay_ray.outcome import Answer, Failed, Outcome
from summhay_ray.records import Haystack, RawAnswer
from summhay_ray.store import LogIndex, Store
from summhay_ray.summarize import bullets_of, make_summarizer

MICROS = 1_000_000
TOKENS_A_BULLET = 60
"""Expected length of one bullet with its citations (paper, Table 2: about 30 words)."""

TOKENS_A_VERDICT = 20
_BULLET = "- " + "one of the words of a bullet point " * 4 + "[12][34][56]"


@dataclass
class StagePlan:
    """One stage and model: calls still to make, answers already there, tokens and dollars of the calls to make."""

    stage: str
    model: str
    calls: int = 0
    reused: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    usd: float = 0.0
    usd_min: float = 0.0
    usd_max: float = 0.0

    def add(self, settings: ModelSettings, prompt_tokens: int, expected: int, longest: int) -> None:
        """Count one call: its prompt, the answer expected, the longest answer allowed."""
        expected = min(expected, longest)
        self.calls += 1
        self.input_tokens += prompt_tokens
        self.output_tokens += expected
        self.usd_min += settings.price.micros(prompt_tokens, 0) / MICROS
        self.usd += settings.price.micros(prompt_tokens, expected) / MICROS
        self.usd_max += settings.worst_micros(prompt_tokens, longest) / MICROS


@dataclass(frozen=True)
class PlanResult:
    """The plan of a run."""

    run: str
    cells: int
    cells_finished: int
    too_long: int
    """Cells whose prompt exceeds the model's window: they become failures, and no call is made."""
    no_context: int
    """Cells whose retriever lacks scores: they become failures, and no call is made."""
    stages: list[StagePlan] = field(repr=False)

    @property
    def usd(self) -> dict[str, float]:
        """Dollars of the calls to make: without any answer, expected, and the most that will be reserved."""
        return {
            "min": sum(stage.usd_min for stage in self.stages),
            "expected": sum(stage.usd for stage in self.stages),
            "max": sum(stage.usd_max for stage in self.stages),
        }

    def to_json(self) -> dict[str, Any]:
        """The JSON document of `summhay plan`."""
        names = ("run", "cells", "cells_finished", "too_long", "no_context", "usd")
        return {**{name: getattr(self, name) for name in names}, "stages": [asdict(stage) for stage in self.stages]}


class _LogAsk:
    """`ask` that makes no call: counts it for the stage, and answers from the log where it can."""

    def __init__(self, plan: _Planner, stage: str, expected: int, exact: bool = True) -> None:
        self._plan, self._stage, self._expected, self._exact = plan, stage, expected, exact
        self.too_long = False

    async def __call__(self, request: Request) -> Outcome[RawAnswer]:
        stage = self._plan.stage(self._stage, request.model)
        settings = self._plan.settings[request.model]
        longest = int(request.sampling.get("max_tokens", 0))
        if self._exact:
            record = self._plan.index.read(request.key)
            if record is not None or request.key in self._plan.planned:
                stage.reused += 1
                return read_answer(record)[0] if record else Failed("planned", "the answer comes with another cell")
            self._plan.planned.add(request.key)
        tokens = count_tokens(request.prompt)
        if settings.context_window is not None and tokens + longest > settings.context_window:
            self.too_long = True
        else:
            stage.add(settings, tokens, self._expected, longest)
        return Failed("planned", "no call is made while planning")


class _Planner:
    def __init__(self, grid: Grid, store: Store) -> None:
        self.grid = grid
        self.settings = grid.settings()
        self.index = LogIndex(store.files)
        self.index.refresh()
        self.planned: set[str] = set()
        self.stages: dict[tuple[str, str], StagePlan] = {}
        self.haystacks: dict[str, Haystack] = {source.haystack.haystack_id: source.haystack for source in grid.sources}
        self._ranked = lru_cache(maxsize=256)(lambda key, *rest: rank(grid, self.haystacks[key], *rest))
        self.too_long = self.no_context = 0

    def stage(self, stage: str, model: str) -> StagePlan:
        return self.stages.setdefault((stage, model), StagePlan(stage, model))

    async def unit(self, unit: Unit, cells: list[Cell]) -> None:
        haystack = self.haystacks[unit.haystack_id]
        context, _, _ = make_context(self.grid, haystack, unit, self._ranked)
        if context is None:
            self.no_context += len(cells)
            return
        n_insights = len(haystack.insights_of(unit.subtopic_id))
        for cell in cells:
            ask = _LogAsk(self, "summarize", n_insights * TOKENS_A_BULLET)
            strategy = self.grid.spec.summarizers[cell.summarizer].strategy
            outcome = await make_summarizer(strategy).summarize(task_of(self.grid, cell, haystack, context), ask)
            if ask.too_long:
                self.too_long += 1
            elif isinstance(outcome, Answer) or (isinstance(outcome, Failed) and outcome.error == "planned"):
                await self._judge(cell, haystack, outcome.value if isinstance(outcome, Answer) else None, n_insights)

    async def _judge(self, cell: Cell, haystack: Haystack, raw: RawAnswer | None, n_insights: int) -> None:
        bullets = bullets_of(raw.text) if raw else (_BULLET,) * n_insights
        for spec in self.grid.spec.judges:
            ask = _LogAsk(self, "judge", TOKENS_A_VERDICT, exact=raw is not None)
            settings = judge_settings(self.grid, cell, spec)
            await make_judge(spec.strategy).judge(haystack.insights_of(cell.unit.subtopic_id), bullets, settings, ask)


def plan_grid(grid: Grid, store: Store) -> PlanResult:
    """Calls, tokens and dollars per stage and model of what is left to do."""
    planner = _Planner(grid, store)
    finished: dict[str, bool] = {}
    if grid.run_id in store.run_ids():
        finished = store.run(grid.run_id).finished("cell")
    done = {cell for cell, again in finished.items() if not again}
    total = left = 0

    async def all_units() -> None:
        nonlocal total, left
        for unit in grid.units():
            cells = list(grid.cells_of(unit))
            total += len(cells)
            left += sum(cell.cell_id not in done for cell in cells)
            await planner.unit(unit, cells)

    asyncio.run(all_units())
    stages = [planner.stages[key] for key in sorted(planner.stages, key=lambda key: (key[0] != "summarize", key[1]))]
    for stage in stages:
        for name in ("usd", "usd_min", "usd_max"):
            setattr(stage, name, math.ceil(getattr(stage, name) * MICROS) / MICROS)
    return PlanResult(grid.run_id, total, total - left, planner.too_long, planner.no_context, stages)
