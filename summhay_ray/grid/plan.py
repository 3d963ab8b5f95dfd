"""What a run will ask and cost, before any call. Part of the grid room; no Ray, no calls.

The run's own strategies are asked with an `ask` that only looks into the response log: what is there is reused, what is not is
a call to come. So prompts of summaries are exact; prompts of judgments are exact where the summary is known, and elsewhere
those of a summary of the expected length, of the shortest (least dollars) and of the longest that is allowed (most dollars).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from summhay_ray.grid.answering import judge_settings, task_of
from summhay_ray.grid.cells import Cell, Grid, Unit
from summhay_ray.grid.contexts import make_context, rank
from summhay_ray.judge import make_judge, planned
from summhay_ray.llm import ModelSettings, Request, read_answer
from summhay_ray.outcome import Answer, Failed, Outcome
from summhay_ray.records import MICROS, Haystack, RawAnswer
from summhay_ray.store import LogIndex, Store
from summhay_ray.summarize import bullets_of, make_summarizer

TOKENS_A_BULLET = 60
"""Expected length of one bullet with its citations (paper, Table 2: about 30 words)."""

TOKENS_A_VERDICT = 20
SHORTEST_BULLET = 10
"""Tokens; with bullets of no more, a judge's prompt is as long as a summary of so many tokens can make it."""

_BULLET = "- " + "one of the words of a bullet point " * 4 + "[12][34][56]"
_SHORT_BULLET = "- six words of a short bullet"


@dataclass
class StagePlan:
    """One stage and model: calls still to make, answers already there, tokens and micro-dollars of the calls to make.

    As long as every call is answered once, what they really cost lies between `min_micros` (the provider counts fewer tokens
    than we do, every prompt is read from its cache, no answer is longer than a token) and `max_micros` (it counts more, nothing
    is cached, every answer is as long as it may be). `usd_micros` is expected: our counts, nothing cached.
    """

    stage: str
    model: str
    calls: int = 0
    reused: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    usd_micros: int = 0
    min_micros: int = 0
    max_micros: int = 0
    minutes: float | None = None
    """What the model's limits make the expected calls and tokens take; None without limits."""

    def add(self, settings: ModelSettings, prompt_tokens: int, expected: int, longest: int) -> None:
        """Count one call: its prompt, the answer expected, the longest answer allowed."""
        expected = min(expected, longest)
        self.calls += 1
        self.input_tokens += prompt_tokens
        self.output_tokens += expected
        self.usd_micros += settings.expected_micros(prompt_tokens, expected)
        self.min_micros += settings.least_micros(prompt_tokens)
        self.max_micros += settings.worst_micros(prompt_tokens, longest)

    def add_between(self, least: StagePlan, expected: StagePlan, most: StagePlan) -> None:
        """Count the calls of `expected`, which may turn out as those of the others."""
        for name in ("calls", "input_tokens", "output_tokens", "usd_micros"):
            setattr(self, name, getattr(self, name) + getattr(expected, name))
        self.min_micros += min(least.min_micros, expected.min_micros)
        self.max_micros += max(most.max_micros, expected.max_micros)

    def add_share(self, other: StagePlan, share: float) -> None:
        """Count the calls of `other`, of which a `share` is expected to be made; at the least none, at the most all."""
        self.reused += other.reused
        for name in ("calls", "input_tokens", "output_tokens", "usd_micros"):
            setattr(self, name, getattr(self, name) + round(getattr(other, name) * share))
        self.min_micros += other.min_micros if share == 1 else 0
        self.max_micros += other.max_micros

    @property
    def usd(self) -> float:
        """Dollars expected."""
        return self.usd_micros / MICROS

    @property
    def usd_min(self) -> float:
        """Dollars at least."""
        return self.min_micros / MICROS

    @property
    def usd_max(self) -> float:
        """Dollars at most."""
        return self.max_micros / MICROS

    def to_json(self) -> dict[str, Any]:
        """The stage as JSON."""
        names = ("stage", "model", "calls", "reused", "input_tokens", "output_tokens", "usd", "usd_min", "usd_max", "minutes")
        return {name: getattr(self, name) for name in names}


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
    spent_usd: float = 0.0
    """What the run has spent so far."""
    budget_usd: float | None = None
    warnings: tuple[str, ...] = ()
    """Budgets (of the run, a stage, a model) that what is spent and expected exceeds, a line each."""

    @property
    def usd(self) -> dict[str, float]:
        """Dollars of the calls to make: at least, expected, and at most."""
        return {
            "min": sum(stage.min_micros for stage in self.stages) / MICROS,
            "expected": sum(stage.usd_micros for stage in self.stages) / MICROS,
            "max": sum(stage.max_micros for stage in self.stages) / MICROS,
        }

    @property
    def minutes(self) -> float | None:
        """The time that the limits imply: of the slowest model, its stages one after another; models run side by side."""
        slowest: Counter[str] = Counter()
        for stage in self.stages:
            if stage.minutes is not None:
                slowest[stage.model] += stage.minutes  # type: ignore[assignment]
        return max(slowest.values(), default=None)

    def to_json(self) -> dict[str, Any]:
        """The JSON document of `summhay plan`."""
        names = ("run", "cells", "cells_finished", "too_long", "no_context", "usd", "minutes", "spent_usd", "budget_usd")
        plain = {name: getattr(self, name) for name in names}
        return {**plain, "warnings": list(self.warnings), "stages": [stage.to_json() for stage in self.stages]}


class _LogAsk:
    """`ask` that makes no call: counts it for the stage, and answers from the log where it can."""

    def __init__(self, planner: Planner, stage: str, expected: int, done: bool, share: float = 1.0) -> None:
        self._planner, self._stage, self._expected, self._done = planner, stage, expected, done
        self._share = share
        self.too_long = False
        self.longest_verdict: int | None = None
        """Tokens of one verdict at most, where an answer may hold several."""

    async def __call__(self, request: Request) -> Outcome[RawAnswer]:
        planner, stage = self._planner, self._planner.stage(self._stage, request.model, self._share)
        known = planner.known(request)
        if known is not None:
            stage.reused += 1
            return known
        tokens, longest, fits = planner.measured(request)
        if not fits:
            self.too_long = True
        elif not self._done:
            answers = max(1, longest // self.longest_verdict) if self.longest_verdict else 1
            stage.add(planner.settings[request.model], tokens, self._expected * answers, longest)
        return Failed("planned", "no call is made while planning")


class _Estimate:
    """`ask` about a summary that nobody knows yet: counts the calls by model."""

    def __init__(self, planner: Planner, longest_verdict: int) -> None:
        self._planner = planner
        self._longest_verdict = longest_verdict
        self.models: dict[str, StagePlan] = {}

    async def __call__(self, request: Request) -> Outcome[RawAnswer]:
        settings = self._planner.settings[request.model]
        tokens, longest, fits = self._planner.measured(request)
        # A prompt beyond the window is not sent: the dearest call is the one that just fits.
        tokens = tokens if fits or settings.context_window is None else max(settings.context_window - longest, 0)
        stage = self.models.setdefault(request.model, StagePlan("judge", request.model))
        stage.add(settings, tokens, TOKENS_A_VERDICT * max(1, longest // self._longest_verdict), longest)
        return Failed("planned", "no call is made while planning")


class Planner:
    """Asks what a grid would ask, and counts."""

    def __init__(self, grid: Grid, store: Store) -> None:
        self.grid = grid
        self.settings = grid.settings()
        self.index = LogIndex(store.files)
        self.index.refresh()
        self._stages: dict[tuple[str, str, float], StagePlan] = {}
        self._ranked = lru_cache(maxsize=256)(lambda key, *rest: rank(grid, grid.haystacks[key], *rest))
        self._asked: set[int] = set()
        """Hashes, of 64 bits each: a million calls are known apart, and take no more room than that."""
        self._estimates: dict[tuple[Any, ...], tuple[_Estimate, ...]] = {}
        """Of one haystack: units come haystack by haystack."""
        self._at = ""
        self.too_long = self.no_context = 0

    def stage(self, stage: str, model: str, share: float = 1.0) -> StagePlan:
        """What is counted for a stage and a model. `share`: of these calls so many are expected to be made."""
        return self._stages.setdefault((stage, model, share), StagePlan(stage, model))

    def stages(self) -> list[StagePlan]:
        """All stages and models, summaries first, with the minutes that the limits make them take."""
        found: dict[tuple[str, str], StagePlan] = {}
        for (stage, model, share), one in self._stages.items():
            found.setdefault((stage, model), StagePlan(stage, model)).add_share(one, share)
        for one in found.values():
            one.minutes = self.settings[one.model].limits.minutes(one.calls, one.input_tokens, one.output_tokens)
        return [found[key] for key in sorted(found, key=lambda key: (key[0] != "summarize", key[1]))]

    def known(self, request: Request) -> Outcome[RawAnswer] | None:
        """The log's answer, or that another cell asks the same; None for a call to make."""
        # A request's key costs milliseconds for a long prompt, and tells nothing more where the log is empty.
        record = self.index.read(request.key) if self.index.answers else None
        if record is not None:
            return read_answer(record)[0]
        asked = hash((request.model, request.prompt, repr(request.sampling), request.sample, request.lookup))
        if asked in self._asked:
            return Failed("planned", "the answer comes with another cell")
        self._asked.add(asked)
        return None

    def measured(self, request: Request) -> tuple[int, int, bool]:
        """Tokens of the prompt, of the longest answer, and whether they fit the model's window."""
        settings = self.settings[request.model]
        tokens, longest = settings.prompt_tokens(request.prompt, request.sampling), int(request.sampling.get("max_tokens", 0))
        return tokens, longest, settings.context_window is None or tokens + longest <= settings.context_window

    async def unit(self, unit: Unit, cells: list[Cell], done: set[str]) -> None:
        haystack = self.grid.haystacks[unit.haystack_id]
        if self._at != unit.haystack_id:
            self._at = unit.haystack_id
            self._estimates.clear()
        context, _, _ = make_context(self.grid, haystack, unit, self._ranked)
        if context is None:
            self.no_context += len(cells)
            return
        n_insights = len(haystack.insights_of(unit.subtopic_id))
        for cell in cells:
            ask = _LogAsk(self, "summarize", n_insights * TOKENS_A_BULLET, cell.cell_id in done)
            strategy = self.grid.spec.summarizers[cell.summarizer].strategy
            outcome = await make_summarizer(strategy).summarize(task_of(self.grid, cell, haystack, context), ask)
            if ask.too_long:
                self.too_long += 1
            elif isinstance(outcome, Answer):
                await self.judge(cell, haystack, bullets_of(outcome.value.text), cell.cell_id in done)
            elif isinstance(outcome, Failed) and outcome.error == "planned" and cell.cell_id not in done:
                await self._judge_unknown(cell, haystack, n_insights)

    async def judge(
        self,
        cell: Cell,
        haystack: Haystack,
        bullets: Sequence[str],
        done: bool,
        asked: Mapping[str, Collection[str]] | None = None,
    ) -> None:
        """Count what the cell's judges ask about a summary that is known. `asked`: cascade's label -> whom it asks about."""
        insights = haystack.insights_of(cell.unit.subtopic_id)
        for spec in self.grid.spec.judges:
            strategy, share = planned(spec.strategy)
            chosen = (asked or {}).get(spec.label)
            wanted = [one for one in insights if chosen is None or one.insight_id in chosen]
            ask = _LogAsk(self, "judge", TOKENS_A_VERDICT, done, share if chosen is None else 1.0)
            ask.longest_verdict = spec.max_tokens
            await make_judge(strategy).judge(wanted, bullets, judge_settings(self.grid, cell, spec), ask)

    async def _judge_unknown(self, cell: Cell, haystack: Haystack, n_insights: int) -> None:
        longest = self.grid.spec.summarizers[cell.summarizer].max_tokens
        summaries = (("-",), (_BULLET,) * n_insights, (_SHORT_BULLET,) * max(longest // SHORTEST_BULLET, n_insights))
        insights = haystack.insights_of(cell.unit.subtopic_id)
        for index, spec in enumerate(self.grid.spec.judges):
            # Where the summary is not known, neither is anything else of the cell that its judges are shown.
            strategy, share = planned(spec.strategy)
            place = (cell.unit.subtopic_id, index, len(summaries[2]))
            if place not in self._estimates:
                estimates = tuple(_Estimate(self, spec.max_tokens) for _ in summaries)
                for bullets, estimate in zip(summaries, estimates, strict=True):
                    await make_judge(strategy).judge(insights, bullets, judge_settings(self.grid, cell, spec), estimate)
                self._estimates[place] = estimates
            least, expected, most = (estimate.models for estimate in self._estimates[place])
            for model, stage in expected.items():
                self.stage("judge", model, share).add_between(least.get(model, stage), stage, most.get(model, stage))


def plan_grid(grid: Grid, store: Store, budget_usd: float | None = None) -> PlanResult:
    """Calls, tokens, dollars and minutes per stage and model of what is left to do. `budget_usd` replaces the spec's."""
    planner = Planner(grid, store)
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
            await planner.unit(unit, cells, done)

    asyncio.run(all_units())
    return plan_result(planner, (total, left), grid.spec.budget_usd if budget_usd is None else budget_usd)


def plan_result(planner: Planner, cells: tuple[int, int], budget_usd: float | None) -> PlanResult:
    """What a planner has counted. `cells`: all, and those that are left."""
    total, left = cells
    stages, run_id = planner.stages(), planner.grid.run_id
    return PlanResult(
        run=run_id,
        cells=total,
        cells_finished=total - left,
        too_long=planner.too_long,
        no_context=planner.no_context,
        stages=stages,
        spent_usd=planner.index.spent(run_id) / MICROS,
        budget_usd=budget_usd,
        warnings=tuple(exceeded(planner.grid, planner.index, stages, budget_usd)),
    )


def exceeded(grid: Grid, index: LogIndex, stages: Sequence[StagePlan], budget: float | None) -> list[str]:
    """A line for each budget that what is spent and expected exceeds."""
    expected: Counter[tuple[str, str]] = Counter()
    for (stage, model), tally in index.tallies(grid.run_id).items():
        expected.update({("", ""): tally.usd_micros, ("stage", stage): tally.usd_micros, ("model", model): tally.usd_micros})
    for one in stages:
        expected.update({("", ""): one.usd_micros, ("stage", one.stage): one.usd_micros, ("model", one.model): one.usd_micros})
    bounds = [
        ("budget_usd", ("", ""), budget),
        *((f"stage_budgets_usd.{name}", ("stage", name), dollars) for name, dollars in grid.spec.stage_budgets().items()),
        *((f"model_budgets_usd.{name}", ("model", name), dollars) for name, dollars in grid.spec.model_budgets_usd.items()),
    ]
    return [
        f"{name} is {dollars:g}, and {expected[scope] / MICROS:.4f} dollars are expected: it will stop the run; raise it"
        for name, scope, dollars in bounds
        if dollars is not None and expected[scope] > dollars * MICROS
    ]
