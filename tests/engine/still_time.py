"""An event loop whose clock advances only while all tasks wait, so that a busy machine changes no order."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

R = TypeVar("R")


class _Selector(selectors.DefaultSelector):  # type: ignore[misc,valid-type]
    """Never waits: it advances the clock by the time to wait. A turn of the loop takes a microsecond."""

    now = 1000.0

    def select(self, timeout: float | None = None) -> Any:
        if timeout is None:
            raise RuntimeError("all wait, and nothing is to come")
        self.now += timeout + 1e-6
        return super().select(0)


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        super().__init__(selector := _Selector())
        self._told = selector

    def time(self) -> float:
        return float(self._told.now)


def run(work: Coroutine[Any, Any, R]) -> R:
    """Like `asyncio.run`, for work that waits only for time and its own tasks. A wait that nothing ends is an error."""
    with asyncio.Runner(loop_factory=_Loop) as runner:
        return runner.run(work)
