"""The report of `fit.py`: agreement with people on held-out topics. Private to the judge room.

Other judges, blends and cascades are measured beside it by `summhay judge-bench FILE --held-out`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from summhay_ray.judge import bench
from summhay_ray.judge.agreement import AnnotatedSummary
from summhay_ray.judge.base import Verdict
from summhay_ray.judge.offline import Rated
from summhay_ray.records import COVERAGE_VALUE

_TENTHS = 10

Ratings = Sequence[Sequence[Rated]]


def report(summaries: Sequence[AnnotatedSummary], ratings: Mapping[str, Ratings]) -> tuple[str, dict[str, float | None]]:
    """The report's text, and the figures for the fitted file. `ratings`: first those asked together, then those asked alone."""
    together, alone = (verdicts(rows) for rows in ratings.values())
    width = max(map(len, ratings))
    lines = [
        f"{'each topic judged by a fit to the others':<{width}}  correlation [95 %]    by topic      linking [95 %]        n"
    ]
    lines += [f"{name:<{width}}  {_line(summaries, rows)}" for name, rows in zip(ratings, (together, alone), strict=True)]
    lines += _distribution(summaries, together) + _calibration(summaries, together)
    return "\n".join(lines) + "\n", _figures(summaries, together, alone)


def verdicts(ratings: Ratings) -> list[list[Verdict]]:
    """Ratings converted to verdicts."""
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
