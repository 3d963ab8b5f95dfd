"""The judge room: how far a summary covers an insight, as a judge says. For benchmarks, grid, report and cli.

A strategy (`per_insight`) says how a model is asked; the model is any that the gateway knows, `offline/judge` among them.
"""

import sys
from typing import cast

from summhay_ray import plugins
from summhay_ray.judge.answer import parse_verdict, read_verdict, usable_bullet
from summhay_ray.judge.base import Judge, JudgeSettings, Verdict
from summhay_ray.judge.offline import OfflineJudge
from summhay_ray.judge.prompt import check_prompt, prompt_identity

__all__ = [
    "Judge",
    "JudgeSettings",
    "OfflineJudge",
    "Verdict",
    "check_prompt",
    "make_judge",
    "parse_verdict",
    "prompt_identity",
    "read_verdict",
    "usable_bullet",
]


def make_judge(strategy: str = "per_insight") -> Judge:
    """The judge of a strategy's name, or of `module:Class`. Raises UnknownName where there is none."""
    if ":" in strategy:
        found = plugins.load(strategy)
        if not callable(getattr(found, "judge", None)):
            raise plugins.UnknownName(f"{strategy!r} has no method `judge`; expected module:Class of a judge (judge/base.py)")
    else:
        # The room also holds a local model, which has a name but does not judge: it answers.
        named = plugins.discover(sys.modules[__name__])
        judges = {name: member for name, member in named.items() if callable(getattr(member, "judge", None))}
        if strategy not in judges:
            raise plugins.unknown("judge strategy", strategy, judges)
        found = judges[strategy]
    return cast(Judge, found())
