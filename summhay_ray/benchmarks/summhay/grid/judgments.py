"""Judge a summary as soon as it is written, and score it (paper, sections 4.1 and 4.3)."""

import asyncio
import functools
import json
import statistics
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from summhay_ray import extract as extracts
from summhay_ray import judge as judging
from summhay_ray.benchmark import Ask, RawAnswer, Request, Rows
from summhay_ray.benchmarks.rating import ExtractSpec
from summhay_ray.benchmarks.summarizing import AskModel, guard
from summhay_ray.benchmarks.summhay.grid.grid import TOKENS_A_VERDICT, Cell, Entries
from summhay_ray.benchmarks.summhay.grid.replay import lookup_of
from summhay_ray.benchmarks.summhay.spec import JudgeSpec
from summhay_ray.haystack import system_key
from summhay_ray.loops import gather
from summhay_ray.metrics import score_summary
from summhay_ray.outcome import KIND, Answer, Failed, Malformed, Outcome
from summhay_ray.records import AbsentAnswer, Failure, Gold, Haystack, Insight, Judgment, Summary, Vote
from summhay_ray.text import first_tokens

AskedBy = Mapping[str, Collection[str]]
"""A cascade's name -> ids of the insights that it passes on. The free judge decides the remaining ones."""


@dataclass(frozen=True, slots=True)
class Truth:
    """The reference for the summaries of one query. A cell that waits to be judged needs only this, not its whole haystack."""

    insights: tuple[Insight, ...]
    """The insights of the query's subtopic."""
    gold: Gold
    absent: str = ""
    """The query, if no document answers it; otherwise empty."""


def truth_of(haystack: Haystack, cell: Cell) -> Truth:
    """Return the reference insights of a cell's query, with their gold documents."""
    insights, gold = haystack.insights_of(cell.unit.subtopic_id), haystack.gold
    subtopic = next(one for one in haystack.subtopics if one.subtopic_id == cell.unit.subtopic_id)
    own = {insight.insight_id: gold[insight.insight_id] for insight in insights}
    return Truth(insights, own, subtopic.query if subtopic.absent else "")


def judge_settings(entries: Entries, cell: Cell, system: str, spec: JudgeSpec, sample: int = 0) -> judging.JudgeSettings:
    """Return the settings of one judge (not a composed one) for the cell's summary. `sample`: index of the answer."""
    return judging.JudgeSettings(
        model=spec.model,
        prompt=entries.prompts.get(spec.prompt or "", ""),
        sampling=entries.models.sampling(spec),
        sample=sample,
        lookup=lookup_of(cell, spec.model, system),
    )


async def judge_all(entries: Entries, cell: Cell, summary: Summary, truth: Truth, ask: Ask, asked: AskedBy | None = None) -> Rows:
    """Judge a summary with every judge of the spec. Returns the rows of `judgments`, `votes` and `scores` or, for a query
    that no document answers, of `absent_answers`."""
    rows: dict[str, list[Any]] = {"judgments": [], "votes": [], "scores": []}
    # The system's name in the release. A stored summary (rejudge) already has it.
    summarizers, system = getattr(entries.spec, "summarizers", ()), cell.system
    if summarizers:
        system = system_key(cell.unit.retriever, cell.unit.ordering, summarizers[cell.summarizer].model)
    if truth.absent:
        answers = [_judge_absent(entries, cell, system, summary, truth.absent, spec, ask) for spec in entries.spec.judges]
        return {"absent_answers": [row for row in await gather(answers) if row is not None]}
    every = (_judge(entries, cell, system, summary, truth, spec, ask, asked or {}) for spec in entries.spec.judges)
    for judged in await gather(every):
        for table, some in judged.items():
            rows[table] += some
    return rows


def one_each(judged: Any, n_insights: int) -> list[Outcome[judging.Verdict]]:
    """Return a judge's outcomes, one per insight.

    If the judge returned a different number, outcomes cannot be matched to insights, and every insight gets a Failed instead.
    """
    if isinstance(judged, Failed):
        return [judged] * n_insights
    kinds = tuple(KIND)
    if not isinstance(judged, list) or len(judged) != n_insights or not all(isinstance(outcome, kinds) for outcome in judged):
        others = [outcome for outcome in judged if not isinstance(outcome, kinds)] if isinstance(judged, list) else [judged]
        given = "a list" if isinstance(judged, list) else ""
        given += f" with {others[0]!r:.60} ({type(others[0]).__name__})" if others else f" of {len(judged)}"
        wanted = "Answer(Verdict(coverage, bullet_id)), or a Refusal, Malformed or Failed"
        message = f"the judge returned {given.removeprefix(' with ')}; expected a list of {n_insights}, for each insight {wanted}"
        return [Failed("judge_error", message, retryable=True)] * n_insights
    checked: list[Outcome[judging.Verdict]] = []
    for outcome in judged:
        # A user-defined judge may return anything as its verdict.
        verdict = outcome.value if isinstance(outcome, Answer) else None
        if isinstance(outcome, Answer) and not isinstance(verdict, judging.Verdict):
            given = f"an Answer with {verdict!r:.60} ({type(verdict).__name__})"
            message = f"the judge returned {given}; expected Answer(Verdict(coverage, bullet_id))"
            checked.append(Failed("judge_error", message, retryable=True))
        elif verdict is not None and verdict.value is not None and not 0 <= verdict.value <= 1:
            message = f"the judge's value is {verdict.value}; expected 0 to 1"
            checked.append(Malformed("unusable_value", message, outcome.key, outcome.attempts, outcome.usd_micros))
        else:
            checked.append(outcome)
    return checked


async def _judge(
    entries: Entries, cell: Cell, system: str, summary: Summary, truth: Truth, spec: JudgeSpec, ask: Ask, asked: AskedBy
) -> Rows:
    """Return the rows of one judge: judgments, the votes of its panels, and scores."""
    insights, votes = truth.insights, list[Vote]()
    places = {insight.insight_id: place for place, insight in enumerate(insights)}

    async def ask_one(named: judging.Named, questions: Sequence[Insight], share: float) -> list[Outcome[judging.Verdict]]:
        part, some = entries.spec.part(spec, named), tuple(questions)

        async with ask.turn("judge", part.model, spec.label if part is spec else f"{spec.label} {part.model}"):
            settings = judge_settings(entries, cell, system, part, named.sample)
            # One answer may hold several verdicts; its `max_tokens` then is a multiple of the spec's.
            ask_model = ask.of(
                "judge",
                share,
                lambda request: TOKENS_A_VERDICT * max(1, int(request.sampling.get("max_tokens", 0)) // int(part.max_tokens)),
            )
            extract = part.extract.for_plan() if ask.planning and part.extract is not None else part.extract
            if ask.planning and extract is not None:
                await note_savings(part.strategy, some, summary.bullets, settings, ask, "judge", extract)
            given = part.strategy, some, summary.bullets, settings, ask_model
            verdicts = await guard(
                "judge_error",
                lambda: judging.outcomes_of(*given) if extract is None else judge_by_extract(*given, extract),
                part.strategy if ask.planning else "",
            )
            return one_each(verdicts, len(some))

    def choose(named: judging.Named, some: Sequence[Insight], uncertainties: Sequence[float] | None) -> Collection[int] | None:
        if (known := asked.get(named.text)) is not None:
            return [place for place, insight in enumerate(some) if insight.insight_id in known]
        return None if uncertainties is None else judging.choose_uncertain(named, uncertainties)

    def voted(named: judging.Named, insight: Insight, said: Sequence[Outcome[judging.Verdict]]) -> None:
        tied = judging.is_tied([outcome.value.coverage for outcome in said if isinstance(outcome, Answer)])
        for member, outcome in zip(named.parts, said, strict=True):
            if isinstance(outcome, Answer):
                judged = _judgment(summary, spec.label, insight, places[insight.insight_id], outcome)
                fields = {name: getattr(judged, name) for name in Judgment.__dataclass_fields__}
                value = outcome.value.expected
                votes.append(Vote(**{**fields, "value": value}, panel=named.text, member=member.text, tied=tied))

    n_bullets = len(summary.bullets)
    composed = judging.Composed(
        ask=ask_one,
        usable=lambda _, verdict: judging.usable_verdict(verdict, n_bullets),
        blend=judging.blend,
        panel=judging.panel,
        choose=choose,
        voted=voted,
        planning=ask.planning,
    )
    judged = await composed.judge(spec.named, insights)
    judgments = []
    for position, (insight, outcome) in enumerate(zip(insights, judged, strict=True)):
        if isinstance(outcome, Answer):
            judgments.append(_judgment(summary, spec.label, insight, position, outcome))
        else:
            ask.fail("judge", outcome, judge=spec.label, insight_id=insight.insight_id)
    keys = {judgment.insight_id: judgment.key for judgment in judgments}
    scores = []
    for scored in score_summary(judgments, summary.bullets, truth.gold):
        if isinstance(scored, Failure):
            malformed = Malformed(scored.error, scored.message, keys[scored.insight_id])
            ask.fail("judge", malformed, judge=scored.judge, insight_id=scored.insight_id)
        else:
            scores.append(scored.of(summary))
    return {"judgments": judgments, "votes": votes, "scores": scores}


async def _judge_absent(
    entries: Entries, cell: Cell, system: str, summary: Summary, query: str, spec: JudgeSpec, ask: Ask
) -> AbsentAnswer | None:
    """Return whether one judge says that the summary invents claims; None if the judge failed.

    A cascade asks its model if the free judge sees a claim without a number. For a user-defined judge, its model is asked.
    """

    async def ask_one(named: judging.Named, questions: Sequence[str], share: float) -> list[Outcome[judging.Absence]]:
        part = entries.spec.part(spec, named)
        async with ask.turn("judge", part.model, spec.label if part is spec else f"{spec.label} {part.model}"):
            settings = judge_settings(entries, cell, system, part, named.sample)
            ask_model = ask.of("judge", share, lambda _: TOKENS_A_VERDICT)
            return [await judging.judge_absence(question, summary.bullets, settings, ask_model) for question in questions]

    def mean(*said: judging.Absence) -> judging.Absence:
        claims = [one.bullet for one in said if one.bullet is not None]
        uncertain = [one.uncertainty for one in said if one.uncertainty is not None]
        invents = statistics.fmean(one.invents for one in said)
        return judging.Absence(invents, min(claims, default=None), statistics.fmean(uncertain) if uncertain else None)

    def choose(named: judging.Named, some: Sequence[str], uncertainties: Sequence[float] | None) -> Collection[int] | None:
        return None if uncertainties is None else [place for place, doubt in enumerate(uncertainties) if doubt > 0]

    composed = judging.Composed(
        ask=ask_one,
        usable=lambda _, said: said,
        blend=mean,
        panel=lambda said: mean(*said),
        choose=choose,
        planning=ask.planning,
    )
    [outcome] = await composed.judge(spec.named, [query])
    if isinstance(outcome, Answer):
        return AbsentAnswer(cell.cell_id, spec.label, outcome.key, outcome.value.invents, outcome.value.bullet)
    ask.fail("judge", outcome, judge=spec.label)
    return None


def _judgment(summary: Summary, judge: str, insight: Insight, position: int, outcome: Answer[judging.Verdict]) -> Judgment:
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


async def judge_by_extract(
    strategy: str,
    insights: Sequence[Insight],
    bullets: Sequence[str],
    settings: judging.JudgeSettings,
    ask: AskModel,
    extract: ExtractSpec,
) -> list[Outcome[judging.Verdict]]:
    """Judge each insight by its own selection of bullets. Returns one outcome per insight.

    Bullet numbers in the verdicts are those of the whole summary.
    """
    judge = judging.make_judge(strategy)

    async def judge_one(insight: Insight) -> Outcome[judging.Verdict]:
        index = extracts.choose_units(bullets, insight.text, extract.method, extract.tokens)
        # A bullet is cut only if it is too long by itself.
        shown = [first_tokens(bullets[number], extract.tokens) for number in index]
        [outcome] = await judge.judge([insight], shown, settings, ask)
        named = judging.usable_bullet(outcome.value.bullet_id, len(index)) if isinstance(outcome, Answer) else None
        if named is None or not isinstance(outcome, Answer):
            return outcome
        return replace(outcome, value=replace(outcome.value, bullet_id=json.dumps(index[named - 1] + 1)))

    return list(await asyncio.gather(*map(judge_one, insights)))


async def note_savings(
    strategy: str,
    insights: Sequence[Insight],
    bullets: Sequence[str],
    settings: judging.JudgeSettings,
    ask: Ask,
    stage: str,
    extract: ExtractSpec,
) -> None:
    """While planning, report the tokens that extracts save: compare each shortened request with the whole one."""
    whole, shortened = list[Request](), list[Request]()

    async def note(requests: list[Request], request: Request) -> Outcome[RawAnswer]:
        requests.append(request)
        return Failed("planned", "no call is made while planning")

    await judging.make_judge(strategy).judge(insights, bullets, settings, functools.partial(note, whole))
    await judge_by_extract(strategy, insights, bullets, settings, functools.partial(note, shortened), extract)
    for before, after in zip(whole, shortened, strict=True):
        ask.spares(stage, before, after)
