"""Strategies of asking a model, which a spec chooses by `strategy:`. Other packages import from `summhay_ray.judge`.

A strategy asks about one insight per call (paper, appendix A.2) or about all insights of a summary at once, with or without nine
examples. `strategy:` may also name a judge class (`module:Class`) or a composed judge (`combine.py`).
"""

import asyncio
import functools
import hashlib
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, TypeVar

from summhay_ray.judge import prompt as prompting
from summhay_ray.judge.base import JudgeSettings, Verdict
from summhay_ray.judge.prompt import template
from summhay_ray.llm import Ask, Message, RawAnswer, Request, Sampling
from summhay_ray.loops import gather
from summhay_ray.outcome import Answer, Malformed, NoAnswer, Outcome
from summhay_ray.records import Insight
from summhay_ray.text import UnusableAnswer, fill, final_text, json_line, json_value, length_before, text_hash


class PerInsight:
    """Makes one call per insight, and all calls of a summary at the same time. They share the prompt's prefix of instructions and
    bullets."""

    name: ClassVar[str] = "per_insight"
    form: ClassVar[prompting.Form] = prompting.ALONE

    async def judge(
        self, insights: Sequence[Insight], bullets: Sequence[str], settings: JudgeSettings, ask: Ask
    ) -> list[Outcome[Verdict]]:
        """Return one outcome per insight, in the order of `insights`. Raise ValueError if the user's prompt lacks a
        placeholder."""
        text, sampling = template(settings.prompt, self.form), Sampling(settings.sampling)
        requests = _requests(text, tuple(insights), tuple(bullets), settings.model, sampling, settings.lookup, settings.sample)
        answers = await gather(map(ask, requests))
        # A replayed judgment is not changed, so that `--compat release` can read it as the release's script does.
        return [outcome_of(raw, repair=not settings.lookup) for raw in answers]


class FewShot(PerInsight):
    """Like `per_insight`, with nine examples in the prompt: three fully covered, three partially, three not (paper, section
    4.3)."""

    name: ClassVar[str] = "few_shot"
    form: ClassVar[prompting.Form] = prompting.Form(nine=True)


# Summaries repeat, so their prompts and keys are computed only once.
@functools.lru_cache(maxsize=128)
def _requests(
    text: str, insights: tuple[Insight, ...], bullets: tuple[str, ...], model: str, sampling: Sampling, lookup: str, sample: int
) -> tuple[Request, ...]:
    """Return a request for each insight. `text`: the template."""
    prompts = [prompting.render(text, insight.text, bullets) for insight in insights]
    # The length of the prompt's beginning, which it shares with the prompts for the other insights.
    shared = 0
    if len(insights) > 1:
        shared = length_before(text, prompting.placeholders(insights[0].text, bullets), ["[[INSIGHT]]"], prompts[0])
    return tuple(
        Request(
            model=model,
            messages=prompt,
            sampling=sampling,
            prompt_hash=text_hash(text),
            sample=sample,
            lookup=f"{lookup}/{insight.insight_id}" if lookup else "",
            shared=shared,
        )
        for insight, prompt in zip(insights, prompts, strict=True)
    )


def outcome_of(raw: Outcome[RawAnswer], repair: bool = True) -> Outcome[Verdict]:
    """Return the verdict in a raw answer, or the failure, with the raw answer's key, attempts and price.

    If `repair`, an unambiguous bullet id ("bullet 3", [3], 3.0) becomes its number.
    """
    if not isinstance(raw, Answer):
        return raw
    verdict = _verdict(raw.value.text, raw.value.finish_reason, repair)
    if isinstance(verdict, Malformed):
        return replace(verdict, key=raw.key, attempts=raw.attempts, usd_micros=raw.usd_micros)
    return Answer(verdict, key=raw.key, attempts=raw.attempts, usd_micros=raw.usd_micros)


# Cached: summaries with the same bullets share one answer, which is parsed once.
@functools.lru_cache(maxsize=1024)
def _verdict(text: str, finish_reason: str, repair: bool) -> Verdict | Malformed:
    verdict = prompting.read_verdict(text, finish_reason)
    return repair_bullet_id(verdict) if repair and isinstance(verdict, Verdict) else verdict


def repair_bullet_id(verdict: Verdict) -> Verdict:
    """Return the verdict with its bullet id as a number, if it names a bullet."""
    named = prompting.usable_bullet(verdict.bullet_id, sys.maxsize)
    return verdict if named is None else replace(verdict, bullet_id=str(named))


V = TypeVar("V")


class PerSummary:
    """Makes one call per summary. If the answer has no clear verdict on an insight, one more call asks about that insight alone.

    A spec's `max_tokens` is for one judgment, as with every other strategy. So a call about n insights may use n times as many
    tokens. The call's price is divided among its n outcomes, to the micro-dollar, so that their sum is the price paid. An insight
    with a second call also has that call's price added, and has the second answer's key. If a call is refused or fails, so does
    every insight; there is no second call, since it would ask the same question.
    """

    name: ClassVar[str] = "per_summary"
    form: ClassVar[prompting.Form] = prompting.Form(together=True)
    alone: ClassVar[type[PerInsight]] = PerInsight

    async def judge(
        self, insights: Sequence[Insight], bullets: Sequence[str], settings: JudgeSettings, ask: Ask
    ) -> list[Outcome[Verdict]]:
        """Return one outcome per insight, in the order of `insights`. Raise ValueError if the user's prompt lacks a
        placeholder."""
        if settings.lookup:
            # The release has one judgment per insight, so they are looked up one by one.
            return await self.alone().judge(insights, bullets, replace(settings, prompt=""), ask)
        if not insights:
            return []
        shared = await ask(self._request(insights, bullets, settings))
        prices = divide_price(shared.usd_micros, len(insights))
        if not isinstance(shared, Answer):
            return [replace(shared, usd_micros=price) for price in prices]
        read = _outcomes(shared, len(insights))
        unread = [index for index, outcome in enumerate(read) if isinstance(outcome, Malformed)]
        again = await asyncio.gather(*(self._ask_alone(insights[index], bullets, settings, ask) for index in unread))
        by_index = dict(zip(unread, again, strict=True))
        return [
            add_price(by_index.get(index, outcome), price)
            for index, (outcome, price) in enumerate(zip(read, prices, strict=True))
        ]

    async def _ask_alone(self, insight: Insight, bullets: Sequence[str], settings: JudgeSettings, ask: Ask) -> Outcome[Verdict]:
        """Ask about the insight alone. The prompt is our prompt for one insight, or the user's own prompt with only this
        insight."""
        if not settings.prompt:
            return (await self.alone().judge([insight], bullets, settings, ask))[0]
        raw = await ask(self._request([insight], bullets, settings))
        if not isinstance(raw, Answer):
            return raw
        return add_price(_outcomes(raw, 1)[0], raw.usd_micros)

    def _request(self, insights: Sequence[Insight], bullets: Sequence[str], settings: JudgeSettings) -> Request:
        text, longer = template(settings.prompt, self.form), settings.sampling.keys() & {"max_tokens", "max_completion_tokens"}
        sampling = {
            name: value * len(insights) if name in longer and isinstance(value, int) else value
            for name, value in settings.sampling.items()
        }
        return Request(
            model=settings.model,
            messages=prompting.render_together(text, [insight.text for insight in insights], bullets),
            sampling=sampling,
            prompt_hash=text_hash(text),
            sample=settings.sample,
        )


class FewShotPerSummary(PerSummary):
    """Like `per_summary`, with three worked examples of three insights each (nine shots) in the prompt."""

    name: ClassVar[str] = "few_shot+per_summary"
    form: ClassVar[prompting.Form] = prompting.Form(together=True, nine=True)
    alone: ClassVar[type[PerInsight]] = FewShot


def divide_price(usd_micros: int, n: int) -> list[int]:
    """Divide a price among n outcomes as evenly as possible in whole micro-dollars. The parts add up to the price."""
    part, rest = divmod(usd_micros, n)
    return [part + (index < rest) for index in range(n)]


def add_price(outcome: Outcome[V], usd_micros: int) -> Outcome[V]:
    """Return the outcome with `usd_micros` added to its price."""
    if not usd_micros:
        return outcome
    if isinstance(outcome, Answer):
        return replace(outcome, usd_micros=outcome.usd_micros + usd_micros)
    failure: NoAnswer = outcome
    return replace(failure, usd_micros=failure.usd_micros + usd_micros)


def _outcomes(raw: Answer[RawAnswer], n_insights: int) -> list[Outcome[Verdict]]:
    """Return the answer's verdict on each insight, with the answer's key and attempts, but without its price."""
    return [
        replace(read, key=raw.key, attempts=raw.attempts)
        if isinstance(read, Malformed)
        else Answer(repair_bullet_id(read), key=raw.key, attempts=raw.attempts)
        for read in prompting.read_verdicts(raw.value.text, n_insights, raw.value.finish_reason)
    ]


FORMS: Mapping[str, prompting.Form] = {one.name: one.form for one in (PerInsight, FewShot, PerSummary, FewShotPerSummary)}
"""Name of a built-in strategy -> the form of its prompt."""


def check_prompt(text: str, strategy: str = "per_insight") -> None:
    """Raise ValueError if a judge's prompt file lacks a placeholder that its strategy fills."""
    template(text, FORMS.get(strategy, prompting.ALONE))


def prompt_template(prompt: str, strategy: str) -> str:
    """Return the prompt template of a built-in strategy: the user's `prompt`, or ours. Return an empty string for other
    strategies."""
    form = FORMS.get(strategy)
    return "" if form is None else template(prompt, form)


def asks_alone(strategy: str) -> bool:
    """Whether a built-in strategy asks about each insight separately. Then verdicts do not depend on other insights."""
    form = FORMS.get(strategy)
    return form is not None and not form.together


@functools.lru_cache(maxsize=64)
def prompt_identity(prompt: str = "", strategy: str = "per_insight") -> str:
    """Return the sha256 (hex) of the prompt templates, with the user's `prompt` or, if it is empty, our own. It is part of a
    run's identity.

    It covers the strategy's own prompt, and the prompt of a second call about a single insight.
    """
    form = FORMS.get(strategy, prompting.ALONE)
    asked = [template(prompt, form)]
    if form.together and not prompt:
        asked.append(template("", prompting.Form(nine=form.nine)))
    hashes = [text_hash(text) for text in asked]
    return hashes[0] if len(hashes) == 1 else hashlib.sha256("".join(hashes).encode("ascii")).hexdigest()


# --- questions that no document answers ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Absence:
    """A verdict on an answer to a question that no document answers. `invents` is 1 if the answer makes a claim, and 0 if not; a
    composed judge's value may be between. `bullet`: the first bullet with a claim, from 1."""

    invents: float
    bullet: int | None = None
    uncertainty: float | None = None


async def judge_absence(query: str, bullets: Sequence[str], settings: JudgeSettings, ask: Ask) -> Outcome[Absence]:
    """Ask the settings' model whether the bullets make a claim. Without bullets there is no claim, so no model is asked."""
    if not bullets:
        return Answer(Absence(0.0, uncertainty=0.0))
    template = prompting.shipped("prompts", "absence.txt")
    text = fill(template, {"[[QUERY]]": json_line(query), "[[BULLETS]]": prompting.numbered_json("bullet", tuple(bullets))})
    request = Request(
        model=settings.model,
        messages=(Message("user", text),),
        sampling=Sampling(settings.sampling),
        prompt_hash=text_hash(template),
        sample=settings.sample,
        lookup=f"{settings.lookup}/absence" if settings.lookup else "",
    )
    raw = await ask(request)
    if not isinstance(raw, Answer):
        return raw
    read = read_absence(raw.value.text, len(bullets), raw.value.finish_reason)
    if isinstance(read, Malformed):
        return replace(read, key=raw.key, attempts=raw.attempts, usd_micros=raw.usd_micros)
    return Answer(read, key=raw.key, attempts=raw.attempts, usd_micros=raw.usd_micros)


def read_absence(text: str, n_bullets: int, finish_reason: str = "stop") -> Absence | Malformed:
    """Parse the verdict in a model's answer, `{"invents": true, "bullet_id": 2}`."""
    try:
        value = json_value(final_text(text, finish_reason), "invents")
    except UnusableAnswer as error:
        return Malformed(error.error, str(error))
    word = str(value["invents"]).strip().lower()
    if word not in (*_YES, *_NO):
        return Malformed("unknown_coverage", f"invents is {value['invents']!r:.60}; expected true or false")
    if word in _NO:
        return Absence(0.0, uncertainty=prompting.fraction(value.get("uncertainty")))
    bullet = prompting.usable_bullet(json.dumps(value.get("bullet_id")), n_bullets)
    return Absence(1.0, bullet, prompting.fraction(value.get("uncertainty")))


_YES, _NO = ("true", "yes", "1"), ("false", "no", "0")
