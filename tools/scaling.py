"""Measures how judging scales with workers and nodes: a grid of many judgments against the simulated provider.

    python tools/scaling.py --judgments 20000 --shapes 1x1 2x1 1x1 2x2 3x3

A shape is WORKERSxNODES, with all Ray nodes on this machine. For each shape, it prints a JSON line with the judgments per second,
from the provider's first call to its last, and the CPU seconds of each kind of process. `outside` is the mean share of the
allowed concurrent calls that were not in progress.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

for folder in ("llm", "simulator", "engine", "store"):
    sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / folder))
import psutil
from big_haystacks import write_haystacks
from runs import SUMMHAY, write_spec
from s3_servers import environment, serving
from simulated_provider import KEY, Simulated, simulated_provider

PRICE = {"input_per_mtok": 2.5, "output_per_mtok": 10}
A_HAYSTACK = 54
"""Number of judgments of one haystack and retriever: nine queries with six insights each."""

CONCURRENCY = 400
LATENCY_S = 0.5
KINDS = ("WorkerActor", "LedgerActor", "MapWorker", "raylet", "gcs_server", "summhay")


def spec_of(base: str, haystacks: list[str], workers: int) -> dict[str, Any]:
    """Return the spec. All summaries and judgments are different calls."""
    known = {"api_base": base, "api_key_env": "SCALING_KEY", "price": PRICE}
    return {
        "haystacks": haystacks,
        "retrievers": ["random"],
        "token_budget": 500,
        "summarizers": [{"model": "openai/writer", **known}],
        "judges": [{"model": "openai/judge", **known}],
        "limits": {name: {"concurrency": CONCURRENCY} for name in ("openai/writer", "openai/judge")},
        "budget_usd": 10_000,
        "workers": workers,
    }


class Watching:
    """A context that measures the CPU seconds of our processes on this machine, by kind."""

    def __init__(self, top: list[int]) -> None:
        self._top = top
        self._seen: dict[int, tuple[str, float]] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Watching:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(1.0):
            for pid in self._top:
                with contextlib.suppress(psutil.Error):
                    top = psutil.Process(pid)
                    for process in [top, *top.children(recursive=True)]:
                        with contextlib.suppress(psutil.Error):
                            title = " ".join(process.cmdline())
                            kind = next((kind for kind in KINDS if kind in title), "other")
                            times = process.cpu_times()
                            self._seen[process.pid] = (kind, times.user + times.system)

    def seconds(self) -> dict[str, float]:
        """Return kind -> CPU seconds."""
        found: Counter[str] = Counter()
        for kind, used in self._seen.values():
            found[kind] += used
        return {kind: round(used, 1) for kind, used in sorted(found.items())}


@contextlib.contextmanager
def nodes_of(n: int) -> Iterator[str]:
    """Yield the address of a cluster: a head for driver and ledger, and n nodes for workers."""
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    try:
        for _ in range(n):
            cluster.add_node(num_cpus=2)
        cluster.wait_for_nodes()
        yield cluster.address
    finally:
        cluster.shutdown()


def measure(provider: Simulated, spec: Path, store: str, address: str) -> dict[str, Any]:
    """Measure one run."""
    provider.reset()
    command = [str(SUMMHAY), "run", str(spec), "--store", store, "--address", address, "--json"]
    began = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    with Watching([os.getpid()]) as watching:
        output, complaint = process.communicate()
    if process.returncode:
        raise RuntimeError(f"exit {process.returncode}: {complaint[-2000:]}")
    calls = sorted(call["time"] for call in provider.calls() if call["model"] == "judge")
    result = json.loads(output)
    between = calls[-1] - calls[0]
    cpu = watching.seconds()
    ours = cpu.get("WorkerActor", 0.0) + cpu.get("LedgerActor", 0.0)
    return {
        "judgments": len(calls),
        "per_s": round(len(calls) / between, 1),
        "outside": round(1 - len(calls) * LATENCY_S / (between * CONCURRENCY), 3),
        "cpu_ms_a_call": round(1e3 * ours / result["calls"]["made"], 2),
        "cpu_s": cpu,
        "seconds": round(time.monotonic() - began, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--judgments", type=int, default=20_000)
    parser.add_argument("--shapes", nargs="+", default=["1x1", "2x1", "2x2", "3x3"])
    parser.add_argument("--store", choices=("disk", "s3"), default="disk")
    asked = parser.parse_args()
    os.environ.update({**environment(), "SCALING_KEY": KEY, "RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"})
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        n = -(-asked.judgments // A_HAYSTACK)
        files = [str(path) for path in write_haystacks(folder / "haystacks", n, documents=10, words=60)]
        provider = stack.enter_context(simulated_provider("--latency", str(LATENCY_S), "--answers", "short"))
        server = stack.enter_context(serving("moto")) if asked.store == "s3" else None
        for number, shape in enumerate(asked.shapes):
            workers, nodes = map(int, shape.split("x"))
            spec = write_spec(folder, spec_of(provider.base, files, workers))
            store = str(folder / f"store-{number}") if server is None else server.uri(server.bucket())
            with nodes_of(nodes) as address:
                found = measure(provider, spec, store, address)
            print(json.dumps({"workers": workers, "nodes": nodes, "store": asked.store, **found}), flush=True)


if __name__ == "__main__":
    main()
