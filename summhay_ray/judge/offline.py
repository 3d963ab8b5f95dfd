"""Part of the judge room: `offline/judge`, a judge that needs no key. Other rooms take it from `summhay_ray.judge`.

It reads the prompt that any model would read, and answers as one: FULL_COVERAGE or PARTIAL_COVERAGE where the best bullet has
enough of the insight's wording (`recall.py`), by two thresholds that `fit.py` fitted on people's judgments. It knows no meaning:
a denial or a paraphrase without common words fools it. `offline_judge.json` says what it was fitted on and how well it does.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import ClassVar

from summhay_ray.judge.prompt import read
from summhay_ray.judge.recall import best_bullet
from summhay_ray.llm import Request
from summhay_ray.records import Coverage


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The least recall (0..1) of the best bullet that makes coverage partial, and full."""

    partial: float
    full: float

    def coverage(self, recall: float) -> Coverage:
        """What the recall of an insight in its best bullet says of its coverage."""
        if recall >= self.full:
            return "FULL_COVERAGE"
        return "PARTIAL_COVERAGE" if recall >= self.partial else "NO_COVERAGE"


class OfflineJudge:
    """The local model `offline/judge` (llm.LocalModel)."""

    name: ClassVar[str] = "offline/judge"
    revision: ClassVar[str] = "1"

    def __init__(self, thresholds: Thresholds | None = None) -> None:
        self._thresholds = thresholds or shipped_thresholds()

    def answer(self, request: Request) -> str:
        """`{"coverage": ..., "bullet_id": ...}` for the insight and bullets of the request's prompt.

        Raises LookupError where the prompt lacks a line `Reference Insight:` or `Bullet Points:`, or bullets as JSON.
        """
        question = read(request.prompt)
        best = best_bullet(question.insight, question.bullets)
        coverage = self._thresholds.coverage(best.recall) if best else "NO_COVERAGE"
        bullet_id = "NA" if best is None or coverage == "NO_COVERAGE" else question.bullet_ids[best.index]
        return json.dumps({"coverage": coverage, "bullet_id": bullet_id})


@cache
def shipped_thresholds() -> Thresholds:
    """The thresholds of `offline_judge.json`, read once."""
    text = resources.files("summhay_ray.judge").joinpath("offline_judge.json").read_text(encoding="utf-8")
    fitted = json.loads(text)
    return Thresholds(partial=fitted["partial"], full=fitted["full"])
