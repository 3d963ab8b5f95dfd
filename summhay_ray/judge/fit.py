"""Fits `offline/judge` to people's judgments, for `judge-bench --held-out` and `tools/fit_judge.py`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from summhay_ray.judge.annotations import AnnotatedSummary
from summhay_ray.judge.calibrate import Coefficients, cut_points, fit
from summhay_ray.judge.features import Features, features
from summhay_ray.judge.offline import Parameters, Rated, rating

STEPS = 20
"""Steps of `uncertainties`: one for each 5 % of the insights."""


@dataclass(frozen=True, slots=True)
class Measured:
    """An annotated summary and the features of its insights."""

    summary: AnnotatedSummary
    alone: tuple[Features | None, ...]
    together: tuple[Features | None, ...]


def measure(summaries: Sequence[AnnotatedSummary]) -> list[Measured]:
    """The features of every insight, judged alone and together."""
    measured = []
    for summary in summaries:
        texts = [insight.text for insight in summary.insights]
        alone = tuple(feature for text in texts for feature in features([text], summary.bullets))
        measured.append(Measured(summary, alone, tuple(features(texts, summary.bullets))))
    return measured


def fitted(measured: Sequence[Measured]) -> Parameters:
    """All parameters of the judge. Raises ValueError if there are too few judgments."""
    # `lead` needs at least two insights.
    several = [judged for judged in measured if len(judged.together) > 1]
    together = _coefficients([judged.together for judged in several], several)
    doubts = sorted((rating(together, feature).uncertainty for judged in several for feature in judged.together), reverse=True)
    steps = tuple(doubts[round(step * (len(doubts) - 1) / STEPS)] for step in range(STEPS + 1))
    return Parameters(_coefficients([judged.alone for judged in measured], measured), together, steps)


def held_out(measured: Sequence[Measured], together: bool = True) -> list[list[Rated]]:
    """The ratings of every summary by a fit to all other topics. Raises ValueError if there is only one topic."""
    topics = dict.fromkeys(judged.summary.topic for judged in measured)
    if len(topics) < 2:
        raise ValueError("the file has only one topic; held-out figures need at least two")
    fits = {topic: fitted([judged for judged in measured if judged.summary.topic != topic]) for topic in topics}
    return [rated(fits[judged.summary.topic], judged, together) for judged in measured]


def rated(parameters: Parameters, measured: Measured, together: bool = True) -> list[Rated]:
    """The ratings of a summary's insights with these parameters."""
    if together and len(measured.together) > 1:
        return [rating(parameters.together, feature) for feature in measured.together]
    return [rating(parameters.alone, feature) for feature in measured.alone]


def _coefficients(rows: Sequence[Sequence[Features | None]], measured: Sequence[Measured]) -> Coefficients:
    pairs = [
        (feature.values, coverage)
        for row, judged in zip(rows, measured, strict=True)
        for feature, coverage in zip(row, judged.summary.coverage, strict=True)
        if feature is not None
    ]
    values, people = [value for value, _ in pairs], [coverage for _, coverage in pairs]
    coefficients = fit(values, people)
    partial, full = cut_points([rating(coefficients, Features(0, value)).value for value in values], people)
    return replace(coefficients, partial_from=partial, full_from=full)
