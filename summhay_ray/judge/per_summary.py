"""The judge `per_summary`, which asks a model about all insights of a summary in one call."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar, TypeVar

from summhay_ray.judge.answer import read_verdicts
from summhay_ray.judge.base import JudgeSettings, Verdict
from summhay_ray.judge.per_insight import FewShot, PerInsight, repaired
from summhay_ray.judge.prompt import Form, render_together, template
from summhay_ray.llm import Ask, RawAnswer, Request
from summhay_ray.outcome import Answer, Malformed, NoAnswer, Outcome
from summhay_ray.records import Insight
from summhay_ray.text import text_hash

V = TypeVar("V")


class PerSummary:
    """One call per summary. If the answer has no clear verdict on an insight, there is one further call about that insight alone.

    A spec's `max_tokens` is for one judgment, as with every other strategy: a call about n insights allows n times as many. The
    price of that call is divided among its n outcomes, to the micro-dollar, so that their sum is the price paid. An insight with
    a second call also bears that call's price, and has the second answer's key. A refused or failed call is a refusal or failure
    of every insight, without a second call, which would ask the same question.
    """

    name: ClassVar[str] = "per_summary"
    form: ClassVar[Form] = Form(together=True)
    alone: ClassVar[type[PerInsight]] = PerInsight

    async def judge(
        self, insights: Sequence[Insight], bullets: Sequence[str], settings: JudgeSettings, ask: Ask
    ) -> list[Outcome[Verdict]]:
        """One outcome per insight, in the order of `insights`. Raises ValueError if the user's prompt lacks a placeholder."""
        if settings.lookup:
            # The release holds one judgment per insight, so look them up one by one.
            return await self.alone().judge(insights, bullets, replace(settings, prompt=""), ask)
        if not insights:
            return []
        shared = await ask(self._request(insights, bullets, settings))
        prices = spread(shared.usd_micros, len(insights))
        if not isinstance(shared, Answer):
            return [replace(shared, usd_micros=price) for price in prices]
        read = _outcomes(shared, len(insights))
        unread = [index for index, outcome in enumerate(read) if isinstance(outcome, Malformed)]
        again = await asyncio.gather(*(self._again(insights[index], bullets, settings, ask) for index in unread))
        by_index = dict(zip(unread, again, strict=True))
        return [
            priced(by_index.get(index, outcome), price) for index, (outcome, price) in enumerate(zip(read, prices, strict=True))
        ]

    async def _again(self, insight: Insight, bullets: Sequence[str], settings: JudgeSettings, ask: Ask) -> Outcome[Verdict]:
        """Ask about the insight alone, with our prompt for one insight, or with the user's own prompt and this insight in it."""
        if not settings.prompt:
            return (await self.alone().judge([insight], bullets, settings, ask))[0]
        raw = await ask(self._request([insight], bullets, settings))
        if not isinstance(raw, Answer):
            return raw
        return priced(_outcomes(raw, 1)[0], raw.usd_micros)

    def _request(self, insights: Sequence[Insight], bullets: Sequence[str], settings: JudgeSettings) -> Request:
        text, longer = template(settings.prompt, self.form), settings.sampling.keys() & {"max_tokens", "max_completion_tokens"}
        sampling = {
            name: value * len(insights) if name in longer and isinstance(value, int) else value
            for name, value in settings.sampling.items()
        }
        return Request(
            model=settings.model,
            messages=render_together(text, [insight.text for insight in insights], bullets),
            sampling=sampling,
            prompt_hash=text_hash(text),
            sample=settings.sample,
        )


class FewShotPerSummary(PerSummary):
    """Like `per_summary`, with three worked examples of three insights each (nine shots) in the prompt."""

    name: ClassVar[str] = "few_shot+per_summary"
    form: ClassVar[Form] = Form(together=True, nine=True)
    alone: ClassVar[type[PerInsight]] = FewShot


def spread(usd_micros: int, n: int) -> list[int]:
    """Divide a price among n outcomes as evenly as integers allow; they add up to the price."""
    part, rest = divmod(usd_micros, n)
    return [part + (index < rest) for index in range(n)]


def priced(outcome: Outcome[V], usd_micros: int) -> Outcome[V]:
    """The outcome with an additional price."""
    if not usd_micros:
        return outcome
    if isinstance(outcome, Answer):
        return replace(outcome, usd_micros=outcome.usd_micros + usd_micros)
    failure: NoAnswer = outcome
    return replace(failure, usd_micros=failure.usd_micros + usd_micros)


def _outcomes(raw: Answer[RawAnswer], n_insights: int) -> list[Outcome[Verdict]]:
    """The answer's verdict on each insight, with its key and attempts, but without its price."""
    return [
        replace(read, key=raw.key, attempts=raw.attempts)
        if isinstance(read, Malformed)
        else Answer(repaired(read), key=raw.key, attempts=raw.attempts)
        for read in read_verdicts(raw.value.text, n_insights, raw.value.finish_reason)
    ]
