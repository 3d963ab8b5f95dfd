"""A judge that reads, of a long summary, the bullets that an insight needs: the lever `extract` of a judge's entry."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace

from summhay_ray import extract as extracts
from summhay_ray.benchmark import Answer, Ask, Failed, Outcome, Request
from summhay_ray.benchmarks.rating import ExtractSpec
from summhay_ray.judge import JudgeSettings, Verdict, make_judge, usable_bullet
from summhay_ray.llm import Ask as AskModel
from summhay_ray.llm import RawAnswer
from summhay_ray.records import Insight


async def judge_reduced(
    strategy: str, insights: Sequence[Insight], bullets: Sequence[str], settings: JudgeSettings, ask: AskModel, lever: ExtractSpec
) -> list[Outcome[Verdict]]:
    """One outcome an insight. Each is judged by its own bullets; the verdicts name them as the summary numbers them."""
    judge = make_judge(strategy)

    async def one(insight: Insight) -> Outcome[Verdict]:
        index = extracts.choose_units(bullets, insight.text, lever.method, lever.tokens)
        [found] = await judge.judge([insight], [bullets[number] for number in index], settings, ask)
        return _as_numbered(found, index)

    return list(await asyncio.gather(*map(one, insights)))


async def tell_spared(
    strategy: str,
    insights: Sequence[Insight],
    bullets: Sequence[str],
    settings: JudgeSettings,
    ask: Ask,
    stage: str,
    lever: ExtractSpec,
) -> None:
    """For the plan: what the calls of `judge_reduced` do without."""
    whole, made = list[Request](), list[Request]()

    def noting(requests: list[Request]) -> AskModel:
        async def note(request: Request) -> Outcome[RawAnswer]:
            requests.append(request)
            return Failed("planned", "no call is made while planning")

        return note

    await make_judge(strategy).judge(insights, bullets, settings, noting(whole))
    await judge_reduced(strategy, insights, bullets, settings, noting(made), lever)
    for one, other in zip(whole, made, strict=True):
        ask.spares(stage, one, other)


def _as_numbered(found: Outcome[Verdict], index: Sequence[int]) -> Outcome[Verdict]:
    """The verdict with the number that its bullet has in the summary; one that names no bullet stays as it is."""
    if not isinstance(found, Answer):
        return found
    shown = usable_bullet(found.value.bullet_id, len(index))
    if shown is None:
        return found
    return replace(found, value=replace(found.value, bullet_id=json.dumps(index[shown - 1] + 1)))
