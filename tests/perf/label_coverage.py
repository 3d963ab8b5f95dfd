"""How often the intervals by people's labels hold the truth, and how wide they are against labels alone.

    python tests/perf/label_coverage.py [EXPERIMENTS]

Each experiment draws a run's judgments (200 for each system), people's labels of all of them as the truth, and a sheet, as
`summhay label` does. Judges: `good` and `free` agree with people as GPT-4o and the free judge do (correlation 0.73 and 0.80; the
free one gives values and says how uncertain it is), `noise` not at all. For each system: the interval of its mean coverage for
the judgments at hand, and Student's t's of the labels alone.
"""

from __future__ import annotations

import random
import sys

import numpy as np
import polars as pl
import scipy

from summhay_ray.benchmarks.summhay.results.labels import chances_of, drawn
from summhay_ray.metrics import FEWEST, LabelledScore, corrected_mean

ITEMS, TIMES = 200, int(sys.argv[1]) if len(sys.argv) > 1 else 1000
LABELS = np.array([0.0, 0.5, 1.0])


def population(judge: str, systems: int, rng: np.random.Generator) -> pl.DataFrame:
    """A row for each judgment: system, people's coverage, the judge's label, its value and its uncertainty."""
    frames = []
    for system in range(systems):
        level = rng.uniform(-0.8, 0.8)
        merit = rng.normal(level, 1.0, ITEMS)
        people = LABELS[np.searchsorted([0.0, 0.7], merit)]
        seen = merit + rng.normal(0.0, {"good": 0.75, "free": 0.55, "noise": 50.0}[judge], ITEMS)
        label = LABELS[np.searchsorted([-0.3, 0.5] if judge == "good" else [0.0, 0.7], seen)]
        doubt = 0.45 * np.exp(-np.abs(seen - 0.35)) if judge == "free" else np.zeros(ITEMS)
        columns = {"people": people, "judge": label, "value": label if judge != "free" else seen, "uncertainty": doubt}
        frames.append(pl.DataFrame({"system": [str(system)] * ITEMS, **columns}))
    return pl.concat(frames).sort("system", "value")


def experiment(judge: str, systems: int, n: int, rng: np.random.Generator) -> list[tuple[bool, float, bool, float]]:
    """For each system: whether its interval holds the truth, its half; and the same by its labels alone (or all systems')."""
    items = population(judge, systems, rng)
    chances = chances_of(items, n)
    sheet = items.with_columns(chance=pl.Series(chances))[drawn(chances, random.Random(int(rng.integers(2**31))))]
    found = []
    for system in items["system"].unique().sort():
        mine = items.filter(pl.col("system") == system)
        labelled = sheet.filter(pl.col("system") == system)
        own = labelled.height >= FEWEST
        used = labelled if own else sheet
        pairs = [LabelledScore(*row) for row in used.select("judge", "people", "chance").iter_rows()]
        one = corrected_mean(float(mine["judge"].mean()), pairs, ITEMS, None if own else 1.0)  # type: ignore[arg-type]
        assert one is not None
        truth = float(mine["people"].mean())  # type: ignore[arg-type]
        alone = labelled["people"].to_numpy()
        half = float(scipy.stats.t.ppf(0.975, len(alone) - 1) * alone.std(ddof=1) / len(alone) ** 0.5) if len(alone) > 1 else 1.0
        assert one.half is not None
        held = abs(one.value - truth) <= one.half
        found.append((held, one.half, abs(float(alone.mean()) - truth) <= half if len(alone) else False, half))
    return found


def main() -> None:
    """Print the table of docs/judges.md."""
    print("| judge | systems | labels | holds | half-width | labels alone: holds | half-width |")
    print("|---|--:|--:|--:|--:|--:|--:|")
    for judge in ("good", "free", "noise"):
        for systems, n in ((3, 30), (3, 90), (3, 300), (20, 30)):
            rng = np.random.default_rng(7)
            rows = np.array([row for _ in range(TIMES // systems) for row in experiment(judge, systems, n, rng)], dtype=float)
            held, half, alone, wide = rows.mean(axis=0)
            told = f"{100 * alone:.1f} | {100 * wide:.1f}" if n / systems >= 2 else "- | -"
            print(f"| {judge} | {systems} | {n} | {100 * held:.1f} | {100 * half:.1f} | {told} |", flush=True)


if __name__ == "__main__":
    main()
