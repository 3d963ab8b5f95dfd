"""Measures the memory of a grid of many haystacks, for the whole run on Ray, or for its parts one by one. Each measurement has a
separate process.

    python tools/memory.py --haystacks 1000                # summhay run, offline/lead and offline/judge
    python tools/memory.py --haystacks 1000 --simulated    # the same against the simulated provider
    python tools/memory.py --haystacks 50 200 --documents 20 --words 150 --retrievers bm25 \\
        --summarizers offline/lead offline/support        # 18 small free cells a haystack
    python tools/memory.py --haystacks 100 300 1000 --parts
    python tools/memory.py --haystacks 100 300 1000 --retrieve --retrievers bm25 --subtopics 10    # summhay retrieve

It prints one JSON line per number of haystacks. For a run, two sizes are read twice a second: the proportional set size (PSS) of
the driver and all its descendants without shared memory, and the growth of /dev/shm (Ray's object store). `peak_mib` has the
maximum of their sum, and the maximum for each kind of process. `cpu_s` has the CPU seconds (user and system) of each kind, and
`first_answer_s` the seconds until the log had its first answer. `files` and `mib` are the number and size of the store's files at
the end.

For the parts, `peak_mib` is the growth of the process's resident set during a part, and `kept_mib` how much of it remained.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from summhay_ray.engine import open_run

for folder in ("llm", "simulator", "engine", "benchmarks"):
    sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / folder))
import psutil
from big_haystacks import write_haystacks
from runs import SUMMHAY
from simulated_provider import KEY, simulated_provider

MIB = 2**20
EVERY_S = 0.5
KINDS = ("WorkerActor", "MapWorker", "LedgerActor", "ray::IDLE", "ray::", "agent", "monitor", "raylet", "gcs_server")
"""Kinds of descendants, recognized by a text in their command line. The first match counts; all others are `other`."""


@dataclass
class Peaks:
    """The maxima in bytes, of all processes together and of each kind, and the processes' CPU seconds."""

    total: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    at_s: float = 0.0
    cpu_s: dict[int, tuple[str, float]] = field(default_factory=dict)
    """Process -> its kind, and its CPU seconds at the last sample."""

    def see(self, found: Counter[str], seconds: float) -> None:
        """Add a sample."""
        if sum(found.values()) > self.total:
            self.total, self.at_s = sum(found.values()), seconds
        for kind, size in found.items():
            self.kinds[kind] = max(self.kinds[kind], size)

    def to_json(self) -> dict[str, Any]:
        """Return the maxima in MiB."""
        each = {kind: size // MIB for kind, size in sorted(self.kinds.items())}
        cpu = Counter[str]()
        for kind, seconds in self.cpu_s.values():
            cpu[kind] += seconds  # type: ignore[assignment]
        cpu_s = {kind: round(seconds, 1) for kind, seconds in sorted(cpu.items())}
        return {"peak_mib": {"total": self.total // MIB, **each}, "at_s": round(self.at_s, 1), "cpu_s": cpu_s}


def own_bytes(pid: int) -> int:
    """Return a process's proportional set size without shared memory; 0 if it has ended."""
    with contextlib.suppress(OSError):
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()[1:]
        sizes = {name: int(rest.split()[0]) * 1024 for name, _, rest in (line.partition(":") for line in lines)}
        return sizes.get("Pss", 0) - sizes.get("Pss_Shmem", 0)
    return 0


def kind_of(process: psutil.Process) -> str:
    """Return the kind of a descendant, derived from its command line."""
    with contextlib.suppress(psutil.Error):
        said = " ".join(process.cmdline())
        return next((kind for kind in KINDS if kind in said), "other")
    return "other"


def shared_bytes() -> int:
    """Return the bytes in /dev/shm."""
    return shutil.disk_usage("/dev/shm").used


def sample(driver: int, before: int, cpu_s: dict[int, tuple[str, float]] | None = None) -> Counter[str]:
    """Return kind -> current bytes, without those in /dev/shm before the run (`before`). Record the processes' CPU seconds in
    `cpu_s`."""
    found = Counter({"driver": own_bytes(driver), "object_store": max(0, shared_bytes() - before)})
    with contextlib.suppress(psutil.Error):
        own = psutil.Process(driver)
        for process in (own, *own.children(recursive=True)):
            kind = "driver" if process.pid == driver else kind_of(process)
            found[kind] += own_bytes(process.pid) if process.pid != driver else 0
            if cpu_s is not None:
                times, known = process.cpu_times(), cpu_s.get(process.pid, ("", 0.0))[0]
                # A process that is ending has no command line, and Ray renames idle ones.
                named = known if known and kind in ("other", "ray::IDLE") else kind
                cpu_s[process.pid] = named, times.user + times.system
    return found


def run_watched(command: list[str], first: Path | None = None, **options: Any) -> tuple[int, float, Peaks, float | None]:
    """Run a command to its end. Return its exit code, seconds and maxima, and the seconds until the folder `first` had a file."""
    before, began, peaks, first_s = shared_bytes(), time.monotonic(), Peaks(), None
    process = subprocess.Popen(command, **options)
    while process.poll() is None:
        peaks.see(sample(process.pid, before, peaks.cpu_s), time.monotonic() - began)
        if first is not None and first_s is None and first.is_dir() and any(one.stat().st_size for one in first.iterdir()):
            first_s = round(time.monotonic() - began, 1)
        time.sleep(EVERY_S)
    return process.returncode, time.monotonic() - began, peaks, first_s


def spec_of(
    files: list[Path], retrievers: list[str], base: str = "", summarizers: Sequence[str] = ("offline/lead",)
) -> dict[str, Any]:
    """Return the spec of the grid: every haystack, every query, `retrievers`. Without a provider (`base`), it has the offline
    `summarizers`."""
    spec: dict[str, Any] = {"haystacks": [str(path) for path in files], "retrievers": retrievers}
    if not base:
        return {**spec, "summarizers": [*summarizers], "judges": ["offline/judge"]}
    known = {"api_base": base, "api_key_env": "MEMORY_KEY", "price": {"input_per_mtok": 2.5, "output_per_mtok": 10}}
    limits = {name: {"concurrency": 64} for name in ("openai/writer", "openai/judge")}
    named = {role: [{"model": f"openai/{name}", **known}] for role, name in (("summarizers", "writer"), ("judges", "judge"))}
    return {**spec, **named, "limits": limits}


def measure_run(folder: Path, spec: dict[str, Any], command: str = "run", executor: str = "ray") -> dict[str, Any]:
    """Measure `summhay run`, or `retrieve`, of the spec with a store in `folder`."""
    path, store = folder / "spec.yaml", folder / "store"
    path.write_text(json.dumps(spec), encoding="ascii")
    words = [str(SUMMHAY), command, str(path), "--store", str(store), "--executor", executor, "--json"]
    environment = {**os.environ, "MEMORY_KEY": KEY, "PYTHONPATH": os.pathsep.join(sys.path)}
    with (folder / "out.json").open("wb") as out:
        code, seconds, peaks, first_s = run_watched(words, first=store / "answers", stdout=out, env=environment)
    said = (folder / "out.json").read_bytes()
    cells = json.loads(said)["cells"] if code in (0, 3) else {}
    files = [path.stat().st_size for path in store.rglob("*") if path.is_file()]
    took = {"seconds": round(seconds, 1), "first_answer_s": first_s, "files": len(files), "mib": round(sum(files) / MIB, 1)}
    return {"exit": code, **took, "cells": cells, **peaks.to_json()}


@contextlib.contextmanager
def growth(found: dict[str, Any], name: str) -> Iterator[None]:
    """A context that records in `found` how much the resident set of this process grows."""
    import gc

    gc.collect()
    before, ended = resident(), threading.Event()
    most = before

    def look() -> None:
        nonlocal most
        while not ended.wait(0.01):
            most = max(most, resident())

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    began = time.monotonic()
    yield
    seconds = time.monotonic() - began
    ended.set()
    thread.join()
    gc.collect()
    sizes = {"peak_mib": (max(most, resident()) - before) // MIB, "kept_mib": (resident() - before) // MIB}
    found[name] = {"seconds": round(seconds, 2), **sizes}


def resident() -> int:
    """Return this process's resident set in bytes."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


def measure_parts(folder: Path, spec: dict[str, Any], planned: bool = True) -> dict[str, Any]:
    """Measure each part of a run that reads all haystacks, without Ray. Artificial summaries and judgments are scored."""
    from made_up import commit_all

    from summhay_ray import api, engine
    from summhay_ray.benchmarks.summhay import score_run
    from summhay_ray.engine.state.items_left import state_of
    from summhay_ray.store import Store

    found: dict[str, Any] = {"bare_mib": resident() // MIB}
    store = Store(str(folder / "store"))
    with growth(found, "load"):
        workload = api.load(spec)
    with growth(found, "open"):
        run = open_run(workload, store)
    with growth(found, "state"):
        state = state_of(workload, run.at())
        left = state.left()
        sizes = [item.size for items in left.values() for item in items]
    found["cells"], found["judgments"] = len(sizes), sum(sizes)
    del left, sizes, state
    if planned:
        with growth(found, "plan"):
            engine.plan(workload, store)
    commit_all(workload, run)
    parts: dict[str, Callable[[], Any]] = {"score": lambda: score_run(run), "status": lambda: engine.status(run)}
    for name, part in parts.items():
        with growth(found, name):
            part()
    return found


def main(arguments: list[str] | None = None) -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--haystacks", type=int, nargs="+", default=[1000])
    parser.add_argument("--documents", type=int, default=100)
    parser.add_argument("--words", type=int, default=750, help="of each document")
    parser.add_argument("--subtopics", type=int, default=9)
    parser.add_argument("--retrievers", nargs="+", default=["bm25", "oracle"])
    parser.add_argument("--summarizers", nargs="+", default=["offline/lead"])
    parser.add_argument("--simulated", action="store_true", help="against the simulated provider")
    parser.add_argument("--parts", action="store_true", help="measure the parts one by one, without Ray")
    parser.add_argument("--retrieve", action="store_true", help="rankings alone")
    parser.add_argument("--executor", choices=["ray", "inline"], default="ray")
    parser.add_argument("--folder", type=Path, help="the folder for haystacks and stores; default: a temporary one")
    asked = parser.parse_args(arguments)
    size = {"documents": asked.documents, "words": asked.words, "subtopics": asked.subtopics}
    with contextlib.ExitStack() as stack:
        folder = asked.folder or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="memory-")))
        for number in asked.haystacks:
            files = write_haystacks(folder / "haystacks-{documents}x{words}x{subtopics}".format(**size), number, **size)
            here = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="memory-run-")))
            provider = stack.enter_context(simulated_provider()) if asked.simulated and not asked.parts else None
            spec = spec_of(files, asked.retrievers, provider.base if provider else "", asked.summarizers)
            command = "retrieve" if asked.retrieve else "run"
            found = measure_in_process(here, spec) if asked.parts else measure_run(here, spec, command, asked.executor)
            print(json.dumps({"haystacks": number, **size, **found}), flush=True)


def measure_in_process(folder: Path, spec: dict[str, Any]) -> dict[str, Any]:
    """Run `measure_parts` in a separate process, so that each number of haystacks starts with empty memory."""
    code = (
        "import json, sys; from pathlib import Path; sys.path[:0] = json.loads(sys.argv[1]); from memory import measure_parts; "
    )
    code += "print(json.dumps(measure_parts(Path(sys.argv[2]), json.load(sys.stdin))))"
    command = [sys.executable, "-c", code, json.dumps(sys.path), str(folder)]
    done = subprocess.run(command, input=json.dumps(spec), capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


if __name__ == "__main__":
    main()
