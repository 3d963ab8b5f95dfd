"""A model's limits over the whole cluster: a minute's requests and tokens, and calls at once. Part of the llm room.

Time comes in as an argument, so that every rule can be tested without waiting.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from summhay_ray.llm.models import Limits

MINUTE_S = 60.0
WINDOW_S = 60.6
"""A minute, and how much later than its time a call may reach the provider."""

MARGIN = 0.985
"""Share of a limit at which calls are spaced: what is sent a little late must not fall into a full minute."""

UNASKED_PAUSE_S = 0.25
"""After a 429 that names no time, nothing is sent to the model for so long at least."""

LONGEST_UNASKED_PAUSE_S = 60.0
CAREFUL_ROUNDS = 20.0
CUT_AT_MOST_EVERY_S = 1.0
"""Calls in flight together meet the same limit together: their 429s cut the cap once."""


@dataclass(slots=True)
class Permit:
    """What one sent call took of the limits, and when; corrected when the real use is known."""

    at: float
    amounts: dict[str, float]
    counts: bool = True
    """Whether it stands in the last minute's sums."""


class Pacer:
    """Spaces a model's calls, so that no sliding minute holds more requests or tokens than its limits allow.

    Two rules at once: each call takes its share of time (even spacing, no bursts), and the sum over the last minute stays
    below the limit, whatever the sizes. A call larger than a whole minute's limit goes alone, after an empty minute.
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
        """Whether there is any limit a minute."""
        return bool(self._rates)

    def earliest(self, now: float, amounts: Mapping[str, float]) -> float:
        """The first time, from `now` on, at which a call of these amounts may be sent."""
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
        """Note that a call is sent at `start`."""
        if not self._rates:
            return None
        permit = Permit(start, {name: amounts[name] for name in self._rates})
        for name, rate in self._rates.items():
            self._free_at[name] = start + MINUTE_S * amounts[name] / rate
            self._used[name] += amounts[name]
        self._window.append(permit)
        return permit

    def correct(self, permit: Permit, real: Mapping[str, float]) -> None:
        """Replace what was reserved for a call by what it really used."""
        for name in self._rates.keys() & real.keys():
            more = real[name] - permit.amounts[name]
            self._free_at[name] += MINUTE_S * more / self._rates[name]
            permit.amounts[name] = real[name]
            if permit.counts:
                self._used[name] += more

    def cancel(self, permit: Permit) -> None:
        """The call was not sent: its amounts are free; its time is gone."""
        self._forget(permit)
        permit.amounts = dict.fromkeys(permit.amounts, 0.0)

    def _forget(self, permit: Permit) -> None:
        if permit.counts:
            permit.counts = False
            for name, amount in permit.amounts.items():
                self._used[name] -= amount

    def round_of_429s(self, now: float) -> None:
        """A 429 named no time: nothing is sent for a while, twice as long after each round of them without an answer.

        A provider that answers some calls and refuses others wants fewer at once, and no longer pauses.
        """
        if now >= self._round_ends:
            seconds = min(UNASKED_PAUSE_S * 2.0**self._rounds, LONGEST_UNASKED_PAUSE_S)
            self._rounds = min(self._rounds + 1, 64)
            self._round_ends = now + seconds
            self.pause(now, seconds)

    def answered(self) -> None:
        """The model answers."""
        self._rounds = 0

    def pause(self, now: float, seconds: float) -> None:
        """Nothing is sent before `seconds` have passed (Retry-After)."""
        self.paused_until = max(self.paused_until, now + seconds)


@dataclass
class Slots:
    """Calls at once: tokens that the ledger gives to workers and gets back, never more of them out than the cap.

    The cap is halved by a 429 and grows by one for each round of answered calls, up to the limit; near the height at which
    the last 429 came, by one for twenty rounds.
    """

    most: int
    cap: float = 0.0
    held: dict[str, int] = field(default_factory=dict)
    _cut_at: float = -math.inf
    _too_high: float = math.inf
    _told: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.cap = float(self.most)

    @property
    def free(self) -> int:
        """Tokens that nobody holds; negative after a cut."""
        return int(self.cap) - sum(self.held.values())

    def cut(self, now: float) -> None:
        """The provider answered 429."""
        if now - self._cut_at >= CUT_AT_MOST_EVERY_S:
            self._cut_at = now
            self._too_high = self.cap
            self.cap = max(1.0, self.cap / 2)

    def grow(self) -> None:
        """A call was answered."""
        rounds = CAREFUL_ROUNDS if int(self.cap) + 1 >= int(min(self._too_high, self.most + 2)) else 1.0
        self.cap = min(float(self.most), self.cap + 1.0 / (rounds * self.cap))

    def give(self, worker: str, wanted: int) -> int:
        """Tokens for a worker that has `wanted` calls open; 0 where it has enough, or none is free."""
        given = max(0, min(wanted - self.held.get(worker, 0), self.free))
        if given:
            self.held[worker] = self.held.get(worker, 0) + given
            self._told.pop(worker, None)
        return given

    def take_back(self, worker: str, n: int) -> None:
        """The worker gave tokens back."""
        self.held[worker] = max(0, self.held.get(worker, 0) - n)
        self._told.pop(worker, None)

    def surplus(self, wanted: Mapping[str, int], granted: Mapping[str, int]) -> dict[str, int]:
        """Worker -> tokens that it may keep, for those that must give some back: others have less than their share.

        Where somebody can send (a call is `granted`) and has no token at all, who cannot send keeps none: with fewer tokens than
        workers, each would wait for the money that the other has reserved. Nobody is told the same twice, as long as nothing of
        it has come back.
        """
        hungry = [worker for worker, n in wanted.items() if n > self.held.get(worker, 0)]
        if self.free > 0 or not (hungry or self.free < 0):
            return {}
        shares = self._shares(wanted, granted)
        stuck = any(granted.get(worker) and not self.held.get(worker) for worker in hungry)
        if not stuck and self.free >= 0 and all(self.held.get(worker, 0) >= shares[worker] for worker in hungry):
            return {}
        may_keep = granted if stuck else wanted
        kept = {worker: min(n, shares[worker] if may_keep.get(worker) else 0) for worker, n in self.held.items() if n}
        news = {worker: n for worker, n in kept.items() if n < self.held[worker] and self._told.get(worker) != n}
        self._told.update(news)
        return news

    def _shares(self, wanted: Mapping[str, int], granted: Mapping[str, int]) -> dict[str, int]:
        """Worker -> its part of the cap; what is left over is theirs who are sending, so that no token changes hands in vain."""
        users = {worker for worker, n in (*wanted.items(), *self.held.items()) if n}
        order = sorted(users, key=lambda worker: (not (granted.get(worker) and self.held.get(worker)), worker))
        share, over = divmod(int(self.cap), max(1, len(users)))
        return {worker: share + (place < over) for place, worker in enumerate(order)}

    def forget(self, workers: Iterable[str]) -> None:
        """The workers are dead."""
        for worker in workers:
            self.held.pop(worker, None)
            self._told.pop(worker, None)
