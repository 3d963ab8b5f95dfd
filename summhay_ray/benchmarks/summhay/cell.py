"""One cell, from its context to its rows: summarize, judge, score (paper, sections 3.3 and 4.1).

A summary is judged as soon as it is written. Every model call ends in a row: an answer, or a failure with its class.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from summhay_ray.benchmark import Answer, Ask, Failed, Malformed, Outcome, Request, Rows
from summhay_ray.benchmarks.rating import ExtractSpec
from summhay_ray.benchmarks.summarizing import guarded, read_summary, reducer_of
from summhay_ray.benchmarks.summhay.cells import Cell
from summhay_ray.benchmarks.summhay.judging import TOKENS_A_VERDICT, Judging
from summhay_ray.benchmarks.summhay.reduced import judge_reduced, tell_spared
from summhay_ray.benchmarks.summhay.replay import lookup
from summhay_ray.benchmarks.summhay.spec import JudgeSpec
from summhay_ray.haystack import system_key
from summhay_ray.judge import JudgeSettings, Verdict, make_judge, planned
from summhay_ray.llm import RawAnswer
from summhay_ray.loops import together
from summhay_ray.metrics import score_summary
from summhay_ray.outcome import KIND
from summhay_ray.records import Context, Failure, Haystack, Insight, Judgment, Summary
from summhay_ray.summarize import Task, bullets_of, make_summarizer, shown

if TYPE_CHECKING:
    from summhay_ray.benchmarks.summhay.workload import SummHay

TOKENS_A_BULLET = 60
"""Expected length of one bullet with its citations (paper, Table 2: about 30 words)."""

AskedBy = Mapping[str, Collection[str]]
"""Cascade's label -> ids of the insights it asks its model about; the free judge decides the others."""


@dataclass(frozen=True, slots=True)
class Truth:
    """The reference for summaries of one query. A cell that waits to be judged keeps this and not its whole haystack."""

    insights: tuple[Insight, ...]
    """The insights of the query's subtopic."""
    gold: Mapping[str, frozenset[int]]
    """insight_id -> numbers of the documents that contain it."""


def truth_of(haystack: Haystack, cell: Cell) -> Truth:
    """The reference insights of a cell's query, with their gold documents."""
    insights, gold = haystack.insights_of(cell.unit.subtopic_id), haystack.gold()
    return Truth(insights, {insight.insight_id: gold[insight.insight_id] for insight in insights})


async def summarize_cell(grid: SummHay, cell: Cell, context: Context, ask: Ask) -> tuple[Summary | None, Truth]:
    """Write the cell's summary. Returns it with its reference; None in its place if it failed: `ask` records the failure."""
    spec = grid.spec.summarizers[cell.summarizer]
    async with ask.turn("summarize", spec.model, spec.label):
        haystack = await grid.haystacks.fetch(cell.unit.haystack_id)
        truth = truth_of(haystack, cell)
        ask_model = ask.of("summarize", output_tokens=lambda _: len(truth.insights) * TOKENS_A_BULLET)
        task = task_of(grid, cell, haystack, context)

        async def summarize() -> Any:
            return await make_summarizer(spec.strategy).summarize(task, ask_model)

        outcome = read_summary(await guarded("strategy_error", spec.strategy_label, summarize(), ask.planning))
    if isinstance(outcome, Answer):
        summary = _summary(cell, spec.label, context, outcome.value)
        if spec.recite is not None and not ask.planning:
            index = await asyncio.to_thread(grid.support_indexes.of, haystack.haystack_id, haystack.documents)
            summary = replace(summary, bullets=await asyncio.to_thread(index.recite, summary.bullets))
        return summary, truth
    ask.fail("context" if outcome.error == "context_window" else "summarize", outcome)
    return None, truth


def task_of(grid: SummHay, cell: Cell, haystack: Haystack, context: Context) -> Task:
    """The task of the cell's summarizer: query, documents shown, model, prompt and sampling."""
    spec = grid.spec.summarizers[cell.summarizer]
    subtopic = next(subtopic for subtopic in haystack.subtopics if subtopic.subtopic_id == cell.unit.subtopic_id)
    return Task(
        haystack=haystack,
        subtopic=subtopic,
        shown=shown(haystack, context),
        model=spec.model,
        prompt=grid.prompt_of(spec),
        sampling=grid.sampling_of(spec),
        sample=cell.repeat,
        lookup=lookup_of(cell, spec.model, system_key(cell.unit.retriever, cell.unit.ordering, spec.model)),
        token_budget=grid.spec.token_budget,
        reducer=reducer_of(grid, spec),
    )


def lookup_of(cell: Cell, model: str, system: str) -> str:
    """The lookup that tells a `replay/` model which released answer to return; empty for any other model.

    `system`: the release's name of the system.
    """
    return lookup(cell.unit.haystack_id, cell.unit.subtopic_id, system) if model.startswith("replay/") else ""


def judge_settings(
    grid: Judging[Any], cell: Cell, system: str, spec: JudgeSpec, asked: Collection[str] | None = None
) -> JudgeSettings:
    """The settings of one judge for the cell's summary. `asked`: ids of the insights a cascade asks about, if already chosen."""
    return JudgeSettings(
        model=spec.model,
        prompt=grid.prompt_of(spec),
        sampling=grid.sampling_of(spec),
        lookup=lookup_of(cell, spec.model, system),
        asked=None if asked is None else frozenset(asked),
    )


async def judge_all(
    grid: Judging[Any], cell: Cell, summary: Summary, truth: Truth, ask: Ask, asked: AskedBy | None = None
) -> Rows:
    """Judge a summary with every judge of the spec. Returns the rows of `judgments` and `scores`."""
    rows: dict[str, list[Any]] = {"judgments": [], "scores": []}
    system = release_system(grid, cell)
    judging = (_judge(grid, cell, system, summary, truth, spec, ask, (asked or {}).get(spec.label)) for spec in grid.spec.judges)
    for judgments, scores in await together(judging):
        rows["judgments"] += judgments
        rows["scores"] += scores
    return rows


def release_system(grid: Judging[Any], cell: Cell) -> str:
    """The release's name of the system whose summary is judged. A stored summary (rejudge) carries that name already."""
    summarizers = getattr(grid.spec, "summarizers", ())
    return system_key(cell.unit.retriever, cell.unit.ordering, summarizers[cell.summarizer].model) if summarizers else cell.system


def one_each(judged: Any, n_insights: int) -> list[Outcome[Verdict]]:
    """A judge's outcomes, one per insight.

    If the judge returned a different number, they cannot be matched to insights, and every insight gets a Failed instead.
    """
    if isinstance(judged, Failed):
        return [judged] * n_insights
    kinds = tuple(KIND)
    if not isinstance(judged, list) or len(judged) != n_insights or not all(isinstance(outcome, kinds) for outcome in judged):
        given = f"{len(judged)} outcomes" if isinstance(judged, list) else type(judged).__name__
        return [Failed("judge_error", f"the judge gave {given} for {n_insights} insights", retryable=True)] * n_insights
    return [_checked(outcome) for outcome in judged]


def _checked(outcome: Any) -> Outcome[Verdict]:
    """The outcome if it is a valid judgment, else a Failed or Malformed: a user-defined judge may return anything."""
    if not isinstance(outcome, Answer):
        return cast("Outcome[Verdict]", outcome)
    if not isinstance(verdict := outcome.value, Verdict):
        return Failed("judge_error", f"the judge gave an Answer of {type(verdict).__name__} and no Verdict", retryable=True)
    if verdict.value is not None and not 0 <= verdict.value <= 1:
        message = f"the judge's value is {verdict.value}; expected 0 to 1"
        return Malformed("unusable_value", message, outcome.key, outcome.attempts, outcome.usd_micros)
    return outcome


def _summary(cell: Cell, label: str, context: Context, raw: RawAnswer) -> Summary:
    unit = cell.unit
    return Summary(
        cell_id=cell.cell_id,
        haystack_id=unit.haystack_id,
        subtopic_id=unit.subtopic_id,
        retriever=unit.retriever,
        ordering=unit.ordering,
        system=cell.system,
        model=label,
        repeat=cell.repeat,
        context_id=context.context_id,
        key=raw.key,
        bullets=bullets_of(raw.text),
    )


async def _judge(
    grid: Judging[Any],
    cell: Cell,
    system: str,
    summary: Summary,
    truth: Truth,
    spec: JudgeSpec,
    ask: Ask,
    asked: Collection[str] | None,
) -> tuple[list[Judgment], list[Any]]:
    insights, strategy, share = truth.insights, spec.strategy, 1.0
    if ask.planning:
        # A cascade is planned as if it asked about every insight; the expected cost is its share of that.
        strategy, share = planned(spec.strategy)
        if asked is not None:
            insights, share = tuple(insight for insight in insights if insight.insight_id in asked), 1.0

    def expected(request: Request) -> int:
        # One answer may hold several verdicts.
        return TOKENS_A_VERDICT * max(1, int(request.sampling.get("max_tokens", 0)) // spec.max_tokens)

    async with ask.turn("judge", spec.model, spec.label):
        settings = judge_settings(grid, cell, system, spec, None if ask.planning else asked)
        ask_model = ask.of("judge", share, expected)
        lever = spec.extract.planned() if ask.planning and spec.extract is not None else spec.extract
        if ask.planning and lever is not None:
            await tell_spared(strategy, insights, summary.bullets, settings, ask, "judge", lever)
        verdicts = _verdicts(strategy, insights, summary, settings, ask_model, lever)
        judged = await guarded("judge_error", spec.strategy, verdicts, ask.planning)
    judgments = []
    for position, (insight, outcome) in enumerate(zip(insights, one_each(judged, len(insights)), strict=True)):
        if isinstance(outcome, Answer):
            judgments.append(_judgment(summary, spec.label, insight, position, outcome))
        else:
            ask.fail("judge", outcome, judge=spec.label, insight_id=insight.insight_id)
    return judgments, _scores(judgments, summary, truth.gold, ask)


async def _verdicts(
    strategy: str, insights: tuple[Insight, ...], summary: Summary, settings: JudgeSettings, ask: Any, lever: ExtractSpec | None
) -> Any:
    if lever is not None:
        return await judge_reduced(strategy, insights, summary.bullets, settings, ask, lever)
    return await make_judge(strategy).judge(insights, summary.bullets, settings, ask)


def _judgment(summary: Summary, judge: str, insight: Insight, position: int, outcome: Answer[Verdict]) -> Judgment:
    return Judgment(
        cell_id=summary.cell_id,
        judge=judge,
        insight_id=insight.insight_id,
        position=position,
        key=outcome.key,
        coverage=str(outcome.value.coverage),
        bullet_id=str(outcome.value.bullet_id),
        value=outcome.value.value,
        uncertainty=outcome.value.uncertainty,
    )


def _scores(judgments: list[Judgment], summary: Summary, gold: Mapping[str, frozenset[int]], ask: Ask) -> list[Any]:
    keys = {judgment.insight_id: judgment.key for judgment in judgments}
    scores = []
    for scored in score_summary(judgments, summary.bullets, gold):
        if isinstance(scored, Failure):
            malformed = Malformed(scored.error, scored.message, keys[scored.insight_id])
            ask.fail("judge", malformed, judge=scored.judge, insight_id=scored.insight_id)
        else:
            scores.append(scored)
    return scores
