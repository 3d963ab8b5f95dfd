"""Budgets that hold: runs with random budgets, faults and SIGKILLs, and what the provider billed each of them.

    python tools/budgets.py --runs 200 --seed 1

64 calls are in flight; the provider counts tokens up to 10 % off ours and leaves usage out of 5 % of its answers. The first
half of the runs is left alone, the second is killed up to three times and started again until it ends by itself.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from asking_runs import PATIENCE_S, Row, job, kill_all
from simulated_provider import Simulated, simulated_provider

SIZES = [1500, 3000, 4500, 6000, 7500]
"""Characters of the prompts."""
USABLE = {"openai/gpt-fair": 0.97, "openai/gpt-errors": 0.97, "openai/gpt-drops": 0.95, "openai/stranger": 0.92}
"""Model -> the share of a budget that is billed at least, where there is more to do and nothing is killed.

What is lost (1 % of gpt-drops' calls) is charged at its worst. The stranger's tokenizer has a wide margin, with which answers
without usage are charged.
"""
MODELS = tuple(USABLE)
CHARGED = 0.98
"""The share of such a budget that is charged at least: what is left over is less than one call."""
PROVIDER = (
    *("--answers", "short", "--latency", "0.03", "--latency-spread", "0.5", "--token-skew", "0.1", "--no-usage", "0.05"),
    *("--limit", "gpt-errors:errors=0.05", "--limit", "gpt-drops:drops=0.01,no_usage=0.06,errors=0.02"),
)
WORST_CALLS = (100, 300)
"""A budget is the worst case of so many calls of mean size."""
MEAN_WORST_MICROS = 4000
REAL_SHARE = 0.65
"""What a call costs of its worst case."""
LONGEST_BEFORE_KILL_S = 1.2


@dataclass(frozen=True)
class Plan:
    """One run: its job without the endpoint, and when it is killed, in seconds after it began to ask."""

    name: str
    model: str
    budget_micros: int
    calls: int
    kills: tuple[float, ...]

    @property
    def exceeds(self) -> bool:
        """Whether there is more to do than the budget pays, even where every call is answered at its real price."""
        return self.calls * MEAN_WORST_MICROS * REAL_SHARE > 1.3 * self.budget_micros


@dataclass(frozen=True)
class Result:
    """What became of a run: the provider's bill, its totals in `status` (dollars), and what it said at its end."""

    plan: Plan
    billed: int
    totals: Row
    kills: int
    said: dict[str, Any] = field(repr=False)

    @property
    def share(self) -> float:
        """Of the budget, what the provider billed."""
        return self.billed / self.plan.budget_micros

    @property
    def charged(self) -> int:
        """What the run's books come to, in micro-dollars."""
        return round(self.totals["books"] * 1e6)

    @property
    def _is_left(self) -> bool:
        return self.plan.exceeds and not self.kills

    def wrongs(self) -> list[str]:
        """What must not be."""
        usd, cells = self.said["usd"], self.said["cells"]
        found = {
            "billed more than the budget": self.billed > self.plan.budget_micros,
            "billed more than was charged": self.billed > self.charged,
            "charged more than the budget": self.charged > self.plan.budget_micros,
            "the run and its status differ": any(usd[name] != self.totals[name] for name in ("spent", "uncertain")),
            "money is still reserved": usd["reserved"] != 0,
            "calls are lost": cells["total"] != self.plan.calls
            or (self.said["status"] != "budget" and cells["done"] + cells["failed"] != self.plan.calls),
            "there was more to do, and it was not said": self.plan.exceeds and self.said["status"] != "budget",
            "not all of the budget could be used": self._is_left and self.share < USABLE[self.plan.model],
            "not all of the budget was spent": self._is_left and self.charged < CHARGED * self.plan.budget_micros,
        }
        return [wrong for wrong, is_so in found.items() if is_so]


def plans(runs: int, seed: int) -> list[Plan]:
    """The first half is not killed; models take turns; one run in eight has less to do than its budget pays."""
    made = []
    for number in range(runs):
        chance = random.Random(f"{seed} {number}")
        calls_worth = chance.uniform(*WORST_CALLS)
        share = 0.6 if chance.random() < 1 / 8 else chance.uniform(1.5, 2.5)
        # After the first kill what is open stays charged, so that later ones find less left to do.
        kills = [chance.uniform(0.0, LONGEST_BEFORE_KILL_S) for _ in range(chance.randint(1, 3))]
        made.append(
            Plan(
                name=f"{seed}-{number}",
                model=MODELS[number % len(MODELS)],
                budget_micros=round(calls_worth * MEAN_WORST_MICROS),
                calls=round(share * calls_worth / REAL_SHARE),
                kills=tuple(kills) if number >= runs / 2 else (),
            )
        )
    return made


def run(plan: Plan, provider: Simulated) -> Result:
    """Start, kill and start again until it ends by itself."""
    fields: Row = {"name": plan.name, "items": plan.calls, "sizes": SIZES}
    more = ("--budget", str(plan.budget_micros / 1e6), "--executor", "inline")
    killed = 0
    with job(provider, model=plan.model, **fields) as one:
        for delay_s in plan.kills:
            process = one.start(*more)
            if not one.wait_served(process, 1):
                break
            time.sleep(delay_s)
            killed += process.poll() is None
            kill_all([process.pid])
            process.wait()
        one.start(*more).wait(PATIENCE_S)
        return Result(plan, one.tally()["micros"], one.totals(), killed, one.told())


@contextmanager
def results(all_plans: list[Plan], at_once: int = 2) -> Iterator[Iterator[Result]]:
    """What becomes of each plan, against one provider."""
    with simulated_provider(*PROVIDER) as provider, ThreadPoolExecutor(at_once) as pool:
        yield pool.map(lambda plan: run(plan, provider), all_plans)


def told(name: str, shares: list[float]) -> str:
    """Least, median and most of some shares."""
    if not shares:
        return f"{name:34}{0:5}"
    numbers = (min(shares), statistics.median(shares), max(shares))
    return f"{name:34}{len(shares):5}" + "".join(f"{share:9.2%}" for share in numbers)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--at-once", type=int, default=2, choices=(1, 2))
    asked = parser.parse_args()
    found: list[Result] = []
    with results(plans(asked.runs, asked.seed), asked.at_once) as coming:
        for result in coming:
            found.append(result)
            for wrong in result.wrongs():
                print(f"WRONG: {wrong}: {result}\n  {result.said}", flush=True)
            print(f"{len(found)} of {asked.runs}: {result.share:.2%}", file=sys.stderr, flush=True)
    n_wrong = sum(bool(result.wrongs()) for result in found)
    print(
        f"{len(found)} runs, {sum(result.kills for result in found)} kills: {n_wrong} with something wrong; billed of the budget:"
    )
    print(f"{'':34}{'runs':>5}{'least':>9}{'median':>9}{'most':>9}")
    print(told("all", [result.share for result in found]))
    full = [result for result in found if result.plan.exceeds]
    print(told("killed, more to do", [result.share for result in full if result.kills]))
    print(told("left alone, more to do: charged", [one.charged / one.plan.budget_micros for one in full if not one.kills]))
    for model in MODELS:
        shares = [result.share for result in full if not result.kills and result.plan.model == model]
        print(told(f"left alone, {model}", shares))
    return 1 if n_wrong else 0


if __name__ == "__main__":
    sys.exit(main())
