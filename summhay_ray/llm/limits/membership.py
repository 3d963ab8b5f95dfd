"""The workers of a ledger: their last signs of life and evictions."""

from __future__ import annotations

from collections.abc import KeysView

SILENT_S = 4.0
"""A worker without a sign of life for this long lends its slots to others. It sends no call with a grant older than this."""

DEAD_AFTER_S = 60.0
"""After this time it counts as dead: others may claim its calls, and their cost is uncertain.

It is longer than a process stops while its machine is overloaded or migrated. If a process died, Ray starts another
one, which takes its place at once.
"""

LISTEN_S = 0.5
"""How long a worker listens before it gets an answer without news, which shows that the ledger is alive."""

LISTENS_A_SECOND = 400
"""Answers without news per second, over all workers. With more than half this many workers, each listens longer."""


class Membership:
    """The workers of one ledger."""

    def __init__(self) -> None:
        self.dying: set[str] = set()
        """Dead workers whose log is being read. They keep their calls until they are evicted. A new sign of life ends this
        state."""
        self._dismissed: set[str] = set()
        """Workers that are known to have ended."""
        self.silent: set[str] = set()
        """Workers that have given no sign of life for a while."""
        self._heard: dict[str, float] = {}
        self.evicted: set[str] = set()
        """Workers that were evicted as dead. They may come back."""
        self._places: dict[str, str] = {}
        self.lost: set[str] = set()
        """Places whose worker was evicted for silence, until a worker takes the place again."""

    @property
    def workers(self) -> KeysView[str]:
        """All workers that have given a sign of life and are not evicted."""
        return self._heard.keys()

    @property
    def listen_s(self) -> float:
        """Seconds after which a worker that listens is answered without news."""
        return max(LISTEN_S, len(self._heard) / LISTENS_A_SECOND)

    def hear(self, worker: str, now: float) -> None:
        """Note a sign of life from the worker."""
        self._heard[worker] = now
        self.silent.discard(worker)
        if worker not in self._dismissed:
            self.dying.discard(worker)

    def dismiss(self, worker: str) -> bool:
        """Mark the worker dead now; False if it is unknown."""
        if worker not in self._heard:
            return False
        self._dismissed.add(worker)
        return True

    def hello(self, worker: str, place: str, now: float) -> str:
        """Note a worker that takes a place. Returns the previous worker of the place; empty if there was none, or if it is the
        same."""
        before = self._places.get(place, "")
        self._places[place] = worker
        self.lost.discard(place)
        self.hear(worker, now)
        return "" if before == worker else before

    def look(self, now: float) -> set[str]:
        """Update the silent workers; returns the newly silent ones. Workers that are silent for too long become dying."""
        before = self.silent
        silent = {worker for worker, heard in self._heard.items() if now - heard > SILENT_S + self.listen_s}
        self.silent = silent | self._dismissed
        self.dying = {worker for worker in silent if now - self._heard[worker] > DEAD_AFTER_S} | self._dismissed
        return self.silent - before

    def evict(self, worker: str) -> None:
        """Evict a worker."""
        if worker not in self._dismissed:
            self.lost.update(place for place, holder in self._places.items() if holder == worker)
        self._heard.pop(worker, None)
        self.evicted.add(worker)
        for group in (self.dying, self.silent, self._dismissed):
            group.discard(worker)
