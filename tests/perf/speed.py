"""Speed of our workers against bare loops, as ratios in one run, on the same simulated endpoint.

    python tests/perf/speed.py            # judge calls of 1.5 KB, 50 ms, 64 in flight
    python tests/perf/speed.py --slow     # 2,000 in flight at 5 s

The order of the clients is rotated over the rounds, and medians are shown, since other load on the machine comes and goes.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "simulator"))
from simulated_provider import simulated_provider

CLIENTS = Path(__file__).with_name("perf_clients.py")
CALLS = {
    "bare aiohttp": 5000,
    "bare openai SDK": 1000,
    "bare litellm": 2000,
    "direct, one worker": 5000,
    "litellm, one worker": 2000,
    "litellm, two workers": 4000,
}


def measure(kind: str, base: str, calls: int, in_flight: int) -> dict[str, float]:
    """One client in a process of its own."""
    command = [sys.executable, str(CLIENTS), kind, base, str(calls), str(in_flight)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not lines:
        raise RuntimeError(f"{kind}: exit {done.returncode}\n{done.stderr[-2000:]}")
    found: dict[str, float] = json.loads(lines[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--slow", action="store_true", help="2,000 in flight at 5 s")
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    latency, in_flight = (5.0, 2000) if asked.slow else (0.05, 64)
    kinds = ["bare aiohttp", "direct, one worker"] if asked.slow else list(CALLS)
    ideal = in_flight / latency
    found: dict[str, list[dict[str, float]]] = {kind: [] for kind in kinds}
    for turn in range(asked.rounds):
        for kind in kinds[turn % len(kinds) :] + kinds[: turn % len(kinds)]:
            with simulated_provider("--answers", "short", "--latency", str(latency)) as provider:
                calls = 16_000 if asked.slow else CALLS[kind]
                found[kind].append(measure(kind, provider.base, calls, in_flight))
                print(f"round {turn + 1}: {kind}: {found[kind][-1]['calls_per_s']:.0f} calls/s", file=sys.stderr, flush=True)
    speed = {kind: statistics.median(one["calls_per_s"] for one in runs) for kind, runs in found.items()}
    cpu = {kind: statistics.median(one["cpu_ms"] for one in runs) for kind, runs in found.items()}
    print(f"{in_flight} in flight, {latency:g} s: ideal {ideal:.0f} calls/s; medians of {asked.rounds} rounds")
    print(f"{'client':24}{'calls/s':>9}{'of ideal':>10}{'of bare litellm':>17}{'CPU ms a call':>15}")
    for kind in kinds:
        ratio = f"{speed[kind] / speed['bare litellm']:.2f}" if "bare litellm" in speed else ""
        print(f"{kind:24}{speed[kind]:9.0f}{speed[kind] / ideal:10.2f}{ratio:>17}{cpu[kind]:15.2f}")


if __name__ == "__main__":
    main()
