"""The ledger's state of one model: queued claims, calls in flight, limits and figures. Part of the llm room."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Set
from dataclasses import dataclass, field

from summhay_ray.llm.limits.messages import Claim
from summhay_ray.llm.limits.rate_limits import Cap, Pacer, Permit

LONGEST_PAUSE_S = 3600.0
"""The longest pause that is kept. A provider that asks for more has used up a quota (429) or is away (503): the model is given
up, and a later run continues."""

COUNTED = ("calls", "requests", "input_tokens", "output_tokens", "limited", "retries")
"""What is counted of a model in a session; `calls` are those that were answered."""


@dataclass
class Flight:
    """A granted call that is not settled."""

    worker: str
    claim: Claim
    permit: Permit | None
    sending: bool = False
    """It holds one of the model's slots: from its grant until its attempt has ended."""
    logged_micros: int | None = None
    """The price of its answer, if that was found in the log before it was settled."""


@dataclass
class ModelQueue:
    """The state of one model. `cap` is None for a model that runs in the workers."""

    pacer: Pacer
    cap: Cap | None
    queues: dict[tuple[str, str], deque[Claim]] = field(default_factory=dict)
    """(worker, stage) -> its claims in order. Those of a worker take turns: who was served last is last. Stages are separate so
    that one that waits for its budget does not block others."""
    sending_of: Counter[str] = field(default_factory=Counter)
    """Worker -> the slots that its calls hold."""
    unsettled: int = 0
    """Granted calls that are not settled: being sent, awaiting another attempt, or answered and not durable yet."""
    reached: bool = False
    """The endpoint has answered something. Until then, if the ledger probes, one call is sent and the others wait for it."""
    stopped: tuple[str, str] | None = None
    """(class, reason) if the model was given up."""
    limited_since: float | None = None
    """When the first 429 since the last answer came."""
    counts: Counter[str] = field(default_factory=lambda: Counter(dict.fromkeys(COUNTED, 0)))

    def room(self, silent: Set[str]) -> bool:
        """Whether a slot is free. Those of `silent` workers serve others."""
        return self.cap is None or self.sending_of.total() - sum(self.sending_of[worker] for worker in silent) < int(self.cap.now)

    @property
    def is_full(self) -> bool:
        """Whether as many calls are not settled as may be lost by a kill: twice the concurrency."""
        return self.cap is not None and self.unsettled >= 2 * self.cap.most

    def hold(self, flight: Flight, *, sending: bool) -> None:
        """Give the call a slot, or take it back."""
        if flight.sending != sending:
            flight.sending = sending
            self.sending_of[flight.worker] += 1 if sending else -1

    def numbers(self, now: float) -> dict[str, float]:
        """Its figures: calls in flight and queued, and the cap; seconds of pause left, and of nothing but 429s; calls answered,
        requests, tokens, 429s and retries so far."""
        return {
            "in_flight": self.sending_of.total(),
            "queued": sum(map(len, self.queues.values())),
            "cap": 0 if self.cap is None else int(self.cap.now),
            "paused_s": max(0.0, self.pacer.paused_until - now),
            "refused_s": 0.0 if self.limited_since is None else now - self.limited_since,
            **self.counts,
        }

    def limited(self, now: float) -> str:
        """Note a 429. Returns why the model must be given up if it has answered nothing else for too long, else nothing."""
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
        self.pacer.answered()
        self.counts["calls"] += 1
        self.counts["input_tokens"] += input_tokens
        self.counts["output_tokens"] += output_tokens
        if self.cap is not None:
            self.cap.grow()

    @property
    def stop_reason(self) -> dict[str, str]:
        """Why the model was given up: `error` and `reason`."""
        return dict(zip(("error", "reason"), self.stopped or (), strict=False))

    def enter(self, worker: str, claim: Claim) -> None:
        """Queue a claim, last of its stage unless it is `first`."""
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
