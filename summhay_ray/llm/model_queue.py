"""The ledger's state of one model: queued claims, granted calls, limits and figures. Part of the llm room."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Set
from dataclasses import dataclass, field

from summhay_ray.llm.messages import Claim
from summhay_ray.llm.meter import Meter
from summhay_ray.llm.pacing import Pacer, Permit, Slots
from summhay_ray.llm.retry import LONGEST_PAUSE_S

FEW, SHARED_ANEW_S = 64, 2e-5
"""Sharing the slots looks at every worker. Beyond the first 64 workers, each adds this many seconds between two sharings."""

MOST_AHEAD = 256
"""The most calls granted beyond a worker's slots: they are at hand when many slots come free before the next exchange."""


@dataclass
class Flight:
    """A granted call that is not settled."""

    worker: str
    claim: Claim
    permit: Permit | None


@dataclass
class Waiting:
    """A claim that waits for an answer, and its worker."""

    worker: str
    claim: Claim


@dataclass
class ModelQueue:
    """The state of one model. `slots` is None for a model that runs in the workers."""

    pacer: Pacer
    slots: Slots | None
    queues: dict[tuple[str, str], deque[Claim]] = field(default_factory=dict)
    """(worker, stage) -> its claims in order. Stages are separate so that one that waits for its budget does not block others."""
    again: deque[Waiting] = field(default_factory=deque)
    """Claims of calls that are granted already: a further attempt, or a call that was not sent in time."""
    granted: Counter[str] = field(default_factory=Counter)
    """Worker -> its granted calls that are not settled."""
    heard: bool = False
    """The endpoint has answered something. Until then, if the ledger probes, one call is sent and the others wait for it."""
    stopped: tuple[str, str] | None = None
    """(class, reason) if the model was given up."""
    limited_since: float | None = None
    """When the first 429 since the last answer came."""
    meter: Meter = field(default_factory=Meter)
    _shared_at: float = float("-inf")

    def numbers(self, now: float) -> dict[str, float]:
        """Figures for the live view: calls in flight and their cap, seconds of pause left, seconds of nothing but 429s, and the
        meter's figures."""
        cap = 0 if self.slots is None else int(self.slots.cap)
        paused_s = max(0.0, self.pacer.paused_until - now)
        refused_s = 0.0 if self.limited_since is None else now - self.limited_since
        busy = {"in_flight": sum(self.granted.values()), "cap": cap, "paused_s": paused_s, "refused_s": refused_s}
        return {**busy, **self.meter.read(now)}

    def limited(self, now: float) -> str:
        """Note a 429. Returns why the model must be given up if it has answered nothing else for too long, else nothing."""
        self.meter.limited += 1
        if self.slots is not None:
            self.slots.cut(now)
        if self.limited_since is None:
            self.limited_since = now
        minutes = round((now - self.limited_since) / 60)
        too_long = now - self.limited_since > LONGEST_PAUSE_S
        return f"nothing but 429 for {minutes} minutes; run again when the quota is renewed" if too_long else ""

    def share_at(self, now: float, workers: int) -> float:
        """When to share the slots again: `now` if there are few workers or the last time is long enough ago."""
        due = self._shared_at + SHARED_ANEW_S * max(0, workers - FEW)
        if due <= now:
            self._shared_at = due = now
        return due

    def answered(self, now: float, input_tokens: int, output_tokens: int) -> None:
        """Note an answer."""
        self.limited_since = None
        self.pacer.answered()
        self.meter.answered(now, input_tokens, output_tokens)
        if self.slots is not None:
            self.slots.grow()

    def share(self) -> tuple[dict[str, int], dict[str, int]]:
        """(worker -> slots it gets, worker -> slots it may keep). The second lists only workers that must give some back."""
        if self.slots is None:
            return {}, {}
        wanted, lent = self.wanted(), self.slots.lent
        order = sorted(wanted, key=lambda worker: (lent.get(worker, 0), not self.granted[worker]))
        given = {worker: self.slots.give(worker, wanted[worker]) for worker in order}
        return {worker: n for worker, n in given.items() if n}, self.slots.surplus(wanted, self.granted)

    @property
    def stop_reason(self) -> dict[str, str]:
        """Why the model was given up: `error` and `reason`."""
        return dict(zip(("error", "reason"), self.stopped or (), strict=False))

    def wanted(self) -> dict[str, int]:
        """Worker -> its open calls, granted or queued."""
        wanted = Counter(self.granted)
        for (worker, _), queue in self.queues.items():
            wanted[worker] += len(queue)
        return wanted

    def ahead(self, worker: str) -> int:
        """How many granted calls the worker may have: one per slot, and some more, so that no slot is idle."""
        if self.slots is None:
            return 1 << 30
        lent = self.slots.lent.get(worker, 0)
        return lent + min(max(4, lent), MOST_AHEAD)

    def enter(self, worker: str, claim: Claim, *, first: bool = False) -> None:
        """Queue a claim, last of its stage or `first`."""
        queue = self.queues.setdefault((worker, claim.stage), deque())
        if first:
            queue.appendleft(claim)
        else:
            queue.append(claim)

    def forget(self, workers: Set[str]) -> None:
        """Drop the claims and slots of dead workers."""
        for place in [place for place in self.queues if place[0] in workers]:
            del self.queues[place]
        self.again = deque(waiting for waiting in self.again if waiting.worker not in workers)
        if self.slots is not None:
            self.slots.forget(workers)
