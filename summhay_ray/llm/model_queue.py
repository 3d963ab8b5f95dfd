"""What the ledger keeps of one model: who waits, who was granted, its limits and figures. Part of the llm room."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Set
from dataclasses import dataclass, field

from summhay_ray.llm.messages import Claim
from summhay_ray.llm.meter import Meter
from summhay_ray.llm.pacing import Pacer, Permit, Slots
from summhay_ray.llm.retry import LONGEST_PAUSE_S

FEW, SHARED_ANEW_S = 64, 2e-5
"""Sharing slots looks at every worker: with more than a few it waits so many seconds for each of the others."""

MOST_AHEAD = 256
"""Calls granted beyond a worker's slots: they are there when slots come free, many at a time, before the next trip."""


@dataclass
class Flight:
    """A granted call."""

    worker: str
    claim: Claim
    permit: Permit | None


@dataclass
class Waiting:
    """A claim that waits for its answer."""

    worker: str
    claim: Claim


@dataclass
class ModelQueue:
    """What is known of one model; `slots` is None for a model that runs in the workers."""

    pacer: Pacer
    slots: Slots | None
    queues: dict[tuple[str, str], deque[Claim]] = field(default_factory=dict)
    """(worker, stage) -> claims in their order: a stage that waits for its budget holds no other back."""
    again: deque[Waiting] = field(default_factory=deque)
    granted: Counter[str] = field(default_factory=Counter)
    heard: bool = False
    """Something came back from it. Until then its first call is its probe, and the others wait for that."""
    stopped: tuple[str, str] | None = None
    limited_since: float | None = None
    """When the first 429 came since the last answer."""
    meter: Meter = field(default_factory=Meter)
    _shared_at: float = float("-inf")

    def numbers(self, now: float) -> dict[str, float]:
        """How busy it is: calls in flight, how many there may be, how long it pauses, for how long it has answered nothing but
        429 (seconds), and the meter's readings."""
        cap = 0 if self.slots is None else int(self.slots.cap)
        paused_s = max(0.0, self.pacer.paused_until - now)
        refused_s = 0.0 if self.limited_since is None else now - self.limited_since
        busy = {"in_flight": sum(self.granted.values()), "cap": cap, "paused_s": paused_s, "refused_s": refused_s}
        return {**busy, **self.meter.read(now)}

    def limited(self, now: float) -> str:
        """The provider answered 429; gives why the model is given up, where it has answered nothing else for too long."""
        self.meter.limited += 1
        if self.slots is not None:
            self.slots.cut(now)
        if self.limited_since is None:
            self.limited_since = now
        minutes = round((now - self.limited_since) / 60)
        too_long = now - self.limited_since > LONGEST_PAUSE_S
        return f"nothing but 429 for {minutes} minutes; run again when the quota is there" if too_long else ""

    def share_at(self, now: float, workers: int) -> float:
        """When the slots are to be shared again: `now`, where there are few workers or it is some time ago."""
        due = self._shared_at + SHARED_ANEW_S * max(0, workers - FEW)
        if due <= now:
            self._shared_at = due = now
        return due

    def answered(self, now: float, input_tokens: int, output_tokens: int) -> None:
        """The model answered."""
        self.limited_since = None
        self.pacer.answered()
        self.meter.answered(now, input_tokens, output_tokens)
        if self.slots is not None:
            self.slots.grow()

    def share(self) -> tuple[dict[str, int], dict[str, int]]:
        """Worker -> slots that it gets; worker -> how many it may keep, for those that must give some back."""
        if self.slots is None:
            return {}, {}
        wanted, held = self.wanted(), self.slots.held
        order = sorted(wanted, key=lambda worker: (held.get(worker, 0), not self.granted[worker]))
        given = {worker: self.slots.give(worker, wanted[worker]) for worker in order}
        return {worker: n for worker, n in given.items() if n}, self.slots.surplus(wanted, self.granted)

    @property
    def stop_told(self) -> dict[str, str]:
        """Why the model was given up: `error` and `reason`."""
        return dict(zip(("error", "reason"), self.stopped or (), strict=False))

    def wanted(self) -> dict[str, int]:
        """Worker -> its open calls."""
        wanted = Counter(self.granted)
        for (worker, _), queue in self.queues.items():
            wanted[worker] += len(queue)
        return wanted

    def ahead(self, worker: str) -> int:
        """How many calls the worker may hold granted: its slots, and some that wait for one, so that no slot is ever idle."""
        if self.slots is None:
            return 1 << 30
        held = self.slots.held.get(worker, 0)
        return held + min(max(4, held), MOST_AHEAD)

    def enter(self, worker: str, claim: Claim, *, first: bool = False) -> None:
        """Queue a claim that nothing answers yet."""
        queue = self.queues.setdefault((worker, claim.stage), deque())
        if first:
            queue.appendleft(claim)
        else:
            queue.append(claim)

    def forget(self, workers: Set[str]) -> None:
        """The workers are dead: nobody waits for an answer to their claims."""
        for place in [place for place in self.queues if place[0] in workers]:
            del self.queues[place]
        self.again = deque(waiting for waiting in self.again if waiting.worker not in workers)
        if self.slots is not None:
            self.slots.forget(workers)
