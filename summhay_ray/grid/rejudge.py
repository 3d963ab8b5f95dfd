"""New judgments over the stored summaries of a run, beside the old ones. Part of the grid room; `run.py` starts Ray.

A rejudge is a run of its own, whose cells are the other run's summaries: it goes through the same lanes, workers, ledger, budget
and commits, is resumed by the same command, and leaves the run that it judges as it is.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import polars as pl

from summhay_ray.grid.asked import Choice, Uncertain, affordable, by_budget, cascades_of, is_open, with_share
from summhay_ray.grid.doctor import missing_keys
from summhay_ray.grid.plan import Planner, PlanResult, plan_result
from summhay_ray.grid.progress import Progress
from summhay_ray.grid.rejudged import join_rejudges
from summhay_ray.grid.rejudging import Rejudging, Wish, free_of, load_rejudging, rejudging_record
from summhay_ray.grid.run import Start, cell_counts
from summhay_ray.grid.spec import SpecError
from summhay_ray.grid.standing import StillRun, standing_of
from summhay_ray.judge import parse_name, parse_strategy
from summhay_ray.problems import Problem
from summhay_ray.records import MICROS
from summhay_ray.store import LogIndex, RunStore


@dataclass(frozen=True, slots=True)
class JudgeCounts:
    """What one judge has said so far."""

    judge: str
    n_expected: int
    """Insights that it is to judge."""
    n_judged: int
    n_failed: int
    coverage: float | None
    """Mean over the insights that are scored; None where none is."""
    joint: float | None


@dataclass(frozen=True)
class RejudgeResult:
    """What became of a rejudge. `calls` are of this time alone; `reused` answers were paid before."""

    run: str
    """The rejudge's own id: `status`, `failures` and `explain` know it."""
    of: str
    status: str
    """done, budget (stopped at it; resumable), or partial (finished, with failures listed)."""
    cells: Mapping[str, int]
    """Summaries: all, those with every judgment, those with a failure."""
    calls: Mapping[str, int]
    usd: Mapping[str, float | None]
    seconds: float
    judges: Sequence[JudgeCounts]
    stopped_models: Mapping[str, str] = field(default_factory=dict)
    left: Mapping[str, Any] | None = None
    """Where the budget stopped it, what is left: cells, calls, and their dollars at least, expected and at most."""
    warnings: tuple[str, ...] = ()
    choices: Sequence[Choice] = ()
    """What each cascade asks about, and what it leaves to the free judge."""

    def to_json(self) -> dict[str, Any]:
        """The JSON document of `summhay rejudge`."""
        names = ("run", "of", "status", "cells", "calls", "usd", "left", "seconds")
        return {
            **{name: getattr(self, name) for name in names},
            "stopped_models": dict(self.stopped_models),
            "judges": [asdict(one) for one in self.judges],
            "cascades": [asdict(one) for one in self.choices],
        }


def rejudge_run(
    source: RunStore,
    wish: Wish,
    budget_usd: float | None = None,
    address: str = "local",
    watch: Callable[[Progress], None] | None = None,
) -> RejudgeResult:
    """Judge what is not judged yet of a run's summaries. `budget_usd` replaces the spec's; `watch` as in `run_grid`."""
    began = time.monotonic()
    source.store.files.check()
    grid, choices = _chosen(source, wish, budget_usd, (address, watch))
    run = _open(grid)
    still = StillRun(run)
    budget_usd = budget_usd if budget_usd is not None else grid.spec.budget_usd
    start = _Start(run, grid, standing_of(grid, still), budget_usd, began)
    return replace(start.rejudged(*start.finished(still, address, watch)), choices=choices)


def _chosen(source: RunStore, wish: Wish, budget_usd: float | None, how: tuple[str, Any]) -> tuple[Rejudging, list[Choice]]:
    """What is to be judged, and the insights that its cascades ask about: the free judge judges all first, at no cost."""
    grid = load_rejudging(source, wish)
    budget_usd = grid.spec.budget_usd if budget_usd is None else budget_usd
    open_names = [name for name in wish.judges if is_open(name)] if budget_usd is not None else []
    models = grid.settings()
    if open_names and sum(not models[one.model].local for one in grid.spec.judges) > 1:
        raise SpecError(f"with --budget, {open_names[0]} is to be the only judge that is paid; give it a share, or judge apart")
    _check_keys(grid, how[0])
    if not cascades_of(grid):
        return grid, []
    free = _free(grid, *how)
    bought: dict[str, tuple[float, float]] = {}
    for name in open_names:
        spec = next(one for one in cascades_of(grid) if one.label == parse_name(name).text)
        share, *usd = affordable(grid, spec, free, budget_usd or 0.0)
        wish = replace(wish, judges=tuple(with_share(name, share) if one == name else one for one in wish.judges))
        bought[with_share(name, share)] = (usd[0], usd[1])
    if bought:
        grid = load_rejudging(source, wish)
    choices = [free.choice(spec.label, parse_strategy(spec.strategy).share or 0.0) for spec in cascades_of(grid)]
    choices = [by_budget(one, bought[one.judge]) if one.judge in bought else one for one in choices]
    return replace(grid, asked={one.judge: free.asked(one.share) for one in choices}), choices


def _check_keys(grid: Rejudging, address: str) -> None:
    """Raises Problem, with nothing written, where a key is missing here. What has begun may be finished, and need none."""
    begun = grid.source.store.files.exists(f"runs/{grid.run_id}/run.json")
    if address == "local" and not begun and (missing := missing_keys(grid)):
        raise Problem(f"{missing[0]}; nothing was asked")


def _free(grid: Rejudging, address: str, watch: Callable[[Progress], None] | None) -> Uncertain:
    free = free_of(grid)
    run = _open(free)
    still = StillRun(run)
    start = _Start(run, free, standing_of(free, still), None, time.monotonic())
    [judging] = free.spec.judges
    return Uncertain.of(start.finished(still, address, watch)[0], judging.label)


def _open(grid: Rejudging) -> RunStore:
    run = grid.source.store.create_run(grid.run_id, rejudging_record(grid))
    join_rejudges(grid.source, grid.run_id)
    return run


def plan_rejudge(grid: Rejudging, budget_usd: float | None = None) -> PlanResult:
    """Calls, tokens, dollars and minutes per model of what is left to judge; the summaries are known, so prompts are exact."""
    store = grid.source.store
    planner = Planner(grid, store)
    done: set[str] = set()
    if store.files.exists(f"runs/{grid.run_id}/run.json"):
        done = {cell for cell, again in store.run(grid.run_id).finished("cell").items() if not again}

    async def all_cells() -> None:
        for part in grid.slices:
            for cell, summary in part.summaries(grid.source):
                haystack = grid.haystacks[cell.unit.haystack_id]
                asked = grid.asked_of(cell.cell_id)
                await planner.judge(cell, haystack, summary.bullets, cell.cell_id in done, asked)

    asyncio.run(all_cells())
    cells = [cell.cell_id for part in grid.slices for cell in part.cells]
    left = sum(cell not in done for cell in cells)
    return plan_result(planner, (len(cells), left), grid.spec.budget_usd if budget_usd is None else budget_usd)


class _Start(Start):
    """One start of a rejudge."""

    def plan(self) -> PlanResult:
        """What is left to ask."""
        assert isinstance(self.grid, Rejudging)
        return plan_rejudge(self.grid, self.budget_usd)

    def rejudged(self, run: StillRun, snapshot: Mapping[str, Any]) -> RejudgeResult:
        """What the rejudge holds now."""
        assert isinstance(self.grid, Rejudging)
        cells = cell_counts(run, self.standing.total)
        index = LogIndex(run.store.files)
        index.refresh()
        finished = "done" if cells["done"] == cells["total"] else "partial"
        stopped: Mapping[str, Mapping[str, str]] = snapshot.get("stopped", {})
        return RejudgeResult(
            run=run.run_id,
            of=self.grid.source.run_id,
            status="budget" if snapshot.get("left") else finished,
            cells=cells,
            calls={name: snapshot.get(name, 0) for name in ("made", "reused", "failed")},
            usd={"spent": index.spent(run.run_id) / MICROS, "budget": self.budget_usd},
            seconds=round(time.monotonic() - self.began, 3),
            judges=judge_counts(run, self.grid, sum(self.standing.judgments().values())),
            stopped_models={model: f"{why['error']}: {why['reason']}" for model, why in stopped.items()},
            left=snapshot.get("left"),
            warnings=tuple(snapshot.get("warnings", ())),
        )


def judge_counts(run: RunStore, grid: Rejudging, n_expected: int) -> list[JudgeCounts]:
    """What each judge has said so far. `n_expected`: judgments of all judges together."""
    tables = run.tables(["scores", "failures"])
    found = []
    for judging in grid.spec.judges:
        scores, failures = (tables[name].filter(pl.col("judge") == judging.label) for name in ("scores", "failures"))
        means = [scores[name].mean() for name in ("coverage", "joint")]
        coverage, joint = (float(one) if isinstance(one, float) else None for one in means)
        expected = n_expected // len(grid.spec.judges)
        found.append(JudgeCounts(judging.label, expected, scores.height, failures.height, coverage, joint))
    return found
