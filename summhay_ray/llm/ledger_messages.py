"""The messages between workers and the ledger. They are plain values, which any channel can transport."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from summhay_ray.store import Excess, Location, Purpose

Packed = tuple[Any, ...]
"""A message as plain tuples. If a message contained objects of a class, Ray would run Python code to pickle each of them, which
takes ten times as long."""
State = Literal["answered", "go", "budget", "stopped", "parked"]
BATCH = " (batch)"
"""Suffix of the model's name under which the ledger counts batches, since batches do not share the limits of the model's other
calls."""


class Claim(NamedTuple):
    """A call that a worker wants to send, with its maximum cost and tokens."""

    key: str
    model: str
    stage: str = ""
    worst_micros: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    ticket: int = 0
    """The number that the worker has given the claim. The grant has the same number."""
    first: bool = False
    """True if the call was granted before. The claim then precedes the worker's other claims of its stage."""
    damaged: Location | None = None
    """The location of the stored answer, if the answer turned out to be unreadable."""
    parks: bool = False
    """True if the call must not be granted. If it has no answer, it waits for a batch instead."""
    resumed: bool = False
    """True if its item was begun earlier in this session. A stored answer then does not count as reused."""

    @property
    def purpose(self) -> Purpose:
        """The purpose for which the call spends money."""
        return self.stage, self.model.removesuffix(BATCH)

    @property
    def amounts(self) -> dict[str, float]:
        """The amounts that the call uses of the model's limits per minute."""
        return {"requests": 1.0, "input": float(self.input_tokens), "output": float(self.output_tokens)}


class Grant(NamedTuple):
    """The answer to a claim.

    - `answered`: the answer is in the log, at `location`.
    - `go`: send the call after `wait_s` seconds. If it is `timed` (by limits per minute), it must not be sent much later.
    - `budget`: the call's worst case does not fit the budget.
    - `stopped`: the model was stopped (`error`, `reason`).
    - `parked`: the call has no answer, and must wait for a batch.
    """

    state: State
    location: Location | None = None
    wait_s: float = 0.0
    timed: bool = False
    error: str = ""
    reason: str = ""


class Settlement(NamedTuple):
    """The end of a granted attempt: the charge, the used tokens, and the `location` of the answer (None: no answer)."""

    key: str
    model: str
    usd_micros: int
    location: Location | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    stop: tuple[str, str] | None = None
    """(class, reason) if the model must be stopped."""
    unreached: tuple[str, str] | None = None
    """(class, reason) if no attempt reached the endpoint. If the model has never answered, it is stopped."""
    sent: bool = True
    """False if the grant was given back and nothing was sent."""
    again: bool = False
    """True if the worker will claim the call again."""
    limited: bool = False
    """True if the provider answered 429."""
    pause_s: float | None = None
    """The pause that the provider demands, in seconds; None if it demands none."""
    excess: Excess | None = None
    """The reported usage, if it exceeds the reservation."""
    fell_back: bool = False
    """True if the call is sent again in the standard tier, because the requested tier has no capacity."""
    doubtful: bool = False
    """True if the outcome of the call is unknown, or its answer could not be written to the log."""


@dataclass(slots=True)
class WorkerMessage:
    """A worker's message to the ledger, with everything since its last message."""

    claims: list[Claim] = field(default_factory=list)
    settlements: list[Settlement] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
    """Keys of calls whose attempt has ended, so that their slots are free. The calls are settled later."""

    def packed(self) -> Packed:
        """Return the message as plain tuples."""
        claims, settlements = list(map(tuple, self.claims)), [_plain(done, _LOCATED) for done in self.settlements]
        return claims, settlements, self.ended

    @classmethod
    def unpacked(cls, message: Packed) -> WorkerMessage:
        """Convert the result of `packed` back to a message."""
        claims, settlements, ended = message
        settled = [Settlement._make(_with_location(done, _LOCATED)) for done in settlements]
        return cls(list(map(Claim._make, claims)), settled, ended)


@dataclass(frozen=True, slots=True)
class News:
    """The ledger's message to a worker. All times are seconds from now."""

    grants: tuple[tuple[int, Grant], ...] = ()
    paused: Mapping[str, float] = field(default_factory=dict)
    stopped: tuple[str, ...] = ()
    """Models that were stopped."""
    evicted: bool = False
    """True if the worker was evicted as dead, so that others do its work."""
    next_s: float = 0.5
    """Maximum seconds until the next news. This time grows with the number of workers."""
    halted: bool = False
    """True if no paid call may be sent, because the run is stopping or its driver is silent."""
    stopping: bool = False
    """True if the run is stopping. Then no call may be sent, and models in the workers must stop generating."""

    def packed(self) -> Packed:
        """Return the message as plain tuples."""
        grants = tuple((ticket, _plain(grant, _GRANTED)) for ticket, grant in self.grants)
        return grants, self.paused, self.stopped, self.evicted, self.next_s, self.halted, self.stopping

    @classmethod
    def unpacked(cls, message: Packed) -> News:
        """Convert the result of `packed` back to a message."""
        grants, *rest = message
        return cls(tuple((ticket, Grant._make(_with_location(grant, _GRANTED))) for ticket, grant in grants), *rest)


_LOCATED, _GRANTED = Settlement._fields.index("location"), Grant._fields.index("location")


def _plain(fields: tuple[Any, ...], at: int) -> tuple[Any, ...]:
    """Convert a named tuple, and the location in it, to plain tuples."""
    return *fields[:at], None if fields[at] is None else tuple(fields[at]), *fields[at + 1 :]


def _with_location(fields: tuple[Any, ...], at: int) -> tuple[Any, ...]:
    return fields if fields[at] is None else (*fields[:at], Location._make(fields[at]), *fields[at + 1 :])
