"""Agreement between two judges, between two rankings, and between values from 0 to 1 and labels of two classes."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from summhay_ray.metrics.score_intervals import QUANTILES_95, SAMPLES, generator

L = TypeVar("L")
LABELS = ("FULL_COVERAGE", "PARTIAL_COVERAGE", "NO_COVERAGE")
_WORTH = dict(zip(LABELS, (1.0, 0.5, 0.0), strict=True))


@dataclass(frozen=True, slots=True)
class Verdicts:
    """One judge's verdicts on a list of insights. Both judges list the insights in the same order."""

    labels: Sequence[str]
    """The label of each insight, from LABELS."""
    values: Sequence[float]
    """Expected coverage (0..1). If the judge gives no number, the value of its label."""
    bullets: Sequence[int | None]
    """Number (from 1) of the bullet that covers the insight; None if none does."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """The agreement of two judges on the same insights. An undefined figure is None."""

    n: int
    """Number of insights that both judged."""
    correlation: float | None
    """Pearson's correlation of the values."""
    same_label: float | None
    """Share of the insights with the same label."""
    same_bullet: float | None
    """Share linked to the same bullet, among the insights that both link to a bullet."""
    n_linked: int
    """Number of insights that both link to a bullet."""
    confusion: Mapping[str, Mapping[str, int]]
    """First judge's label -> second judge's label -> number of insights."""
    alpha: float | None = None
    """Krippendorff's alpha of the labels, which are ordered (`alpha`)."""


@dataclass(frozen=True, slots=True)
class RankAgreement:
    """The agreement of two rankings of the same items. It is None if all items of one ranking are tied."""

    n: int
    spearman: float | None
    """Spearman's correlation; ties get average ranks."""
    kendall: float | None
    """Kendall's tau-b, which corrects for ties."""


def agreement_between(first: Verdicts, second: Verdicts) -> Agreement:
    """Compare two judges' verdicts. Raises ValueError for unequal lengths."""
    labels = list(zip(first.labels, second.labels, strict=True))
    linked = [(a, b) for a, b in zip(first.bullets, second.bullets, strict=True) if a is not None and b is not None]
    confusion = {label: dict.fromkeys(LABELS, 0) for label in LABELS}
    for a, b in labels:
        confusion[a][b] += 1
    return Agreement(
        n=len(labels),
        correlation=pearson(first.values, second.values),
        same_label=sum(a == b for a, b in labels) / len(labels) if labels else None,
        same_bullet=sum(a == b for a, b in linked) / len(linked) if linked else None,
        n_linked=len(linked),
        confusion=confusion,
        alpha=alpha([[_WORTH[label] for label in side.labels] for side in (first, second)]),
    )


def kappa(confusion: Mapping[L, Mapping[L, int]]) -> float | None:
    """Return Cohen's kappa (agreement beyond chance) from a confusion matrix. None if both judges use only one label."""
    rows = [sum(row.values()) for row in confusion.values()]
    columns = [sum(row[label] for row in confusion.values()) for label in confusion]
    n = sum(rows)
    if not n:
        return None
    same = sum(confusion[label][label] for label in confusion) / n
    chance = sum(a * b for a, b in zip(rows, columns, strict=True)) / n**2
    return (same - chance) / (1 - chance) if chance < 1 else None


def cohens_kappa(first: Sequence[L], second: Sequence[L]) -> float | None:
    """Return Cohen's kappa of two raters' labels of the same items, in order. Raises ValueError for unequal lengths."""
    labels = dict.fromkeys((*first, *second))
    confusion = {label: dict.fromkeys(labels, 0) for label in labels}
    for one, other in zip(first, second, strict=True):
        confusion[one][other] += 1
    return kappa(confusion)


def alpha(ratings: Sequence[Sequence[float | None]]) -> float | None:
    """Return Krippendorff's alpha for ordinal data (2019, Content Analysis, chapter 12). `ratings`: a row for each rater, a
    column for each item, None for a missing rating. The result is None if no item has two ratings, or if all ratings are
    equal."""
    import krippendorff

    data = np.array([[math.nan if one is None else one for one in row] for row in ratings], dtype=float)
    paired = data[:, (~np.isnan(data)).sum(axis=0) > 1] if data.size else data
    if len(np.unique(paired[~np.isnan(paired)])) < 2:
        return None
    return float(krippendorff.alpha(reliability_data=paired, level_of_measurement="ordinal"))


def rank_agreement(first: Sequence[float], second: Sequence[float]) -> RankAgreement:
    """Compare the rankings given by two lists of scores of the same items. Raises ValueError for unequal lengths."""
    from scipy import stats

    ranked = pearson(*(stats.rankdata(values).tolist() for values in (first, second)))
    tau = float(stats.kendalltau(first, second).statistic) if len(first) > 1 else math.nan
    return RankAgreement(len(first), ranked, None if math.isnan(tau) else tau)


def pearson(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Return Pearson's correlation, or None if either side is constant. Raises ValueError for unequal lengths."""
    if len(first) != len(second):
        raise ValueError(f"{len(first)} values against {len(second)}; expected equal lengths")
    if not first or min(first) == max(first) or min(second) == max(second):
        return None
    try:
        return max(-1.0, min(1.0, statistics.correlation(first, second)))
    except statistics.StatisticsError:  # Squares of tiny differences can underflow to 0.
        return None


THRESHOLD = 0.5


@dataclass(frozen=True, slots=True)
class BinaryScores:
    """The agreement of values with labels. Each figure is None if one of the two classes has no item."""

    auc: float | None
    """Probability that a positive item has a larger value than a negative one. Ties count half."""
    auc_interval: tuple[float, float] | None
    balanced_accuracy: float | None
    """Mean of two shares: of positive items with a value of at least 0.5, and of negative items with a smaller value."""
    balanced_accuracy_interval: tuple[float, float] | None
    called_positive: float | None
    """Share of all items with a value of at least 0.5."""
    positive: float | None
    """Share of all items whose label is positive."""
    n: int


def binary_scores(values: Sequence[float], labels: Sequence[bool]) -> BinaryScores:
    """Return the agreement, with 95 % percentile intervals of a bootstrap within each class. Raises ValueError for unequal
    lengths."""
    if len(values) != len(labels):
        raise ValueError(f"{len(values)} values and {len(labels)} labels; give one label for each value")
    given, truth = np.asarray(values, dtype=np.float64), np.asarray(labels, dtype=bool)
    n = len(values)
    called, labelled = (float((given >= THRESHOLD).mean()), float(truth.mean())) if n else (None, None)
    positive, negative = given[truth], given[~truth]
    if not (positive.size and negative.size):
        return BinaryScores(None, None, None, None, called, labelled, n)
    draw = generator(0, ["binary"])
    drawn = [_figures(draw.choice(positive, positive.size), draw.choice(negative, negative.size)) for _ in range(SAMPLES // 2)]
    lows, highs = np.quantile(np.array(drawn), QUANTILES_95, axis=0).tolist()
    auc, balanced = _figures(positive, negative)
    return BinaryScores(auc, (lows[0], highs[0]), balanced, (lows[1], highs[1]), called, labelled, n)


def _figures(positive: NDArray[np.float64], negative: NDArray[np.float64]) -> tuple[float, float]:
    ordered = np.sort(negative)
    below = np.searchsorted(ordered, positive, side="left") + np.searchsorted(ordered, positive, side="right")
    auc = below.sum() / (2 * positive.size * negative.size)
    return float(auc), float(((positive >= THRESHOLD).mean() + (negative < THRESHOLD).mean()) / 2)
