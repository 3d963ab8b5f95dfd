"""`summhay run` on an unusable or full store: one clear line, and no call that is lost or paid in vain."""

from __future__ import annotations

import contextlib
import itertools
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from inline_runs import SAMPLE
from paid_runs import KEY_ENV, Office, fields_of, refused, said
from runs import at_most, start, summhay, write_spec
from s3_servers import CREDENTIALS
from simulated_provider import KEY, SUMMHAY, Simulated, in_thread

pytestmark = [pytest.mark.s3, pytest.mark.timeout(600)]

TOLD_WITHIN_S = 20.0
"""Of a command's whole time: a person waits for it."""


@pytest.fixture(scope="module")
def provider() -> Iterator[Simulated]:
    with in_thread() as found:
        yield found


def check(provider: Simulated, folder: Path, store: str | Path, *words: str, code: int = 2) -> None:
    """The run is refused quickly, by one line with all these words, and makes no call."""
    spec = write_spec(folder, fields_of(provider.base))
    found, complaint, seconds = refused(spec, store)
    (line,) = complaint.splitlines()
    assert (found, line[:9]) == (code, "summhay: "), line
    assert [word for word in words if word not in line] == [], line
    assert CREDENTIALS["AWS_SECRET_ACCESS_KEY"] not in line and seconds < TOLD_WITHIN_S
    assert provider.stats()["served"] == 0


# From here on: real runs, and a real disk that is full.


class Disk:
    """A small tmpfs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()

    def mount(self, option: str) -> None:
        command = ["mount", "-t", "tmpfs", "-o", option, "summhay-test", str(self.folder)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"this machine mounts no tmpfs for us: {done.stderr.strip()}")

    def fill(self) -> None:
        """Fill the disk to the last byte."""
        with contextlib.suppress(OSError), (self.folder / "ballast").open("ab", buffering=0) as ballast:
            while True:
                # A full disk takes part of a block first.
                ballast.write(bytes(4096))

    def used(self) -> int:
        """Bytes in use."""
        room = os.statvfs(self.folder)
        return (room.f_blocks - room.f_bfree) * room.f_frsize


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    found = Disk(tmp_path / "disk")
    found.mount("size=24m")
    try:
        yield found
    finally:
        subprocess.run(["umount", "--lazy", str(found.folder)], check=True)


def fill_up(desk: Office, disk: Disk, store: str | Path, executor: str) -> None:
    """A run whose disk fills up stops with a message, makes no more calls, and continues to its end when there is room."""
    spec = desk.spec()
    process = start(spec, store, "--executor", executor)
    desk.wait(process, 24)
    disk.fill()
    code, lines = said(process)
    assert (code, len(lines)) == (1, 1) and "No space left on device" in lines[0], lines
    assert "run again" in lines[0]
    served = desk.served()
    assert desk.provider.stats()["in_flight"] == 0 and served < desk.calls
    time.sleep(1.5)
    assert desk.served() == served
    disk.mount("remount,size=96m")
    done = desk.again(spec, store)
    assert desk.tables_of(done, store) == desk.tables
    # Answers that did not fit on the disk are requested again: at most as many as were in flight.
    assert desk.calls <= desk.served() <= desk.calls + 16
    assert at_most(done) >= desk.provider.stats()["micros"] / 1e6 - 1e-6
    assert summhay("run", spec, "--store", store, "--executor", executor)["calls"]["made"] == 0


def test_a_store_on_a_full_disk(desk: Office, disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY_ENV, KEY)
    desk.provider.reset()
    fill_up(desk, disk, disk.folder / "store", "inline")


@pytest.mark.soak
@pytest.mark.parametrize("executor", ["inline", pytest.param("ray", marks=pytest.mark.ray)])
def test_a_disk_that_is_full_at_the_end_of_a_run(disk: Disk, tmp_path: Path, executor: str) -> None:
    """Parts, commits or the tables at the end: one line each time, and with more room the run continues."""
    spec, store = write_spec(tmp_path, {**SAMPLE, "workers": 1}), disk.folder / "store"

    def ends(room: int) -> bool:
        disk.mount(f"remount,size={disk.used() + room}")
        # A separate process: if its end cannot be recorded on the full disk, other processes see that it is gone.
        ended = subprocess.run([SUMMHAY, "run", spec, "--store", store, "--executor", executor], capture_output=True, text=True)
        lines = [line for line in ended.stderr.splitlines() if line.startswith("summhay: ")]
        if ended.returncode:
            assert (ended.returncode, len(lines)) == (1, 1), lines
            assert "No space left on device" in lines[0] and "again" in lines[0], lines
        return not ended.returncode

    n_full = next(times for times in itertools.count() if ends(160 << 10))
    assert n_full > 1
    [run] = [path.name for path in (store / "runs").iterdir()]
    disk.mount("remount,size=96m")
    again = summhay("run", spec, "--store", store, "--executor", executor)
    assert (again["run"], again["status"], again["calls"]["made"], again["warnings"]) == (run, "done", 0, [])
    assert summhay("status", run, "--store", store)["warnings"] == []
    assert all(check["ok"] for check in summhay("doctor", "--store", store)["checks"] if check["name"].startswith("run "))
