"""One cell, from its context to its rows: summarize, judge, score (paper, sections 3.3 and 4.1).

A summary is judged as soon as it is written. Every model call ends in a row: an answer, or a failure with its class.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from summhay_ray.benchmark import Answer, Ask, Failed, Malformed, Outcome, RawAnswer, Request, Rows
from summhay_ray.benchmarks.rating import ExtractSpec
from summhay_ray.benchmarks.summarizing import guarded, read_summary, reducer_of
from summhay_ray.benchmarks.summhay.grid.cells import Cell
from summhay_ray.benchmarks.summhay.grid.judging import TOKENS_A_VERDICT, Judging
from summhay_ray.benchmarks.summhay.grid.reduced import judge_reduced, tell_spared
from summhay_ray.benchmarks.summhay.grid.replay import lookup
from summhay_ray.benchmarks.summhay.spec import JudgeSpec
from summhay_ray.haystack import system_key
from summhay_ray.judge import (
    Composed,
    JudgeSettings,
    Named,
    Verdict,
    blend,
    doubtful,
    is_tied,
    make_judge,
    panel,
    usable_on,
)
from summhay_ray.loops import together
from summhay_ray.metrics import by_number, score_summary
from summhay_ray.outcome import KIND
from summhay_ray.records import Context, Failure, Haystack, Insight, Judgment, Summary, Vote
from summhay_ray.summarize import Task, bullets_of, make_summarizer, shown

if TYPE_CHECKING:
    from summhay_ray.benchmarks.summhay.workload import SummHay

TOKENS_A_BULLET = 60
"""Expected length of one bullet with its citations (paper, Table 2: about 30 words)."""

AskedBy = Mapping[str, Collection[str]]
"""A cascade's name -> ids of the insights that it passes on; the free judge decides the others."""


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
        raw = outcome.value
        if spec.model in grid.models.given:
            # A stack of one's own knows documents by their ids; the number is a haystack's.
            raw = replace(raw, text=by_number(raw.text, {one.document_id: one.number for one in haystack.documents}))
        summary = _summary(cell, spec.label, context, raw)
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
        sampling=grid.models.sampling(spec),
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


def judge_settings(grid: Judging[Any], cell: Cell, system: str, spec: JudgeSpec, sample: int = 0) -> JudgeSettings:
    """The settings of one judge, which is not made of others, for the cell's summary. `sample`: which of its answers."""
    return JudgeSettings(
        model=spec.model,
        prompt=grid.prompt_of(spec),
        sampling=grid.models.sampling(spec),
        sample=sample,
        lookup=lookup_of(cell, spec.model, system),
    )


async def judge_all(
    grid: Judging[Any], cell: Cell, summary: Summary, truth: Truth, ask: Ask, asked: AskedBy | None = None
) -> Rows:
    """Judge a summary with every judge of the spec. Returns the rows of `judgments`, `votes` and `scores`."""
    rows: dict[str, list[Any]] = {"judgments": [], "votes": [], "scores": []}
    system = release_system(grid, cell)
    judging = (_judge(grid, cell, system, summary, truth, spec, ask, asked or {}) for spec in grid.spec.judges)
    for judged in await together(judging):
        for table, some in judged.items():
            rows[table] += some
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
    grid: Judging[Any], cell: Cell, system: str, summary: Summary, truth: Truth, spec: JudgeSpec, ask: Ask, asked: AskedBy
) -> Rows:
    """The rows of one judge: judgments, the votes of its panels, and scores."""
    insights, votes = truth.insights, list[Vote]()
    places = {insight.insight_id: place for place, insight in enumerate(insights)}

    async def ask_one(named: Named, chosen: Sequence[Insight], share: float) -> list[Outcome[Verdict]]:
        part, some = grid.spec.part(spec, named), tuple(chosen)

        def expected(request: Request) -> int:
            # One answer may hold several verdicts.
            return TOKENS_A_VERDICT * max(1, int(request.sampling.get("max_tokens", 0)) // int(part.max_tokens))

        async with ask.turn("judge", part.model, spec.label if part is spec else f"{spec.label} {part.model}"):
            settings = judge_settings(grid, cell, system, part, named.sample)
            ask_model = ask.of("judge", share, expected)
            lever = part.extract.planned() if ask.planning and part.extract is not None else part.extract
            if ask.planning and lever is not None:
                await tell_spared(part.strategy, some, summary.bullets, settings, ask, "judge", lever)
            verdicts = _verdicts(part.strategy, some, summary, settings, ask_model, lever)
            return one_each(await guarded("judge_error", part.strategy, verdicts, ask.planning), len(some))

    def chosen(named: Named, some: Sequence[Insight], uncertainties: Sequence[float] | None) -> Collection[int] | None:
        if (known := asked.get(named.text)) is not None:
            return [place for place, insight in enumerate(some) if insight.insight_id in known]
        return None if uncertainties is None else doubtful(named, uncertainties)

    def voted(named: Named, insight: Insight, said: Sequence[Outcome[Verdict]]) -> None:
        tied = is_tied([outcome.value.coverage for outcome in said if isinstance(outcome, Answer)])
        for member, outcome in zip(named.parts, said, strict=True):
            if isinstance(outcome, Answer):
                judged = _judgment(summary, spec.label, insight, places[insight.insight_id], outcome)
                fields = {name: getattr(judged, name) for name in Judgment.__dataclass_fields__}
                value = outcome.value.expected
                votes.append(Vote(**{**fields, "value": value}, panel=named.text, member=member.text, tied=tied))

    composed = Composed(ask_one, usable_on(summary.bullets), blend, panel, chosen, voted, ask.planning)
    judged = await composed.judge(spec.named, insights)
    judgments = []
    for position, (insight, outcome) in enumerate(zip(insights, judged, strict=True)):
        if isinstance(outcome, Answer):
            judgments.append(_judgment(summary, spec.label, insight, position, outcome))
        else:
            ask.fail("judge", outcome, judge=spec.label, insight_id=insight.insight_id)
    return {"judgments": judgments, "votes": votes, "scores": _scores(judgments, summary, truth.gold, ask)}


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
            scores.append(scored.of(summary))
    return scores
