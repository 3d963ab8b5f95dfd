"""The judge `per_insight`, which asks a model about one insight per call (paper, appendix A.2)."""

from __future__ import annotations

import functools
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from summhay_ray.judge.answer import read_verdict, usable_bullet
from summhay_ray.judge.base import JudgeSettings, Verdict
from summhay_ray.judge.prompt import ALONE, Form, render, template
from summhay_ray.llm import Ask, RawAnswer, Request, Sampling
from summhay_ray.loops import together
from summhay_ray.outcome import Answer, Malformed, Outcome
from summhay_ray.records import Insight
from summhay_ray.text import text_hash


class PerInsight:
    """One call per insight, all calls of a summary at once. They share the prompt's prefix (instructions and bullets)."""

    name: ClassVar[str] = "per_insight"
    form: ClassVar[Form] = ALONE

    async def judge(
        self, insights: Sequence[Insight], bullets: Sequence[str], settings: JudgeSettings, ask: Ask
    ) -> list[Outcome[Verdict]]:
        """One outcome per insight, in the order of `insights`. Raises ValueError if the user's prompt lacks a placeholder."""
        text, sampling = template(settings.prompt, self.form), Sampling(settings.sampling)
        requests = _requests(text, tuple(insights), tuple(bullets), settings.model, sampling, settings.lookup, settings.sample)
        answers = await together(map(ask, requests))
        # A replayed judgment stays unchanged, so that `--compat release` can read it as the release's script does.
        return [outcome_of(raw, repair=not settings.lookup) for raw in answers]


class FewShot(PerInsight):
    """Like `per_insight`, with nine examples in the prompt: three fully covered, three partially, three not (paper, section
    4.3)."""

    name: ClassVar[str] = "few_shot"
    form: ClassVar[Form] = Form(nine=True)


# Summaries repeat: render their prompts and compute their keys only once.
@functools.lru_cache(maxsize=128)
def _requests(
    text: str, insights: tuple[Insight, ...], bullets: tuple[str, ...], model: str, sampling: Sampling, lookup: str, sample: int
) -> tuple[Request, ...]:
    """A request for each insight. `text`: the template."""
    return tuple(
        Request(
            model=model,
            messages=render(text, insight.text, bullets),
            sampling=sampling,
            prompt_hash=text_hash(text),
            sample=sample,
            lookup=f"{lookup}/{insight.insight_id}" if lookup else "",
        )
        for insight in insights
    )


def outcome_of(raw: Outcome[RawAnswer], repair: bool = True) -> Outcome[Verdict]:
    """The verdict in a raw answer, or the failure; with the raw answer's key, attempts and price.

    `repair`: an unambiguous bullet id ("bullet 3", [3], 3.0) becomes its number.
    """
    if not isinstance(raw, Answer):
        return raw
    verdict = _verdict(raw.value.text, raw.value.finish_reason, repair)
    if isinstance(verdict, Malformed):
        return replace(verdict, key=raw.key, attempts=raw.attempts, usd_micros=raw.usd_micros)
    return Answer(verdict, key=raw.key, attempts=raw.attempts, usd_micros=raw.usd_micros)


# One answer judges all summaries with the same bullets.
@functools.lru_cache(maxsize=1024)
def _verdict(text: str, finish_reason: str, repair: bool) -> Verdict | Malformed:
    verdict = read_verdict(text, finish_reason)
    return repaired(verdict) if repair and isinstance(verdict, Verdict) else verdict


def repaired(verdict: Verdict) -> Verdict:
    """The verdict with its bullet id as a number, if it names one."""
    named = usable_bullet(verdict.bullet_id, sys.maxsize)
    return verdict if named is None else replace(verdict, bullet_id=str(named))
