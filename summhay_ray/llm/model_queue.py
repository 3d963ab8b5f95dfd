"""The ledger's state of one model (queued claims, calls in flight, limits and figures) and of the workers (signs of life)."""

from __future__ import annotations

import math
import sys
from collections import Counter, deque
from collections.abc import Mapping, Set
from dataclasses import dataclass, field

from summhay_ray.llm.ledger_messages import Claim
from summhay_ray.llm.model_settings import Limits

LONGEST_PAUSE_S = 3600.0
"""The longest pause that is obeyed. If a provider demands more, a quota is used up (429) or the service is down (503): the model
is given up, and a later start continues."""

COUNTED = ("calls", "requests", "input_tokens", "output_tokens", "limited", "retries", "fallbacks")
"""The counters of a model in a session; `calls` are those that were answered, `fallbacks` those sent in the standard tier for
lack of capacity in the requested one."""


@dataclass
class Flight:
    """A granted call that is not settled yet."""

    worker: str
    claim: Claim
    permit: Permit | None
    sending: bool = False
    """True if it holds one of the model's slots: from its grant until its attempt has ended."""
    logged_micros: int | None = None
    """The price of its answer, if the answer was found in the log before the settlement."""


@dataclass
class ModelQueue:
    """The state of one model. `cap` is None for a model that runs in the workers."""

    pacer: Pacer
    cap: Cap | None
    queues: dict[tuple[str, str], deque[Claim]] = field(default_factory=dict)
    """(worker, stage) -> its claims in order. The queues take turns: the last one served goes to the end. Stages are separate, so
    that a stage that waits for its budget does not block others."""
    sending_of: Counter[str] = field(default_factory=Counter)
    """Worker -> the slots that its calls hold."""
    unsettled: int = 0
    """Granted calls that are not settled: being sent, awaiting another attempt, or answered and not durable yet."""
    reached: bool = False
    """True once the endpoint has answered anything. Until then, if the ledger probes, one call is sent and the others wait for
    it."""
    stopped: tuple[str, str] | None = None
    """(class, reason) if the model was given up."""
    limited_since: float | None = None
    """Time of the first 429 since the last answer."""
    counts: Counter[str] = field(default_factory=lambda: Counter(dict.fromkeys(COUNTED, 0)))

    def free(self, silent: Set[str]) -> int:
        """How many calls may be granted: the free slots, including those of `silent` workers.

        Never more than `2 * concurrency` calls are unsettled, which bounds the calls lost if the process is killed.
        """
        if self.cap is None:
            return sys.maxsize
        sending = self.sending_of.total() - sum(self.sending_of[worker] for worker in silent)
        return max(0, min(int(self.cap.now) - sending, 2 * self.cap.most - self.unsettled))

    def hold(self, flight: Flight, *, sending: bool) -> None:
        """Give the call a slot, or take it back."""
        if flight.sending != sending:
            flight.sending = sending
            self.sending_of[flight.worker] += 1 if sending else -1

    def numbers(self, now: float) -> dict[str, float]:
        """Its figures: calls in flight and queued, and the cap; remaining seconds of a pause, and seconds with only 429s; calls
        answered, requests, tokens, 429s and retries so far."""
        return {
            "in_flight": self.sending_of.total(),
            "queued": sum(map(len, self.queues.values())),
            "cap": 0 if self.cap is None else int(self.cap.now),
            "paused_s": max(0.0, self.pacer.paused_until - now),
            "refused_s": 0.0 if self.limited_since is None else now - self.limited_since,
            **self.counts,
        }

    def limited(self, now: float) -> str:
        """Note a 429. Returns the reason for giving up the model if it has answered only 429s for too long; else empty."""
        self.counts["limited"] += 1
        if self.cap is not None:
            self.cap.cut(now)
        if self.limited_since is None:
            self.limited_since = now
        minutes = round((now - self.limited_since) / 60)
        too_long = now - self.limited_since > LONGEST_PAUSE_S
        return f"nothing but 429 for {minutes} minutes; run again when the quota is renewed" if too_long else ""

    def answered(self, input_tokens: int, output_tokens: int) -> None:
        """Note an answer."""
        self.limited_since = None
        # The next pause after a 429 is short again.
        self.pacer.rounds = 0
        self.counts["calls"] += 1
        self.counts["input_tokens"] += input_tokens
        self.counts["output_tokens"] += output_tokens
        if self.cap is not None:
            self.cap.grow()

    def enter(self, worker: str, claim: Claim) -> None:
        """Add a claim to the end of its stage's queue, or to the front if it is `first`."""
        queue = self.queues.setdefault((worker, claim.stage), deque())
        if claim.first:
            queue.appendleft(claim)
        else:
            queue.append(claim)

    def forget(self, worker: str) -> None:
        """Drop the claims of a dead worker."""
        for place in [place for place in self.queues if place[0] == worker]:
            del self.queues[place]
        self.sending_of.pop(worker, None)


MINUTE_S = 60.0
WINDOW_S = 60.6
"""The sliding window: a minute plus the maximum delay of a call on its way to the provider."""

MARGIN = 0.985
"""Share of a limit that is used, so that a call sent a little late does not exceed the limit of another minute."""

PAUSE_WITHOUT_TIME_S = 0.25
"""The shortest pause after a 429 without a time to wait."""

LONGEST_PAUSE_WITHOUT_TIME_S = 60.0
CAREFUL_ROUNDS = 20.0
CUT_AT_MOST_EVERY_S = 1.0
"""Concurrent calls hit the same limit: all their 429s within this time reduce the cap only once."""


@dataclass(slots=True)
class Permit:
    """The amounts that one call takes from the limits, and its time (`at`). They are corrected when the actual usage is known."""

    at: float
    amounts: dict[str, float]
    counts: bool = True
    """Whether it is included in the sums over the last minute."""


class Pacer:
    """Spaces a model's calls, so that no sliding minute holds more requests or tokens than its limits allow.

    Two rules hold at once. Each call takes its share of time, so that calls are evenly spaced. The sum over the last minute stays
    within the limit, for calls of any size. A call larger than a minute's limit is sent alone, after an empty minute.
    """

    def __init__(self, limits: Limits) -> None:
        rates = {"requests": limits.rpm, "input": limits.input_tpm, "output": limits.output_tpm}
        self._limits = {name: rate for name, rate in rates.items() if rate}
        self._rates = {name: rate * MARGIN for name, rate in self._limits.items()}
        self.limited = bool(self._rates)
        """Whether the model has any limit per minute."""
        self._free_at = dict.fromkeys(self._rates, -math.inf)
        self._window: deque[Permit] = deque()
        self._used = dict.fromkeys(self._rates, 0.0)
        self.paused_until = -math.inf
        self.rounds = 0
        self._round_ends = -math.inf

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
        """Replace the amounts reserved for a call by its actual usage."""
        for name in self._rates.keys() & real.keys():
            change = real[name] - permit.amounts[name]
            self._free_at[name] += MINUTE_S * change / self._rates[name]
            permit.amounts[name] = real[name]
            if permit.counts:
                self._used[name] += change

    def cancel(self, permit: Permit) -> None:
        """Release the amounts of an unsent call. Its share of time is lost."""
        self._forget(permit)
        permit.amounts = dict.fromkeys(permit.amounts, 0.0)

    def _forget(self, permit: Permit) -> None:
        if permit.counts:
            permit.counts = False
            for name, amount in permit.amounts.items():
                self._used[name] -= amount

    def round_of_429s(self, now: float) -> None:
        """Pause after a 429 without a time to wait.

        The pause doubles with each round of such 429s, and is short again after an answer: a provider that still answers some
        calls needs fewer concurrent calls, not longer pauses.
        """
        if now >= self._round_ends:
            seconds = min(PAUSE_WITHOUT_TIME_S * 2.0**self.rounds, LONGEST_PAUSE_WITHOUT_TIME_S)
            self.rounds = min(self.rounds + 1, 64)
            self._round_ends = now + seconds
            self.pause(now, seconds)

    def pause(self, now: float, seconds: float) -> None:
        """Send nothing for this many seconds (Retry-After)."""
        self.paused_until = max(self.paused_until, now + seconds)


@dataclass
class Cap:
    """The maximum number of a model's calls in flight.

    A 429 halves it. It then grows by one per round of answered calls, up to `most`; near the level of the last 429, by one per
    twenty rounds.
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


@dataclass
class Membership:
    """The workers of one ledger."""

    heard: dict[str, float] = field(default_factory=dict)
    """Worker -> time of its last sign of life, for all workers that are not evicted."""
    dying: set[str] = field(default_factory=set)
    """Dead workers whose log is being read. They keep their calls until they are evicted. A new sign of life ends this state."""
    silent: set[str] = field(default_factory=set)
    """Workers that have given no sign of life for a while."""
    evicted: set[str] = field(default_factory=set)
    """Workers that were evicted as dead. They may come back."""
    _dismissed: set[str] = field(default_factory=set)
    """Workers that are known to have ended."""
    _places: dict[str, str] = field(default_factory=dict)
    lost: set[str] = field(default_factory=set)
    """Places whose worker was evicted for silence, until a worker takes the place again."""

    @property
    def listen_s(self) -> float:
        """Seconds after which a worker that listens is answered without news."""
        return max(LISTEN_S, len(self.heard) / LISTENS_A_SECOND)

    def hear(self, worker: str, now: float) -> None:
        """Note a sign of life from the worker."""
        self.heard[worker] = now
        self.silent.discard(worker)
        if worker not in self._dismissed:
            self.dying.discard(worker)

    def dismiss(self, worker: str) -> bool:
        """Mark the worker dead now; False if it is unknown."""
        if worker not in self.heard:
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
        silent = {worker for worker, heard in self.heard.items() if now - heard > SILENT_S + self.listen_s}
        self.silent = silent | self._dismissed
        self.dying = {worker for worker in silent if now - self.heard[worker] > DEAD_AFTER_S} | self._dismissed
        return self.silent - before

    def evict(self, worker: str) -> None:
        """Evict a worker."""
        if worker not in self._dismissed:
            self.lost.update(place for place, holder in self._places.items() if holder == worker)
        self.heard.pop(worker, None)
        self.evicted.add(worker)
        for group in (self.dying, self.silent, self._dismissed):
            group.discard(worker)
