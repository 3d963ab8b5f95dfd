"""A writer that dies at any moment loses nothing that it acknowledged; a reader beside it reads whole records only."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from summhay_ray.store import LocalFiles, LogIndex

pytestmark = pytest.mark.core

# A writer without the package's heavy imports: 40 processes start in a second each otherwise.
WRITER = """
import os, sys, types
from pathlib import Path
folder, package = sys.argv[1], sys.argv[2]
for name in ("summhay_ray", "summhay_ray.store"):
    module = types.ModuleType(name)
    module.__path__ = [os.path.join(package, *name.split("."))]
    sys.modules[name] = module
from summhay_ray.store.files import LocalFiles
from summhay_ray.store.log_writer import LogWriter
writer = sys.argv[3]
log = LogWriter(LocalFiles(Path(folder)), writer)
number = 0
while number < int(sys.argv[4]):
    batch = []
    for _ in range(1 + number % 3):
        key = f"{writer}-{number}"
        call = {"call": key, "run": "r", "key": key}
        batch += [{"kind": "intent", **call, "usd_micros": 9}]
        batch += [{"kind": "answer", **call, "usd_micros": 1, "text": key * (number % 40)}]
        number += 1
    log.append(batch)
    os.write(1, f"{number}\\n".encode())
"""
PACKAGE = str(Path(__file__).resolve().parents[2])


def start(root: Path, writer: str, n: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-S", "-c", WRITER, str(root), PACKAGE, writer, str(n)], stdout=subprocess.PIPE)


def acknowledged(output: bytes) -> int:
    lines = output.split(b"\n")[:-1]
    return int(lines[-1]) if lines else 0


def check(index: LogIndex, writer: str, n: int) -> None:
    for number in range(n):
        record = index.read(f"{writer}-{number}")
        assert record is not None and record["text"] == f"{writer}-{number}" * (number % 40)


def test_ten_kills_lose_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    moments, told = random.Random(7), {}
    index = LogIndex(LocalFiles(tmp_path))
    for number in range(10):
        writer = f"w{number}"
        process = start(tmp_path, writer, 10**9)
        assert process.stdout is not None
        first = process.stdout.readline()
        time.sleep(moments.random() * 0.02)
        os.kill(process.pid, signal.SIGKILL)
        told[writer] = acknowledged(first + process.stdout.read())
        process.stdout.close()
        process.wait()
        index.refresh()
    assert index.damaged == 0 and min(told.values()) >= 1
    for writer, n in told.items():
        check(index, writer, n)
    # Every answer costs 1; an intent whose answer was cut off stays charged 9.
    n_open = sum(len(index.unanswered(writer)) for writer in told)
    assert index.spent("r") == len(index.answers) + 9 * n_open and n_open <= 10


def test_a_reader_beside_the_writer_reads_whole_records(tmp_path: Path) -> None:
    process = start(tmp_path, "w", 700)
    index = LogIndex(LocalFiles(tmp_path))
    seen = 0
    while process.poll() is None:
        index.refresh()
        assert index.damaged == 0 and len(index.answers) >= seen
        # The log is read in order: n answers are the first n, and each is whole.
        seen = len(index.answers)
        assert seen == 0 or f"w-{seen - 1}" in index.answers
    assert process.stdout is not None
    total = acknowledged(process.stdout.read())
    process.stdout.close()
    index.refresh()
    assert total >= 700 and len(index.answers) == total
    check(index, "w", total)
    assert index.spent("r") == total
