"""Nothing is paid for twice: one run over two gateways, SIGKILLed at random, started again, and what the provider served.

    python tests/perf/twice.py                            # 5,000 calls, 20 kills
    python tests/perf/twice.py --calls 600 --kills 3

Served calls less distinct ones are at most the calls in flight at the kills: sent, and no answer on disk. No more of them wait
for the provider than may be sent at once; the others have just been answered. What the log held at a kill is never asked again;
the finished run, run again, asks for nothing.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "simulator"))
from paid_worker import Job, finish, kill, prompt_of, request_of, start
from simulated_provider import Simulated, fingerprint, simulated_provider

from summhay_ray.store import LogIndex, Store

KEY = "sk-twice-0123456789"
IN_FLIGHT = 64
LOOK_EVERY_S = 0.02
PATIENCE_S = 120.0
PROVIDER = ("--answers", "short", "--latency", "0.1", "--latency-spread", "0.9", "--token-skew", "0.1", "--no-usage", "0.05")


@dataclass(frozen=True)
class Kill:
    """What the log held when the worker was dead, and how many requests had arrived by then."""

    arrived: int
    answered: frozenset[str]
    unanswered: int
    """Calls of the dead that were served, and whose answers had not left the provider."""
    unwritten: int
    """Calls of the dead whose answers had left the provider, and had not reached the disk."""

    @property
    def in_flight(self) -> int:
        """Both."""
        return self.unanswered + self.unwritten


@dataclass(frozen=True)
class Result:
    """What became of the run, and of the run again."""

    calls: int
    kills: tuple[Kill, ...]
    tally: Mapping[str, Any]
    asked_again: int
    """Requests for what the log had answered at a kill."""
    again: Mapping[str, Any]
    again_served: int
    again_s: float
    charged: int

    @property
    def repeated(self) -> int:
        """Calls served for a prompt that had been served before."""
        repeated: int = self.tally["served"] - self.tally["prompts"]
        return repeated

    @property
    def in_flight(self) -> int:
        """Over all kills."""
        return sum(kill.in_flight for kill in self.kills)

    def wrongs(self) -> list[str]:
        """What must not be."""
        found = {
            "more was paid for twice than was in flight at the kills": self.repeated > self.in_flight,
            "more was in flight than may be sent at once": max((kill.unanswered for kill in self.kills), default=0) > IN_FLIGHT,
            "what was in the log was asked again": self.asked_again > 0,
            "not every call was answered": self.again["ends"] != {"answer": self.calls} or self.tally["prompts"] != self.calls,
            "the finished run asked again": self.again_served > 0 or self.again.get("reused") != self.calls,
            "the provider billed more than was charged": self.tally["micros"] > self.charged,
        }
        return [wrong for wrong, is_so in found.items() if is_so]


def tally(provider: Simulated) -> dict[str, Any]:
    """What the run has been billed; nothing before its first request."""
    models = provider.stats()["keys"].get(fingerprint(KEY), {"models": {}})["models"]
    return dict(models.get("gpt-fair", {"served": 0, "prompts": 0, "micros": 0, "in_flight": 0}))


def log_of(job: Job) -> LogIndex:
    """The log as it stands."""
    index = LogIndex(Store(job.store).files)
    index.refresh()
    return index


def keys_of(job: Job) -> dict[str, str]:
    """The provider's name of each prompt -> its key in the log."""
    return {hashlib.sha256(prompt_of(job, n).encode()).hexdigest(): request_of(job, n).key for n in range(job.calls)}


def killed(provider: Simulated, job: Job, at: int) -> Kill | None:
    """Start the worker, and kill it when the provider has served so many distinct calls; None where it ended before."""
    arrived = provider.stats()["requests"]
    process, end = start(job, KEY), time.monotonic() + PATIENCE_S
    while tally(provider)["prompts"] < at and process.poll() is None and time.monotonic() < end:
        time.sleep(LOOK_EVERY_S)
    if not kill(process):
        return None
    # What the dead had written to their connections is still read, and it is theirs.
    while tally(provider)["in_flight"] and time.monotonic() < end:
        time.sleep(LOOK_EVERY_S)
    calls, answers, key_of = provider.calls(), log_of(job).answers, keys_of(job)
    lost = [call for call in calls[arrived:] if call["served"] and key_of[call["prompt"]] not in answers]
    unwritten = sum(call["answered"] for call in lost)
    return Kill(len(calls), frozenset(answers), len(lost) - unwritten, unwritten)


def measure(calls: int, kills: int, folder: Path, seed: int = 1) -> Result:
    """Run, kill, run to the end, and run again."""
    chance = random.Random(seed)
    moments = sorted(chance.uniform(0, 0.97 * calls) for _ in range(kills))
    with simulated_provider(*PROVIDER) as provider:
        job = Job(str(folder / "store"), provider.base, calls, gateways=2, in_flight=IN_FLIGHT, small=True, budget_micros=10**9)
        found = [one for moment in moments if (one := killed(provider, job, round(moment)))]
        finish(start(job, KEY))
        first, requests = tally(provider), provider.calls()
        began = time.monotonic()
        again = finish(start(job, KEY))
        seconds = time.monotonic() - began
        served = tally(provider)["served"] - first["served"]
    key_of = keys_of(job)
    twice = sum(any(call["n"] >= one.arrived and key_of[call["prompt"]] in one.answered for one in found) for call in requests)
    return Result(calls, tuple(found), first, twice, again, served, seconds, log_of(job).spent(job.run))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=5000)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="twice-") as folder:
        found = measure(asked.calls, asked.kills, Path(folder), asked.seed)
    for wrong in found.wrongs():
        print(f"WRONG: {wrong}")
    print(f"{found.calls} calls, {len(found.kills)} kills; in the log before each: {[len(one.answered) for one in found.kills]}")
    served, distinct = found.tally["served"], found.tally["prompts"]
    print(f"served {served}, distinct {distinct}: {found.repeated} paid for twice, of {found.in_flight} in flight at the kills")
    waited, written = (sum(getattr(one, name) for one in found.kills) for name in ("unanswered", "unwritten"))
    print(f"of those, {waited} waited for the provider and {written} for the disk; at most {IN_FLIGHT} may be sent at once")
    print(f"answered before a kill and asked again: {found.asked_again}")
    print(f"billed {found.tally['micros'] / 1e6:.4f} dollars, charged {found.charged / 1e6:.4f}")
    print(f"run again: {found.again_served} calls, {found.again['seconds']:.2f} s ({found.again_s:.2f} s with its start)")
    return 1 if found.wrongs() else 0


if __name__ == "__main__":
    sys.exit(main())
