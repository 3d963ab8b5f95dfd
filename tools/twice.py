"""Tests that hardly anything is paid for twice. A run is killed at random and restarted, and the provider's calls are counted.

    python tools/twice.py                            # 5,000 calls, 10 kills
    python tools/twice.py --calls 600 --kills 3

Served calls minus distinct ones may not exceed the calls that were sent and not durable at the kills, which are at most twice the
concurrency for each kill. A question that was answered some seconds before a kill may not be asked again. Running the finished
run again may not make a call.
"""

from __future__ import annotations

import argparse
import itertools
import random
import sys
import time
from dataclasses import dataclass

from asking_runs import PATIENCE_S, Job, Row, is_done, job, kill_all
from simulated_provider import simulated_provider

IN_FLIGHT = 64
DURABLE_S = 1.0
"""Seconds from a reply until its answer is durable."""
PROVIDER = ("--answers", "short", "--latency", "0.1", "--latency-spread", "0.9", "--token-skew", "0.1", "--no-usage", "0.05")
INLINE = ("--executor", "inline")


@dataclass(frozen=True)
class Kill:
    """The provider's requests at the time when the worker was dead."""

    arrived: int
    """Number of requests that had arrived."""
    answered: frozenset[str]
    """Prompts whose answers must be durable."""
    unanswered: int
    """Number of calls that were served, but whose answers had not left the provider."""


@dataclass(frozen=True)
class Result:
    """The outcome of the run, and of running it again."""

    calls: int
    kills: tuple[Kill, ...]
    tally: Row
    asked_again: int
    """Number of requests for answers that were durable at a kill."""
    again: Row
    """Totals of the finished run after running it again."""
    again_served: int
    again_s: float

    @property
    def repeated(self) -> int:
        """The number of calls served for a prompt that had been served before."""
        repeated: int = self.tally["served"] - self.tally["prompts"]
        return repeated

    @property
    def at_most(self) -> int:
        """The maximum number of calls that may have been sent and not durable, over all kills."""
        return 2 * IN_FLIGHT * len(self.kills)

    def violations(self) -> list[str]:
        """The violations of the laws."""
        found = {
            "more was paid for twice than may be sent and not yet durable": self.repeated > self.at_most,
            "more was in flight than may be sent at once": max((kill.unanswered for kill in self.kills), default=0) > IN_FLIGHT,
            "what was durable was asked again": self.asked_again > 0,
            "not every call was answered": not is_done(self.again) or self.tally["prompts"] != self.calls,
            "the finished run asked again": self.again_served > 0,
            "the provider billed more than was charged": self.again["bill"] > self.again["books"] + 1e-6,
        }
        return [wrong for wrong, is_so in found.items() if is_so]


def kill_after(one: Job, n: float, deaths: list[tuple[float, int]]) -> Kill | None:
    """Start the run, and kill it when the provider has served `n` more calls. Return None if the run ended first. `deaths`: the
    time of each kill, and the number of requests that had arrived by then; this kill is added."""
    process = one.start(*INLINE)
    if not one.wait_served(process, n):
        return None
    at = time.time()
    kill_all([process.pid])
    # The provider may still read requests that the dead process wrote to its connections.
    while one.tally()["in_flight"]:
        time.sleep(0.02)
    calls = one.requests()
    deaths.append((at, len(calls)))
    served = [call for call in calls if call["served"]]
    # Answers that arrived just before a kill, or after it, may be asked for again.
    answered = [call for call in served if call["answered"]]
    lost = {
        call["n"] for call in answered if any(call["n"] < arrived and at < call["done"] + DURABLE_S for at, arrived in deaths)
    }
    durable = frozenset(call["prompt"] for call in answered if call["n"] not in lost)
    unanswered = sum(call["done"] > at and not call["answered"] for call in served)
    return Kill(len(calls), durable, unanswered)


def measure(calls: int, kills: int, seed: int = 1) -> Result:
    """Run, kill, finish, and run again."""
    chance = random.Random(seed)
    moments = [0.0, *sorted(chance.uniform(0, 0.97 * calls) for _ in range(kills))]
    with simulated_provider(*PROVIDER) as provider, job(provider, limits={"concurrency": IN_FLIGHT}, items=calls) as one:
        steps = [max(1.0, moment - before) for before, moment in itertools.pairwise(moments)]
        deaths: list[tuple[float, int]] = []
        found = [kill for step in steps if (kill := kill_after(one, step, deaths))]
        one.start(*INLINE).wait(PATIENCE_S)
        first, requests = one.tally(), one.requests()
        began = time.monotonic()
        one.start(*INLINE).wait(PATIENCE_S)
        seconds = time.monotonic() - began
        twice = sum(
            any(n >= kill.arrived and call["prompt"] in kill.answered for kill in found) for n, call in enumerate(requests)
        )
        return Result(calls, tuple(found), first, twice, one.totals(), one.tally()["served"] - first["served"], seconds)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=5000)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    found = measure(asked.calls, asked.kills, asked.seed)
    for wrong in found.violations():
        print(f"WRONG: {wrong}")
    print(f"{found.calls} calls, {len(found.kills)} kills; durable before each: {[len(one.answered) for one in found.kills]}")
    served, distinct = found.tally["served"], found.tally["prompts"]
    print(f"served {served}, distinct {distinct}: {found.repeated} paid for twice, of {found.at_most} at most")
    waited = [one.unanswered for one in found.kills]
    print(f"waited for the provider at each kill: {waited}; at most {IN_FLIGHT} may be sent at once")
    print(f"answered before a kill and asked again: {found.asked_again}")
    print(f"billed {found.again['bill']:.4f} dollars, charged {found.again['books']:.4f}")
    print(f"run again: {found.again_served} calls, {found.again_s:.2f} s")
    return 1 if found.violations() else 0


if __name__ == "__main__":
    sys.exit(main())
