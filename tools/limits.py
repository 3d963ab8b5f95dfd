"""Tests that rate limits hold. It records when the requests of a run's two workers on Ray arrive at a provider.

    python tools/limits.py                       # rpm, input_tpm, retry_after and own_limit, 3 minutes each
    python tools/limits.py rpm --minutes 1
    python tools/limits.py rpm --executor inline # without Ray, in one process

`rpm` and `input_tpm` test that no sliding minute has more than the limit, and that nearly all of it is used. For `retry_after`,
the provider answers 429 at random, and nothing may arrive before the time that it asked for. `own_limit` is the same with a
provider that allows half of our limit.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

for folder in ("llm", "simulator"):
    sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / folder))
from asking_runs import PATIENCE_S, job
from fake_provider import Reply, fake_provider
from simulated_provider import Simulated, simulated_provider

RPM, INPUT_TPM = 600.0, 300_000.0
MINUTE_S = 60.0
ON_THE_WIRE_S = 0.05
"""A request that arrives within this time after a 429 was sent before the 429 arrived."""
BUSY_RPM = 6000.0
"""Limit for `retry_after`, high enough that some requests are always in transit."""
SHARE_OF_429 = 0.01
PAUSES_S = (0.5, 1.0, 2.0, 3.0)
TOKENS_A_PROMPT = 900
SIZES = (1500, 3000, 4500, 6000, 7500)
"""Lengths of the prompts, in characters."""


@dataclass(frozen=True)
class Arrivals:
    """The arrival times of requests (seconds, ascending), and the amount of the limit that each uses."""

    times: Sequence[float]
    amounts: Sequence[float]

    def most(self, seconds: float = MINUTE_S) -> float:
        """Return the largest amount in any window of this many seconds."""
        held: deque[int] = deque()
        total = most = 0.0
        for place, at in enumerate(self.times):
            held.append(place)
            total += self.amounts[place]
            while self.times[held[0]] <= at - seconds:
                total -= self.amounts[held.popleft()]
            most = max(most, total)
        return most

    def a_minute(self) -> float:
        """Return the mean amount per minute, from the first request to the last."""
        return sum(self.amounts[:-1]) / (self.times[-1] - self.times[0]) * MINUTE_S


@dataclass(frozen=True)
class Pause:
    """A 429 was sent at `at`. No request may arrive for `seconds`."""

    at: float
    seconds: float


def too_early(times: Sequence[float], pauses: Sequence[Pause], on_the_wire_s: float = ON_THE_WIRE_S) -> list[tuple[Pause, float]]:
    """Return (pause, seconds after the 429) of each request that arrived in a pause, except for those in transit when it
    began."""
    return [
        (pause, at - pause.at) for pause in pauses for at in times if pause.at + on_the_wire_s < at < pause.at + pause.seconds
    ]


def run_workers(
    provider: Any, executor: str, calls: int, sizes: Sequence[int] = (1500,), **limits: float
) -> list[dict[str, Any]]:
    """Run two workers. Return their requests in order of arrival, if the provider keeps books."""
    with job(provider, limits=limits, workers=2, items=calls, sizes=list(sizes)) as one:
        one.start("--executor", executor).wait(PATIENCE_S)
        done = one.last_document()["cells"]["done"]
        if done != calls:
            raise RuntimeError(f"{done} of {calls}: {one.stderr_text()[-2000:]}")
        return one.requests() if isinstance(provider, Simulated) else []


def rpm(provider: Simulated, limit: float, minutes: float, executor: str = "inline") -> Arrivals:
    """Return the requests of a run under a limit of requests per minute."""
    calls = run_workers(provider, executor, round(limit * minutes), rpm=limit)
    return Arrivals([call["monotonic"] for call in calls], [1.0] * len(calls))


def input_tpm(provider: Simulated, limit: float, minutes: float, executor: str = "inline") -> Arrivals:
    """Return the prompt tokens of a run, by the provider's count, under a limit of tokens. Prompts have 1.5 to 7.5 KB."""
    calls = run_workers(provider, executor, round(limit * minutes / TOKENS_A_PROMPT), SIZES, input_tpm=limit)
    return Arrivals([call["monotonic"] for call in calls], [call["tokens_in"] for call in calls])


def retry_after(calls: int, seed: int = 1, executor: str = "inline") -> tuple[list[float], list[Pause]]:
    """Return the arrivals at a provider that answers 429 at random, and its pauses, which it states in seconds or in
    milliseconds."""
    chance, pauses = random.Random(seed), {}
    with fake_provider() as provider:
        for number in range(2 * calls):
            seconds = chance.choice(PAUSES_S) if chance.random() < SHARE_OF_429 else 0.0
            headers = {"Retry-After": f"{seconds:g}"} if seconds.is_integer() else {"retry-after-ms": f"{seconds * 1000:g}"}
            provider.replies.append(Reply(status=429, headers=headers) if seconds else Reply(delay_s=0.05))
            pauses[number] = seconds
        run_workers(provider, executor, calls, rpm=BUSY_RPM)
        times = list(provider.times)
    return times, [Pause(at, pauses[number]) for number, at in enumerate(times) if pauses[number]]


def own_limit(limit: float, minutes: float, executor: str = "inline") -> tuple[list[float], list[Pause]]:
    """Return the arrivals at a provider that allows half of our limit, and its pauses. A pause lasts until the oldest request is
    a minute old."""
    with simulated_provider("--answers", "short", "--latency", "0.05", "--rpm", str(limit / 2)) as provider:
        calls = run_workers(provider, executor, round(limit / 2 * minutes), rpm=limit)
    let_in: deque[float] = deque()
    pauses = []
    for call in calls:
        at = call["monotonic"]
        if call["status"] == 429:
            pauses.append(Pause(at, let_in[-round(limit / 2)] + MINUTE_S - at))
        else:
            let_in.append(at)
    return [call["monotonic"] for call in calls], pauses


def print_limit(name: str, measure: Callable[..., Arrivals], limit: float, minutes: float, executor: str) -> bool:
    """Measure and print. Return whether the limit held."""
    with counting_provider() as provider:
        found = measure(provider, limit, minutes, executor)
    most, used = found.most(), found.a_minute() / limit
    print(f"{name}: {len(found.times)} requests; most in a minute {most:,.0f} of {limit:,.0f}; {used:.2%} used", flush=True)
    return most <= limit and used >= 0.95


def counting_provider() -> Any:
    """Return a provider without limits."""
    return simulated_provider("--answers", "short", "--latency", "0.2", "--latency-spread", "0.5")


def print_pauses(name: str, found: tuple[list[float], list[Pause]]) -> bool:
    """Print the result. Return whether the pauses were kept."""
    times, pauses = found
    late = [after for _, after in too_early(times, pauses, 0.0)]
    wrong = too_early(times, pauses)
    wire = f"{len(late)} arrived in a pause, the last {max(late, default=0.0) * 1000:.1f} ms after its 429"
    print(f"{name}: {len(times)} requests, {len(pauses)} answered 429; {wire}; {len(wrong)} too early", flush=True)
    return not wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    every = ("rpm", "input_tpm", "retry_after", "own_limit")
    parser.add_argument("what", nargs="?", choices=[*every, "all"], default="all")
    parser.add_argument("--minutes", type=float, default=3.0)
    parser.add_argument("--executor", choices=("inline", "ray"), default="ray")
    wanted = parser.parse_args()
    held, began = [], time.monotonic()
    for what in every if wanted.what == "all" else (wanted.what,):
        if what == "rpm":
            held.append(print_limit(what, rpm, RPM, wanted.minutes, wanted.executor))
        elif what == "input_tpm":
            held.append(print_limit(what, input_tpm, INPUT_TPM, wanted.minutes, wanted.executor))
        elif what == "retry_after":
            held.append(print_pauses(what, retry_after(round(1000 * wanted.minutes), executor=wanted.executor)))
        else:
            held.append(print_pauses(what, own_limit(RPM, wanted.minutes, wanted.executor)))
    print(f"{time.monotonic() - began:.0f} s; {'all held' if all(held) else 'NOT HELD'}")
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main())
