"""The ledger before many workers: what it grants a second, and how long a claim waits, with up to a thousand clients.

    python tests/perf/ledger_speed.py --workers 1 10 100 1000

Each client is a worker's `LedgerClient` (claims, settlements, listening, beats) in one of a few Ray actors; its calls take a
second and ask nobody. Prints one JSON line a number of workers: calls a second, of the ideal, and milliseconds from a claim
until its call may be sent.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import tempfile
import time
from typing import Any

import ray

from summhay_ray.engine.ledger_actor import LedgerActor, RemoteLedger
from summhay_ray.llm import Budgets, Claim, Limits, Settlement
from summhay_ray.llm.ledger_client import LedgerClient
from summhay_ray.store import Store

MODEL = "openai/m"
CALL_S = 1.0
HOSTS = 2
WARM_S = 5.0


@ray.remote(num_cpus=0)
class Clients:
    """Some workers of one process."""

    def __init__(self, ledger: Any, first: int, n: int, in_flight: int) -> None:
        self._clients = [LedgerClient(RemoteLedger(ledger, f"w{first + number}"), frozenset({MODEL})) for number in range(n)]
        self._first, self._in_flight = first, in_flight
        self._waits: list[float] = []
        self._done = self._sent = 0
        self._counting = False

    async def work(self, seconds: float) -> tuple[int, list[float]]:
        """Calls that ended while it was counted, and seconds from a claim until its call may be sent."""
        ends = asyncio.get_running_loop().time() + WARM_S + seconds
        tasks = [
            asyncio.ensure_future(self._lane(client, f"{self._first + number}-{lane}", ends))
            for number, client in enumerate(self._clients)
            for lane in range(self._in_flight)
        ]
        await asyncio.sleep(WARM_S)
        self._counting = True
        await asyncio.sleep(seconds)
        self._counting = False
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return self._done, self._waits

    async def _lane(self, client: LedgerClient, name: str, ends: float) -> None:
        loop, n = asyncio.get_running_loop(), 0
        # Not all in the same instant: calls of a real run are spread over their latency.
        await asyncio.sleep(CALL_S * (hash(name) % 1000) / 1000)
        while loop.time() < ends:
            began, key = loop.time(), f"{name}-{n}"
            n += 1
            granted = await client.claim(Claim(key, MODEL, "judge", 1000, 500, 50, name))
            async with client.slot(MODEL):
                waited = loop.time() - began
                await asyncio.sleep(CALL_S)
            client.settle(Settlement(key, MODEL, 500, None, 500, 50))
            if self._counting and granted.grant.state == "go":
                self._done += 1
                self._waits.append(waited)


def measure(workers: int, in_flight: int, seconds: float) -> dict[str, Any]:
    """One number of workers, each with so many calls in flight."""
    with tempfile.TemporaryDirectory() as folder:
        Store(folder).create_run("r", {"kind": "grid"}, ())
        limits = {MODEL: Limits(concurrency=workers * in_flight)}
        ledger = LedgerActor.remote((folder, "r"), (1, "here"), Budgets(10**12), limits)
        shares = [workers // HOSTS + (host < workers % HOSTS) for host in range(HOSTS)]
        hosts = [Clients.remote(ledger, sum(shares[:host]), share, in_flight) for host, share in enumerate(shares) if share]
        ray.get(ledger.begin.remote())
        began = time.monotonic()
        results = [host.work.remote(seconds) for host in hosts]
        while True:
            # The driver's sign of life.
            ready, _ = ray.wait(results, num_returns=len(results), timeout=0.25)
            ray.get(ledger.snapshot.remote())
            if len(ready) == len(results):
                break
        counted = ray.get(results)
        waits = sorted(wait for _, listed in counted for wait in listed)
        done = sum(number for number, _ in counted)
        for actor in [*hosts, ledger]:
            ray.kill(actor)
    cuts = statistics.quantiles(waits, n=100) if len(waits) > 1 else [0.0] * 99
    return {
        "workers": workers,
        "in_flight": workers * in_flight,
        "calls_per_s": round(done / seconds, 1),
        "of_ideal": round(done / seconds / (workers * in_flight / CALL_S), 3),
        "wait_ms": {"p50": round(cuts[49] * 1e3, 1), "p99": round(cuts[98] * 1e3, 1)},
        "seconds": round(time.monotonic() - began, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 10, 100, 1000])
    parser.add_argument("--in-flight", type=int, default=1, help="calls of each worker at once")
    parser.add_argument("--seconds", type=float, default=20.0)
    asked = parser.parse_args()
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    folder = tempfile.mkdtemp(prefix="s-")
    ray.init(address="local", include_dashboard=False, log_to_driver=False, logging_level="ERROR", _temp_dir=folder)
    for workers in asked.workers:
        print(json.dumps(measure(workers, asked.in_flight, asked.seconds)), flush=True)


if __name__ == "__main__":
    main()
