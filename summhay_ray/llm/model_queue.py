"""The ledger's state of one model (queued claims, calls in flight, limits and figures) and of the workers (heartbeats)."""

from __future__ import annotations

import math
import sys
from bisect import insort
from collections import Counter, deque
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field
from typing import Literal

from summhay_ray.llm.ledger_messages import Claim
from summhay_ray.llm.model_settings import Limits

LONGEST_PAUSE_S = 3600.0
"""The longest pause that is obeyed. If a provider demands more, a quota is used up (429) or the service is down (503). The model
is then stopped, and a later start continues."""

Place = tuple[str, str]
"""A worker and a stage."""
Wait = Literal["record", "money", "driver"]
"""The event for which a place waits: the next money record, money that calls in flight release, or a heartbeat of the driver."""

COUNTED = ("calls", "requests", "input_tokens", "output_tokens", "limited", "retries", "fallbacks")
"""The counters of a model in a session. `calls`: answered calls. `fallbacks`: calls that were sent in the standard tier because
the requested tier had no capacity."""


@dataclass
class Flight:
    """A granted call that is not settled yet."""

    worker: str
    claim: Claim
    permit: Permit | None
    sending: bool = False
    """True if the call has one of the model's slots: from its grant until its attempt has ended."""
    logged_micros: int | None = None
    """The price of the answer, if the answer was found in the log before the settlement."""


@dataclass
class ModelQueue:
    """The state of one model. `cap` is None for a model that runs in the workers.

    A place is a worker and a stage whose claims wait. If the first claim of a place cannot be granted now, the place is set
    aside, and is tried again only after the event for which it waits. So the work per message does not depend on the number of
    workers.
    """

    pacer: Pacer
    cap: Cap | None
    silent: Set[str] = frozenset()
    """Workers without heartbeats. They get no grants, and others use their slots. Call `silence` when a worker is added to this
    set, and `hear` when one is removed."""
    probing: bool = False
    """Whether the first call is sent alone."""
    queues: dict[str, dict[str, deque[Claim]]] = field(default_factory=dict)
    """Worker -> stage -> its claims in order. A worker's stages take turns: a served stage moves to the end. Stages are separate,
    so that a stage which waits for its budget does not block others."""
    sending_of: Counter[str] = field(default_factory=Counter)
    """Worker -> the number of slots of its calls."""
    n_sending: int = 0
    """The sum of the values of `sending_of`."""
    n_lent: int = 0
    """The part of `n_sending` that belongs to silent workers."""
    unsettled: int = 0
    """Number of granted calls that are not settled: they are being sent, wait for another attempt, or have an answer that is not
    durable yet."""
    reached: bool = False
    """True as soon as the endpoint has answered anything. With `probing`, all other calls wait for the first call until then."""
    stopped: tuple[str, str] | None = None
    """(class, reason) if the model was stopped."""
    limited_since: float | None = None
    """Time of the first 429 since the last answer."""
    counts: Counter[str] = field(default_factory=lambda: Counter(dict.fromkeys(COUNTED, 0)))
    _ready: dict[int, dict[str, None]] = field(default_factory=dict, init=False)
    """Number of slots -> the workers that have so many slots and a place to try, in the order in which they began to wait."""
    _slots: dict[str, int] = field(default_factory=dict, init=False)
    """Worker in `_ready` -> the number of slots under which it is listed."""
    first: dict[Place, None] = field(default_factory=dict, init=False)
    """Places to try first: those whose first claim the newest money record lists, and those with a claim marked `first`."""
    _aside: dict[Place, Wait] = field(default_factory=dict, init=False)
    """Place that is set aside -> the event for which it waits."""
    _waits: dict[Wait, dict[Place, None]] = field(default_factory=dict, init=False)
    """The inverse of `_aside`, without the places that wait for money."""
    short: dict[str, list[tuple[int, Place]]] = field(default_factory=dict, init=False)
    """Stage -> (worst case of the first claim, place) of each place that waits for money, sorted."""

    def free(self) -> int:
        """Return the number of calls that may be granted now: the free slots, including those of silent workers.

        At most `2 * concurrency` calls are unsettled, which bounds how many calls are lost if a process is killed.
        """
        if self.cap is None:
            return sys.maxsize
        if self.probing and not self.reached and self.unsettled:
            return 0
        free = max(0, min(int(self.cap.now) - self.n_sending + self.n_lent, 2 * self.cap.most - self.unsettled))
        return min(1, free) if self.probing and not self.reached else free

    def hold(self, flight: Flight, *, sending: bool) -> None:
        """Give the call a slot, or take the slot back."""
        if flight.sending != sending:
            flight.sending = sending
            change = 1 if sending else -1
            self.sending_of[flight.worker] += change
            self.n_sending += change
            if flight.worker in self.silent:
                self.n_lent += change
            elif flight.worker in self._slots:
                self.sort_in(flight.worker)

    def numbers(self, now: float) -> dict[str, float]:
        """Return the model's figures: calls in flight, queued calls, the cap, the remaining seconds of a pause, the seconds with
        only 429s, and the counters of the session."""
        return {
            "in_flight": self.n_sending,
            "queued": sum(len(claims) for stages in self.queues.values() for claims in stages.values()),
            "cap": 0 if self.cap is None else int(self.cap.now),
            "paused_s": max(0.0, self.pacer.paused_until - now),
            "refused_s": 0.0 if self.limited_since is None else now - self.limited_since,
            **self.counts,
        }

    def note_429(self, now: float) -> str:
        """Record a 429. If the model has answered only 429s for too long, returns the reason for stopping it; else an empty
        text."""
        self.counts["limited"] += 1
        if self.cap is not None:
            self.cap.cut(now)
        if self.limited_since is None:
            self.limited_since = now
        minutes = round((now - self.limited_since) / 60)
        too_long = now - self.limited_since > LONGEST_PAUSE_S
        return f"nothing but 429 for {minutes} minutes; run again when the quota is renewed" if too_long else ""

    def note_answer(self, input_tokens: int, output_tokens: int) -> None:
        """Record an answer."""
        self.limited_since = None
        # Make the next pause after a 429 short again.
        self.pacer.rounds = 0
        self.counts["calls"] += 1
        self.counts["input_tokens"] += input_tokens
        self.counts["output_tokens"] += output_tokens
        if self.cap is not None:
            self.cap.grow()

    def enter(self, worker: str, claim: Claim) -> None:
        """Add a claim to the end of its stage's queue, or to the front if it is `first`."""
        claims = self.queues.setdefault(worker, {}).setdefault(claim.stage, deque())
        if claim.first:
            claims.appendleft(claim)
            self._wake((worker, claim.stage))
            if worker not in self.silent:
                self.first[worker, claim.stage] = None
        else:
            claims.append(claim)
        if worker not in self._slots:
            self.sort_in(worker)

    def next_place(self) -> Place | None:
        """Return the place to try next; None if there is none. Apart from `first`, it belongs to a worker with the fewest slots.
        Usually this worker has just returned a slot, and gets it back in the same exchange."""
        if self.first:
            return next(iter(self.first))
        if not self._ready:
            return None
        worker = next(iter(self._ready[min(self._ready)]))
        return worker, next(stage for stage in self.queues[worker] if (worker, stage) not in self._aside)

    def remove_first(self, place: Place) -> None:
        """Remove the first claim of a place, because it was answered. Its stage and its worker move to the end."""
        worker, stage = place
        claims = self.queues[worker].pop(stage)
        claims.popleft()
        if claims:
            self.queues[worker][stage] = claims
        else:
            self.first.pop(place, None)
            if not self.queues[worker]:
                del self.queues[worker]
        self.sort_in(worker)

    def set_aside(self, place: Place, wait: Wait) -> None:
        """Set a place aside until `wake` is called for the event."""
        self.first.pop(place, None)
        self._aside[place] = wait
        if wait == "money":
            insort(self.short.setdefault(place[1], []), (self.queues[place[0]][place[1]][0].worst_micros, place))
        else:
            self._waits.setdefault(wait, {})[place] = None
        self.sort_in(place[0])

    def wake(self, wait: Wait) -> None:
        """Called when this event has happened: make the places that wait for it ready. Places whose claims a record lists come
        first."""
        for place in self._waits.pop(wait, ()):
            del self._aside[place]
            if wait == "record":
                self.first[place] = None
            self.sort_in(place[0])

    def wake_short(self, room: Callable[[str], tuple[float, float]]) -> None:
        """Make places that wait for money ready again, if their first claim fits the budgets now, or can never fit them.

        `room`: stage -> (the largest worst-case cost that fits now, the largest that would fit if all calls in flight cost
        nothing).
        """
        for stage, short in list(self.short.items()):
            now, ever = room(stage)
            while short and (short[0][0] <= now or short[-1][0] > ever):
                micros, place = short.pop(0 if short[0][0] <= now else -1)
                now -= micros
                del self._aside[place]
                self.sort_in(place[0])
            if not short:
                del self.short[stage]

    def _wake(self, place: Place) -> None:
        wait = self._aside.pop(place, None)
        if wait == "money":
            self.short[place[1]] = [waiting for waiting in self.short[place[1]] if waiting[1] != place]
        elif wait is not None:
            del self._waits[wait][place]
        self.sort_in(place[0])

    def sort_in(self, worker: str) -> None:
        """List the worker in `_ready` under its number of slots, after the others. If it has no place to try, do not list it."""
        if (slots := self._slots.pop(worker, None)) is not None:
            del self._ready[slots][worker]
            if not self._ready[slots]:
                del self._ready[slots]
        stages = self.queues.get(worker)
        if not stages or worker in self.silent:
            return
        if not self._aside or any((worker, stage) not in self._aside for stage in stages):
            slots = self._slots[worker] = self.sending_of[worker]
            self._ready.setdefault(slots, {})[worker] = None

    def silence(self, worker: str) -> list[Claim]:
        """Mark a worker as silent. Returns its claims, which now wait only for the worker to come back."""
        self.n_lent += self.sending_of[worker]
        return self._reset(worker)

    def hear(self, worker: str) -> None:
        """Mark a silent worker as back."""
        self.n_lent -= self.sending_of[worker]
        self.sort_in(worker)

    def drop(self, worker: str) -> list[Claim]:
        """Remove the worker's claims, and return them."""
        dropped = self._reset(worker)
        self.queues.pop(worker, None)
        self.sort_in(worker)
        return dropped

    def forget(self, worker: str) -> list[Claim]:
        """Remove the claims and slots of a dead worker, and return the claims."""
        slots = self.sending_of.pop(worker, 0)
        self.n_sending -= slots
        self.n_lent -= slots if worker in self.silent else 0
        return self.drop(worker)

    def _reset(self, worker: str) -> list[Claim]:
        for stage in self.queues.get(worker, ()):
            self.first.pop((worker, stage), None)
            self._wake((worker, stage))
        return [claim for claims in self.queues.get(worker, {}).values() for claim in claims]


MINUTE_S = 60.0
WINDOW_S = 60.6
"""The length of the sliding window: a minute plus the maximum delay of a call on its way to the provider."""

MARGIN = 0.985
"""The share of a limit that is used. The rest is for calls that are sent a little late, and so count in the next minute."""

PAUSE_WITHOUT_TIME_S = 0.25
"""Minimum pause after a 429 that does not say how long to wait."""

LONGEST_PAUSE_WITHOUT_TIME_S = 60.0
CAREFUL_ROUNDS = 20.0
CUT_AT_MOST_EVERY_S = 1.0
"""All 429s within this time reduce the cap only once, since concurrent calls exceed the same limit."""


@dataclass(slots=True)
class Permit:
    """The amounts that one call uses of the limits, and its time (`at`). The amounts are corrected when the actual usage is
    known."""

    at: float
    amounts: dict[str, float]
    counts: bool = True
    """Whether the sums over the last minute include it."""


class Pacer:
    """Spaces a model's calls, so that no sliding minute has more requests or tokens than the limits allow.

    There are two rules. Each call takes its share of time, so that calls are evenly spaced. The sum over the last minute stays
    within the limit, for calls of any size. If a call exceeds a minute's limit, it is sent alone, after an empty minute.
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
        """Return the earliest time, not before `now`, at which a call with these amounts may be sent."""
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

    def take(self, start: float, amounts: Mapping[str, float]) -> Permit:
        """Count a call that is sent at `start`. Returns its permit."""
        permit = Permit(start, {name: amounts[name] for name in self._rates})
        for name, rate in self._rates.items():
            self._free_at[name] = start + MINUTE_S * amounts[name] / rate
            self._used[name] += amounts[name]
        self._window.append(permit)
        return permit

    def correct(self, permit: Permit, real: Mapping[str, float]) -> None:
        """Replace the reserved amounts of a call by its actual usage."""
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
        """Pause after a 429 that does not say how long to wait.

        The pause doubles with each round of these 429s, and is short again after an answer. A provider that still answers some
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

    A 429 halves it. Then it grows by one per round of answered calls, up to `most`. Near the level of the last 429, it grows by
    one per twenty rounds.
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
"""If a worker sends no heartbeat for this long, others may use its slots. It sends no call whose grant is older than this."""

DEAD_AFTER_S = 60.0
"""After this time, a silent worker counts as dead. Others may claim its calls, whose cost is then uncertain.

This is longer than a process pauses while its machine is overloaded or migrated. If a process dies, Ray starts another one, which
takes its place at once.
"""

LOOK_EVERY_S = 0.1
"""Minimum seconds between two checks of all workers."""

LISTEN_S = 0.5
"""Seconds after which a listening worker gets an answer even without news, which shows that the ledger is alive."""

LISTENS_A_SECOND = 400
"""Maximum number of answers without news per second, for all workers. With more than half this many workers, each listens
longer."""


@dataclass
class Membership:
    """The workers of one ledger."""

    heard: dict[str, float] = field(default_factory=dict)
    """Worker -> time of its last heartbeat, for all workers that are not evicted."""
    dying: set[str] = field(default_factory=set)
    """Dead workers whose answers are being read from the log. They keep their calls until they are evicted. A heartbeat ends this
    state."""
    silent: set[str] = field(default_factory=set)
    """Workers that have sent no heartbeat for a while."""
    evicted: set[str] = field(default_factory=set)
    """Workers that were evicted as dead. They may come back."""
    _dismissed: set[str] = field(default_factory=set)
    """Workers that are known to have ended."""
    _places: dict[str, str] = field(default_factory=dict)
    _look_at: float = -math.inf
    """The time of the next check."""
    lost: set[str] = field(default_factory=set)
    """Places whose silent worker was evicted, until a worker takes the place again."""

    @property
    def listen_s(self) -> float:
        """Seconds after which a listening worker gets an answer without news."""
        return max(LISTEN_S, len(self.heard) / LISTENS_A_SECOND)

    def hear(self, worker: str, now: float) -> bool:
        """Record a heartbeat of the worker. Returns whether the worker was silent."""
        self.heard[worker] = now
        if worker not in self._dismissed:
            self.dying.discard(worker)
        was_silent = worker in self.silent
        self.silent.discard(worker)
        return was_silent

    def dismiss(self, worker: str) -> bool:
        """Mark the worker as dead now. Returns False if it is unknown."""
        if worker not in self.heard:
            return False
        self._dismissed.add(worker)
        self._look_at = -math.inf
        return True

    def hello(self, worker: str, place: str, now: float) -> str:
        """Register a worker at a place. Returns the previous worker of the place; empty if there was none or if it is the
        same."""
        before = self._places.get(place, "")
        self._places[place] = worker
        self.lost.discard(place)
        self.hear(worker, now)
        return "" if before == worker else before

    def look(self, now: float) -> set[str]:
        """Update the silent workers, and return the newly silent ones. Workers that are silent for too long become dying."""
        if now < self._look_at:
            return set()
        self._look_at, patience_s = now + LOOK_EVERY_S, SILENT_S + self.listen_s
        silent = {worker for worker, heard in self.heard.items() if now - heard > patience_s}
        self.dying = {worker for worker in silent if now - self.heard[worker] > DEAD_AFTER_S} | self._dismissed
        newly = (silent | self._dismissed) - self.silent
        self.silent |= newly
        return newly

    def evict(self, worker: str) -> None:
        """Evict a worker."""
        if worker not in self._dismissed:
            self.lost.update(place for place, holder in self._places.items() if holder == worker)
        self.heard.pop(worker, None)
        self.evicted.add(worker)
        for group in (self.dying, self.silent, self._dismissed):
            group.discard(worker)
