"""`offline/judge`, the free judge: it needs no key.

It reads the same prompt as any model, and answers in the same form. `features.py` compares insight and bullets, an ordinal
logistic model turns features into probabilities of coverage, and `fit.py` fits its parameters to people's judgments. They are so
few that a person can review them (`offline_judge.json`, which also holds the held-out agreement). A summary with another number,
date or name, or one that denies the insight, does not cover it (`text.find_contradictions`). Apart from that, the judge does not
understand meaning.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, ClassVar

from summhay_ray.judge.absence import free_answer
from summhay_ray.judge.base import Verdict
from summhay_ray.judge.features import ALONE, TOGETHER, Features, features
from summhay_ray.judge.prompt import read
from summhay_ray.llm import Request
from summhay_ray.records import Coverage

SHIPPED = "offline_judge.json"
_DIGITS = 4
_CONTRADICTED = 0.1
"""The greatest expected coverage of an insight that the summary contradicts: the words of some denials are misleading."""

MOST_UNCERTAIN = 0.5
"""The greatest standard deviation of a coverage between 0 and 1."""


@dataclass(frozen=True, slots=True)
class Chances:
    """The probabilities that a person calls an insight covered at all, and fully covered; `full` is never above `some`."""

    some: float
    full: float

    @property
    def value(self) -> float:
        """The expected coverage, 0..1, with 0 for NO, 0.5 for PARTIAL and 1 for FULL."""
        return (self.some + self.full) / 2

    @property
    def uncertainty(self) -> float:
        """The standard deviation of that coverage, 0..0.5."""
        return math.sqrt(max(0.0, (self.some - self.full) / 4 + self.full - self.value**2))


@dataclass(frozen=True, slots=True)
class Coefficients:
    """The fitted parameters for one set of features, and the thresholds on `Chances.value` for the labels."""

    weights: tuple[float, ...]
    some: float
    """Intercept of "covered at all"; `full`, which is lower, is the intercept of "fully covered"."""
    full: float
    partial_from: float = 0.0
    full_from: float = 0.0

    def chances(self, values: Sequence[float]) -> Chances:
        """The probabilities for an insight with these features."""
        total = math.fsum(weight * value for weight, value in zip(self.weights, values, strict=True))
        some, full = (1 / (1 + math.exp(-max(-30.0, min(30.0, total + intercept)))) for intercept in (self.some, self.full))
        return Chances(some, full)

    def coverage(self, value: float) -> Coverage:
        """The label for an expected coverage."""
        if value >= self.full_from:
            return "FULL_COVERAGE"
        return "PARTIAL_COVERAGE" if value >= self.partial_from else "NO_COVERAGE"


@dataclass(frozen=True, slots=True)
class Rated:
    """The free judge's rating of one insight."""

    coverage: Coverage
    bullet: int | None
    """The bullet that covers it, from 0; None if the label is NO_COVERAGE."""
    value: float
    """Expected coverage, 0..1."""
    uncertainty: float
    """Its standard deviation, 0..0.5."""

    @property
    def verdict(self) -> Verdict:
        """The rating as a judge's verdict, which counts bullets from 1."""
        return Verdict(self.coverage, '"NA"' if self.bullet is None else str(self.bullet + 1), self.value, self.uncertainty)


@dataclass(frozen=True, slots=True)
class Parameters:
    """The fitted parameters: for insights judged alone, and for the insights of a summary judged together."""

    alone: Coefficients
    together: Coefficients
    uncertainties: tuple[float, ...] = ()
    """Quantiles of the uncertainty over the annotated insights, from the greatest to the least."""


def rate(
    insights: Sequence[str], bullets: Sequence[str], together: bool = True, parameters: Parameters | None = None
) -> list[Rated]:
    """One rating per insight of one summary; with `together` false each is judged alone. `parameters`: default: those shipped."""
    parameters = parameters or shipped_parameters()
    if not together:
        return [rated for insight in insights for rated in rate([insight], bullets, parameters=parameters)]
    coefficients = parameters.together if len(insights) > 1 else parameters.alone
    return [rating(coefficients, feature, bool(bullets)) for feature in features(insights, bullets)]


def rating(coefficients: Coefficients, feature: Features | None, bullets: bool = True) -> Rated:
    """The rating for an insight's features.

    Without `bullets` the insight is certainly not covered; for an insight without words the result is unknown.
    """
    if feature is None:
        return Rated("NO_COVERAGE", None, 0.0, MOST_UNCERTAIN if bullets else 0.0)
    chances = coefficients.chances(feature.values)
    # Rounded to hide platform differences in the last digits.
    value, uncertainty = round(chances.value, _DIGITS), round(chances.uncertainty, _DIGITS)
    if feature.contradicted:
        return Rated("NO_COVERAGE", None, min(value, _CONTRADICTED), uncertainty)
    coverage = coefficients.coverage(value)
    return Rated(coverage, None if coverage == "NO_COVERAGE" else feature.bullet, value, uncertainty)


def uncertainty_at(share: float) -> float:
    """The uncertainty that this share (0..1) of the annotated insights reaches when insights are judged together.

    For share 0 it is 1, which no insight reaches. Raises ValueError for a share outside 0..1.
    """
    if not 0 <= share <= 1:
        raise ValueError(f"the share is {share}; expected 0 to 1")
    if share == 0:
        return 1.0
    steps = shipped_parameters().uncertainties
    place = share * (len(steps) - 1)
    below = min(int(place), len(steps) - 2)
    return steps[below] + (place - below) * (steps[below + 1] - steps[below])


class OfflineJudge:
    """The local model `offline/judge` (llm.LocalModel)."""

    name: ClassVar[str] = "offline/judge"
    revision: ClassVar[str] = "3"

    def answer(self, request: Request) -> str:
        """The verdict as JSON, with `value` and `uncertainty`, on the insight and bullets in the request's prompt.

        For a prompt with several insights (`Reference Insights:`): `{"judgments": [...]}`, each with its `insight_id`.
        For a question that no document answers, it judges whether the answer invents (`absence.py`). Raises LookupError if the
        prompt lacks insights or bullets.
        """
        if (absence := free_answer(request.prompt)) is not None:
            return absence
        question = read(request.prompt)
        rated = rate(question.insights, question.bullets, question.together)
        verdicts = [
            {
                "coverage": one.coverage,
                "bullet_id": "NA" if one.bullet is None else question.bullet_ids[one.bullet],
                "value": one.value,
                "uncertainty": one.uncertainty,
            }
            for one in rated
        ]
        if not question.together:
            return json.dumps(verdicts[0])
        numbered = zip(question.insight_ids, verdicts, strict=True)
        return json.dumps({"judgments": [{"insight_id": number, **verdict} for number, verdict in numbered]})


@cache
def shipped_parameters() -> Parameters:
    """The shipped parameters, read once."""
    text = resources.files("summhay_ray.judge").joinpath(SHIPPED).read_text(encoding="utf-8")
    return parameters_of(json.loads(text))


def parameters_of(fitted: Mapping[str, Any]) -> Parameters:
    """The parameters in the content of a fitted file. Raises KeyError if one is missing."""
    alone, together = (
        Coefficients(
            weights=tuple(float(fitted[how]["weights"][name]) for name in names),
            **{name: float(fitted[how][name]) for name in ("some", "full", "partial_from", "full_from")},
        )
        for how, names in (("alone", ALONE), ("together", TOGETHER))
    )
    return Parameters(alone, together, tuple(fitted["uncertainties"]))
