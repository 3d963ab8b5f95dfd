"""Real processes that write to a store far away and are killed: a sweep of their disk loses nothing that they acknowledged."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from far_files import FarFiles

from summhay_ray.store import LogIndex, begin, sweep
from summhay_ray.store.spool_folder import spool_of

pytestmark = pytest.mark.core

N_KILLS = 6

# A writer without the package's heavy imports: so many processes start in a second each otherwise.
WRITER = """
import os, sys, types
from pathlib import Path
folder, package, seat = sys.argv[1:4]
for name in ("summhay_ray", "summhay_ray.store"):
    module = types.ModuleType(name)
    module.__path__ = [os.path.join(package, *name.split("."))]
    sys.modules[name] = module
from summhay_ray.store.errors import StoreError, StoreUnavailable
for name in ("LocalFiles", "StoreUnavailable"):
    from summhay_ray.store.files import LocalFiles
    setattr(sys.modules["summhay_ray.store"], name, {"LocalFiles": LocalFiles, "StoreUnavailable": StoreUnavailable}[name])
sys.path.insert(0, os.path.join(package, "tests", "store"))
from far_files import FarFiles
from summhay_ray.store.spool import SpoolWriter
log = SpoolWriter(FarFiles(Path(folder)), 1, seat)
os.write(1, f"{log.writer}\\n".encode())
number = 0
while True:
    batch = []
    for _ in range(1 + number % 3):
        key = f"{log.writer}-{number}"
        call = {"call": key, "run": "r", "key": key}
        batch += [{"kind": "intent", **call, "usd_micros": 9}]
        batch += [{"kind": "answer", **call, "usd_micros": 1, "text": key * (number % 40)}]
        number += 1
    log.append(batch)
    os.write(1, f"{number}\\n".encode())
"""
PACKAGE = str(Path(__file__).resolve().parents[2])


def start(root: Path, seat: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-S", "-c", WRITER, str(root), PACKAGE, seat], stdout=subprocess.PIPE)


def test_kills_lose_nothing_that_was_acknowledged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUMMHAY_SPOOL", str(tmp_path / "spool"))
    files, moments, told = FarFiles(tmp_path / "store"), random.Random(7), {}
    begin(files, "r", False, {"calling": 1})
    index, n_unshipped = LogIndex(files), 0
    for _ in range(N_KILLS):
        process = start(files.root, "calling-0")
        assert process.stdout is not None
        writer = process.stdout.readline().decode().strip()
        first = process.stdout.readline()
        time.sleep(moments.random() * 0.05)
        os.kill(process.pid, signal.SIGKILL)
        lines = (first + process.stdout.read()).split(b"\n")[:-1]
        told[writer] = int(lines[-1])
        process.stdout.close()
        process.wait()
        index.refresh()
        # The machine is lost now: what the store lacks, its allowances cover.
        assert index.spent("r") >= sum(told.values())
        n_unshipped += sum(f"{writer}-{number}" not in index.answers for number in range(told[writer]))
        assert sweep(files) == [writer]
        index.refresh()
    assert list(told) == [f"00000001-calling-0-{number}" for number in range(N_KILLS)]
    assert index.damaged == 0 and n_unshipped > 0 and not list(spool_of(files).iterdir())
    for writer, n in told.items():
        for number in range(n):
            record = index.read(f"{writer}-{number}")
            assert record is not None and record["text"] == f"{writer}-{number}" * (number % 40)
    # Every answer costs 1; an intent whose answer was cut off stays charged 9.
    n_open = sum(len(index.unanswered(writer)) for writer in told)
    assert index.spent("r") == len(index.answers) + 9 * n_open and n_open <= N_KILLS
