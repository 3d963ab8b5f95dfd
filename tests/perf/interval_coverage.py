"""How often the 95 % interval of a paired difference covers the truth, and the test finds a difference that is none.

    python tests/perf/interval_coverage.py --haystacks 2 3 5 10 20

Of each number of haystacks 2,000 experiments; the difference on a query varies with a standard deviation of 0.15, that of a
haystack with 0.05 or 0 (`--between`). A haystack has nine queries, or, uneven, 3 to 15 of them. Prints the rows of the table in
docs/compare.md: covered and found, for each of the two, even and uneven.
"""

from __future__ import annotations

import argparse
import itertools

import numpy as np

from summhay_ray.metrics import Resampling

WITHIN, QUERIES, EXPERIMENTS = 0.15, 9, 2000


def measured(
    n_haystacks: int, between: float, experiments: int = EXPERIMENTS, each: int = QUERIES, uneven: bool = False
) -> tuple[float, float]:
    """Shares of the experiments whose interval covers the true difference, 0, and whose test says that there is one."""
    rng = np.random.default_rng(n_haystacks)
    sizes = [3 + (7 * place) % 13 if uneven else each for place in range(n_haystacks)]
    haystacks = [f"h{place:03}" for place, size in enumerate(sizes) for _ in range(size)]
    resampling = Resampling(haystacks, samples=2000)
    covered = cried = 0
    for _ in range(experiments):
        apart = np.repeat(rng.normal(0, between, n_haystacks), sizes) + rng.normal(0, WITHIN, len(haystacks))
        found = resampling.difference(apart, np.zeros(len(apart)))
        assert found is not None and found.low is not None and found.high is not None and found.p is not None
        covered += found.low <= 0 <= found.high
        cried += found.p <= 0.05
    return covered / experiments, cried / experiments


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--haystacks", type=int, nargs="+", default=[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 15, 20, 30, 50])
    parser.add_argument("--between", type=float, nargs="+", default=[0.05, 0.0])
    arguments = parser.parse_args()
    for n_haystacks in arguments.haystacks:
        told = []
        for uneven, between in itertools.product((False, True), arguments.between):
            # One haystack says nothing of others, and nobody claims it: there the truth is that of this haystack.
            alone = n_haystacks == 1 and between > 0
            shares = () if alone else measured(n_haystacks, between, uneven=uneven)
            told += [f"{100 * share:.1f}" for share in shares] or ["-", "-"]
        print(f"| {n_haystacks} | {' | '.join(told)} |", flush=True)


if __name__ == "__main__":
    main()
