"""Measures how often `compare` reports that equal systems differ, and how many true differences it finds, with Holm's correction
and with max-T.

    python tools/compare_errors.py --systems 5 25 78 --experiments 2000 500 200

Scores are between 0 and 1. They vary by query (standard deviation 0.1, the same for all systems), and by system and query (0.1).
In the null case, all systems are equal. In the other case, three fifths are equal and the others are up to 30 points better.
Complete data have 18 queries in two haystacks. Data with gaps have 54 queries in six haystacks: every system lacks one random
query (1.9 %), and the first of the equal systems lacks the hardest half.

It prints the table of docs/how-to/compare.md. `compare` does not use max-T. Here, max-T is single-step, with critical values from
random rotations (Langsrud, 2005) of the systems' residuals.
"""

from __future__ import annotations

import argparse
import itertools
from dataclasses import dataclass

import numpy as np
from scipy import special

from summhay_ray.metrics import LEVEL, Observed, Over, Paired

EACH, NOISE, BETWEEN, DRAWS = 9, 0.1, 0.05, 1000


@dataclass(frozen=True)
class Design:
    """The design of a simulated table."""

    systems: int
    haystacks: int = 2
    null: bool = False
    missing: bool = False
    skewed: bool = False
    over: Over = "queries"


@dataclass(frozen=True)
class Rates:
    """The results of a design.

    `wrong`: experiments in which some pair of equal systems is reported as different, by Holm and by max-T. `found`: shares of
    the truly different pairs that each method finds. `all_hold`: share of experiments in which every interval contains the truth.
    `single`: share of intervals that do.
    """

    wrong: tuple[int, int]
    found: tuple[float, float]
    all_hold: float
    single: float


def measure(design: Design, experiments: int) -> Rates:
    """Return the rates over this many experiments."""
    rng = np.random.default_rng([design.systems, design.haystacks, design.null, design.missing, design.skewed])
    haystacks = np.repeat(np.arange(design.haystacks), EACH)
    equal = design.systems if design.null else -(-3 * design.systems // 5)
    truth = np.append(np.zeros(equal), np.linspace(0.3, 0, design.systems - equal, endpoint=False)[::-1])
    pairs = np.array(list(itertools.combinations(range(design.systems), 2)))
    true = truth[pairs[:, 0]] - truth[pairs[:, 1]]
    wrong, found, holds = [], [], []
    for _ in range(experiments):
        observed = draw_scores(design, truth, haystacks, rng)
        paired = Paired([f"h{one:03}" for one in haystacks], design.over)
        tested = paired.differences(observed, [*map(tuple, pairs)], most=1.0)
        low, high, p, adjusted = tested.select("low", "high", "p", "p_adjusted").fill_null(1.0).to_numpy().T
        by_holm, complete = adjusted < LEVEL, ~observed.incomplete[pairs].any(axis=1)
        by_max_t = complete & (p < max_t(observed.values, haystacks, pairs[complete], rng))
        both = np.stack([by_holm, by_max_t])
        wrong.append(both[:, true == 0].any(axis=1))
        found.append(both[:, (true != 0) & complete].mean(axis=1) if not design.null else (np.nan, np.nan))
        hold = (low <= true) & (true <= high)
        holds.append((hold.all(), hold.mean()))
    counts, power, (all_hold, single) = np.sum(wrong, axis=0), np.mean(found, axis=0), np.mean(holds, axis=0)
    return Rates((int(counts[0]), int(counts[1])), (float(power[0]), float(power[1])), float(all_hold), float(single))


def draw_scores(design: Design, truth: np.ndarray, haystacks: np.ndarray, rng: np.random.Generator) -> Observed:
    """Draw the scores of one experiment."""
    shape = len(haystacks), len(truth)
    noise = rng.exponential(size=shape) - 1 if design.skewed else rng.standard_normal(shape)
    values = 0.35 + truth + rng.normal(0, NOISE, (shape[0], 1)) + NOISE * noise
    if design.over == "haystacks":
        values = values + rng.normal(0, BETWEEN, (design.haystacks, shape[1]))[haystacks]
    values = np.clip(values, 0.0, 1.0)
    lost = np.zeros(shape, dtype=bool)
    if design.missing:
        lost[rng.integers(shape[0], size=shape[1]), np.arange(shape[1])] = True
        lost[np.argsort(values[:, 0])[: shape[0] // 2], 0] = True
    return Observed(np.where(lost, np.nan, values), np.where(lost, 0.0, values), np.where(lost, 1.0, values), lost.mean(axis=0))


def max_t(values: np.ndarray, haystacks: np.ndarray, pairs: np.ndarray, rng: np.random.Generator) -> float:
    """Return the p-value below which a pair differs. In 95 % of draws of equal systems, no pair has a lower one."""
    within = np.equal.outer(haystacks, np.unique(haystacks)) / np.sqrt(EACH)
    residuals = values[:, pairs[:, 0]] - values[:, pairs[:, 1]]
    for own in within.T > 0:
        residuals[own] -= np.nanmean(residuals[own], axis=0)
    residuals = np.nan_to_num(residuals)
    directions = rng.standard_normal((DRAWS, len(values)))
    directions -= directions @ within @ within.T
    cosines = np.abs(directions @ (residuals / np.linalg.norm(residuals, axis=0))).max(axis=1)
    tails = special.betaincc(0.5, (len(values) - within.shape[1] - 1) / 2, cosines**2 / (directions**2).sum(axis=1))
    return float(max(np.quantile(tails, LEVEL, method="lower"), LEVEL / len(pairs)))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--systems", type=int, nargs="+", default=[5, 25, 78])
    parser.add_argument("--experiments", type=int, nargs="+", default=[2000, 500, 200])
    arguments = parser.parse_args()
    for missing in (False, True):
        for systems, n in zip(arguments.systems, arguments.experiments, strict=True):
            null, real = (measure(Design(systems, 6 if missing else 2, one, missing), n) for one in (True, False))
            wrong = [f"{count} of {n:,}" for count in null.wrong]
            shares = [f"{100 * share:.1f}" for share in (*real.found, min(null.all_hold, real.all_hold))]
            print("|", " | ".join(("missing" if missing else "complete", str(systems), *wrong, *shares)), "|", flush=True)


if __name__ == "__main__":
    main()
