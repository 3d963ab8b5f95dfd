"""Who works for a ledger, who was last heard of when, and who is dead. Part of the llm room, for the room alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, KeysView

DEAD_AFTER_S = 60.0
"""A worker that has not been heard of for so long is dead: its keys are free, its reservations stay charged.

Longer than a process stands still on a machine that is full or is moved; of one that has died Ray starts another, which sits.
"""


LISTEN_S = 0.5
"""The longest that a worker listens in vain: it learns that the ledger is alive."""

LISTENS_A_SECOND = 400
"""Of all workers, in vain: with more workers than half of that each listens longer."""


class Membership:
    """The workers of one ledger. A worker tells which log writers are its own."""

    def __init__(self) -> None:
        self.dying: set[str] = set()
        """Dead workers whose records may still lie on a disk of their own: their keys are kept until they are evicted."""
        self._heard: dict[str, float] = {}
        self._writers: dict[str, set[str]] = {}
        self._epochs: Counter[str] = Counter()
        self._seats: dict[str, str] = {}
        self._evicted: set[str] = set()

    @property
    def workers(self) -> KeysView[str]:
        """All that were heard of and are not evicted."""
        return self._heard.keys()

    @property
    def listen_s(self) -> float:
        """How long a worker may listen in vain."""
        return max(LISTEN_S, len(self._heard) / LISTENS_A_SECOND)

    def hear(self, worker: str, now: float) -> None:
        """The worker is alive."""
        self._heard[worker] = now

    def dismiss(self, worker: str) -> bool:
        """The worker is dead, however lately it was heard; False where nobody knows it."""
        if worker not in self._heard:
            return False
        self._heard[worker] = float("-inf")
        return True

    def sit(self, worker: str, seat: str, now: float) -> str:
        """The worker takes a seat; gives who had it until now, empty where nobody else had."""
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
        """Log writers are the worker's own; gives those that are not evicted."""
        living = set(writers) - self._evicted
        if living:
            self._writers.setdefault(worker, set()).update(living)
        return living

    def writers_of(self, worker: str) -> list[str]:
        """The log writers of a worker."""
        return sorted(self._writers.get(worker, ()))

    def silent(self, now: float) -> set[str]:
        """Those that must be dead by now and were not known to be."""
        return {worker for worker, heard in self._heard.items() if now - heard > DEAD_AFTER_S} - self.dying

    def evict(self, dead: set[str]) -> set[str]:
        """The workers are gone; gives their log writers."""
        writers = {writer for worker in dead for writer in self._writers.pop(worker, set())}
        for worker in dead:
            self._heard.pop(worker, None)
            self._epochs[worker] += 1
        self.dying -= dead
        self._evicted |= writers
        return writers
