"""The heartbeat of a start: shows that its driver lives, and notices takeovers and stop requests."""

from __future__ import annotations

import contextlib
import threading
from types import TracebackType

from summhay_ray.store import BEAT_S, DriverSession, StoreError


class Heartbeat:
    """Keeps the driver's session alive in the store while the block runs; afterwards records how it ended."""

    def __init__(self, session: DriverSession) -> None:
        self.session = session
        self.superseded = ""
        """The driver that took the run over; empty if none did."""
        self.asked_to_stop = False
        """Whether `summhay stop` asked this start to stop."""
        self.how = "stopped"
        """How the session ends: "stopped" unless the run sets "done"."""
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="heartbeat", daemon=True)

    def __enter__(self) -> Heartbeat:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._over.set()
        self._thread.join()
        # If the store cannot be reached, the missing beats show the end.
        with contextlib.suppress(StoreError, OSError):
            self.session.end("superseded" if self.superseded else self.how)

    def _beat(self) -> None:
        while not self._over.wait(BEAT_S):
            # If the store does not answer, retry with the next beat: everything that needs the store waits for it anyway.
            with contextlib.suppress(StoreError, OSError):
                self.session.beat()
                self.superseded = self.superseded or self.session.superseded() or ""
                self.asked_to_stop = self.asked_to_stop or self.session.asked_to_stop()
