"""Measures how often the 95 % intervals of means contain the truth, by the number of queries and the shape of their scores.

    python tools/mean_coverage.py [EXPERIMENTS]

Each experiment draws a score for every query; if there are several haystacks, their levels differ. It checks whether the interval
of `unit_means` contains the true mean, and whether the percentile bootstrap of the same queries does. It prints the table of
docs/explanation/numbers.md, and the lowest share of all designs.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from summhay_ray.metrics import unit_means

TIMES = 4000
DESIGNS = {"2 x 2": (2, 2), "3": (1, 3), "4": (1, 4), "6": (1, 6), "2 x 3": (2, 3), "9": (1, 9), "2 x 9": (2, 9), "36": (1, 36)}
"""Name -> number of haystacks, and number of queries in each."""
Draw = Callable[[np.random.Generator, tuple[int, ...]], Any]


def insights(mean: float, alike: float, joint: bool = False) -> Draw:
    """Return a function that draws the share of eight insights that are covered. The probability varies by query: beta, with
    precision `alike`."""

    def draw(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
        covered = rng.binomial(8, rng.beta(mean * alike, (1 - mean) * alike, shape)) / 8
        return covered * rng.beta(2, 2, shape) if joint else covered

    return draw


SHAPES: dict[str, Draw] = {
    "normal": lambda rng, shape: np.clip(rng.normal(0.5, 0.15, shape), 0, 1),
    "uniform": lambda rng, shape: rng.random(shape),
    "skewed (exponential), mean 5": lambda rng, shape: np.minimum(rng.exponential(0.05, shape), 1),
    "skewed (beta), mean 95": lambda rng, shape: 1 - rng.beta(1, 19, shape),
    "8 insights, mean 3": insights(0.03, 10),
    "8 insights, mean 97": lambda rng, shape: 1 - insights(0.03, 10)(rng, shape),
    "joint of 8 insights, mean 5": insights(0.1, 10, joint=True),
    "all or nothing, mean 10": lambda rng, shape: (rng.random(shape) < 0.1).astype(float),
    "all or nothing, mean 98": lambda rng, shape: (rng.random(shape) < 0.98).astype(float),
    "three fifths at 100, else uniform": lambda rng, shape: np.where(rng.random(shape) < 0.6, 1.0, rng.random(shape)),
}


def coverage_shares(shape: str, haystacks: int, queries: int, times: int = TIMES, seed: int = 1) -> tuple[float, float]:
    """Return the shares of experiments in which the intervals of `unit_means`, and of the percentile bootstrap, contain the
    truth; NaN without intervals."""
    rng = np.random.default_rng([seed, haystacks, queries, [*SHAPES].index(shape)])
    truth = SHAPES[shape](np.random.default_rng(0), (2_000_000,)).mean()
    values = SHAPES[shape](rng, (haystacks * queries, times))
    strata = np.repeat(np.arange(haystacks), queries)
    means = unit_means(values, np.ones_like(values), strata)
    share = ((means.low - 1e-12 <= truth) & (truth <= means.high + 1e-12)).mean() if not np.isnan(means.low).all() else np.nan
    few = values[:, : min(times, 500)]
    drawn = [
        np.concatenate([part[rng.integers(queries, size=queries)] for part in np.split(few, haystacks)]).mean(axis=0)
        for _ in range(400)
    ]
    low, high = np.quantile(drawn, (0.025, 0.975), axis=0)
    return float(share), float(((low <= truth) & (truth <= high)).mean())


def main() -> None:
    """Print the table."""
    print("| scores | " + " | ".join(DESIGNS) + " |")
    print("|---|" + "--:|" * len(DESIGNS))
    least, times = 1.0, int(sys.argv[1]) if len(sys.argv) > 1 else TIMES
    for shape in SHAPES:
        found = [coverage_shares(shape, *design, times) for design in DESIGNS.values()]
        least = min([least, *(share for share, _ in found if not np.isnan(share))])
        cells = ["too few" if np.isnan(share) else f"{100 * share:.1f}" for share, _ in found]
        print(f"| {shape} | " + " | ".join(cells) + " |", flush=True)
        print(f"| - by percentile bootstrap | {' | '.join(f'{100 * share:.1f}' for _, share in found)} |", flush=True)
    print(f"least: {100 * least:.1f} % of {times:,} experiments")


if __name__ == "__main__":
    main()
