"""Fits `offline/judge` to people's judgments, and prints its agreement with them on held-out topics.

    python tools/fit_judge.py judge_annotations.json [--out offline_judge.json] [--released topic_*.json]

`summhay judge-bench FILE --held-out` measures other judges, blends and cascades in the same way.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from summhay_ray.errors import UserError
from summhay_ray.judge import bench
from summhay_ray.judge.annotations import AnnotatedSummary, load_summaries
from summhay_ray.judge.base import Verdict
from summhay_ray.judge.fit import Measured, fit_parameters, held_out, measure
from summhay_ray.judge.offline import ALONE, TOGETHER, Coefficients, Parameters, Rated, rate
from summhay_ray.metrics import pearson
from summhay_ray.records import COVERAGE_VALUE

_TENTHS = 10
MEANINGS = {
    "weights": "of the features (judge/offline.py) in the log-odds of coverage; `alone`: the insight was asked about alone",
    "some, full": "intercepts of the log-odds that a person calls the insight covered at all, and fully covered",
    "partial_from, full_from": "least expected coverage (0..1) of the labels PARTIAL_COVERAGE and FULL_COVERAGE",
    "uncertainties": "the standard deviation of coverage that the least certain 0, 5, ..., 100 % of people's insights reach",
    "held_out": "correlation with people's 0, 0.5, 1, and linking accuracy, each topic judged by a fit to the other topics",
}

Ratings = Sequence[Sequence[Rated]]


@dataclass(frozen=True, slots=True)
class Annotated:
    """A judgment of an insight in a summary, by a person or a stored judge."""

    topic: str
    insight: str
    bullets: tuple[str, ...]
    coverage: float
    """0, 0.5 or 1."""
    bullet: int | None
    """The bullet that covers the insight, from 1; None if it is not covered or no bullet was named."""


def report(summaries: Sequence[AnnotatedSummary], ratings: Mapping[str, Ratings]) -> tuple[str, dict[str, float | None]]:
    """Return the report's text, and the figures for the fitted file. `ratings`: those of insights judged together, then those
    judged alone."""
    together, alone = (verdicts(rows) for rows in ratings.values())
    width = max(map(len, ratings))
    lines = [
        f"{'each topic judged by a fit to the others':<{width}}  correlation [95 %]    by topic      linking [95 %]        n"
    ]
    lines += [f"{name:<{width}}  {_line(summaries, rows)}" for name, rows in zip(ratings, (together, alone), strict=True)]
    lines += _distribution(summaries, together) + _calibration(summaries, together)
    return "\n".join(lines) + "\n", _figures(summaries, together, alone)


def verdicts(ratings: Ratings) -> list[list[Verdict]]:
    """Convert ratings to verdicts."""
    return [[rating.verdict for rating in row] for row in ratings]


def _agreement(summaries: Sequence[AnnotatedSummary], rows: bench.Verdicts) -> bench.Agreement:
    return bench.agreement(summaries, rows, [""] * len(summaries))


def _line(summaries: Sequence[AnnotatedSummary], rows: bench.Verdicts) -> str:
    found = _agreement(summaries, rows)
    topics = []
    for topic in dict.fromkeys(summary.topic for summary in summaries):
        chosen = [(summary, row) for summary, row in zip(summaries, rows, strict=True) if summary.topic == topic]
        agreed = _agreement([summary for summary, _ in chosen], [row for _, row in chosen])
        topics.append(_number(agreed.correlation))
    linking = f"{_number(found.linking_accuracy)} {_interval(found.linking_ci)} {found.linking_n:>4}"
    correlation = f"{_number(found.correlation)} {_interval(found.correlation_ci)}"
    return f"{correlation}  {' '.join(topics)}  {linking}  labels {_number(found.correlation_labels)}"


def _distribution(summaries: Sequence[AnnotatedSummary], rows: Sequence[Sequence[Verdict]]) -> list[str]:
    ours = Counter(verdict.coverage for row in rows for verdict in row)
    theirs = Counter(coverage for summary in summaries for coverage in summary.coverage)
    counts = ", ".join(f"{label} {ours[label]} (people {theirs[worth]})" for label, worth in COVERAGE_VALUE.items())
    return [f"labels of offline: {counts}"]


def _calibration(summaries: Sequence[AnnotatedSummary], rows: Sequence[Sequence[Verdict]]) -> list[str]:
    pairs = sorted(
        (verdict.expected, person)
        for summary, row in zip(summaries, rows, strict=True)
        for verdict, person in zip(row, summary.coverage, strict=True)
    )
    tenths = [pairs[step * len(pairs) // _TENTHS : (step + 1) * len(pairs) // _TENTHS] for step in range(_TENTHS)]
    means = [tuple(sum(column) / len(tenth) for column in zip(*tenth, strict=True)) for tenth in tenths if tenth]
    values, people = zip(*means, strict=True)
    return [
        "mean by tenths of its value: offline " + " ".join(f"{value:.2f}" for value in values),
        "                              people " + " ".join(f"{value:.2f}" for value in people),
    ]


def _figures(summaries: Sequence[AnnotatedSummary], together: bench.Verdicts, alone: bench.Verdicts) -> dict[str, float | None]:
    first, second = _agreement(summaries, together), _agreement(summaries, alone)
    figures = {
        "correlation": first.correlation,
        "correlation_of_labels": first.correlation_labels,
        "linking_accuracy": first.linking_accuracy,
        "correlation_alone": second.correlation,
        "linking_accuracy_alone": second.linking_accuracy,
    }
    return {name: None if value is None else round(value, 3) for name, value in figures.items()}


def _number(value: float | None) -> str:
    return "    -" if value is None else f"{value:5.3f}"


def _interval(interval: tuple[float, float] | None) -> str:
    return "[-]" if interval is None else f"[{interval[0]:.3f}, {interval[1]:.3f}]"


def fitted_json(parameters: Parameters, measured: Sequence[Measured], figures: dict[str, float | None]) -> str:
    """Return the text of `offline_judge.json`."""
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


def _entry(coefficients: Coefficients, names: Sequence[str]) -> dict[str, Any]:
    return {**asdict(coefficients), "weights": dict(zip(names, coefficients.weights, strict=True))}


def load_released(path: Path) -> list[Annotated]:
    """Read the judgments stored in a released haystack (GPT-4o's, `eval_summaries`), in the form of people's."""
    haystack = json.loads(path.read_bytes())
    pairs = []
    for subtopic in haystack["subtopics"]:
        texts = {insight["insight_id"]: insight["insight"] for insight in subtopic["insights"]}
        for system, verdicts in subtopic.get("eval_summaries", {}).items():
            bullets = tuple(subtopic["summaries"][system])
            for verdict in verdicts:
                bullet = verdict["bullet_id"] if isinstance(verdict["bullet_id"], int) else None
                coverage = COVERAGE_VALUE[verdict["coverage"]]
                pairs.append(Annotated(path.stem, texts[verdict["insight_id"]], bullets, coverage, bullet if coverage else None))
    return pairs


def _against(path: Path) -> str:
    """Return the shipped judge's agreement with the judgments in a released haystack, and its time."""
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


def main(arguments: Sequence[str] | None = None) -> int:
    """Print held-out figures. If `--out` names a file, write the fitted JSON."""
    parser = argparse.ArgumentParser(description="Fits offline/judge to people's judgments.")
    parser.add_argument("annotations", type=Path, metavar="ANNOTATIONS.json", help="people's judgments, as SummHay released them")
    parser.add_argument("--out", type=Path, help="the file for the fitted JSON (the shipped one is judge/offline_judge.json)")
    parser.add_argument("--released", type=Path, nargs="*", default=[], help="released haystacks to compare the judge with")
    options = parser.parse_args(arguments)
    try:
        measured = measure(load_summaries(options.annotations))
        parameters = fit_parameters(measured)
        ratings = {"offline": held_out(measured), "offline, alone": held_out(measured, together=False)}
    except (OSError, ValueError, LookupError, UserError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    text, figures = report([judged.summary for judged in measured], ratings)
    sys.stdout.write(text)
    for path in options.released:
        sys.stdout.write(_against(path))
    if options.out:
        options.out.write_text(fitted_json(parameters, measured, figures), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
