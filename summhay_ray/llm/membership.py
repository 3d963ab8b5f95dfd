"""The workers of a ledger: their last signs of life, log writers and evictions. Part of the llm room, for the room alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, KeysView

DEAD_AFTER_S = 60.0
"""After this time without a sign of life a worker is dead: others may claim its calls, and its reservations stay charged.

Longer than a process stands still while its machine is overloaded or migrated. For a process that died, Ray starts another one,
which takes its seat at once.
"""

LISTEN_S = 0.5
"""How long a worker listens before it gets an answer without news, which shows that the ledger is alive."""

LISTENS_A_SECOND = 400
"""Answers without news per second, over all workers. With more than half as many workers, each listens longer."""


class Membership:
    """The workers of one ledger, and the log writers of each."""

    def __init__(self) -> None:
        self.dying: set[str] = set()
        """Dead workers whose records may still lie on their own disks. They keep their calls until they are evicted."""
        self._heard: dict[str, float] = {}
        self._writers: dict[str, set[str]] = {}
        self._epochs: Counter[str] = Counter()
        self._seats: dict[str, str] = {}
        self._evicted: set[str] = set()

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

    def dismiss(self, worker: str) -> bool:
        """Mark the worker dead now; False if it is unknown."""
        if worker not in self._heard:
            return False
        self._heard[worker] = float("-inf")
        return True

    def sit(self, worker: str, seat: str, now: float) -> str:
        """Give the worker a seat. Returns its previous holder; empty if there was none, or the worker itself."""
        before = self._seats.get(seat, "")
        self._seats[seat] = worker
        self._heard[worker] = now
        return "" if before == worker else before

    def is_evicted(self, worker: str) -> bool:
        """Whether the worker, or the log writer of this name, was evicted."""
        return worker in self._evicted or self._epochs[worker] > 0

    def epoch(self, worker: str) -> int:
        """How often the worker was evicted."""
        return self._epochs[worker]

    def writes(self, worker: str, writers: Iterable[str]) -> set[str]:
        """Record log writers as the worker's own. Returns those that are not evicted."""
        living = set(writers) - self._evicted
        if living:
            self._writers.setdefault(worker, set()).update(living)
        return living

    def writers_of(self, worker: str) -> list[str]:
        """The log writers of a worker."""
        return sorted(self._writers.get(worker, ()))

    def silent(self, now: float) -> set[str]:
        """Workers that count as dead by now and are not yet marked as dying."""
        return {worker for worker, heard in self._heard.items() if now - heard > DEAD_AFTER_S} - self.dying

    def evict(self, dead: set[str]) -> set[str]:
        """Evict the workers. Returns their log writers."""
        writers = {writer for worker in dead for writer in self._writers.pop(worker, set())}
        for worker in dead:
            self._heard.pop(worker, None)
            self._epochs[worker] += 1
        self.dying -= dead
        self._evicted |= writers
        return writers
