"""A judge that needs no model: a bullet covers an insight if it has most of its words.

`judges: [word_judge:WordJudge]` in a spec, or `summhay rejudge RUN --judge word_judge:WordJudge`.
"""

from collections.abc import Sequence
from typing import Any

from summhay_ray.judge import Verdict
from summhay_ray.outcome import Answer


class WordJudge:
    """Returns one outcome per insight. To ask a model, write `await ask(Request(...))`."""

    async def judge(self, insights: Sequence[Any], bullets: Sequence[str], settings: Any, ask: Any) -> list[Answer[Verdict]]:
        return [Answer(self.verdict(set(one.text.lower().split()), bullets)) for one in insights]

    def verdict(self, wanted: set[str], bullets: Sequence[str]) -> Verdict:
        shares = [len(wanted & set(bullet.lower().split())) / len(wanted) for bullet in bullets] or [0.0]
        if max(shares) < 0.3:
            return Verdict("NO_COVERAGE", '"NA"')
        label = "FULL_COVERAGE" if max(shares) > 0.6 else "PARTIAL_COVERAGE"
        return Verdict(label, str(shares.index(max(shares)) + 1), value=max(shares))
