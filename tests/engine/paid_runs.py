"""Small paid runs with a simulated provider, each in a separate process, on any store."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from runs import PATIENCE_S, log_records, summhay, write_spec
from simulated_provider import KEY, Simulated, simulated_provider

from summhay_ray import cli
from summhay_ray.store import open_files

KEY_ENV = "PAID_RUNS_KEY"
N_SUMMARIES, N_JUDGMENTS = 8, 88
"""Calls of `SMALL`: two retrievers for each query, and 22 insights for two retrievers and two judges."""

PRICE = {"input_per_mtok": 2.5, "output_per_mtok": 10}


def fields_of(base: str, **changes: Any) -> dict[str, Any]:
    """A spec of 96 calls, four at once; all calls differ."""
    known = {"api_base": base, "api_key_env": KEY_ENV, "price": PRICE}
    models = ["openai/judge-a", "openai/judge-b"]
    small = {
        "haystacks": ["sample/news"],
        "retrievers": ["bm25", "oracle"],
        "token_budget": 1500,
        "summarizers": [{"model": "openai/writer", **known}],
        "judges": [{"model": name, **known} for name in models],
        "limits": {name: {"concurrency": 4} for name in models},
        "budget_usd": 100,
        "workers": 2,
    }
    return {**small, **changes}


@dataclass
class Office:
    """A provider, a spec of its models, and the tables of an undisturbed run."""

    provider: Simulated
    folder: Path
    tables: Mapping[str, Any]
    calls: int
    usd: float
    """What that run cost."""

    def spec(self, **changes: Any) -> Path:
        """The spec in a separate file."""
        self.folder.mkdir(exist_ok=True)
        path = self.folder / f"spec-{len(list(self.folder.iterdir()))}"
        path.mkdir()
        return write_spec(path, fields_of(self.provider.base, **changes))

    def served(self) -> int:
        """Calls to the provider since its last reset."""
        return int(self.provider.stats()["served"])

    def wait(self, process: subprocess.Popen[bytes], served: int) -> None:
        """Wait until the provider has served this many calls."""
        end = time.monotonic() + PATIENCE_S
        while self.served() < served:
            assert process.poll() is None, said(process)
            assert time.monotonic() < end
            time.sleep(0.1)

    @contextlib.contextmanager
    def silent(self) -> Iterator[None]:
        """The provider answers nobody while the block runs, however long it takes, so that no run can end meanwhile."""
        assert self.provider.pid is not None
        os.kill(self.provider.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self.provider.pid, signal.SIGCONT)

    def tables_of(self, document: Mapping[str, Any], store: str | Path) -> Mapping[str, Any]:
        """The run's tables, as `status` reports them."""
        found: Mapping[str, Any] = summhay("status", document["run"], "--store", store)["tables"]
        return found

    def again(self, spec: Path, store: str | Path, executor: str = "inline") -> dict[str, Any]:
        """Run it to its end, or once more; it must end as done."""
        document = summhay("run", spec, "--store", store, "--executor", executor)
        assert document["status"] == "done" and document["cells"]["failed"] == 0
        return document


@contextlib.contextmanager
def office(folder: Path, *options: str) -> Iterator[Office]:
    """A provider and the tables of an undisturbed run on this disk. The environment holds its key until the block ends."""
    before = os.environ.get(KEY_ENV)
    os.environ[KEY_ENV] = KEY
    try:
        with simulated_provider("--cache-lifetime", "0", *options) as provider:
            found = Office(provider, folder / "specs", {}, 0, 0.0)
            done = found.again(found.spec(), folder / "clean")
            found.tables, found.calls = found.tables_of(done, folder / "clean"), done["calls"]["made"]
            found.usd = done["usd"]["spent"]
            yield found
    finally:
        os.environ.pop(KEY_ENV) if before is None else os.environ.update({KEY_ENV: before})


def said(process: subprocess.Popen[bytes]) -> tuple[int, list[str]]:
    """(exit code, the lines of `summhay:` on stderr) of a run that ends by itself."""
    _, complaint = process.communicate(timeout=PATIENCE_S)
    lines = complaint.decode().splitlines()
    assert not [line for line in lines if "Traceback" in line], complaint.decode()[-3000:]
    return process.returncode, [line for line in lines if line.startswith("summhay: ")]


def refused(spec: Path, store: str | Path, *more: str) -> tuple[int, str, float]:
    """(exit code, all of stderr, seconds) of a run in this process that does not begin, or fails."""
    began, told = time.monotonic(), io.StringIO()
    with contextlib.redirect_stderr(told), pytest.raises(SystemExit) as stop:
        cli.main(["run", str(spec), "--store", str(store), *more, "--json"])
    return int(stop.value.code or 0), told.getvalue(), time.monotonic() - began


def logged(store: str | Path) -> Counter[str]:
    """Key -> the number of its answers in the log."""
    return Counter(record["key"] for record in log_records(store))


def wait_for_session(process: subprocess.Popen[bytes], store: str | Path, number: int) -> None:
    """Wait until a driver with this number has begun in a store."""
    files, end = open_files(str(store)), time.monotonic() + PATIENCE_S
    while not files.exists(f"drivers/{number:08d}.json"):
        assert process.poll() is None, said(process)
        assert time.monotonic() < end
        time.sleep(0.1)
