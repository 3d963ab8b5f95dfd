"""`cascade`: asks a judge only where the free offline judge is uncertain. Part of the judge room."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from summhay_ray.judge import offline
from summhay_ray.judge.base import Judge, JudgeSettings, Verdict
from summhay_ray.judge.blend import ask_offline
from summhay_ray.judge.per_summary import priced
from summhay_ray.llm import Ask
from summhay_ray.outcome import Answer, Malformed, Outcome
from summhay_ray.records import Insight


class Cascade:
    """Asks the free judge about all insights, and `judge` about the `share` that the free judge is least certain of.

    A summary is judged without knowledge of the others, so the threshold is the uncertainty exceeded by that share of the
    insights in people's annotations (`offline.uncertainty_at`). A caller that knows all summaries names the insights
    (`JudgeSettings.asked`). An insight passed to `judge` has that judge's outcome: the free verdict never replaces a failure.
    """

    name: ClassVar[str] = "cascade"

    def __init__(self, judge: Judge, share: float) -> None:
        self._judge = judge
        self._share = share

    async def judge(
        self, insights: Sequence[Insight], bullets: Sequence[str], settings: JudgeSettings, ask: Ask
    ) -> list[Outcome[Verdict]]:
        """One outcome per insight, in the order of `insights`."""
        outcomes = [_with_uncertainty(outcome) for outcome in await ask_offline(insights, bullets, ask)]
        chosen = self._chosen(insights, outcomes, settings.asked)
        if not chosen:
            return outcomes
        asked = await self._judge.judge([insights[index] for index in chosen], bullets, settings, ask)
        for index, outcome in zip(chosen, asked, strict=True):
            outcomes[index] = priced(outcome, outcomes[index].usd_micros)
        return outcomes

    def _chosen(
        self, insights: Sequence[Insight], outcomes: Sequence[Outcome[Verdict]], asked: frozenset[str] | None
    ) -> list[int]:
        if asked is not None:
            return [index for index, insight in enumerate(insights) if insight.insight_id in asked]
        bound = offline.uncertainty_at(self._share)
        return [
            index
            for index, outcome in enumerate(outcomes)
            if isinstance(outcome, Answer) and outcome.value.uncertainty is not None and outcome.value.uncertainty >= bound
        ]


def _with_uncertainty(outcome: Outcome[Verdict]) -> Outcome[Verdict]:
    if isinstance(outcome, Answer) and outcome.value.uncertainty is None:
        message = "the free judge's answer does not say how uncertain it is, so that a cascade cannot choose whom to ask"
        return Malformed("no_uncertainty", message, outcome.key, outcome.attempts, outcome.usd_micros)
    return outcome
