"""One run's ledger: who may send which call, when, and for how much. Part of the llm room; the grid room runs it as an actor.

Each call is claimed before it is sent and settled after. A claim is answered with one of:
`answered` (the log has the answer), `go` (send it, after `wait_s`), `busy` (another worker is sending the same key),
`budget` (its worst case does not fit), `stopped` (the model was given up). Time comes in as an argument, so that every rule
can be tested without waiting.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from summhay_ray.llm.models import Limits
from summhay_ray.store import Location, LogIndex

DEAD_AFTER_S = 15.0
"""A worker that has not been heard of for so long is dead: its keys are free, its reservations stay charged."""

REFRESH_S = 1.0
"""How often the log is read for what the writers of other runs appended."""

State = Literal["answered", "go", "busy", "budget", "stopped"]


@dataclass(frozen=True, slots=True)
class Claim:
    """A call that a worker wants to send: its key, and the most that it may cost in money and tokens."""

    key: str
    model: str
    worst_micros: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    writer: str = ""
    """The log writer that tells of the call; the worker's own name where empty."""
    held: bool = False
    """The worker was told to go and has waited: it asks whether the way is still free."""

    @property
    def amounts(self) -> dict[str, float]:
        """What the call takes of the model's limits."""
        return {"requests": 1.0, "input": float(self.input_tokens), "output": float(self.output_tokens)}


@dataclass(frozen=True, slots=True)
class Grant:
    """The answer to a claim; `location` for answered, `wait_s` for go, `reason` for stopped."""

    state: State
    location: Location | None = None
    wait_s: float = 0.0
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Settlement:
    """How a claimed call ended: with an answer at `location`, or without; what it is charged."""

    key: str
    model: str
    usd_micros: int
    location: Location | None = None
    stop: str = ""
    """Not empty: the model is given up, and why."""


class Pacer:
    """Spaces calls of one model so that no minute holds more requests or tokens than its limits allow."""

    def __init__(self, limits: Limits) -> None:
        self._rates = {"requests": limits.rpm, "input": limits.input_tpm, "output": limits.output_tpm}
        self._free_at: dict[str, float] = defaultdict(float)
        self.paused_until = 0.0

    def reserve(self, now: float, amounts: Mapping[str, float]) -> float:
        """Seconds to wait before sending a call of these amounts; the time after it is taken."""
        limited = {name: rate for name, rate in self._rates.items() if rate}
        start = max([now, self.paused_until, *(self._free_at[name] for name in limited)])
        for name, rate in limited.items():
            self._free_at[name] = start + 60.0 * amounts[name] / rate
        return start - now

    def pause(self, now: float, seconds: float) -> None:
        """Nothing is sent before `seconds` have passed (Retry-After)."""
        self.paused_until = max(self.paused_until, now + seconds)


@dataclass
class _Flight:
    worker: str
    writer: str
    worst_micros: int


@dataclass
class Ledger:
    """The ledger of one run over the index of the store's response log.

    What living workers of this ledger spend is counted as they settle it; what all other log writers spent (of earlier
    drivers, of the dead, of another driver of the same run) as the log tells it.
    """

    run: str
    index: LogIndex
    budget_micros: int | None = None
    limits: Mapping[str, Limits] = field(default_factory=dict)
    stopped: dict[str, str] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    over_budget: bool = False
    _here: dict[str, int] = field(default_factory=dict)
    _elsewhere: int = 0
    _lost: int = 0
    _reserved: int = 0
    _flights: dict[str, _Flight] = field(default_factory=dict)
    _heard: dict[str, float] = field(default_factory=dict)
    _writers: dict[str, set[str]] = field(default_factory=dict)
    _buried: set[str] = field(default_factory=set)
    _pacers: dict[str, Pacer] = field(default_factory=dict)
    _refreshed: float = float("-inf")

    def __post_init__(self) -> None:
        self._refresh()

    @property
    def spent_micros(self) -> int:
        """Settled, and charged to calls whose end nobody knows."""
        return self._elsewhere + self._lost + sum(self._here.values())

    @property
    def reserved_micros(self) -> int:
        """The worst case of the calls in flight."""
        return self._reserved

    def claim(self, worker: str, claims: Sequence[Claim], now: float) -> list[Grant]:
        """One grant a claim, in order."""
        self._heard[worker] = now
        self._bury(now)
        newcomers = {claim.writer or worker for claim in claims} - self._here.keys() - self._buried
        if newcomers or now - self._refreshed >= REFRESH_S:
            self._refreshed = now
            self._refresh()
        for writer in newcomers:
            self._here[writer] = self.index.spent_by(self.run).get(writer, 0)
            self._elsewhere -= self._here[writer]
            self._writers.setdefault(worker, set()).add(writer)
        return [self._grant(worker, claim, now) for claim in claims]

    def _refresh(self) -> None:
        self.index.refresh()
        spent = self.index.spent_by(self.run)
        self._elsewhere = sum(micros for writer, micros in spent.items() if writer not in self._here)

    def _grant(self, worker: str, claim: Claim, now: float) -> Grant:
        mine = claim.held and self._holds(worker, claim.key)
        location = self.index.answers.get(claim.key)
        if location is not None:
            if mine:
                self._land(claim.key)
            self.counts["reused"] += 1
            return Grant("answered", location=location)
        if claim.model in self.stopped:
            if mine:
                self._land(claim.key)
            return Grant("stopped", reason=self.stopped[claim.model])
        pacer = self._pacer(claim.model)
        if mine:
            return Grant("go", wait_s=pacer.reserve(now, claim.amounts) if now < pacer.paused_until else 0.0)
        if claim.key in self._flights:
            return Grant("busy")
        if self.budget_micros is not None and claim.worst_micros:
            free = self.budget_micros - self.spent_micros
            if claim.worst_micros > free - self._reserved:
                # In-flight calls give back what they do not use: only with none of them left is the budget truly short.
                short = claim.worst_micros > free or not self._reserved
                self.over_budget = self.over_budget or short
                return Grant("budget" if short else "busy")
        self._flights[claim.key] = _Flight(worker, claim.writer or worker, claim.worst_micros)
        self._reserved += claim.worst_micros
        return Grant("go", wait_s=pacer.reserve(now, claim.amounts))

    def settle(self, worker: str, settlements: Sequence[Settlement], now: float) -> None:
        """Take the calls out of flight, charge them, and make their answers known."""
        self._heard[worker] = now
        for done in settlements:
            # A worker that was taken for dead may come back: what it did is the log's to tell, the call another worker's.
            flight = self._land(done.key) if self._holds(worker, done.key) else None
            if flight is not None and flight.writer in self._here:
                self._here[flight.writer] += done.usd_micros
            else:
                self._refresh()
            if done.location is not None:
                self.index.answers.setdefault(done.key, done.location)
                self.counts["made"] += 1
            else:
                self.counts["failed"] += 1
            if done.stop:
                self.stopped.setdefault(done.model, done.stop)

    def again(self, model: str, claim: Claim, now: float, pause_s: float = 0.0) -> float:
        """Seconds to wait before another attempt of a call in flight; a pause holds for the whole model."""
        pacer = self._pacer(model)
        if pause_s:
            pacer.pause(now, pause_s)
        self.counts["retries"] += 1
        return pacer.reserve(now, claim.amounts)

    def beat(self, worker: str, now: float) -> None:
        """The worker is alive."""
        self._heard[worker] = now

    def count(self, numbers: Mapping[str, int]) -> None:
        """Add to the run's counters (cells, judgments, failures, ...)."""
        self.counts.update(numbers)

    def snapshot(self) -> dict[str, Any]:
        """Counters and money as they stand."""
        return {
            **self.counts,
            "spent_micros": self.spent_micros,
            "reserved_micros": self.reserved_micros,
            "in_flight": len(self._flights),
            "over_budget": self.over_budget,
            "stopped": dict(self.stopped),
        }

    def _holds(self, worker: str, key: str) -> bool:
        flight = self._flights.get(key)
        return flight is not None and flight.worker == worker

    def _land(self, key: str) -> _Flight:
        flight = self._flights.pop(key)
        self._reserved -= flight.worst_micros
        return flight

    def _bury(self, now: float) -> None:
        dead = {worker for worker, heard in self._heard.items() if now - heard > DEAD_AFTER_S}
        if not dead:
            return
        writers = {writer for worker in dead for writer in self._writers.pop(worker, set())}
        for worker in dead:
            del self._heard[worker]
        for writer in writers:
            del self._here[writer]
        self._buried |= writers
        # The log tells what the dead were charged: the real price of what they had answered, the worst of what has no end.
        self._refresh()
        told = {key for writer in writers for key in self.index.unanswered(writer)}
        for key in [key for key, flight in self._flights.items() if flight.worker in dead]:
            worst_micros = self._land(key).worst_micros
            if key not in told and key not in self.index.answers:
                self._lost += worst_micros

    def _pacer(self, model: str) -> Pacer:
        if model not in self._pacers:
            self._pacers[model] = Pacer(self.limits.get(model, Limits()))
        return self._pacers[model]
