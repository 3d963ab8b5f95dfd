"""Measures how often intervals contain the truth after correction by people's labels. It also compares their widths with those of
labels alone.

    python tools/label_coverage.py [EXPERIMENTS]

Each experiment draws a run's judgments (200 for each system), people's labels of all of them as the truth, and a sheet, as
`summhay label` does.

The judges `good` and `free` agree with people like GPT-4o and the free judge (correlation 0.73 and 0.80; the free one also gives
values and uncertainties). `noise` does not agree with people. `flatters` is like `good`, but labels a quarter more insights of
the first system as covered. The levels are systems of any quality, systems near the floor (people label 3 % as covered), and
systems near the ceiling (97 %).

For each system with ten labels, the interval of its mean coverage over the given judgments is compared with Student's interval of
the labels alone. `pooled` is the interval of the mean of all systems.
"""

from __future__ import annotations

import random
import sys

import numpy as np
import polars as pl
import scipy

from summhay_ray.benchmarks.summhay.results.labels import chances_of, draw_systematically
from summhay_ray.metrics import FEWEST, LabelledScore, corrected_mean

ITEMS, TIMES = 200, 1000
LABELS = np.array([0.0, 0.5, 1.0])
LEVELS = {"any": (-0.8, 0.8), "floor": (-2.0, -1.7), "ceiling": (2.4, 2.7)}
"""Level -> range of the systems' mean quality."""
SPREAD = {"good": 0.75, "free": 0.55, "noise": 50.0, "flatters": 0.75}


def population(judge: str, systems: int, rng: np.random.Generator, level: str = "any") -> pl.DataFrame:
    """Return a row for each judgment: system, people's coverage, the judge's label, its value and its uncertainty."""
    frames = []
    for system in range(systems):
        merit = rng.normal(rng.uniform(*LEVELS[level]), 1.0, ITEMS)
        people = LABELS[np.searchsorted([0.0, 0.7], merit)]
        seen = merit + rng.normal(0.0, SPREAD[judge], ITEMS)
        label = LABELS[np.searchsorted([0.0, 0.7] if judge in ("free", "noise") else [-0.3, 0.5], seen)]
        if judge == "flatters" and system == 0:
            label = np.where(rng.random(ITEMS) < 0.25, 1.0, label)
        doubt = 0.45 * np.exp(-np.abs(seen - 0.35)) if judge == "free" else np.zeros(ITEMS)
        columns = {"people": people, "judge": label, "value": label if judge != "free" else seen, "uncertainty": doubt}
        frames.append(pl.DataFrame({"system": [str(system)] * ITEMS, **columns}))
    return pl.concat(frames).sort("system", "value")


Row = tuple[float, float, float, float]
"""Whether an interval contains the truth, and its half-width; then the same for the labels alone."""


def experiment(judge: str, systems: int, n: int, rng: np.random.Generator, level: str = "any") -> tuple[list[Row], list[Row]]:
    """Return a row for each system with enough labels, and one for the mean of all systems."""
    items = population(judge, systems, rng, level)
    chances = chances_of(items, n)
    sheet = items.with_columns(chance=pl.Series(chances))[draw_systematically(chances, random.Random(int(rng.integers(2**31))))]
    own = [items["system"].unique().sort().to_list(), []]
    found: list[list[Row]] = [[], []]
    for rows, names in zip(found, ([[name] for name in own[0]], [own[0]]), strict=True):
        for group in names:
            mine, labelled = (frame.filter(pl.col("system").is_in(group)) for frame in (items, sheet))
            if labelled.height < FEWEST:
                continue
            pairs = [LabelledScore(*row) for row in labelled.select("judge", "people", "chance").iter_rows()]
            one = corrected_mean(float(mine["judge"].mean()), pairs, mine.height)  # type: ignore[arg-type]
            assert one is not None
            truth, alone = float(mine["people"].mean()), labelled["people"].to_numpy()  # type: ignore[arg-type]
            half = float(scipy.stats.t.ppf(0.975, len(alone) - 1) * alone.std(ddof=1) / len(alone) ** 0.5)
            rows.append((one.low <= truth <= one.high, (one.high - one.low) / 2, abs(float(alone.mean()) - truth) <= half, half))
    return found[0], found[1]


def measure(judge: str, systems: int, n: int, level: str, times: int) -> list[np.ndarray]:
    """Return the means of each system's row, and of the row of all systems, over the experiments. A mean without rows is
    empty."""
    rng = np.random.default_rng(7)
    found = [experiment(judge, systems, n, rng, level) for _ in range(max(1, times // systems))]
    return [np.array([row for one in found for row in one[which]], dtype=float) for which in (0, 1)]


def main() -> None:
    """Print the table of docs/how-to/judges.md."""
    times = int(sys.argv[1]) if len(sys.argv) > 1 else TIMES
    heads = ("judge", "level", "systems", "labels", "holds", "half-width", "labels alone: holds", "half-width")
    print(f"| {' | '.join((*heads, 'pooled: holds', 'half-width'))} |")
    print("|---|---|--:|--:|--:|--:|--:|--:|--:|--:|")
    for judge, level in (
        ("good", "any"),
        ("free", "any"),
        ("noise", "any"),
        ("flatters", "any"),
        ("good", "floor"),
        ("good", "ceiling"),
    ):
        for systems, n in ((3, 30), (3, 90), (3, 300), (20, 60)):
            rows, pooled = measure(judge, systems, n, level, times)
            cells = [f"{100 * share:.1f}" for share in rows.mean(axis=0)] if len(rows) > times // 2 else ["-"] * 4
            cells += [f"{100 * share:.1f}" for share in pooled.mean(axis=0)[:2]]
            print(f"| {judge} | {level} | {systems} | {n} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
