"""Choose the insights that a cascade sends to its paid judge: the least certain ones among all summaries of a run.

The free judge first judges all summaries, in a separate run. Insights are sorted by its uncertainty. The paid judge gets a
given share of them, or as many as a budget is certain to pay for.
"""

from __future__ import annotations

import functools
import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

import polars as pl

from summhay_ray.benchmark import RawAnswer, Request, RunStore
from summhay_ray.benchmarks.rejudge.workload import Choice, Rejudge, RejudgeRequest, free_of, load_rejudge
from summhay_ray.benchmarks.summhay.grid.grid import TOKENS_A_VERDICT, Cell
from summhay_ray.benchmarks.summhay.grid.judgments import judge_settings
from summhay_ray.benchmarks.summhay.spec import JudgeSpec
from summhay_ray.errors import SpecError
from summhay_ray.judge import DEFAULT_SHARE, Named, least_certain, make_judge, parse_name
from summhay_ray.loops import run_loop
from summhay_ray.outcome import MICROS, Failed, Outcome
from summhay_ray.plugins import planning
from summhay_ray.records import Insight, Summary

_DIGITS = 4
"""Number of decimal places of a share."""


@dataclass(frozen=True)
class Uncertain:
    """The insights that the free judge judged, with its uncertainties. The three lists have equal length."""

    cells: Sequence[str]
    insights: Sequence[str]
    uncertainties: Sequence[float]

    @classmethod
    def from_run(cls, free: RunStore, label: str) -> Uncertain:
        """Read the uncertainties from a finished rejudge by the free judge, whose label is `label`."""
        rows = free.table("judgments").filter((pl.col("judge") == label) & pl.col("uncertainty").is_not_null())
        return cls(*(rows[name].to_list() for name in ("cell_id", "insight_id", "uncertainty")))

    def insights_to_ask(self, share: float) -> dict[str, list[str]]:
        """Map each cell_id to its insights among the `share` that is least certain overall."""
        chosen: dict[str, list[str]] = defaultdict(list)
        for index in sorted(least_certain(self.uncertainties, share)):
            chosen[self.cells[index]].append(self.insights[index])
        return chosen

    def choice(self, judge: str, share: float) -> Choice:
        """Return the counts and mean uncertainties that result from a share."""
        chosen = least_certain(self.uncertainties, share)
        asked = [value for index, value in enumerate(self.uncertainties) if index in chosen]
        left = [value for index, value in enumerate(self.uncertainties) if index not in chosen]
        mean_asked, mean_left = (statistics.fmean(some) if some else None for some in (asked, left))
        return Choice(judge, share, len(asked), len(self.uncertainties), mean_asked, mean_left)


def cascades_of(grid: Rejudge) -> dict[str, tuple[JudgeSpec, Named]]:
    """Map the name of each cascade to (the spec's judge that is this cascade or contains it, the parsed cascade)."""
    return {named.text: (spec, named) for spec in grid.spec.judges for named in spec.named.inner("cascade")}


def is_open(name: str) -> bool:
    """Return whether a judge's name is a cascade without a share, which a budget can choose. Raises BadName, UnknownName."""
    return name.lstrip().startswith("cascade") and parse_name(name).share is None


def with_share(name: str, share: float) -> str:
    named = parse_name(name)
    inside = named.text.rpartition(")")[0]
    return parse_name(f"{inside},{share:.{_DIGITS}f})").text


def affordable(grid: Rejudge, spec: JudgeSpec, free: Uncertain, budget_usd: float) -> tuple[float, float, float]:
    """Return the greatest share whose calls are certain to fit the budget, as (share, expected dollars, maximum dollars).
    Calls that are already answered count, too, so that a repeated command gets the same share. Raises SpecError if the budget
    does not pay for a single call."""
    prices = _Prices(grid, spec)
    order = sorted(range(len(free.cells)), key=lambda index: (-free.uncertainties[index], index))
    spent: dict[str, tuple[int, int]] = {}
    taken: dict[str, list[str]] = defaultdict(list)
    expected = highest = n_asked = 0
    for index in order:
        cell = free.cells[index]
        before = spent.get(cell, (0, 0))
        now = prices.of(cell, {*taken[cell], free.insights[index]})
        if highest + now[1] - before[1] > budget_usd * MICROS:
            break
        taken[cell].append(free.insights[index])
        spent[cell], n_asked = now, n_asked + 1
        expected, highest = expected + now[0] - before[0], highest + now[1] - before[1]
    share = math.floor(n_asked / max(1, len(order)) * 10**_DIGITS) / 10**_DIGITS
    if not share:
        pays = (
            f"--budget {budget_usd:g} surely pays for asking {spec.named.parts[1].text} about {n_asked} of {len(order)} insights"
        )
        raise SpecError(f"{pays}, which is not a share; raise it, or take the free judge: --judge offline")
    return share, expected / MICROS, highest / MICROS


class _Prices:
    """The cost of judging some insights of one summary: (expected, maximum), in micro-dollars."""

    def __init__(self, grid: Rejudge, spec: JudgeSpec) -> None:
        self._grid, self._spec, self._settings = grid, spec, grid.models.settings()
        self._stored: dict[str, tuple[Cell, Summary]] = {
            cell.cell_id: (cell, summary) for part in grid.judged.slices for cell, summary in part.summaries(grid.judged.run)
        }
        self._micros = (0, 0)

    def of(self, cell_id: str, asked: Collection[str]) -> tuple[int, int]:
        cell, summary = self._stored[cell_id]
        insights = self._grid.judged.haystacks[cell.unit.haystack_id].insights_of(cell.unit.subtopic_id)
        wanted = [insight for insight in insights if insight.insight_id in asked]
        self._micros = (0, 0)
        run_loop(lambda: self._count(cell, summary, wanted))
        return self._micros

    async def _count(self, cell: Cell, summary: Summary, insights: Sequence[Insight]) -> None:
        for leaf in self._spec.named.parts[1].leaves():
            part = self._grid.spec.part(self._spec, leaf)
            settings = judge_settings(self._grid.entries, cell, cell.system, part)
            with planning(part.strategy):
                await make_judge(part.strategy).judge(insights, summary.bullets, settings, functools.partial(self._ask, part))

    async def _ask(self, part: JudgeSpec, request: Request) -> Outcome[RawAnswer]:
        settings = self._settings[request.model]
        if not settings.local:
            tokens = settings.prompt_tokens(request.prompt, request.sampling)
            longest = int(request.sampling["max_tokens"]) * request.n
            verdicts = max(1, longest // part.max_tokens)
            expected = settings.expected_micros(tokens, min(longest, verdicts * TOKENS_A_VERDICT))
            self._micros = (self._micros[0] + expected, self._micros[1] + settings.worst_micros(tokens, longest))
        return Failed("planned", "no call is made while planning")


def check_budget(workload: Rejudge, request: RejudgeRequest, budget_usd: float | None) -> None:
    """Raise SpecError if a budget is to choose a cascade's share although it also pays for another judge."""
    open_names = [name for name in request.judges if is_open(name)] if budget_usd is not None else []
    models = workload.models.settings()
    paid = [one for one in workload.spec.judges if not all(models[part.model].local for part in workload.spec.parts([one]))]
    if open_names and len(paid) > 1:
        raise SpecError(f"with --budget, {open_names[0]} is to be the only judge that is paid; give it a share, or judge apart")


def with_cascades(
    workload: Rejudge, request: RejudgeRequest, budget_usd: float | None, by_free_judge: Callable[[Rejudge], RunStore]
) -> Rejudge:
    """Add to the workload the insights that its cascades ask about. `by_free_judge` runs the free judge on all of them at no
    cost."""
    if not cascades_of(workload):
        return workload
    free_workload = free_of(workload)
    [judging] = free_workload.spec.judges
    free = Uncertain.from_run(by_free_judge(free_workload), judging.label)
    bought: dict[str, tuple[float, float]] = {}
    for name in (name for name in request.judges if is_open(name) and budget_usd is not None):
        spec, _ = cascades_of(workload)[parse_name(name).text]
        share, *usd = affordable(workload, spec, free, budget_usd or 0.0)
        request = replace(request, judges=tuple(with_share(name, share) if judge == name else judge for judge in request.judges))
        bought[with_share(name, share)] = (usd[0], usd[1])
    if bought:
        workload = load_rejudge(workload.judged.run, request)
    cascades = [named for _, named in cascades_of(workload).values()]
    choices = [free.choice(named.text, DEFAULT_SHARE if named.share is None else named.share) for named in cascades]
    for place, choice in enumerate(choices):
        if choice.judge in bought:
            expected, most = bought[choice.judge]
            choices[place] = replace(choice, by_budget=True, usd_expected=expected, usd_max=most)
    workload.chosen = {choice: free.insights_to_ask(choice.share) for choice in choices}
    return workload
