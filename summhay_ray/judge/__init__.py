"""The judge room: judges decide how well a summary covers each insight. For benchmarks, report and cli.

A strategy (`per_insight`) defines how a model is prompted; the model is any that the gateway knows, including `offline/judge`.
`rate_text` asks a model to rate a text on a scale (`rating/`); `offline/rater` needs no key.
"""

import sys
from typing import cast

from summhay_ray import plugins
from summhay_ray.judge.answer import read_verdict, usable_bullet, usable_verdict
from summhay_ray.judge.base import Judge, JudgeSettings, Verdict
from summhay_ray.judge.blend import Blend
from summhay_ray.judge.cascade import Cascade
from summhay_ray.judge.combine import blend, label_of, least_certain
from summhay_ray.judge.embed import OfflineJudgeEmbed
from summhay_ray.judge.names import DEFAULT_SHARE, BadName, Named, parse_name
from summhay_ray.judge.offline import OfflineJudge, Rated, rate, uncertainty_at
from summhay_ray.judge.rating import (
    CRITERIA,
    ByLogprobs,
    Criterion,
    OfflineRater,
    Rater,
    Rating,
    Scale,
    check_logprobs,
    expected_rating,
    rate_text,
    rating_requests,
    read_rating,
)
from summhay_ray.judge.strategies import (
    asks_alone,
    check_prompt,
    default_strategy,
    parse_strategy,
    partners,
    planned,
    prompt_identity,
    prompt_template,
    strategy_of,
)

__all__ = [
    "CRITERIA",
    "DEFAULT_SHARE",
    "BadName",
    "ByLogprobs",
    "Criterion",
    "Judge",
    "JudgeSettings",
    "Named",
    "OfflineJudge",
    "OfflineJudgeEmbed",
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
    "default_strategy",
    "expected_rating",
    "label_of",
    "least_certain",
    "make_judge",
    "parse_name",
    "parse_strategy",
    "partners",
    "planned",
    "prompt_identity",
    "prompt_template",
    "rate",
    "rate_text",
    "rating_requests",
    "read_rating",
    "read_verdict",
    "strategy_of",
    "uncertainty_at",
    "usable_bullet",
    "usable_verdict",
]


def make_judge(strategy: str = "per_insight") -> Judge:
    """The judge for a strategy or a `module:Class`, wrapped in a blend or cascade where the strategy names one.

    Raises UnknownName for an unknown strategy, and BadName for a malformed one.
    """
    parsed = parse_strategy(strategy)
    judge = cast(Judge, plugins.find("judge strategy", parsed.base, sys.modules[__name__], "judge", "a judge (judge/base.py)")())
    if parsed.blend:
        judge = Blend(judge)
    return judge if parsed.share is None else Cascade(judge, parsed.share)
