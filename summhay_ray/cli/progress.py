"""The live display of a run: a line that is rewritten on a terminal, a line each ten seconds elsewhere. Part of the cli room."""

from __future__ import annotations

import sys
import time

from rich.console import Console
from rich.live import Live
from rich.text import Text

from summhay_ray.grid import Progress

PLAIN_EVERY_S = 10.0


class ProgressDisplay:
    """A context that shows each `Progress` it is given, on stderr."""

    def __init__(self, every_s: float = PLAIN_EVERY_S) -> None:
        self._every_s = every_s
        self._live: Live | None = None
        self._next = 0.0

    def __enter__(self) -> ProgressDisplay:
        if sys.stderr.isatty():
            self._live = Live(Text("starting"), console=Console(stderr=True), refresh_per_second=4, transient=True)
            self._live.start(refresh=True)
        self._next = time.monotonic() + self._every_s
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:
            self._live.stop()

    def __call__(self, progress: Progress) -> None:
        """Show how far the run is."""
        if self._live:
            self._live.update(Text(line(progress)))
        elif time.monotonic() >= self._next:
            sys.stderr.write(line(progress) + "\n")
            sys.stderr.flush()
            self._next = time.monotonic() + self._every_s


def line(progress: Progress) -> str:
    """One line: cells, judgments, failures, dollars, time left."""
    budget = "" if progress.budget_usd is None else f" of ${progress.budget_usd:g}"
    left = "?" if progress.seconds_left is None else _time(progress.seconds_left)
    return (
        f"{progress.run}  cells {progress.cells_done}/{progress.cells_total}  "
        f"judgments {progress.judgments}/{progress.judgments_total}  failures {progress.failures}  "
        f"${progress.spent_usd:.4f}{budget}  {_time(progress.seconds)} gone, {left} left"
    )


def _time(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
