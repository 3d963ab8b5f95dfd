"""A model's limits over the whole cluster: requests and tokens per minute, and calls in flight. Part of the llm room.

`ledger.py` asks before each call. The time is always passed in as an argument, so that tests need not wait.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

from summhay_ray.llm.providers.model_settings import Limits

MINUTE_S = 60.0
WINDOW_S = 60.6
"""The sliding window: a minute, and the most by which a call may be late at the provider."""

MARGIN = 0.985
"""Share of a limit that calls are spaced for, so that a call sent a little late does not fall into a full minute."""

PAUSE_WITHOUT_TIME_S = 0.25
"""The shortest pause after a 429 that names no time to wait."""

LONGEST_PAUSE_WITHOUT_TIME_S = 60.0
CAREFUL_ROUNDS = 20.0
CUT_AT_MOST_EVERY_S = 1.0
"""Calls in flight at the same time meet the same limit: all their 429s within this time cut the cap once."""


@dataclass(slots=True)
class Permit:
    """What one call takes of the limits, and when it is sent (`at`). Corrected when the real usage is known."""

    at: float
    amounts: dict[str, float]
    counts: bool = True
    """Whether it is included in the sums over the last minute."""


class Pacer:
    """Spaces a model's calls, so that no sliding minute holds more requests or tokens than its limits allow.

    Two rules hold at once. Each call takes its share of time, so that calls are evenly spaced. The sum over the last minute stays
    within the limit, whatever the sizes of the calls. A call larger than a minute's limit goes alone, after an empty minute.
    """

    def __init__(self, limits: Limits) -> None:
        rates = {"requests": limits.rpm, "input": limits.input_tpm, "output": limits.output_tpm}
        self._limits = {name: rate for name, rate in rates.items() if rate}
        self._rates = {name: rate * MARGIN for name, rate in self._limits.items()}
        self._free_at = dict.fromkeys(self._rates, -math.inf)
        self._window: deque[Permit] = deque()
        self._used = dict.fromkeys(self._rates, 0.0)
        self.paused_until = -math.inf
        self._rounds = 0
        self._round_ends = -math.inf

    @property
    def limited(self) -> bool:
        """Whether the model has any limit per minute."""
        return bool(self._rates)

    def earliest(self, now: float, amounts: Mapping[str, float]) -> float:
        """The earliest time, not before `now`, at which a call of these amounts may be sent."""
        start = max([now, self.paused_until, *self._free_at.values()])
        while self._window and self._window[0].at <= now - WINDOW_S:
            self._forget(self._window.popleft())
        used = dict(self._used)
        for permit in self._window:
            if permit.at > start - WINDOW_S:
                if all(used[name] + amounts[name] <= limit for name, limit in self._limits.items()):
                    break
                start = permit.at + WINDOW_S
            for name in used:
                used[name] -= permit.amounts[name]
        return start

    def take(self, start: float, amounts: Mapping[str, float]) -> Permit | None:
        """Count a call that is sent at `start`. Returns its permit; None if the model has no limit per minute."""
        if not self._rates:
            return None
        permit = Permit(start, {name: amounts[name] for name in self._rates})
        for name, rate in self._rates.items():
            self._free_at[name] = start + MINUTE_S * amounts[name] / rate
            self._used[name] += amounts[name]
        self._window.append(permit)
        return permit

    def correct(self, permit: Permit, real: Mapping[str, float]) -> None:
        """Replace the amounts that were reserved for a call by its real usage."""
        for name in self._rates.keys() & real.keys():
            change = real[name] - permit.amounts[name]
            self._free_at[name] += MINUTE_S * change / self._rates[name]
            permit.amounts[name] = real[name]
            if permit.counts:
                self._used[name] += change

    def cancel(self, permit: Permit) -> None:
        """Release the amounts of a call that was not sent. Its share of time is lost."""
        self._forget(permit)
        permit.amounts = dict.fromkeys(permit.amounts, 0.0)

    def _forget(self, permit: Permit) -> None:
        if permit.counts:
            permit.counts = False
            for name, amount in permit.amounts.items():
                self._used[name] -= amount

    def round_of_429s(self, now: float) -> None:
        """Pause after a 429 that named no time to wait.

        The pause doubles with each round of such 429s, and starts anew after an answer: a provider that still answers some calls
        needs fewer calls at once, not longer pauses.
        """
        if now >= self._round_ends:
            seconds = min(PAUSE_WITHOUT_TIME_S * 2.0**self._rounds, LONGEST_PAUSE_WITHOUT_TIME_S)
            self._rounds = min(self._rounds + 1, 64)
            self._round_ends = now + seconds
            self.pause(now, seconds)

    def answered(self) -> None:
        """Note an answer: the next pause after a 429 is short again."""
        self._rounds = 0

    def pause(self, now: float, seconds: float) -> None:
        """Send nothing for this many seconds (Retry-After)."""
        self.paused_until = max(self.paused_until, now + seconds)


@dataclass
class Cap:
    """The most calls of a model that may be in flight at once.

    A 429 halves it. It then grows by one per round of answered calls, up to `most`; near the height at which the last 429 came,
    by one per twenty rounds.
    """

    most: int
    now: float = 0.0
    _cut_at: float = -math.inf
    _too_high: float = math.inf

    def __post_init__(self) -> None:
        self.now = float(self.most)

    def cut(self, now: float) -> None:
        """Halve the cap after a 429."""
        if now - self._cut_at >= CUT_AT_MOST_EVERY_S:
            self._cut_at = now
            self._too_high = self.now
            self.now = max(1.0, self.now / 2)

    def grow(self) -> None:
        """Raise the cap after an answer."""
        rounds = CAREFUL_ROUNDS if int(self.now) + 1 >= int(min(self._too_high, self.most + 2)) else 1.0
        self.now = min(float(self.most), self.now + 1.0 / (rounds * self.now))
