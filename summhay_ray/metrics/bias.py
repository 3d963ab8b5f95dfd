"""Scores corrected by a judge's measured bias against people. Part of the metrics room; imported from `summhay_ray.metrics`.

A judge that finds more covered than people do raises every system's coverage (paper, appendix A.3: by 5 to 7 points). The
correction is the one that needs fewest assumptions: the mean difference is taken off, and how well it is known widens the
interval.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase

from summhay_ray.metrics.systems import SystemScore, TakenOff

_Z = 1.959963984540054
"""Standard errors from the middle to the end of a 95 % interval."""


@dataclass(frozen=True, slots=True)
class JudgeBias:
    """How far a judge's coverage lies above people's, in fractions: judge less people, by labels (0, 0.5, 1), over insights."""

    judge: str
    mean: float
    se: float
    """Standard error of the mean for a topic that nobody annotated: of resampled summaries, and the spread between topics."""
    n_insights: int
    n_summaries: int
    names: tuple[str, ...] = ()
    """Further names that the judge goes by, as `bias_of` takes them; `*` stands for anything."""
    summarizers: Mapping[str, float] = field(default_factory=dict)
    """Summarizer -> the mean over its summaries (Table 6)."""
    topics: tuple[float, ...] = ()
    """The mean over the insights of each topic."""
    source: str = ""
    """What it was measured on."""


def bias_of(asked: str, biases: Iterable[JudgeBias]) -> JudgeBias | None:
    """The bias of a judge by how it is asked: the first of its own name, else the first that goes by it too.

    `asked` is the model, with a blank and the strategy where that is another than the model's usual one. A pattern stands for
    models asked in the usual way: `*/gpt-4o` is no `openai/gpt-4o blend`, whatever a `*` might cover.
    """
    known = list(biases)
    found = next((bias for bias in known if bias.judge == asked), None)
    return found or next((bias for bias in known if any(_goes_by(asked, name) for name in bias.names)), None)


def _goes_by(asked: str, name: str) -> bool:
    return asked == name or (" " not in asked and fnmatchcase(asked, name))


def corrected(score: SystemScore, bias: JudgeBias | None) -> SystemScore:
    """The score with `coverage_corrected`, `joint_corrected`, their intervals and the bias; as it is where none is known.

    Coverage: coverage - bias, kept within 0..1. People annotated coverage alone, so that citation scores stay, and joint, which
    is coverage times citation insight by insight, is scaled as coverage is: joint * corrected / raw.
    Intervals carry both uncertainties: the variances of the system's score (its own interval) and of the bias are added, side
    by side: each half of the interval is the root of the sum of squares of the raw half and of 1.96 standard errors of the bias
    (for joint times joint / coverage). A figure without a raw interval has none: the bias's part alone would be too narrow.
    The raw figures and intervals are not touched.
    """
    if bias is None or score.coverage is None:
        return score
    coverage = _within(score.coverage - bias.mean)
    share = coverage / score.coverage if score.coverage else 0.0
    joint = None if score.joint is None else _within(score.joint * share)
    intervals = dict(score.ci)
    if "coverage" in score.ci:
        intervals["coverage_corrected"] = _interval(coverage, (score.coverage, 1.0, score.ci["coverage"]), _Z * bias.se)
    if "joint" in score.ci and joint is not None and score.joint is not None:
        moved = _Z * bias.se * score.joint / score.coverage if score.coverage else 0.0
        intervals["joint_corrected"] = _interval(joint, (score.joint, share, score.ci["joint"]), moved)
    taken = TakenOff(bias.judge, bias.mean, bias.se, bias.source)
    return replace(score, coverage_corrected=coverage, joint_corrected=joint, ci=intervals, bias=taken)


def _interval(middle: float, raw: tuple[float, float, tuple[float, float]], other: float) -> tuple[float, float]:
    """The interval around `middle`: raw is (figure, scale, its interval), `other` is added to both of its halves."""
    figure, scale, (low, high) = raw
    below, above = scale * max(figure - low, 0.0), scale * max(high - figure, 0.0)
    return _within(middle - math.hypot(below, other)), _within(middle + math.hypot(above, other))


def _within(value: float) -> float:
    return min(max(value, 0.0), 1.0)
