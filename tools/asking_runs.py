"""Runs the benchmark in asking.py by `summhay run`, as a paid run, and reads the figures of the provider and of `summhay
status`."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

for folder in ("simulator", "engine"):
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / folder))
import psutil
from runs import SUMMHAY, at_most, write_spec
from simulated_provider import Simulated, fingerprint

MODEL, KEY_ENV = "openai/gpt-fair", "ASKING_KEY"
PRICE = {"input_per_mtok": 2.5, "output_per_mtok": 10, "cached_input_per_mtok": 1.25}
PATIENCE_S = 1800.0
Row = dict[str, Any]


@dataclass(frozen=True)
class Job:
    """A spec in a folder, its store, and the provider, which keeps separate books for the job's key."""

    folder: Path
    provider: Simulated
    store: str
    key: str

    @property
    def variables(self) -> dict[str, str]:
        """The environment variables of the workers."""
        return {KEY_ENV: self.key}

    @functools.cached_property
    def plan(self) -> Row:
        """The document of `plan --json`."""
        return self.document("plan", str(self.spec))

    @property
    def spec(self) -> Path:
        return self.folder / "spec.yaml"

    @property
    def calls(self) -> int:
        """The number of planned calls that cost something."""
        return sum(stage["calls"] for stage in self.plan["stages"] if stage["usd_max"])

    @property
    def worst_usd(self) -> float:
        """The mean worst case of a call, in dollars, in the most expensive stage."""
        return max(float(stage["usd_max"] / stage["calls"]) for stage in self.plan["stages"] if stage["calls"])

    def document(self, *words: str) -> Row:
        """Return the JSON document of a command, whatever its exit code: for damage, `status` prints one, too."""
        command = [str(SUMMHAY), *words, "--store", self.store, "--json"]
        environment = {**os.environ, **self.variables}
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, cwd=self.folder, timeout=PATIENCE_S, check=False
        )
        if not done.stdout:
            raise RuntimeError(f"{words}: exit {done.returncode}: {done.stderr[-2000:]}")
        document: Row = json.loads(done.stdout)
        return document

    def status(self) -> Row:
        """Return the document of `status --json`."""
        return self.document("status", self.plan["run"])

    def start(self, *more: str, command: Sequence[str] = (str(SUMMHAY), "run"), **variables: str) -> subprocess.Popen[bytes]:
        """Start the run in the background."""
        words = [*command, str(self.spec), "--store", self.store, "--json", *more]
        environment = {**os.environ, **self.variables, **variables}
        with (self.folder / "out").open("ab") as out, (self.folder / "said").open("ab") as said:
            return subprocess.Popen(words, env=environment, stdout=out, stderr=said, cwd=self.folder)

    def finish(self, *more: str) -> int:
        """Start the run, wait for its end, and return its exit code."""
        return self.start(*more).wait(PATIENCE_S)

    def last_document(self) -> Row:
        """Return the document of the last run that ended. Raise RuntimeError if none has ended."""
        lines = (self.folder / "out").read_text(encoding="utf-8").splitlines()
        if not lines:
            raise RuntimeError(self.stderr_text()[-2000:])
        document: Row = json.loads(lines[-1])
        return document

    def stderr_text(self) -> str:
        """Return the stderr of all runs."""
        return (self.folder / "said").read_text(encoding="utf-8", errors="replace")

    def tally(self) -> Row:
        """Return the provider's totals for the job's key: micros, served calls, their prompts, calls in flight."""
        found = self.provider.stats()["keys"].get(fingerprint(self.key), {"micros": 0, "models": {}})
        models = found["models"].values()
        return {"micros": found["micros"]} | {
            name: sum(one[name] for one in models) for name in ("served", "prompts", "in_flight")
        }

    def requests(self) -> list[Row]:
        """Return all requests with the job's key, in order of arrival."""
        return [call for call in self.provider.calls() if call["key"] == fingerprint(self.key)]

    def bill(self) -> float:
        """Return the provider's bill for the job's key, in dollars."""
        return float(self.tally()["micros"]) / 1e6

    def wait(self, process: subprocess.Popen[bytes], true: Callable[[], bool]) -> bool:
        """Wait until `true` returns True. Return False if the run ends first."""
        ends = time.monotonic() + PATIENCE_S
        while process.poll() is None and time.monotonic() < ends:
            if true():
                return True
            time.sleep(0.03)
        return False

    def wait_served(self, process: subprocess.Popen[bytes], n: float) -> bool:
        """Wait until the provider has served `n` more calls. Return False if the run ends first."""
        before = self.tally()["served"]
        return self.wait(process, lambda: self.tally()["served"] >= before + n)

    def totals(self) -> Row:
        """Return the totals of the runs: dollars by the provider and by the books, calls, cells."""
        tally, status = self.tally(), self.status()
        usd, cells = status["usd"], status["cells"]
        return {
            "bill": tally["micros"] / 1e6,
            "books": at_most(status),
            **{name: float(usd[name]) for name in ("spent", "uncertain")},
            "served": tally["served"],
            "twice": tally["served"] - tally["prompts"],
            "cells": f"{cells['done']}/{cells['total']}",
        }


@contextlib.contextmanager
def job(
    provider: Simulated, store: str | None = None, model: str = MODEL, limits: Row | None = None, **fields: Any
) -> Iterator[Job]:
    """Yield a job in a temporary folder. It runs `asking` or, if `haystacks` are given, a grid with a paid judge.

    `store`: None for one in the folder. `limits`: the model's limits, by default 64 concurrent calls.
    """
    reach = {"model": model, "api_base": provider.base, "api_key_env": KEY_ENV, "price": PRICE, "max_tokens": 50}
    kind = {"judges": [reach]} if "haystacks" in fields else {"kind": "asking:Asking", "model": reach}
    spec = {**kind, "name": "asking", "budget_usd": 1000, "limits": {model: {"concurrency": 64, **(limits or {})}}, **fields}
    with tempfile.TemporaryDirectory(prefix="ask-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        shutil.copy(Path(__file__).with_name("asking.py"), folder)
        write_spec(folder, spec)
        made = Job(folder, provider, store or str(folder / "store"), f"sk-asking-{uuid.uuid4().hex}")
        # Plan before any answer can be reused.
        assert made.plan["run"]
        yield made


def is_done(row: Row) -> bool:
    """Whether all cells are done."""
    done, total = row["cells"].split("/")
    return bool(done == total)


def kill_all(top: Sequence[int]) -> None:
    """Kill the processes and all their descendants with SIGKILL."""
    found = {process for pid in top for process in _tree(pid)}
    for process in found:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(found, timeout=30)


def _tree(pid: int) -> list[psutil.Process]:
    with contextlib.suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        return [process, *process.children(recursive=True)]
    return []
