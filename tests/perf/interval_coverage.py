"""How often systems that are equal are said to differ, intervals hold the truth, and differences are found.

    python tests/perf/interval_coverage.py --systems 5 25 --haystacks 2 5 20 --experiments 2000

Three fifths of the systems are equal; the others are up to 30 points better. Scores vary by query (standard deviation 0.2, the
same for all systems) and by system and query: normally or exponentially (skewed), with a standard deviation of 0.15, or from 0.05
to 0.25 (unlike). Over haystacks, they also vary by system and haystack (0.05). A haystack has nine queries, or, uneven, 3 to 15.
Prints the rows of the table in docs/compare.md.
"""

from __future__ import annotations

import argparse
import itertools
from dataclasses import dataclass
from typing import get_args

import numpy as np
import scipy

from summhay_ray.metrics import LEVEL, Over, Paired

QUERIES, NOISE, BETWEEN, DRAWS = 9, 0.15, 0.05, 1000
NOISES = ("normal", "skewed", "unlike")


@dataclass(frozen=True)
class Design:
    """What is simulated."""

    systems: int
    haystacks: int
    noise: str = "normal"
    uneven: bool = False
    over: Over = "queries"


@dataclass(frozen=True)
class Rates:
    """Shares: of experiments (`wrong`: some pair of equal systems differs; `all_hold`: every simultaneous interval holds the
    truth; `best`: the best system is among those that may be), of intervals of single pairs that hold the truth, and of pairs
    that truly differ and are found, by max-T and by Holm."""

    wrong: float
    all_hold: float
    single: float
    best: float
    power: float
    holm: float


def measured(design: Design, experiments: int = 2000, draws: int = DRAWS) -> Rates:
    """The rates over so many experiments."""
    rng = np.random.default_rng([design.systems, design.haystacks, NOISES.index(design.noise), design.uneven])
    sizes = [3 + (7 * place) % 13 if design.uneven else QUERIES for place in range(design.haystacks)]
    haystacks = [f"h{place:03}" for place, size in enumerate(sizes) for _ in range(size)]
    shape = len(haystacks), design.systems
    equal = -(-3 * design.systems // 5)
    truth = np.append(np.zeros(equal), np.linspace(0.3, 0, design.systems - equal, endpoint=False)[::-1])
    spread = np.linspace(0.05, 0.25, design.systems) if design.noise == "unlike" else np.full(design.systems, NOISE)
    pairs = list(itertools.combinations(range(design.systems), 2))
    a, b = np.array(pairs).T
    true = truth[a] - truth[b]
    found = []
    for seed in range(experiments):
        noise = rng.exponential(size=shape) - 1 if design.noise == "skewed" else rng.standard_normal(shape)
        values = truth + rng.normal(0, 0.2, (shape[0], 1)) + noise * rng.permutation(spread)
        if design.over == "haystacks":
            values = values + np.repeat(rng.normal(0, BETWEEN, (design.haystacks, design.systems)), sizes, axis=0)
        paired = Paired(haystacks, seed, draws, design.over)
        told = paired.differences(values, pairs)
        difference, high, se, freedom, p = told.select("difference", "high", "se", "freedom", "p").to_numpy().T
        off, differs = np.abs(difference - true), told["p_adjusted"].to_numpy() < LEVEL
        best = paired.ranks(values)["may_be_best"][-1] if design.systems <= 5 else np.nan
        rates = (
            differs[true == 0].any(),
            (off <= high - difference).all(),
            (off <= scipy.stats.t.isf(LEVEL / 2, freedom) * se).mean(),
            best,
            differs[true != 0].mean(),
            (holm(p) < LEVEL)[true != 0].mean(),
        )
        found.append(rates)
    return Rates(*map(float, np.mean(np.array(found, dtype=float), axis=0)))


def holm(p: np.ndarray) -> np.ndarray:
    """p-values after Holm's step-down correction (1979)."""
    order = np.argsort(p)
    stepped = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    return np.minimum(1, stepped[np.argsort(order)])


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--systems", type=int, nargs="+", default=[5, 25, 78])
    parser.add_argument("--haystacks", type=int, nargs="+", default=[2, 5, 20])
    parser.add_argument("--noise", nargs="+", choices=NOISES, default=NOISES)
    parser.add_argument("--over", nargs="+", choices=get_args(Over), default=get_args(Over))
    parser.add_argument("--experiments", type=int, default=2000)
    arguments = parser.parse_args()
    settings = itertools.product(arguments.over, arguments.systems, arguments.haystacks, arguments.noise, (False, True))
    for over, systems, haystacks, noise, uneven in settings:
        rates = measured(Design(systems, haystacks, noise, uneven, over), arguments.experiments)
        shares = (rates.wrong, rates.all_hold, rates.single, rates.best, rates.power, rates.holm)
        told = ["-" if np.isnan(share) else f"{100 * share:.1f}" for share in shares]
        setting = (over, systems, haystacks, f"{noise}, {'uneven' if uneven else 'even'}")
        print("|", " | ".join(map(str, (*setting, *told, f"{arguments.experiments:,}"))), "|", flush=True)


if __name__ == "__main__":
    main()
