"""Part of the judge room: fits `offline/judge` to people's judgments. A command; nothing imports it but tests.

    python -m summhay_ray.judge.fit judge_annotations.json [--out offline_judge.json] [--released topic_*.json]

The thresholds are the pair of hundredths that maximizes the Pearson correlation of the labels (0, 0.5, 1) with people's, less the
share of insights by which the two distributions of labels differ: correlation alone has many near-equal optima, some of which
all but do without a label. Held out means: each topic judged with the thresholds fitted on all other topics.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, combinations
from math import sqrt
from pathlib import Path
from typing import Any

from summhay_ray.judge.agreement import Annotated, correlation, linking_accuracy, load_annotations, load_released
from summhay_ray.judge.offline import Thresholds, shipped_thresholds
from summhay_ray.judge.recall import Best, best_bullet
from summhay_ray.records import COVERAGE_VALUE

GRID = tuple(step / 100 for step in range(1, 101))
METHOD = "IDF-weighted recall of the insight's stems in its best bullet; document frequencies over the summary's own bullets"


@dataclass(frozen=True, slots=True)
class Measured:
    """A person's judgment of an insight, and the best bullet by recall (None for a summary without bullets)."""

    pair: Annotated
    best: Best | None

    @property
    def recall(self) -> float:
        """Recall (0..1) of the insight in its best bullet."""
        return self.best.recall if self.best else 0.0


@dataclass(frozen=True, slots=True)
class Agreement:
    """How a judge agrees with people: correlations of the labels and of the recall, linking, and mean coverage less theirs."""

    insights: int
    labels: float
    recall: float
    linking: float
    linked: int
    bias: float
    distribution: dict[str, int]

    def line(self, name: str) -> str:
        """One line for a person to read."""
        counts = " ".join(f"{label} {count}" for label, count in self.distribution.items())
        return (
            f"{name}: n {self.insights}, correlation of labels {self.labels:.3f}, of recall {self.recall:.3f}, "
            f"linking {self.linking:.3f} (n {self.linked}), bias {self.bias:+.3f}, {counts}\n"
        )


def measure(pairs: Sequence[Annotated]) -> list[Measured]:
    """The best bullet of every judged insight."""
    return [Measured(pair, best_bullet(pair.insight, pair.bullets)) for pair in pairs]


def fit(measured: Sequence[Measured]) -> Thresholds:
    """The best thresholds by this module's criterion; the lowest of equals. Raises ValueError where there is nothing to fit."""
    if not measured:
        raise ValueError("there are no judgments to fit the thresholds to; give an annotation file that has some")
    scored = [(score, -partial, -full) for score, partial, full in _criterion(measured)]
    _, partial, full = max(scored)
    return Thresholds(partial=-partial, full=-full)


def agreement(measured: Sequence[Measured], thresholds: Sequence[Thresholds]) -> Agreement:
    """Agreement of the labels that `thresholds` (one an insight) give, with people."""
    labels: list[str] = [threshold.coverage(one.recall) for threshold, one in zip(thresholds, measured, strict=True)]
    ours = [COVERAGE_VALUE[label] for label in labels]
    theirs = [one.pair.coverage for one in measured]
    linked = [one.best.index + 1 if one.best and value else None for one, value in zip(measured, ours, strict=True)]
    linking, n_linked = linking_accuracy(linked, [one.pair.bullet for one in measured])
    return Agreement(
        insights=len(measured),
        labels=correlation(ours, theirs),
        recall=correlation([one.recall for one in measured], theirs),
        linking=linking,
        linked=n_linked,
        bias=sum(ours) / len(ours) - sum(theirs) / len(theirs),
        distribution={label: Counter(labels)[label] for label in COVERAGE_VALUE},
    )


def held_out(measured: Sequence[Measured]) -> list[Thresholds]:
    """The thresholds for each judgment, fitted on the other topics. Raises ValueError where there is one topic alone."""
    topics = dict.fromkeys(one.pair.topic for one in measured)
    fitted = {topic: fit([one for one in measured if one.pair.topic != topic]) for topic in topics}
    return [fitted[one.pair.topic] for one in measured]


def _criterion(measured: Sequence[Measured]) -> Iterator[tuple[float, float, float]]:
    """(criterion, partial, full) for every pair of thresholds, from counts and sums above each threshold."""
    ordered = sorted(measured, key=lambda one: one.recall)
    n = len(ordered)
    recalls = [one.recall for one in ordered]
    theirs = [one.pair.coverage for one in ordered]
    sums = [0.0, *accumulate(reversed(theirs))]
    total, squares = sum(theirs), sum(value * value for value in theirs)
    people = [theirs.count(value) for value in COVERAGE_VALUE.values()]
    above = {threshold: n - bisect_left(recalls, threshold) for threshold in GRID}
    for partial, full in combinations(GRID, 2):
        n_partial, n_full = above[partial], above[full]
        ours = (n_partial + n_full) / 2
        covariance = n * (sums[n_partial] + sums[n_full]) / 2 - ours * total
        variance = (n * ((n_partial - n_full) / 4 + n_full) - ours**2) * (n * squares - total**2)
        counts = (n - n_partial, n_partial - n_full, n_full)
        differing = sum(abs(our - their) for our, their in zip(counts, people, strict=True)) / (2 * n)
        yield (covariance / sqrt(variance) if variance > 0 else 0.0) - differing, partial, full


def _report(measured: Sequence[Measured], thresholds: Thresholds) -> tuple[str, Agreement]:
    """The lines of the held-out figures and of the fit itself, and the held-out agreement over all topics."""
    outside = held_out(measured)
    overall = agreement(measured, outside)
    lines = [overall.line("held out, all topics")]
    for topic in dict.fromkeys(one.pair.topic for one in measured):
        chosen = [(one, threshold) for one, threshold in zip(measured, outside, strict=True) if one.pair.topic == topic]
        part = agreement([one for one, _ in chosen], [threshold for _, threshold in chosen])
        used = chosen[0][1]
        lines.append(part.line(f"held out, {topic[:40]!r} (partial {used.partial}, full {used.full})"))
    inside = agreement(measured, [thresholds] * len(measured))
    lines.append(inside.line(f"fitted on all (partial {thresholds.partial}, full {thresholds.full})"))
    return "".join(lines), overall


def _against(path: Path) -> str:
    """The shipped judge against the judgments that a released haystack stores, and its time a judgment."""
    pairs = load_released(path)
    start = time.perf_counter()
    measured = measure(pairs)
    milliseconds = (time.perf_counter() - start) / len(pairs) * 1e3
    found = agreement(measured, [shipped_thresholds()] * len(measured))
    same = sum(shipped_thresholds().coverage(one.recall) == _label(one.pair.coverage) for one in measured) / len(measured)
    return found.line(f"shipped, {path.name}").rstrip() + f", same label {same:.3f}, {milliseconds:.2f} ms a judgment\n"


def _label(value: float) -> str:
    return next(label for label, worth in COVERAGE_VALUE.items() if worth == value)


def fitted_json(thresholds: Thresholds, measured: Sequence[Measured], overall: Agreement) -> str:
    """The text of `offline_judge.json`."""
    topics = len({one.pair.topic for one in measured})
    content: dict[str, Any] = {
        "partial": thresholds.partial,
        "full": thresholds.full,
        "method": METHOD,
        "fitted_on": f"people's judgments of {len(measured)} insights in summaries of {topics} topics (released by SummHay)",
        "held_out": {
            "correlation_of_labels": round(overall.labels, 3),
            "correlation_of_recall": round(overall.recall, 3),
            "linking_accuracy": round(overall.linking, 3),
            "meaning": "each topic judged with thresholds fitted on the other topics; the method was chosen on all of them",
        },
    }
    return json.dumps(content, indent=2) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints leave-one-topic-out figures, and writes the fitted JSON where `--out` names a file."""
    parser = argparse.ArgumentParser(prog="python -m summhay_ray.judge.fit", description="Fits offline/judge to people.")
    parser.add_argument("annotations", type=Path, metavar="ANNOTATIONS.json", help="people's judgments, as SummHay released them")
    parser.add_argument("--out", type=Path, help="where to write the fitted JSON (judge/offline_judge.json is what ships)")
    parser.add_argument("--released", type=Path, nargs="*", default=[], help="released haystacks: agreement with their judgments")
    options = parser.parse_args(arguments)
    try:
        measured = measure(load_annotations(options.annotations))
        thresholds = fit(measured)
        text, overall = _report(measured, thresholds)
    except (OSError, ValueError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    sys.stdout.write(text)
    for path in options.released:
        sys.stdout.write(_against(path))
    if options.out:
        options.out.write_text(fitted_json(thresholds, measured, overall), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
