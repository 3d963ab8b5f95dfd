"""A writer that is killed at any moment loses no acknowledged answer; a concurrent reader reads only whole records."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from answers import PURPOSE, answer
from s3_servers import Bucket, environment, s3_bucket, s3_server

from summhay_ray.store import Files, LocalFiles, LogIndex, open_files

__all__ = ["s3_bucket", "s3_server"]

# A writer without the package's heavy imports.
WRITER = """
import os, sys, types
package, store, name, n, tests = sys.argv[1:]
sys.path.append(tests)
for module in ("summhay_ray", "summhay_ray.store"):
    sys.modules[module] = types.ModuleType(module)
    sys.modules[module].__path__ = [os.path.join(package, *module.split("."))]
from answers import answer
from summhay_ray.store.files import open_files
from summhay_ray.store.log import LogWriter
log = LogWriter(open_files(store), 1)
number = 0
while number < int(n):
    batch = range(number, number + 1 + number % 3)
    log.append([answer(f"{name}-{one}", 1, text=f"{name}-{one}" * (one % 40)) for one in batch])
    number = batch.stop
    os.write(1, f"{number}\\n".encode())
"""
HERE = Path(__file__).resolve()


def start(store: str, name: str, n: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", WRITER, str(HERE.parents[2]), store, name, str(n), str(HERE.parent)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, env=environment())


def acknowledged(output: bytes) -> int:
    lines = output.split(b"\n")[:-1]
    return int(lines[-1]) if lines else 0


def killed(store: str, name: str, after_s: float) -> int:
    """Kill a writer some time after its first answer, and return the number of its acknowledged answers."""
    process = start(store, name, 10**9)
    assert process.stdout is not None
    first = process.stdout.readline()
    time.sleep(after_s)
    os.kill(process.pid, signal.SIGKILL)
    told = acknowledged(first + process.stdout.read())
    process.stdout.close()
    process.wait()
    return told


def check(index: LogIndex, name: str, n: int) -> None:
    for number in range(n):
        key = f"{name}-{number}"
        assert index.read(key) == answer(key, 1, text=key * (number % 40))


def check_killed(files: Files, told: dict[str, int]) -> None:
    index = LogIndex(files)
    index.refresh()
    assert index.damaged == 0 and min(told.values()) >= 1
    for name, n in told.items():
        check(index, name, n)
    tally = index.totals("r")[PURPOSE]
    assert tally.answers == tally.usd_micros == len(index.answers)


@pytest.mark.core
def test_kills_lose_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    moments = random.Random(7)
    told = {f"w{number}": killed(str(tmp_path), f"w{number}", moments.random() * 0.02) for number in range(6)}
    check_killed(LocalFiles(tmp_path), told)


@pytest.mark.s3
def test_a_kill_loses_nothing_that_was_acknowledged_to_a_bucket(s3_bucket: Bucket) -> None:
    check_killed(open_files(s3_bucket.uri()), {"w": killed(s3_bucket.uri(), "w", 1.0)})


@pytest.mark.core
def test_a_reader_beside_the_writer_reads_whole_records(tmp_path: Path) -> None:
    process = start(str(tmp_path), "w", 300)
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
    assert total >= 300 and len(index.answers) == total
    check(index, "w", total)
