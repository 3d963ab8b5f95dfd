"""Tests that budgets hold: compares budgets with the provider's bills, in runs with random budgets, faults and SIGKILLs.

    python tools/budgets.py --runs 200 --seed 1

64 calls are in flight. The provider's token counts differ by up to 10 % from ours, and 5 % of its answers lack usage. The first
half of the runs is not killed. The second half is killed up to three times and restarted until it ends by itself.
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
"""Lengths of the prompts, in characters."""
USABLE = {"openai/gpt-fair": 0.97, "openai/gpt-errors": 0.97, "openai/gpt-drops": 0.95, "openai/stranger": 0.92}
"""Model -> minimum share of the budget that is billed, for a run that is not killed and has more work than its budget can pay.

Lost calls (1 % for gpt-drops) are charged their worst case. Answers without usage are charged with the token margin, which is
wide for an unknown tokenizer.
"""
MODELS = tuple(USABLE)
CHARGED = 0.98
"""Minimum share of such a budget that is charged. The rest is less than one call."""
PROVIDER = (
    *("--answers", "short", "--latency", "0.03", "--latency-spread", "0.5", "--token-skew", "0.1", "--no-usage", "0.05"),
    *("--limit", "gpt-errors:errors=0.05", "--limit", "gpt-drops:drops=0.01,no_usage=0.06,errors=0.02"),
)
WORST_CALLS = (100, 300)
"""A budget is the worst-case cost of this many average calls (minimum, maximum)."""
MEAN_WORST_MICROS = 4000
REAL_SHARE = 0.65
"""The real price of a call, as a share of its worst case."""
LONGEST_BEFORE_KILL_S = 1.2


@dataclass(frozen=True)
class Plan:
    """The plan of one run: its job without the endpoint, and the times of its kills, in seconds after its first call."""

    name: str
    model: str
    budget_micros: int
    calls: int
    kills: tuple[float, ...]

    @property
    def exceeds(self) -> bool:
        """Whether the run has more work than its budget can pay, even if every call is answered at its real price."""
        return self.calls * MEAN_WORST_MICROS * REAL_SHARE > 1.3 * self.budget_micros


@dataclass(frozen=True)
class Result:
    """The outcome of a run: the provider's bill, the totals of `status` (dollars), and the run's JSON document."""

    plan: Plan
    billed: int
    totals: Row
    kills: int
    said: dict[str, Any] = field(repr=False)

    @property
    def share(self) -> float:
        """Return the share of the budget that the provider billed."""
        return self.billed / self.plan.budget_micros

    @property
    def charged(self) -> int:
        """Return the run's charges by its books, in micro-dollars."""
        return round(self.totals["books"] * 1e6)

    @property
    def _is_left(self) -> bool:
        return self.plan.exceeds and not self.kills

    def violations(self) -> list[str]:
        """The violations of the laws."""
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
    """Return the plans of all runs. The first half is not killed. Models are used in turn. One run in eight has less work than
    its budget can pay."""
    made = []
    for number in range(runs):
        chance = random.Random(f"{seed} {number}")
        calls_worth = chance.uniform(*WORST_CALLS)
        share = 0.6 if chance.random() < 1 / 8 else chance.uniform(1.5, 2.5)
        # The times are short, because open calls stay charged after a kill. So later kills find less work left.
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
    """Carry out a plan: start, kill and restart until the run ends by itself."""
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
        return Result(plan, one.tally()["micros"], one.totals(), killed, one.last_document())


@contextmanager
def results(all_plans: list[Plan], at_once: int = 2) -> Iterator[Iterator[Result]]:
    """Yield the results of the plans, against one provider."""
    with simulated_provider(*PROVIDER) as provider, ThreadPoolExecutor(at_once) as pool:
        yield pool.map(lambda plan: run(plan, provider), all_plans)


def range_line(name: str, shares: list[float]) -> str:
    """Return the minimum, median and maximum of some shares, as a line."""
    if not shares:
        return f"{name:34}{0:5}"
    numbers = (min(shares), statistics.median(shares), max(shares))
    return f"{name:34}{len(shares):5}" + "".join(f"{share:9.2%}" for share in numbers)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--at-once", type=int, default=2, choices=(1, 2))
    asked = parser.parse_args()
    found: list[Result] = []
    with results(plans(asked.runs, asked.seed), asked.at_once) as coming:
        for result in coming:
            found.append(result)
            for wrong in result.violations():
                print(f"WRONG: {wrong}: {result}\n  {result.said}", flush=True)
            print(f"{len(found)} of {asked.runs}: {result.share:.2%}", file=sys.stderr, flush=True)
    n_wrong = sum(bool(result.violations()) for result in found)
    print(
        f"{len(found)} runs, {sum(result.kills for result in found)} kills: {n_wrong} with something wrong; billed of the budget:"
    )
    print(f"{'':34}{'runs':>5}{'least':>9}{'median':>9}{'most':>9}")
    print(range_line("all", [result.share for result in found]))
    full = [result for result in found if result.plan.exceeds]
    print(range_line("killed, more to do", [result.share for result in full if result.kills]))
    print(range_line("left alone, more to do: charged", [one.charged / one.plan.budget_micros for one in full if not one.kills]))
    for model in MODELS:
        shares = [result.share for result in full if not result.kills and result.plan.model == model]
        print(range_line(f"left alone, {model}", shares))
    return 1 if n_wrong else 0


if __name__ == "__main__":
    sys.exit(main())
