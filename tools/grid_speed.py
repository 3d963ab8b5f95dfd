"""Compares the speed of whole runs with that of bare loops on the same simulated endpoint: a grid of calls, and its re-judging.

    python tools/grid_speed.py --data shared/data/summhay                    # both, inline and on Ray, three rounds
    python tools/grid_speed.py --data shared/data/summhay --what grid
    python tools/grid_speed.py --data shared/data/summhay --what rejudge --in-flight 128
    python tools/grid_speed.py --data shared/data/summhay --executor inline --rounds 1

The grid has two released haystacks, six retrievers with contexts of 4,000 tokens and eight models. The models' summaries differ,
so that each is judged by separate calls. A call takes 50 ms, and 64 + 64 are in flight. The re-judging judges the release's own
summaries again, with one call per insight and 64 in flight (`--in-flight`).

The speed is measured by the provider, from the first call to the last. The bare loop uses aiohttp, with the same number of calls
to each model and in flight. Its prompts have the same length and are repeated as often, since the provider counts the tokens of
each prompt once. It does not tokenize, log or store anything. The time before the first call is reported separately.
"""

from __future__ import annotations

import argparse
import itertools
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
    sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / folder))
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
MODELS = [f"openai/writes-{number}" for number in range(8)]
SUMMARY_SIZE, JUDGE_SIZE = 19_000, 1_500
"""Mean length of a prompt, in characters."""


def spec_of(folder: Path, data: Path, provider: Simulated) -> Path:
    reach = {"api_base": provider.base, "api_key_env": "SUMMHAY_TEST_KEY", "price": 0, "max_tokens": 100}
    fields = {
        "haystacks": [str(data / f"topic_news{number}.json") for number in (1, 2)],
        "retrievers": ["random", "keywords", "bm25", "oracle", "released/vector", "released/rerank3"],
        "token_budget": 4000,
        "summarizers": [{"model": name, **reach} for name in MODELS],
        "judges": [{"model": "openai/judges", "strategy": "per_insight", **reach}],
        "limits": {**{name: {"concurrency": 8} for name in MODELS}, "openai/judges": {"concurrency": 64}},
    }
    return write_spec(folder, fields)


def run_timed(provider: Simulated, command: list[str]) -> dict[str, float]:
    """Run a command. Return, from the provider's books, the calls, the calls per second, and the seconds before the first
    call."""
    provider.reset()
    began = time.time()
    done = subprocess.run(command, capture_output=True, text=True, timeout=1200, check=False)
    whole = time.time() - began
    if done.returncode:
        raise RuntimeError(f"{command}: exit {done.returncode}\n{done.stderr[-2000:]}")
    times = sorted(call["time"] for call in provider.calls())
    first, last = times[0], times[-1]
    return {"calls": len(times), "per_s": len(times) / (last - first), "first_s": first - began, "whole_s": whole}


def bare_loops(provider: Simulated, *loops: tuple[str, int, int, int, int]) -> dict[str, float]:
    """Return the speed of concurrent bare loops. Each is (model, calls, characters of a prompt, calls in flight, repeats of a
    prompt)."""
    return run_timed(provider, [sys.executable, "-c", BARE.replace("KEY", KEY), provider.base, json.dumps(loops)])


def measure_grid(folder: Path, asked: argparse.Namespace, provider: Simulated, extra: list[str]) -> tuple[dict[str, float], ...]:
    """Return the speed of the grid and of the bare loops."""
    ours = run_timed(provider, [str(SUMMHAY), "run", str(spec_of(folder, asked.data, provider)), *extra])
    served = Counter(call["model"] for call in provider.calls())
    judged = served.pop("judges")
    loops = ("writes", served.total(), SUMMARY_SIZE, 64, len(MODELS)), ("judges", judged, JUDGE_SIZE, 64, 1)
    return ours, bare_loops(provider, *loops)


def measure_rejudge(
    folder: Path, asked: argparse.Namespace, provider: Simulated, extra: list[str]
) -> tuple[dict[str, float], ...]:
    """Return the speed of the re-judging and of the bare loop."""
    files = [str(asked.data / f"topic_news{number}.json") for number in (1, 2)]
    imported = subprocess.run([str(SUMMHAY), "import", *files, *extra[:2], "--json"], capture_output=True, check=True)
    run = json.loads(imported.stdout)["run"]
    judge = {"model": "openai/again", "api_base": provider.base, "api_key_env": "SUMMHAY_TEST_KEY", "price": 0, "max_tokens": 100}
    spec = write_spec(folder, {"judges": [judge], "limits": {"openai/again": {"concurrency": asked.in_flight}}})
    ours = run_timed(provider, [str(SUMMHAY), "rejudge", run, "--spec", str(spec), *extra])
    return ours, bare_loops(provider, ("again", int(ours["calls"]), JUDGE_SIZE, asked.in_flight, 1))


MEASURES = {"grid": measure_grid, "rejudge": measure_rejudge}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the folder of topic_news1.json")
    parser.add_argument("--what", choices=MEASURES, action="append", help="both if left out")
    parser.add_argument("--in-flight", type=int, default=64, help="calls in flight of the re-judging")
    parser.add_argument("--executor", choices=["inline", "ray"], action="append", help="both if left out")
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    os.environ["SUMMHAY_TEST_KEY"] = KEY
    found: dict[str, list[dict[str, Any]]] = {}
    with simulated_provider("--answers", "short", "--latency", "0.05") as provider, tempfile.TemporaryDirectory() as place:
        turns = itertools.product(range(asked.rounds), asked.executor or ["inline", "ray"], asked.what or MEASURES)
        for turn, executor, what in turns:
            folder = Path(place) / f"{what}-{executor}-{turn}"
            folder.mkdir()
            ours, theirs = MEASURES[what](folder, asked, provider, ["--store", str(folder / "store"), "--executor", executor])
            one = {**ours, "bare_per_s": theirs["per_s"], "ratio": ours["per_s"] / theirs["per_s"]}
            found.setdefault(f"{what}, {executor}", []).append(one)
            print(json.dumps({"round": turn + 1, "what": f"{what}, {executor}", **one}), file=sys.stderr, flush=True)
    for name, rounds in found.items():
        middle = {field: round(statistics.median(one[field] for one in rounds), 3) for field in rounds[0]}
        print(json.dumps({"what": name, **middle}))


if __name__ == "__main__":
    main()
