"""Judges decide how well a summary covers each insight.

A strategy such as `per_insight` defines how a model is prompted. The gateway can call any model, including `offline/judge`.
`rate_text` asks a model to rate a text on a scale (`rating/`); `offline/rater` needs no key.
"""

import inspect
import sys
from collections.abc import Sequence
from typing import Any, cast

from summhay_ray import plugins
from summhay_ray.judge.base import Judge, JudgeSettings, Verdict
from summhay_ray.judge.combine import (
    DEFAULT_SHARE,
    BadName,
    Composed,
    Named,
    blend,
    choose_uncertain,
    default_strategy,
    is_tied,
    label_of,
    least_certain,
    majority,
    name_of,
    panel,
    parse_name,
    repeated,
    strategy_of,
)
from summhay_ray.judge.offline import OfflineJudge, Rated, rate
from summhay_ray.judge.prompt import usable_bullet, usable_verdict
from summhay_ray.judge.rating.answer import Scale, check_logprobs
from summhay_ray.judge.rating.base import Criterion, OfflineRater, Rater, Rating, criteria, rate_text, rating_requests
from summhay_ray.judge.strategies import Absence, asks_alone, check_prompt, judge_absence, prompt_identity, prompt_template
from summhay_ray.llm import Ask
from summhay_ray.records import Insight

__all__ = [
    "DEFAULT_SHARE",
    "Absence",
    "BadName",
    "Composed",
    "Criterion",
    "Judge",
    "JudgeSettings",
    "Named",
    "OfflineJudge",
    "OfflineRater",
    "Rated",
    "Rater",
    "Rating",
    "Scale",
    "Verdict",
    "asks_alone",
    "blend",
    "check_logprobs",
    "check_prompt",
    "choose_uncertain",
    "criteria",
    "default_strategy",
    "is_tied",
    "judge_absence",
    "label_of",
    "least_certain",
    "majority",
    "make_judge",
    "name_of",
    "outcomes_of",
    "panel",
    "parse_name",
    "prompt_identity",
    "prompt_template",
    "rate",
    "rate_text",
    "rating_requests",
    "repeated",
    "strategy_of",
    "usable_bullet",
    "usable_verdict",
]


def make_judge(strategy: str = "per_insight") -> Judge:
    """Return the judge for a strategy, or a user's own judge for `module:Class`. Raise UnknownName for an unknown strategy.

    Judges composed of others (`parse_name`) are called through `Composed` instead.
    """
    return cast(Judge, plugins.find("judge strategy", strategy, sys.modules[__name__], "judge", "a judge (judge/base.py)")())


async def outcomes_of(
    strategy: str, insights: Sequence[Insight], bullets: Sequence[str], settings: JudgeSettings, ask: Ask
) -> Any:
    """Return the strategy's outcomes for a summary, unchecked. A user's own judge may return anything, and may not be a
    coroutine."""
    judged: Any = make_judge(strategy).judge(insights, bullets, settings, ask)
    return await judged if inspect.isawaitable(judged) else judged
