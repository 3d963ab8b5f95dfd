"""The plan that a run makes in the background ends with the run."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from summhay_ray.engine.run.run import _Planning


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
