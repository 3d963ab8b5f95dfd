"""Fitting `offline/judge` to people's judgments. Part of the judge room; a command, and the source of held-out ratings.

    python -m summhay_ray.judge.fit judge_annotations.json [--out offline_judge.json] [--released topic_*.json]

It prints the agreement with people on held-out topics, each judged by a fit to all others (`calibrate_report.py`).
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from summhay_ray.judge.agreement import AnnotatedSummary, BadAnnotations, load_released, load_summaries
from summhay_ray.judge.calibrate import Coefficients, cut_points, fit
from summhay_ray.judge.calibrate_report import report
from summhay_ray.judge.features import ALONE, TOGETHER, Features, features
from summhay_ray.judge.offline import Parameters, Rated, rate, rating
from summhay_ray.metrics import pearson
from summhay_ray.records import COVERAGE_VALUE

STEPS = 20
"""Steps of `uncertainties`: one for each 5 % of the insights."""
MEANINGS = {
    "weights": "of the features (judge/features.py) in the log-odds of coverage; `alone`: the insight was asked about alone",
    "some, full": "intercepts of the log-odds that a person calls the insight covered at all, and fully covered",
    "partial_from, full_from": "least expected coverage (0..1) of the labels PARTIAL_COVERAGE and FULL_COVERAGE",
    "uncertainties": "the standard deviation of coverage that the least certain 0, 5, ..., 100 % of people's insights reach",
    "held_out": "correlation with people's 0, 0.5, 1, and linking accuracy, each topic judged by a fit to the other topics",
}


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
    """All parameters of the judge. Raises ValueError where there are too few judgments."""
    # `lead` needs at least two insights.
    several = [judged for judged in measured if len(judged.together) > 1]
    together = _coefficients([judged.together for judged in several], several)
    doubts = sorted((rating(together, feature).uncertainty for judged in several for feature in judged.together), reverse=True)
    steps = tuple(doubts[round(step * (len(doubts) - 1) / STEPS)] for step in range(STEPS + 1))
    return Parameters(_coefficients([judged.alone for judged in measured], measured), together, steps)


def held_out(measured: Sequence[Measured], together: bool = True) -> list[list[Rated]]:
    """The ratings of every summary by a fit to all other topics. Raises ValueError where there is only one topic."""
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


def fitted_json(parameters: Parameters, measured: Sequence[Measured], figures: dict[str, float | None]) -> str:
    """The text of `offline_judge.json`."""
    topics, insights = len({judged.summary.topic for judged in measured}), sum(len(judged.alone) for judged in measured)
    content: dict[str, Any] = {
        "about": "fitted by summhay_ray/judge/fit.py on people's judgments of "
        f"{insights} insights in {len(measured)} summaries of {topics} topics (released by SummHay)",
        "meaning": MEANINGS,
        "together": _entry(parameters.together, TOGETHER),
        "alone": _entry(parameters.alone, ALONE),
        "uncertainties": parameters.uncertainties,
        "held_out": figures,
    }
    return json.dumps(content, indent=2) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints held-out figures, and writes the fitted JSON where `--out` names a file."""
    parser = argparse.ArgumentParser(prog="python -m summhay_ray.judge.fit", description="Fits offline/judge to people.")
    parser.add_argument("annotations", type=Path, metavar="ANNOTATIONS.json", help="people's judgments, as SummHay released them")
    parser.add_argument("--out", type=Path, help="where to write the fitted JSON (judge/offline_judge.json is what ships)")
    parser.add_argument("--released", type=Path, nargs="*", default=[], help="released haystacks: agreement with their judgments")
    options = parser.parse_args(arguments)
    try:
        measured = measure(load_summaries(options.annotations))
        parameters = fitted(measured)
        ratings = {"offline": held_out(measured), "offline, alone": held_out(measured, together=False)}
    except (OSError, ValueError, LookupError, BadAnnotations) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    text, figures = report([judged.summary for judged in measured], ratings)
    sys.stdout.write(text)
    for path in options.released:
        sys.stdout.write(_against(path))
    if options.out:
        options.out.write_text(fitted_json(parameters, measured, figures), encoding="utf-8")
    return 0


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


def _entry(coefficients: Coefficients, names: Sequence[str]) -> dict[str, Any]:
    return {**asdict(coefficients), "weights": dict(zip(names, coefficients.weights, strict=True))}


def _against(path: Path) -> str:
    """The shipped judge's agreement with the judgments stored in a released haystack, and its time."""
    pairs = load_released(path)
    start = time.perf_counter()
    ratings: list[Rated] = []
    for bullets, group in groupby(pairs, key=lambda pair: pair.bullets):
        ratings += rate([pair.insight for pair in group], bullets)
    seconds = time.perf_counter() - start
    theirs = [pair.coverage for pair in pairs]
    same = sum(COVERAGE_VALUE[one.coverage] == person for one, person in zip(ratings, theirs, strict=True)) / len(pairs)
    values = pearson([one.value for one in ratings], theirs) or 0.0
    return f"shipped, {path.name}: n {len(pairs)}, correlation {values:.3f}, same label {same:.3f}, {seconds:.1f} s\n"


if __name__ == "__main__":
    sys.exit(main())
