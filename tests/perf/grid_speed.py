"""Whole runs against bare loops, in turn, on the same simulated endpoint: a grid of real calls, and its re-judging.

    python tests/perf/grid_speed.py --data shared/data/summhay                   # inline and ray, three rounds
    python tests/perf/grid_speed.py --data shared/data/summhay --executor inline --rounds 1

A grid of two released haystacks, six retrievers with contexts of 4,000 tokens and 40 repeats, 50 ms a call, 64 + 64 in flight;
and the release's own summaries judged anew, one call an insight, 128 in flight. The speed is that from the first call to the
last, as the provider saw them, and the bare loop's is the same: aiohttp with as many calls to each model, as many in flight,
prompts as long and repeated as often (the provider counts the tokens of each once), which tokenizes, logs and keeps nothing.
What is before the first call is told apart.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

for folder in ("simulator", "engine"):
    sys.path.insert(0, str(Path(__file__).parent.parent / folder))
from runs import SUMMHAY, write_spec
from simulated_provider import KEY, Simulated, simulated_provider

BARE = """
import asyncio, json, sys
import aiohttp
base, loops = sys.argv[1], json.loads(sys.argv[2])
text = "Which of these bullets says what the insight says, and does it say all of it or a part? " * 300
async def main():
    headers = {"Authorization": "Bearer KEY"}
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        async def call(gate, model, number, size):
            messages = [{"role": "user", "content": f"{number} {text}"[:size]}]
            body = {"model": model, "messages": messages, "max_tokens": 100}
            async with gate, session.post(base + "/chat/completions", json=body, headers=headers) as answer:
                await answer.json()
        calls = []
        for model, n, size, in_flight, repeats in loops:
            gate = asyncio.Semaphore(in_flight)
            calls += [call(gate, model, number // repeats, size) for number in range(n)]
        await asyncio.gather(*calls)
asyncio.run(main())
"""
REPEATS = 40
SUMMARY_SIZE, JUDGE_SIZE = 19_000, 1_500
"""Characters of a prompt, on average."""


def spec_of(folder: Path, data: Path, provider: Simulated) -> Path:
    reach = {"api_base": provider.base, "api_key_env": "SUMMHAY_TEST_KEY", "price": 0, "max_tokens": 100}
    fields = {
        "haystacks": [str(data / f"topic_news{number}.json") for number in (1, 2)],
        "retrievers": ["random", "keywords", "bm25", "oracle", "released/vector", "released/rerank3"],
        "token_budget": 4000,
        "repeats": REPEATS,
        "summarizers": [{"model": "openai/writes", **reach}],
        "judges": [{"model": "openai/judges", "strategy": "per_insight", **reach}],
        "limits": {f"openai/{name}": {"concurrency": 64} for name in ("writes", "judges")},
    }
    return write_spec(folder, fields)


def timed(provider: Simulated, command: list[str]) -> dict[str, float]:
    """Run a command; from the provider's books: calls, calls a second, and the seconds before the first one."""
    provider.reset()
    began = time.time()
    done = subprocess.run(command, capture_output=True, text=True, timeout=1200, check=False)
    whole = time.time() - began
    if done.returncode:
        raise RuntimeError(f"{command}: exit {done.returncode}\n{done.stderr[-2000:]}")
    times = sorted(call["time"] for call in provider.calls())
    first, last = times[0], times[-1]
    return {"calls": len(times), "per_s": len(times) / (last - first), "first_s": first - began, "whole_s": whole}


def bare(provider: Simulated, *loops: tuple[str, int, int, int, int]) -> dict[str, float]:
    """The speed of bare loops beside each other: (model, calls, characters of a prompt, in flight, how often a prompt comes)."""
    return timed(provider, [sys.executable, "-c", BARE.replace("KEY", KEY), provider.base, json.dumps(loops)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="the folder of topic_news1.json")
    parser.add_argument("--executor", choices=["inline", "ray"], action="append")
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    os.environ["SUMMHAY_TEST_KEY"] = KEY
    found: dict[str, list[dict[str, Any]]] = {}
    with simulated_provider("--answers", "short", "--latency", "0.05") as provider, tempfile.TemporaryDirectory() as place:
        for turn in range(asked.rounds):
            for executor in asked.executor or ["inline", "ray"]:
                folder = Path(place) / f"{executor}-{turn}"
                folder.mkdir()
                spec, told = spec_of(folder, asked.data, provider), ["--store", str(folder / "store"), "--executor", executor]
                grid = timed(provider, [str(SUMMHAY), "run", str(spec), *told])
                served = Counter(call["model"] for call in provider.calls())
                loop = bare(
                    provider,
                    ("writes", served["writes"], SUMMARY_SIZE, 64, REPEATS),
                    ("judges", served["judges"], JUDGE_SIZE, 64, 1),
                )
                files = [str(asked.data / f"topic_news{number}.json") for number in (1, 2)]
                imported = subprocess.run([str(SUMMHAY), "import", *files, *told[:2], "--json"], capture_output=True, check=True)
                run = json.loads(imported.stdout)["run"]
                judge = {"model": "openai/again", "api_base": provider.base, "api_key_env": "SUMMHAY_TEST_KEY", "price": 0}
                again = write_spec(
                    folder, {"judges": [judge | {"max_tokens": 100}], "limits": {"openai/again": {"concurrency": 128}}}
                )
                rejudged = timed(provider, [str(SUMMHAY), "rejudge", run, "--spec", str(again), *told])
                loop_again = bare(provider, ("again", int(rejudged["calls"]), JUDGE_SIZE, 128, 1))
                for name, ours, theirs in (("grid", grid, loop), ("rejudge", rejudged, loop_again)):
                    one = {**ours, "bare_per_s": theirs["per_s"], "ratio": ours["per_s"] / theirs["per_s"]}
                    found.setdefault(f"{name}, {executor}", []).append(one)
                    print(json.dumps({"round": turn + 1, "what": f"{name}, {executor}", **one}), file=sys.stderr, flush=True)
    for what, rounds in found.items():
        middle = {name: round(statistics.median(one[name] for one in rounds), 3) for name in rounds[0]}
        print(json.dumps({"what": what, **middle}))


if __name__ == "__main__":
    main()
