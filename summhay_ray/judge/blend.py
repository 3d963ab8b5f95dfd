"""`blend`: the weighted mean of a judge and the free offline judge. Part of the judge room."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from summhay_ray.judge.answer import usable_verdict
from summhay_ray.judge.base import Judge, JudgeSettings, Verdict
from summhay_ray.judge.combine import blend
from summhay_ray.judge.offline import OfflineJudge
from summhay_ray.judge.per_summary import PerSummary, priced
from summhay_ray.llm import Ask
from summhay_ray.outcome import Answer, Malformed, Outcome
from summhay_ray.records import Insight


class Blend:
    """Asks `judge` and the free judge, and returns the weighted mean of both verdicts (`combine.blend`).

    An outcome has the key and attempts of `judge`'s answer. If either judge fails, the insight fails. A verdict of `judge` that
    contradicts itself (covered by a bullet that does not exist, or not covered but naming a bullet) is Malformed; the free
    verdict never replaces it.
    """

    name: ClassVar[str] = "blend"

    def __init__(self, judge: Judge) -> None:
        self._judge = judge

    async def judge(
        self, insights: Sequence[Insight], bullets: Sequence[str], settings: JudgeSettings, ask: Ask
    ) -> list[Outcome[Verdict]]:
        """One outcome per insight, in the order of `insights`."""
        asked, free = await asyncio.gather(
            self._judge.judge(insights, bullets, settings, ask), ask_offline(insights, bullets, ask)
        )
        return [_blended(one, other, len(bullets)) for one, other in zip(asked, free, strict=True)]


async def ask_offline(insights: Sequence[Insight], bullets: Sequence[str], ask: Ask) -> list[Outcome[Verdict]]:
    """The verdicts of `offline/judge`, asked about all insights together."""
    # The defaults of a spec's own entry `offline/judge`, so that both send the same request and share its answer.
    sampling = {"max_tokens": 200, "temperature": 0.0, "extra_body": {"revision": OfflineJudge.revision}}
    return await PerSummary().judge(insights, bullets, JudgeSettings(OfflineJudge.name, sampling=sampling), ask)


def _blended(judged: Outcome[Verdict], free: Outcome[Verdict], n_bullets: int) -> Outcome[Verdict]:
    if not isinstance(judged, Answer):
        return priced(judged, free.usd_micros)
    if not isinstance(free, Answer):
        return priced(free, judged.usd_micros)
    usable = usable_verdict(judged.value, n_bullets)
    usd_micros = judged.usd_micros + free.usd_micros
    if isinstance(usable, Malformed):
        return replace(usable, key=judged.key, attempts=judged.attempts, usd_micros=usd_micros)
    return Answer(blend(usable, free.value), key=judged.key, attempts=judged.attempts, usd_micros=usd_micros)
