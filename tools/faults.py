"""Runs a grid while its drivers, workers and nodes are killed, some before or after a write, on disk and on S3.

    python tools/faults.py --store s3 --drivers 100 --workers 50 --nodes 10 --steps 2

It prints one JSON line with the kills, the lost or repeated rows, the calls that the provider served twice, and the calls that
were open at the kills. It also shows whether the tables have the same hashes as those of an undisturbed run.

A step is a kind of object that an undisturbed run writes. For each step, a driver dies before and after one such write, in a
separate store, and its run is then finished. `steps` has the same figures for each step.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

for folder in ("llm", "simulator", "engine", "store"):
    sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / folder))
from fault_proxy import Fault, FaultProxy
from runs import at_most, descendants, start, summhay, write_spec
from s3_servers import S3Server, environment, serving
from simulated_provider import KEY, Simulated, simulated_provider

SETTLED_S = 2.5
"""Seconds after a driver's SIGKILL at which none of its requests is in transit any more."""

WRITES = ("PUT", "POST", "DELETE")
NUMBERS = r"[0-9a-f]{6,}|[0-9]+"
DURABLE_S = 0.5
"""Seconds from a reply until its answer is durable."""

PRICE = {"input_per_mtok": 2.5, "output_per_mtok": 10}
TRIES = 3


def spec_of(base: str, judges: int, at_once: int = 4) -> dict[str, Any]:
    """Return a spec with 64 summaries and about 220 calls per judge. All calls differ, and `at_once` of them are in flight."""
    known = {"api_base": base, "api_key_env": "FAULTS_KEY", "price": PRICE}
    names = [f"openai/judge-{number:02}" for number in range(judges)]
    return {
        "haystacks": ["sample/news", "sample/conversation"],
        "retrievers": ["random", "keywords", "bm25", "oracle", "full"],
        "token_budget": 1500,
        "summarizers": [{"model": "openai/writer", **known}],
        "judges": [{"model": name, **known} for name in names],
        "limits": {name: {"concurrency": at_once} for name in names},
        "budget_usd": 1000,
        "workers": 2,
    }


@dataclass
class Tolls:
    """The kills, and the number of calls that were open at that time: sent and not yet durable."""

    drivers: int = 0
    workers: int = 0
    nodes: int = 0
    open_calls: int = 0
    late_s: list[float] = field(default_factory=list)


@dataclass
class Stage:
    """A store and a provider, and the processes that may be killed."""

    provider: Simulated
    spec: Path
    store: str
    random: random.Random
    proxy: FaultProxy | None = None
    cluster: Any = None
    executor: str = "ray"
    tolls: Tolls = field(default_factory=Tolls)
    said: IO[bytes] = field(default_factory=tempfile.TemporaryFile)
    """The stderr of the last driver. It is a file, since it may exceed a pipe."""

    def driver(self) -> subprocess.Popen[bytes]:
        """Start a run in the background."""
        self.said = tempfile.TemporaryFile()  # noqa: SIM115 (read when the driver has ended)
        return start(
            self.spec,
            self.store,
            *(["--address", self.cluster.address] if self.cluster else ["--executor", self.executor]),
            into=self.said,
        )

    def served(self) -> int:
        """Return the number of calls that the provider has received."""
        return int(self.provider.stats()["served"])

    def wait(self, process: subprocess.Popen[bytes], served: int) -> bool:
        """Wait until the provider has served `n` calls. Return False if the run ends first."""
        while self.served() < served:
            if process.poll() is not None:
                return False
            time.sleep(0.03)
        return True

    def note_open(self, at: float) -> None:
        """Count the calls that were sent before this time and whose answers may not be durable."""
        calls = self.provider.calls()
        self.tolls.open_calls += sum(call["time"] <= at and (not call["done"] or call["done"] > at - DURABLE_S) for call in calls)

    def kill_driver(self, process: subprocess.Popen[bytes]) -> None:
        """Kill the driver, and record the open and late calls."""
        killed = time.time()
        process.send_signal(signal.SIGKILL)
        process.wait()
        self.tolls.drivers += 1
        time.sleep(SETTLED_S)
        self.note_open(killed)
        self.tolls.late_s.append(max((call["time"] for call in self.provider.calls()), default=killed) - killed)

    def kill_worker(self, process: subprocess.Popen[bytes]) -> None:
        """Kill one of the workers that make calls."""
        top = os.getpid() if self.cluster else process.pid
        found = [pid for pid, title in descendants(top) if "WorkerActor" in title]
        if found:
            os.kill(self.random.choice(found), signal.SIGKILL)
            self.note_open(time.time())
            self.tolls.workers += 1

    def kill_node(self) -> None:
        """Kill a raylet and all processes of its node. A new node with another disk replaces it."""
        nodes = [node for node in self.cluster.worker_nodes if node is not self.cluster.head_node]
        self.note_open(time.time())
        self.cluster.remove_node(self.random.choice(nodes), allow_graceful=False)
        self.tolls.nodes += 1
        add_node(self.cluster)

    def die_at(self, process: subprocess.Popen[bytes], step: tuple[str, str], after: bool) -> None:
        """Kill the driver when the proxy sees the step, and restart it."""
        assert self.proxy is not None
        struck: list[float] = []

        def strike() -> None:
            struck.append(time.time())
            os.kill(process.pid, signal.SIGKILL)

        with self.proxy.during(Fault("after" if after else "before", times=1, method=step[0], key=step[1], act=strike)):
            process.wait()
        if not struck or process.returncode != -signal.SIGKILL:
            raise RuntimeError(f"{step}: the run ended with {process.returncode} before that")
        self.tolls.drivers += 1
        time.sleep(SETTLED_S)
        self.note_open(struck[0])
        self.end(self.driver())

    def end(self, process: subprocess.Popen[bytes]) -> None:
        """Wait for the end of the run. Raise RuntimeError if it failed."""
        if process.wait():
            self.said.seek(0)
            raise RuntimeError(f"the last run ended with {process.returncode}: {self.said.read().decode()[-2000:]}")


def steps_of(proxy: FaultProxy) -> list[tuple[str, str]]:
    """Return (method, regex of the key) of each kind of write, in order of first use. Keys that differ only in numbers and hashes
    are of one kind."""
    kinds = dict.fromkeys(
        (seen.method, "#".join(map(re.escape, re.split(NUMBERS, seen.key.partition("/")[2]))))
        for seen in proxy.requests
        if seen.method in WRITES
    )
    return [(method, kind.replace("#", f"({NUMBERS})") + "$") for method, kind in kinds]


def add_node(cluster: Any) -> None:
    """Add a node."""
    for left in reversed(range(TRIES)):
        try:
            cluster.add_node(num_cpus=1)
            return
        # Ray gives a node 30 s to start, which a busy machine exceeds, and raises a bare Exception.
        except Exception:
            if not left:
                raise


@contextlib.contextmanager
def cluster_of(nodes: int) -> Iterator[Any]:
    """Yield a cluster: a head that has no CPUs for cells, and `nodes` further nodes."""
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    try:
        for _ in range(nodes):
            add_node(cluster)
        cluster.wait_for_nodes()
        yield cluster
    finally:
        cluster.shutdown()


def play(stage: Stage, kills: argparse.Namespace, calls: int) -> None:
    """Kill the given numbers of processes, spread over the run, until the run is done or all kills are made."""
    left = {"driver": kills.drivers, "worker": kills.workers, "node": kills.nodes if stage.cluster else 0}
    apart = max(2, calls // (2 + max(1, sum(left.values()))))
    process = stage.driver()
    until = time.monotonic() + 60 * kills.minutes
    while sum(left.values()) and time.monotonic() < until:
        if not stage.wait(process, stage.served() + stage.random.randint(1, 2 * apart)):
            break
        kind = stage.random.choice([kind for kind, n in left.items() for _ in range(n)])
        left[kind] -= 1
        if kind == "driver":
            stage.kill_driver(process)
            process = stage.driver()
        elif kind == "worker":
            stage.kill_worker(process)
        else:
            stage.kill_node()
        print(f"{kind}: {left} left, {stage.served()} served", file=sys.stderr, flush=True)
    stage.end(process)


def play_steps(provider: Simulated, spec: Path, server: S3Server, proxy: FaultProxy, times: int) -> dict[str, dict[str, Any]]:
    """Return step -> the report of a run whose driver died at this step."""

    def new() -> Stage:
        provider.reset()
        return Stage(provider, spec, server.uri(server.bucket(), url=proxy.url), random.Random(), proxy, executor="inline")

    proxy.requests.clear()
    whole, found = new(), dict[str, dict[str, Any]]()
    done = summhay("run", spec, "--store", whole.store, "--executor", "inline")
    clean = summhay("status", done["run"], "--store", whole.store)["tables"]
    for step, after, turn in itertools.product(steps_of(proxy), (False, True), range(times)):
        stage, name = new(), f"{'after' if after else 'before'} {step[0]} {step[1]}" + (f", {turn + 1}" if turn else "")
        stage.die_at(stage.driver(), step, after)
        found[name] = report_of(stage, clean)
        print(name, json.dumps(found[name]), file=sys.stderr, flush=True)
    return found


def report_of(stage: Stage, clean: dict[str, Any]) -> dict[str, Any]:
    """Return the figures of a run, compared with the tables of an undisturbed run."""
    before, distinct = stage.served(), stage.provider.stats()["prompts"]
    again = summhay("run", stage.spec, "--store", stage.store, "--executor", "inline")
    tables = summhay("status", again["run"], "--store", stage.store)["tables"]
    tolls = stage.tolls
    return {
        "killed": {"drivers": tolls.drivers, "workers": tolls.workers, "nodes": tolls.nodes},
        "equal": tables == clean,
        "unequal": sorted(name for name in clean if tables.get(name) != clean[name]),
        "cells": again["cells"],
        "served": before,
        "distinct": distinct,
        "served_twice": before - distinct,
        "open_at_kills": tolls.open_calls,
        "again_calls": again["calls"]["made"] + stage.served() - before,
        "last_call_after_driver_kill_s": round(max(tolls.late_s, default=0.0), 2),
        "billed_micros": stage.provider.stats()["micros"],
        "spent_micros": round(at_most(again) * 1e6),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", choices=("disk", "s3"), default="disk")
    parser.add_argument("--drivers", type=int, default=20)
    parser.add_argument("--workers", type=int, default=10)
    parser.add_argument("--nodes", type=int, default=0, help="number of nodes to kill, in a cluster of three and a head")
    parser.add_argument("--steps", type=int, default=0, help="number of times to die before and after each kind of write (S3)")
    parser.add_argument("--judges", type=int, default=8)
    parser.add_argument("--minutes", type=float, default=1e6, help="maximum number of kills")
    parser.add_argument("--latency", default="0.5")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    os.environ.update({**environment(), "FAULTS_KEY": KEY, "RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"})
    began = time.monotonic()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        provider = stack.enter_context(
            simulated_provider("--latency", asked.latency, "--latency-spread", "0.5", "--cache-lifetime", "0")
        )
        spec = write_spec(folder, spec_of(provider.base, asked.judges))
        store, bare, proxy, steps = str(folder / "store"), str(folder / "clean"), None, dict[str, dict[str, Any]]()
        if asked.store == "s3":
            server = stack.enter_context(serving("moto"))
            proxy = stack.enter_context(FaultProxy(server.url))
            store, bare = (server.uri(server.bucket(), url=proxy.url) for _ in range(2))
            if asked.steps:
                (folder / "steps").mkdir()
                once = write_spec(folder / "steps", spec_of(provider.base, 1, at_once=64))
                steps = play_steps(provider, once, server, proxy, asked.steps)
        done = summhay("run", spec, "--store", bare, "--executor", "inline")
        clean = summhay("status", done["run"], "--store", bare)["tables"]
        provider.reset()
        cluster = stack.enter_context(cluster_of(3)) if asked.nodes else None
        stage = Stage(provider, spec, store, random.Random(asked.seed), proxy, cluster)
        play(stage, asked, done["calls"]["made"])
        report = {"store": asked.store, **report_of(stage, clean), "steps": steps, "seconds": round(time.monotonic() - began)}
    print(json.dumps(report))


if __name__ == "__main__":
    main()
