"""The plan that a run makes in the background ends with the run."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from summhay_ray.engine.run import _Planning


def test_the_thread_ends_with_the_block_and_keeps_no_plan_that_nobody_wants() -> None:
    begun = threading.Event()
    kept: list[Any] = []

    def endless(unwanted: Callable[[], bool]) -> Any:
        begun.set()
        while not unwanted():
            time.sleep(0.001)
        return "half a plan"

    before = set(threading.enumerate())
    with _Planning(endless, kept.append):
        assert begun.wait(10)
    assert set(threading.enumerate()) <= before and kept == []


_NICED = """
import os, sys, threading
from summhay_ray.engine.run import _Planning
os.nice(12)
seen = []
def make(unwanted):
    seen.append(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))
    raise OSError
with _Planning(make) as planning:
    planning.result()
print(*seen)
"""


def test_a_niced_run_plans_at_no_higher_priority_than_its_own() -> None:
    own = os.getpriority(os.PRIO_PROCESS, 0)
    said = subprocess.run([sys.executable, "-c", _NICED], capture_output=True, text=True, check=True, timeout=60).stdout
    assert int(said) == min(19, own + 12)


def test_a_system_that_gives_threads_no_priority_plans_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: int) -> None:
        raise OSError(22, "Invalid argument")

    monkeypatch.setattr("os.setpriority", refuse)

    def make(_: Callable[[], bool]) -> Any:
        return "a plan"

    with _Planning(make) as planning:
        assert planning.result(10) == "a plan"
