"""Measures how well values between 0 and 1 separate two classes, with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from summhay_ray.metrics.score_intervals import QUANTILES_95, SAMPLES, generator

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

THRESHOLD = 0.5


@dataclass(frozen=True, slots=True)
class BinaryScores:
    """The agreement of values with labels. Each figure is None if one of the classes has no item."""

    auc: float | None
    """Probability that a positive item has a larger value than a negative one; ties count half."""
    auc_interval: tuple[float, float] | None
    balanced_accuracy: float | None
    """Mean of the shares of positive items with a value of at least 0.5, and of negative items below it."""
    balanced_accuracy_interval: tuple[float, float] | None
    called_positive: float | None
    """Share of all items with a value of at least 0.5."""
    positive: float | None
    """Share of all items whose label is positive."""
    n: int


def binary_scores(values: Sequence[float], labels: Sequence[bool], seed: int = 0) -> BinaryScores:
    """The figures, with 95 % percentile intervals of a bootstrap that resamples the items of each class.

    Raises ValueError unless there is one label for each value.
    """
    import numpy as np

    if len(values) != len(labels):
        raise ValueError(f"{len(values)} values and {len(labels)} labels; give one label for each value")
    given, truth = np.asarray(values, dtype=np.float64), np.asarray(labels, dtype=bool)
    n = len(values)
    called, labelled = (float((given >= THRESHOLD).mean()), float(truth.mean())) if n else (None, None)
    positive, negative = given[truth], given[~truth]
    if not (positive.size and negative.size):
        return BinaryScores(None, None, None, None, called, labelled, n)
    draw = generator(seed, ["binary"])
    drawn = [_figures(draw.choice(positive, positive.size), draw.choice(negative, negative.size)) for _ in range(SAMPLES // 2)]
    lows, highs = np.quantile(np.array(drawn), QUANTILES_95, axis=0).tolist()
    auc, balanced = _figures(positive, negative)
    return BinaryScores(auc, (lows[0], highs[0]), balanced, (lows[1], highs[1]), called, labelled, n)


def _figures(positive: NDArray[np.float64], negative: NDArray[np.float64]) -> tuple[float, float]:
    """AUC and balanced accuracy of the values of two classes."""
    import numpy as np

    ordered = np.sort(negative)
    below = np.searchsorted(ordered, positive, side="left") + np.searchsorted(ordered, positive, side="right")
    auc = below.sum() / (2 * positive.size * negative.size)
    return float(auc), float(((positive >= THRESHOLD).mean() + (negative < THRESHOLD).mean()) / 2)
