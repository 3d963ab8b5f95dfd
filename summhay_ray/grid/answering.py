"""One cell from its context to its rows: summarize, judge, score. Part of the grid room; no Ray, every call through `ask`.

A summary is judged as soon as it is written. Whatever becomes of a question is a row: an answer, or a failure with its class.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from summhay_ray.grid.cells import Cell, Grid
from summhay_ray.grid.lanes import Gates
from summhay_ray.grid.local import revision_of
from summhay_ray.grid.replay import lookup
from summhay_ray.grid.spec import JudgeSpec, ModelSpec
from summhay_ray.haystack import system_key
from summhay_ray.judge import JudgeSettings, Verdict, make_judge
from summhay_ray.llm import Ask, Gateway, Request
from summhay_ray.outcome import KIND, Answer, Failed, Malformed, NoAnswer, Outcome, Refusal
from summhay_ray.problems import Problem
from summhay_ray.records import Context, Failure, Haystack, Insight, Judgment, RawAnswer, Summary
from summhay_ray.score import score_summary
from summhay_ray.store import Finished
from summhay_ray.summarize import Task, bullets_of, make_summarizer, refuses, shown


@dataclass
class CellRows:
    """What a cell gives: rows by table, and what is to be done about it."""

    cell: Cell
    rows: dict[str, list[Any]] = field(default_factory=dict)
    retry: bool = False
    """A later run may try again what failed."""
    over_budget: bool = False
    """Stopped at the budget: the cell is unfinished, and nothing of it is committed."""
    haystack: Finished | None = None
    """The haystack that the cell has made: a unit of its own, committed before the cell."""

    def add(self, table: str, *records: Any) -> None:
        """Append rows to a table."""
        self.rows.setdefault(table, []).extend(records)

    def fail(self, stage: str, outcome: NoAnswer, judge: str = "", insight_id: str = "") -> None:
        """A failure's row, and what it means for the cell."""
        self.add(
            "failures",
            Failure(
                cell_id=self.cell.cell_id,
                stage=stage,
                judge=judge,
                insight_id=insight_id,
                kind=KIND[type(outcome)],
                error=outcome.error,
                message=" ".join(outcome.message.split()),
                key=outcome.key,
                attempts=outcome.attempts,
                usd_micros=outcome.usd_micros,
            ),
        )
        if isinstance(outcome, Failed):
            self.over_budget |= outcome.error == "budget"
            self.retry |= outcome.retryable


AskedBy = Mapping[str, Collection[str]]
"""Cascade's label -> the insights that it asks about."""


class _Asking:
    """What one cell asks: `of` gives the `ask` of a stage. Keeps every raw answer that comes, usable or not."""

    def __init__(self, gateway: Gateway, gates: Gates, about: AskedBy | None = None) -> None:
        self._gateway = gateway
        self.gates = gates
        self.about: AskedBy = about or {}
        self.raw: dict[str, RawAnswer] = {}

    def of(self, stage: str) -> Ask:
        """`ask` for a stage: what the money is for."""

        async def ask(request: Request) -> Outcome[RawAnswer]:
            outcome, raw = await self._gateway.complete(request, stage)
            if raw is not None:
                self.raw[raw.key] = raw
            return outcome

        return ask


def task_of(grid: Grid, cell: Cell, haystack: Haystack, context: Context) -> Task:
    """What the cell's summarizer is asked."""
    spec = grid.spec.summarizers[cell.summarizer]
    subtopic = next(subtopic for subtopic in haystack.subtopics if subtopic.subtopic_id == cell.unit.subtopic_id)
    return Task(
        haystack=haystack,
        subtopic=subtopic,
        shown=shown(haystack, context),
        model=spec.model,
        prompt=grid.prompt_of(spec),
        sampling=sampling_of(spec),
        sample=cell.repeat,
        lookup=_lookup(cell, spec.model, spec.model),
    )


def sampling_of(spec: ModelSpec) -> dict[str, Any]:
    """The semantic parameters that go with each call of the model."""
    return {**spec.sampling(), **revision_of(spec.model)}


def _lookup(cell: Cell, asked: str, summarizer: str) -> str:
    """Where the release holds what a `replay/` model is asked for; empty for any other model."""
    if not asked.startswith("replay/"):
        return ""
    system = system_key(cell.unit.retriever, cell.unit.ordering, summarizer)
    return lookup(cell.unit.haystack_id, cell.unit.subtopic_id, system)


def judge_settings(grid: Grid, cell: Cell, spec: JudgeSpec, asked: Collection[str] | None = None) -> JudgeSettings:
    """How a judge is asked about the cell's summary. `asked`: the insights that a cascade asks about, where they are chosen."""
    summarizers = grid.spec.summarizers
    return JudgeSettings(
        model=spec.model,
        prompt=grid.prompt_of(spec),
        sampling=sampling_of(spec),
        lookup=_lookup(cell, spec.model, summarizers[cell.summarizer].model) if summarizers else _stored_lookup(cell, spec.model),
        asked=None if asked is None else frozenset(asked),
    )


def _stored_lookup(cell: Cell, asked: str) -> str:
    """`_lookup` for a summary that is stored: its system is the release's key."""
    return lookup(cell.unit.haystack_id, cell.unit.subtopic_id, cell.system) if asked.startswith("replay/") else ""


@dataclass(frozen=True, slots=True)
class _Truth:
    """What a summary of one query is judged and scored against: all that a cell keeps of its haystack while it waits."""

    insights: tuple[Insight, ...]
    gold: Mapping[str, frozenset[int]]


async def answer_cell(grid: Grid, cell: Cell, context: Context, gateway: Gateway, gates: Gates | None = None) -> CellRows:
    """All rows of a cell; its haystack is held while it is summarized. Raises only what no row can hold (disk full, a bug)."""
    done = CellRows(cell)
    asking = _Asking(gateway, gates or Gates())
    spec = grid.spec.summarizers[cell.summarizer]
    async with asking.gates.summary(spec.label):
        outcome, truth = await _summarized(grid, cell, context, asking.of("summarize"))
    if isinstance(outcome, Answer):
        summary = _summary(cell, spec.label, context, outcome.value)
        done.add("summaries", summary)
        await _judge_all(grid, done, summary, truth, asking)
    else:
        done.fail("context" if outcome.error == "context_window" else "summarize", outcome)
    done.add("raw_answers", *(asking.raw[key] for key in sorted(asking.raw)))
    return done


async def judge_cell(
    grid: Grid, cell: Cell, stored: tuple[Summary, AskedBy], gateway: Gateway, gates: Gates | None = None
) -> CellRows:
    """The rows of a stored summary that is judged (again): judgments, scores, raw answers, failures. Raises as `answer_cell`."""
    done, (summary, asked) = CellRows(cell), stored
    asking = _Asking(gateway, gates or Gates(), asked)
    truth = _truth(await grid.haystacks.fetch(cell.unit.haystack_id), cell)
    await _judge_all(grid, done, summary, truth, asking)
    done.add("raw_answers", *(asking.raw[key] for key in sorted(asking.raw)))
    return done


async def _judge_all(grid: Grid, done: CellRows, summary: Summary, truth: _Truth, asking: _Asking) -> None:
    await asyncio.gather(*(_judge(grid, done, summary, truth, judge, asking) for judge in grid.spec.judges))


async def _summarized(grid: Grid, cell: Cell, context: Context, ask: Ask) -> tuple[Outcome[RawAnswer], _Truth]:
    haystack = await grid.haystacks.fetch(cell.unit.haystack_id)
    strategy = grid.spec.summarizers[cell.summarizer].strategy
    outcome = _read(
        await guarded("strategy_error", make_summarizer(strategy).summarize(task_of(grid, cell, haystack, context), ask))
    )
    return outcome, _truth(haystack, cell)


def _truth(haystack: Haystack, cell: Cell) -> _Truth:
    insights, gold = haystack.insights_of(cell.unit.subtopic_id), haystack.gold()
    return _Truth(insights, {insight.insight_id: gold[insight.insight_id] for insight in insights})


async def guarded(error_class: str, work: Awaitable[Any]) -> Any:
    """What a strategy gives, or a Failed where it raises: it may be a person's own, and it must not stop the other rows."""
    try:
        return await work
    except (OSError, Problem):
        raise
    # The border to strategies: what goes wrong there is a row.
    except Exception as error:  # noqa: BLE001
        return Failed(error_class, f"{type(error).__name__}: {error}", retryable=True)


def one_each(judged: Any, n_insights: int) -> list[Outcome[Verdict]]:
    """A judge's outcomes, one an insight; where it gives another number, nobody knows which is whose, and none counts."""
    if isinstance(judged, Failed):
        return [judged] * n_insights
    kinds = tuple(KIND)
    if not isinstance(judged, list) or len(judged) != n_insights or not all(isinstance(one, kinds) for one in judged):
        found = f"{len(judged)} outcomes" if isinstance(judged, list) else type(judged).__name__
        return [Failed("judge_error", f"the judge gave {found} for {n_insights} insights", retryable=True)] * n_insights
    return [_checked(one) for one in judged]


def _checked(outcome: Any) -> Outcome[Verdict]:
    """The outcome of a judgment, where it is one: a person's own judge may answer with anything."""
    if not isinstance(outcome, Answer):
        return cast(Outcome[Verdict], outcome)
    if not isinstance(verdict := outcome.value, Verdict):
        return Failed("judge_error", f"the judge gave an Answer of {type(verdict).__name__} and no Verdict", retryable=True)
    if verdict.value is not None and not 0 <= verdict.value <= 1:
        told = f"the judge's value is {verdict.value}; expected 0 to 1"
        return Malformed("unusable_value", told, outcome.key, outcome.attempts, outcome.usd_micros)
    return outcome


def _read(outcome: Any) -> Outcome[RawAnswer]:
    """The outcome of a summary; a refusal in words is a refusal, and what is no outcome is a failure."""
    if not isinstance(outcome, tuple(KIND)):
        return Failed("strategy_error", f"the strategy gave {type(outcome).__name__} and no outcome", retryable=True)
    if isinstance(outcome, Answer) and refuses(outcome.value.text):
        raw = outcome.value
        return Refusal("refusal", "the model refused in words", raw.key, raw.attempts, raw.usd_micros)
    if isinstance(outcome, Answer) and not bullets_of(outcome.value.text):
        raw = outcome.value
        return Malformed("empty_answer", "the answer holds no line but its thinking", raw.key, raw.attempts, raw.usd_micros)
    return cast(Outcome[RawAnswer], outcome)


def _summary(cell: Cell, label: str, context: Context, raw: RawAnswer) -> Summary:
    return Summary(
        cell_id=cell.cell_id,
        haystack_id=cell.unit.haystack_id,
        subtopic_id=cell.unit.subtopic_id,
        system=cell.system,
        retriever=cell.unit.retriever,
        ordering=cell.unit.ordering,
        model=label,
        repeat=cell.repeat,
        context_id=context.context_id,
        key=raw.key,
        bullets=bullets_of(raw.text),
    )


async def _judge(grid: Grid, done: CellRows, summary: Summary, truth: _Truth, spec: JudgeSpec, asking: _Asking) -> None:
    insights = truth.insights
    settings = judge_settings(grid, done.cell, spec, asking.about.get(spec.label))

    async def asked() -> Any:
        return await make_judge(spec.strategy).judge(insights, summary.bullets, settings, asking.of("judge"))

    async with asking.gates.judging(spec.label):
        judged = await guarded("judge_error", asked())
    outcomes = one_each(judged, len(insights))
    judgments = []
    for position, (insight, outcome) in enumerate(zip(insights, outcomes, strict=True)):
        if isinstance(outcome, Answer):
            judgments.append(_judgment(summary, spec.label, insight, position, outcome))
        else:
            done.fail("judge", outcome, spec.label, insight.insight_id)
    done.add("judgments", *judgments)
    _score(done, judgments, summary, truth.gold)


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


def _score(done: CellRows, judgments: list[Judgment], summary: Summary, gold: Mapping[str, frozenset[int]]) -> None:
    raw = {judgment.insight_id: judgment.key for judgment in judgments}
    for scored in score_summary(judgments, summary.bullets, gold):
        if isinstance(scored, Failure):
            found = Malformed(scored.error, scored.message, raw[scored.insight_id])
            done.fail("judge", found, scored.judge, scored.insight_id)
        else:
            done.add("scores", scored)
