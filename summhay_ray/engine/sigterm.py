"""A worker's notice that its machine is about to go: SIGTERM, as spot machines, pods and `kill` give it. Part of the engine room.

Ray runs an async actor's code beside the main thread, where Python allows no signal handler, and acts on SIGTERM itself only
when the actor idles. So every worker process listens from its start (`listen` is Ray's setup hook, which runs in the main
thread) to the byte that Python writes for each signal, and whoever wants to hear of it asks `on_notice`.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable

SETUP_HOOK = "summhay_ray.engine.sigterm.listen"


class _Wire:
    """Where Python writes the numbers of signals as they come; one for a process."""

    reading: int | None = None


def listen() -> None:
    """Have signals told from now on. To be called in the main thread."""
    _Wire.reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)


def on_notice(act: Callable[[], None]) -> None:
    """Call `act` once, in a thread of its own, when SIGTERM comes. Nothing where nobody listens."""
    wire = _Wire.reading
    if wire is None:
        return

    def wait() -> None:
        while signal.SIGTERM not in os.read(wire, 64):
            pass
        act()

    threading.Thread(target=wait, name="notice", daemon=True).start()
