"""Driver sessions: every start has its own number, one run pays at a time, and dead drivers are recognized."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import sysconfig
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from far_files import FarFiles

from summhay_ray.store import Chain, LocalFiles, StoreError, begin_session, how_ended, live_sessions, lost_sessions, read_session
from summhay_ray.store import drivers as room

pytestmark = pytest.mark.core

HERE = room.this_process()
ELSEWHERE = replace(HERE, host="other", machine="another machine", pid=4711)

# Without the package's heavy imports: otherwise sixteen of them take half a minute to start.
DRIVER = """
import os, sys, time, types
from pathlib import Path
package, folder, run, how, installed = sys.argv[1:6]
sys.path.append(installed)
for name in ("summhay_ray", "summhay_ray.store"):
    module = types.ModuleType(name)
    module.__path__ = [os.path.join(package, *name.split("."))]
    sys.modules[name] = module
from summhay_ray.store.drivers import begin_session
from summhay_ray.store.files import StoreError
from summhay_ray.store.files import LocalFiles
try:
    session = begin_session(LocalFiles(Path(folder)), run, True)
except StoreError as error:
    print("refused", error, flush=True)
    sys.exit()
print("began", session.number, flush=True)
while how == "stay":
    time.sleep(0.05)
    if how == "stay" and session.superseded():
        session.end("superseded")
        print("superseded", flush=True)
        sys.exit()
time.sleep(30)
"""


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "LOOK_S", 0.02)
    monkeypatch.setattr(room, "WATCH_S", 0.5)
    monkeypatch.setattr(room, "BEAT_S", 0.1)


@pytest.fixture
def files(tmp_path: Path) -> FarFiles:
    return FarFiles(tmp_path)


@pytest.fixture
def started(files: FarFiles) -> Iterator[list[subprocess.Popen[str]]]:
    processes: list[subprocess.Popen[str]] = []
    yield processes
    for process in processes:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def start(files: FarFiles, run: str, how: str, started: list[subprocess.Popen[str]]) -> subprocess.Popen[str]:
    package, installed = str(Path(__file__).resolve().parents[2]), sysconfig.get_path("purelib")
    command = [sys.executable, "-S", "-c", DRIVER, package, str(files.root), run, how, installed]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    started.append(process)
    return process


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_another_run_that_pays_is_refused(files: FarFiles) -> None:
    first = begin_session(files, "r1", True)
    with pytest.raises(StoreError, match=rf"another run \(r1, on {HERE.host}, pid {os.getpid()}\) is paying .* run again"):
        begin_session(files, "r2", True)
    assert json.loads(files.read("drivers/00000002.end.json")) == {"how": "refused"}
    # A refused driver blocks nobody, and a free run neither blocks nor is blocked.
    free = begin_session(files, "r3", False)
    assert free.number == 3 and first.superseded() is None
    first.end("done")
    assert begin_session(files, "r2", True).number == 4


def test_the_same_run_is_taken_over_when_the_first_has_stopped(files: FarFiles) -> None:
    first = begin_session(files, "r", True)
    began = time.monotonic()

    def drive() -> None:
        while not first.superseded():
            time.sleep(0.02)
        time.sleep(0.3)
        first.end("superseded")

    thread = threading.Thread(target=drive)
    thread.start()
    second = begin_session(files, "r", True)
    thread.join()
    assert second.number == 2 and time.monotonic() - began > 0.3


def test_a_driver_that_does_not_give_way_is_reported(files: FarFiles) -> None:
    begin_session(files, "r", True)
    with pytest.raises(StoreError, match=r"run r: the previous driver \(on .*\) is still running"):
        begin_session(files, "r", True, wait_s=0.2)


def test_superseded_says_by_whom_and_passes_over_other_runs(files: FarFiles) -> None:
    mine = begin_session(files, "r", False)
    begin_session(files, "other", False)
    assert mine.superseded() is None
    reads = files.counts["read"]
    assert mine.superseded() is None and files.counts["read"] - reads <= 2
    body = {**Chain(files, "drivers", dict).read(1), "number": 3, "host": "b", "pid": 7}  # type: ignore[dict-item]
    assert Chain(files, "drivers", dict).append(3, body)
    assert mine.superseded() == "on b, pid 7" and mine.superseded() == "on b, pid 7"


def test_a_driver_killed_on_this_machine_is_dead_at_once(
    files: FarFiles, started: list[subprocess.Popen[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "WATCH_S", 60.0)
    process = start(files, "r1", "sleep", started)
    assert said(process) == "began 1"
    with pytest.raises(StoreError, match=f"pid {process.pid}"):
        begin_session(files, "r2", True)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    began = time.monotonic()
    session = begin_session(files, "r2", True)
    assert session.number == 3 and time.monotonic() - began < 60.0
    assert json.loads(files.read("drivers/00000001.end.json"))["how"] == "dead"


def test_a_pid_that_is_another_process_now_is_no_driver(files: FarFiles) -> None:
    begin_session(files, "r1", True, here=replace(HERE, started="1"))
    assert begin_session(files, "r2", True).number == 2


def test_elsewhere_the_beat_tells(files: FarFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "WATCH_S", 2.0)
    far, over = begin_session(files, "r1", True, here=ELSEWHERE), threading.Event()

    def drive() -> None:
        while not over.wait(0.05):
            far.beat()

    thread = threading.Thread(target=drive)
    thread.start()
    with pytest.raises(StoreError, match=r"another run \(r1, on other, pid 4711\)"):
        begin_session(files, "r2", True)
    over.set()
    thread.join()
    began = time.monotonic()
    assert begin_session(files, "r2", True).number == 3
    assert time.monotonic() - began >= 2.0
    # It was only disconnected: it learns that it was taken for dead.
    assert far.superseded() == f"on {HERE.host}, pid {os.getpid()}"


def test_others_see_whether_a_driver_is_at_work(files: FarFiles) -> None:
    here, far = begin_session(files, "r1", False), begin_session(files, "r2", False, here=ELSEWHERE)
    assert live_sessions(files, [here.number]) and how_ended(files, here.number) is None
    here.end("stopped")
    assert (live_sessions(files, [here.number]), how_ended(files, here.number)) == (set(), "stopped")
    assert not live_sessions(files, [far.number], 0.1), "no beat, no sign of life"
    beats = threading.Timer(0.1, far.beat)
    beats.start()
    began = time.monotonic()
    assert live_sessions(files, [far.number], 60.0) and time.monotonic() - began < 60.0
    gone = begin_session(files, "r3", False, here=replace(HERE, started="1"))
    assert not live_sessions(files, [gone.number]) and not live_sessions(files, [99])


def test_many_drivers_of_other_machines_are_watched_at_once(files: FarFiles) -> None:
    far = [begin_session(files, f"r{number}", False, here=ELSEWHERE).number for number in range(8)]
    began = time.monotonic()
    assert live_sessions(files, far, 1.0) == set()
    assert time.monotonic() - began < 8 * 1.0, "not one after the other"


def test_a_beat_that_fails_is_nobodys_end(files: FarFiles) -> None:
    session = begin_session(files, "r", True)

    def fail(operation: str, name: str) -> None:
        raise OSError("away")

    files.before = fail
    session.beat()


@pytest.mark.parametrize("same", [False, True])
def test_sixteen_at_once_have_numbers_of_their_own_and_one_pays(files: FarFiles, same: bool) -> None:
    paying: list[room.DriverSession] = []
    errors: list[str] = []

    def drive(number: int) -> None:
        try:
            session = begin_session(FarFiles(files.root), "r" if same else f"r{number}", True)
        except StoreError as error:
            errors.append(str(error))
            return
        while same and session.number < 16 and not session.superseded():
            time.sleep(0.02)
        if same and session.number < 16:
            session.end("superseded")
        else:
            paying.append(session)

    threads = [threading.Thread(target=drive, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [n for n in range(20) if read_session(files, n)] == list(range(1, 17))
    assert [one.number for one in paying] == [16 if same else 1]
    assert all("took the run over" in error if same else "is paying" in error for error in errors)


@pytest.mark.soak
def test_sixteen_processes_at_once(files: FarFiles, started: list[subprocess.Popen[str]]) -> None:
    for number in range(16):
        start(files, f"r{number}", "sleep", started)
    lines = [said(process) for process in started]
    assert [n for n in range(20) if read_session(files, n)] == list(range(1, 17))
    assert [line for line in lines if line.startswith("began")] == ["began 1"]


def test_old_sessions_are_not_looked_at(files: FarFiles) -> None:
    for _ in range(30):
        begin_session(files, "r", True).end("done")
    files.counts.clear()
    begin_session(files, "r", True)
    assert files.counts.total() <= 12


def test_a_damaged_record_is_one_line(files: FarFiles) -> None:
    begin_session(files, "r", True)
    path = files.root / "drivers" / "00000001.json"
    path.write_bytes(path.read_bytes().replace(b'"r"', b'"s"'))
    with pytest.raises(StoreError, match="00000001.json is damaged"):
        begin_session(files, "r", True)
    (line,) = lost_sessions(LocalFiles(files.root))
    assert "00000001.json is damaged; put it back" in line


def test_a_session_names_the_running_run_that_it_took_over(tmp_path: Path) -> None:
    files = LocalFiles(tmp_path)
    first = begin_session(files, "r1", True)
    taken: list[str] = []
    thread = threading.Thread(target=lambda: taken.append(begin_session(files, "r1", True).took_over))
    thread.start()
    while not first.superseded():
        time.sleep(0.01)
    # A driver gives way at its next beat, and by then the later one has listed the open sessions.
    time.sleep(1.5)
    first.end("superseded")
    thread.join()
    assert taken == [first.record.where]
    session = begin_session(files, "r2", False)
    session.end("done")
    assert begin_session(files, "r2", False).took_over == ""
