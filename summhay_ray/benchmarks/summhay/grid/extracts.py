"""Judge each insight by an extract of the summary: the option `extract` of a judge's entry.

For a long summary, only the bullets that are relevant to the insight are shown, which shortens the prompt.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace

from summhay_ray import extract as extracts
from summhay_ray.benchmark import Ask, RawAnswer, Request
from summhay_ray.benchmarks.rating import ExtractSpec
from summhay_ray.benchmarks.summarizing import AskModel
from summhay_ray.judge import JudgeSettings, Verdict, make_judge, usable_bullet
from summhay_ray.outcome import Answer, Failed, Outcome
from summhay_ray.records import Insight
from summhay_ray.text import first_tokens


async def judge_by_extract(
    strategy: str,
    insights: Sequence[Insight],
    bullets: Sequence[str],
    settings: JudgeSettings,
    ask: AskModel,
    extract: ExtractSpec,
) -> list[Outcome[Verdict]]:
    """One outcome per insight, each judged by its own selection of bullets.

    Bullet numbers in the verdicts are those of the whole summary.
    """
    judge = make_judge(strategy)

    async def judge_one(insight: Insight) -> Outcome[Verdict]:
        index = extracts.choose_units(bullets, insight.text, extract.method, extract.tokens)
        # Only a single bullet that is too long is cut.
        shown = [first_tokens(bullets[number], extract.tokens) for number in index]
        [outcome] = await judge.judge([insight], shown, settings, ask)
        return _as_numbered(outcome, index)

    return list(await asyncio.gather(*map(judge_one, insights)))


async def note_savings(
    strategy: str,
    insights: Sequence[Insight],
    bullets: Sequence[str],
    settings: JudgeSettings,
    ask: Ask,
    stage: str,
    extract: ExtractSpec,
) -> None:
    """For a plan: report the saving of extracts by comparing each shortened request with the whole one."""
    whole, shortened = list[Request](), list[Request]()

    def noting(requests: list[Request]) -> AskModel:
        async def note(request: Request) -> Outcome[RawAnswer]:
            requests.append(request)
            return Failed("planned", "no call is made while planning")

        return note

    await make_judge(strategy).judge(insights, bullets, settings, noting(whole))
    await judge_by_extract(strategy, insights, bullets, settings, noting(shortened), extract)
    for before, after in zip(whole, shortened, strict=True):
        ask.spares(stage, before, after)


def _as_numbered(outcome: Outcome[Verdict], index: Sequence[int]) -> Outcome[Verdict]:
    """The verdict with its bullet renumbered as in the whole summary; unchanged if it names no usable bullet."""
    if not isinstance(outcome, Answer):
        return outcome
    shown = usable_bullet(outcome.value.bullet_id, len(index))
    if shown is None:
        return outcome
    return replace(outcome, value=replace(outcome.value, bullet_id=json.dumps(index[shown - 1] + 1)))
