"""Lets a worker react to SIGTERM, which spot machines, pods and `kill` send before the end. Part of the engine room.

Ray runs an async actor outside the main thread, where Python allows no signal handler, and acts on SIGTERM itself only when the
actor is idle. So every worker process calls `listen` at its start (as Ray's setup hook, in the main thread): from then on Python
writes a byte to a pipe for each signal, and `on_notice` reads it.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable

SETUP_HOOK = "summhay_ray.engine.sigterm.listen"


class _Wire:
    """The pipe to which Python writes the numbers of signals; one per process."""

    reading: int | None = None


def listen() -> None:
    """Write signals to the pipe from now on. Must be called in the main thread."""
    _Wire.reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)


def on_notice(act: Callable[[], None]) -> None:
    """Call `act` once, in a thread of its own, when SIGTERM comes. Does nothing if `listen` was not called."""
    wire = _Wire.reading
    if wire is None:
        return

    def wait() -> None:
        while signal.SIGTERM not in os.read(wire, 64):
            pass
        act()

    threading.Thread(target=wait, name="notice", daemon=True).start()
