"""Exact rate limits over sliding minutes."""

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

MINUTE_S = 60.0


@dataclass(slots=True)
class Amount:
    """The amount that one request uses, and the time (monotonic seconds). It leaves the window `MINUTE_S` later."""

    at: float
    amount: int


@dataclass(eq=False)
class Minute:
    """Amounts used within the last 60 seconds. Those at `now - 60` and before no longer count."""

    _taken: deque[Amount] = field(init=False, default_factory=deque)
    _total: int = field(init=False, default=0)

    def total(self, now: float) -> int:
        """Return the total of the minute that ends at `now`."""
        while self._taken and self._taken[0].at <= now - MINUTE_S:
            self.undo(self._taken.popleft())
        return self._total

    def wait_s(self, amount: int, limit: float, now: float) -> float:
        """Return the seconds until `amount` fits under `limit`: 0 if it fits now, infinite if it never will."""
        over = self.total(now) + amount - limit
        if over <= 0:
            return 0.0
        if amount > limit:
            return math.inf
        for taken in self._taken:
            over -= taken.amount
            if over <= 0:
                return taken.at + MINUTE_S - now
        return math.inf

    def take(self, amount: int, now: float) -> Amount:
        """Add an amount, after the caller has checked it with `wait_s`."""
        taken = Amount(now, amount)
        self._taken.append(taken)
        self._total += amount
        return taken

    def undo(self, taken: Amount) -> None:
        """Remove an amount again."""
        self._total -= taken.amount
        taken.amount = 0


@dataclass
class Limiter:
    """The three limit windows of one key and model."""

    rpm: Minute = field(default_factory=Minute)
    input_tpm: Minute = field(default_factory=Minute)
    output_tpm: Minute = field(default_factory=Minute)


def most_in_a_minute(times: Sequence[float]) -> int:
    """Return the largest number of `times` (seconds, ascending) within any 60 seconds."""
    most = first = 0
    for last, time in enumerate(times):
        while times[first] <= time - MINUTE_S:
            first += 1
        most = max(most, last - first + 1)
    return most
