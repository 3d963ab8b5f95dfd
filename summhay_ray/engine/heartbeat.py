"""A start of a run holds its place: beats for it, and hears when another start takes the run over. Part of the engine room."""

from __future__ import annotations

import contextlib
import threading
from types import TracebackType

from summhay_ray.store import DriverSession, StoreError

BEAT_EVERY_S = 2.0


class Heartbeat:
    """While the block runs the tenure is alive for others to see; after it, it has ended, and others see how."""

    def __init__(self, session: DriverSession) -> None:
        self.session = session
        self.superseded = ""
        """Who has taken the run over; empty while nobody has."""
        self.asked_to_stop = False
        """Whether somebody asked this start to stop."""
        self.how = "stopped"
        """How the tenure ends: stopped, until its run is done."""
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="tenure", daemon=True)

    def __enter__(self) -> Heartbeat:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._over.set()
        self._thread.join()
        # A store that cannot be reached now hears of the end by the beats that do not come.
        with contextlib.suppress(StoreError, OSError):
            self.session.end("superseded" if self.superseded else self.how)

    def _beat(self) -> None:
        while not self._over.wait(BEAT_EVERY_S):
            # A store that does not answer for a while is asked again; what must not happen without it, waits for it anyway.
            with contextlib.suppress(StoreError, OSError):
                self.session.beat()
                self.superseded = self.superseded or self.session.superseded() or ""
                self.asked_to_stop = self.asked_to_stop or self.session.asked_to_stop()
