"""A driver writes heartbeats while it works. It notices a take-over, and other processes see how it ended."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from far_files import FarFiles

from summhay_ray.engine.run import execution as heartbeat
from summhay_ray.engine.run.execution import beating
from summhay_ray.store import DriverSession, begin_session, has_ended
from summhay_ray.store.drivers import Process, record_death
from summhay_ray.store.names import StoreUnavailable

pytestmark = pytest.mark.core

BEAT_S = 0.02
ELSEWHERE = Process("far-away", "another machine", 7, "1")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeat, "BEAT_S", BEAT_S)


@pytest.fixture
def files(tmp_path: Path) -> FarFiles:
    return FarFiles(tmp_path)


def take(files: FarFiles, run: str = "r") -> DriverSession:
    return begin_session(files, run, True)


def beat_of(files: FarFiles, session: DriverSession) -> bytes:
    return (files.root / f"drivers/{session.number:08d}.beat").read_bytes()


def end_of(files: FarFiles, session: DriverSession) -> str:
    return str(json.loads((files.root / f"drivers/{session.number:08d}.end.json").read_bytes())["how"])


def until(true: Callable[[], bool], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.002)


def test_it_beats_while_it_works_and_no_longer(files: FarFiles) -> None:
    session = take(files)
    with beating(session) as kept:
        first = beat_of(files, session)
        until(lambda: beat_of(files, session) not in (first, b""))
        second = beat_of(files, session)
        until(lambda: beat_of(files, session) not in (second, b""))
        assert not has_ended(files, session.number) and kept.superseded == ""
        kept.how = "done"
    last = beat_of(files, session)
    assert end_of(files, session) == "done" and has_ended(files, session.number)
    time.sleep(3 * BEAT_S)
    assert beat_of(files, session) == last and not [one for one in threading.enumerate() if one.name == "heartbeat"]


def test_what_breaks_it_off_is_told_as_stopped_and_passes(files: FarFiles) -> None:
    session = take(files)
    with pytest.raises(KeyboardInterrupt), beating(session):
        raise KeyboardInterrupt
    assert end_of(files, session) == "stopped"


def test_it_hears_who_takes_the_run_over(files: FarFiles) -> None:
    session = take(files)
    with beating(session) as kept:
        later: list[DriverSession] = []
        taking = threading.Thread(target=lambda: later.append(begin_session(files, "r", True, here=ELSEWHERE)))
        taking.start()
        until(lambda: kept.superseded != "")
        assert kept.superseded == "on far-away, pid 7"
        kept.how = "done"
    assert end_of(files, session) == "superseded"
    taking.join(60)
    assert [one.number for one in later] == [2]


def test_another_run_takes_nothing_over(files: FarFiles) -> None:
    session = take(files)
    with beating(session) as kept:
        begin_session(files, "another", False)
        before = beat_of(files, session)
        until(lambda: beat_of(files, session) not in (before, b""))
        time.sleep(2 * BEAT_S)
        assert kept.superseded == ""


def test_one_that_was_found_dead_is_told(files: FarFiles) -> None:
    session = take(files)
    with beating(session) as kept:
        record_death(files, session.number, "on far-away, pid 9")
        until(lambda: kept.superseded != "")
        assert kept.superseded == "on far-away, pid 9"
    # The finder's record stays.
    assert end_of(files, session) == "dead"


def test_a_store_that_does_not_answer_for_a_while_ends_nothing(files: FarFiles) -> None:
    session = take(files)
    tries: list[str] = []

    def away(operation: str, name: str) -> None:
        tries.append(operation)
        raise StoreUnavailable(f"{name}: nobody answers")

    with beating(session) as kept:
        files.before = away
        until(lambda: tries.count("put") >= 3)
        files.before = lambda operation, name: None
        before = beat_of(files, session)
        until(lambda: beat_of(files, session) not in (before, b""))
        assert kept.superseded == ""
    assert end_of(files, session) == "stopped"
    other = take(files)
    with beating(other):
        files.before = away
    files.before = lambda operation, name: None
    # Nobody could be informed: missing heartbeats show the end.
    assert not has_ended(files, other.number)
