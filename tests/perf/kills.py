"""Real runs on Ray, their workers and drivers killed at random moments: what is paid twice, and for how long it is paid on.

    python tests/perf/kills.py --drivers 20 --workers 50

Prints one JSON line: calls served, distinct ones, calls in flight at the kills, answers logged twice, seconds from a driver's
SIGKILL to the last request that the provider got, and the calls and seconds of the finished run run again.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

for folder in ("llm", "simulator", "engine"):
    sys.path.insert(0, str(Path(__file__).parent.parent / folder))
from runs import kill_worker, log_records, start, summhay, write_spec
from simulated_provider import KEY, Simulated, simulated_provider

PRICE = {"input_per_mtok": 2.5, "output_per_mtok": 10}
SETTLED_S = 4.0
"""So long after a kill, nothing that was sent before it is still on its way."""


def spec_of(base: str, judges: int, key_env: str = "KILLS_KEY") -> dict[str, Any]:
    """About 220 calls a judge, and 64 summaries; every call is another one."""
    known = {"api_base": base, "api_key_env": key_env, "price": PRICE}
    names = [f"openai/judge-{number:02}" for number in range(judges)]
    return {
        "haystacks": ["sample/news", "sample/conversation"],
        "retrievers": ["random", "keywords", "bm25", "oracle", "full"],
        "token_budget": 1500,
        "summarizers": [{"model": "openai/writer", **known}],
        "judges": [{"model": name, **known} for name in names],
        "limits": {name: {"concurrency": 4} for name in names},
        "budget_usd": 1000,
    }


class Killer:
    """One store, one provider; counts what was in flight whenever something was killed."""

    def __init__(self, provider: Simulated, spec: Path, store: Path, seed: int) -> None:
        self.provider, self.spec, self.store, self.random = provider, spec, store, random.Random(seed)
        self.in_flight = self.worker_kills = self.driver_kills = 0
        self.late: list[float] = []

    def session(self, worker_kills: int, calls: int) -> bool:
        """One driver: let it make about so many calls, kill workers on the way, then the driver. False where it ended before."""
        served = self.provider.stats()["served"]
        process = start(self.spec, self.store, "--executor", "ray")
        marks = sorted(self.random.randrange(1, calls) for _ in range(worker_kills))
        for mark in marks:
            if not self._wait(process, served + mark):
                return False
            self.in_flight += self.provider.stats()["in_flight"]
            self.worker_kills += kill_worker(process.pid)
        if not self._wait(process, served + calls):
            return False
        self._kill_driver(process)
        return True

    def _kill_driver(self, process: subprocess.Popen[bytes]) -> None:
        self.in_flight += self.provider.stats()["in_flight"]
        killed = time.time()
        process.send_signal(signal.SIGKILL)
        process.communicate()
        self.driver_kills += 1
        time.sleep(SETTLED_S)
        self.late.append(max((call["time"] for call in self.provider.calls()), default=killed) - killed)

    def _wait(self, process: subprocess.Popen[bytes], served: int) -> bool:
        while self.provider.stats()["served"] < served:
            if process.poll() is not None:
                return False
            time.sleep(0.05)
        return True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--drivers", type=int, default=20)
    parser.add_argument("--workers", type=int, default=50)
    parser.add_argument("--judges", type=int, default=24)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    os.environ["KILLS_KEY"] = KEY
    with simulated_provider("--latency", "1", "--latency-spread", "0.5") as provider, tempfile.TemporaryDirectory() as folder:
        spec, store = write_spec(Path(folder), spec_of(provider.base, asked.judges)), Path(folder) / "store"
        killer = Killer(provider, spec, store, asked.seed)
        calls = 220 * asked.judges * 9 // 10 // asked.drivers
        for number in range(asked.drivers):
            more = asked.workers // asked.drivers + (number < asked.workers % asked.drivers)
            if not killer.session(more, calls):
                break
            print(
                f"{number + 1}: {killer.worker_kills} workers killed, last call {killer.late[-1]:.2f} s",
                file=sys.stderr,
                flush=True,
            )
        done = summhay("run", spec, "--store", store, "--executor", "ray")
        stats = provider.stats()
        answers = Counter(record["key"] for record in log_records(store) if record["kind"] == "answer")
        began = time.monotonic()
        again = summhay("run", spec, "--store", store, "--executor", "ray")
        report = {
            "driver_kills": killer.driver_kills,
            "worker_kills": killer.worker_kills,
            "served": stats["served"],
            "distinct": len(answers),
            "served_twice": stats["served"] - len(answers),
            "in_flight_at_kills": killer.in_flight,
            "answers_logged_twice": sum(n - 1 for n in answers.values()),
            "last_call_after_driver_kill_s": round(max(killer.late, default=0.0), 2),
            "billed_micros": stats["micros"],
            "spent_micros": round(done["usd"]["spent"] * 1e6),
            "cells": done["cells"],
            "again_calls": again["calls"]["made"] + provider.stats()["served"] - stats["served"],
            "again_s": round(time.monotonic() - began, 2),
        }
    print(json.dumps(report))


if __name__ == "__main__":
    main()
