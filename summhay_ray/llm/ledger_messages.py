"""The messages between workers and the ledger: plain values, which any channel can carry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from summhay_ray.store import Excess, Location, Purpose

Packed = tuple[Any, ...]
"""A message as plain tuples. Ray pickles an object of a class by Python code, which takes ten times as long."""
State = Literal["answered", "go", "budget", "stopped", "parked"]
BATCH = " (batch)"
"""Suffix of a model's name under which the ledger counts its batches: their calls do not share the limits of its other calls."""


class Claim(NamedTuple):
    """A call that a worker wants to send: its key, and its maximum of micro-dollars and tokens."""

    key: str
    model: str
    stage: str = ""
    worst_micros: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    ticket: int = 0
    """The worker's number for the claim; the grant carries the same number."""
    first: bool = False
    """True if it precedes the worker's other claims of its stage, because the call was granted before."""
    damaged: Location | None = None
    """The location of the stored answer, if that turned out to be unreadable."""
    parks: bool = False
    """True if the call is not to be granted: without an answer, it waits for a batch."""
    resumed: bool = False
    """True if its item was begun before in this session: an answer that it finds is not counted as reused."""

    @property
    def purpose(self) -> Purpose:
        """The purpose of the money."""
        return self.stage, self.model.removesuffix(BATCH)

    @property
    def amounts(self) -> dict[str, float]:
        """The amounts that the call takes from the model's limits per minute."""
        return {"requests": 1.0, "input": float(self.input_tokens), "output": float(self.output_tokens)}


class Grant(NamedTuple):
    """The answer to a claim.

    - `answered`: the answer is in the log, at `location`.
    - `go`: it has a slot; send the call after `wait_s` seconds, and not much later if it is `timed` (by limits per minute).
    - `budget`: its worst case does not fit the budget.
    - `stopped`: the model was given up (`error`, `reason`).
    - `parked`: it has no answer, and waits for a batch.
    """

    state: State
    location: Location | None = None
    wait_s: float = 0.0
    timed: bool = False
    error: str = ""
    reason: str = ""


class Settlement(NamedTuple):
    """The end of a granted attempt: the charge, the tokens used, and the `location` of the answer (None: no answer)."""

    key: str
    model: str
    usd_micros: int
    location: Location | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    stop: tuple[str, str] | None = None
    """(class, reason) if the model must be given up."""
    unreached: tuple[str, str] | None = None
    """(class, reason) if no attempt reached the endpoint. The model is given up if it has never answered."""
    sent: bool = True
    """False: the grant was given back, and nothing was sent."""
    again: bool = False
    """True if the worker claims the call again."""
    limited: bool = False
    """True if the provider answered 429."""
    pause_s: float | None = None
    """The pause that the provider demands, in seconds; None if it named no time."""
    excess: Excess | None = None
    """The reported usage, if it exceeds the reservation."""
    fell_back: bool = False
    """True if the call is sent again in the standard tier, since the requested one has no capacity."""
    doubtful: bool = False
    """True if the outcome of the call is unknown, or its answer could not be written to the log."""


@dataclass(slots=True)
class WorkerMessage:
    """A worker's message to the ledger: everything since its last one."""

    claims: list[Claim] = field(default_factory=list)
    settlements: list[Settlement] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
    """Keys of calls whose attempt has ended but which are settled later: their slot is free."""

    def packed(self) -> Packed:
        """The message as plain tuples."""
        claims, settlements = list(map(tuple, self.claims)), [_plain(done, _LOCATED) for done in self.settlements]
        return claims, settlements, self.ended

    @classmethod
    def unpacked(cls, message: Packed) -> WorkerMessage:
        """The inverse of `packed`."""
        claims, settlements, ended = message
        settled = [Settlement._make(_with_location(done, _LOCATED)) for done in settlements]
        return cls(list(map(Claim._make, claims)), settled, ended)


@dataclass(frozen=True, slots=True)
class News:
    """The ledger's message to a worker. Times are seconds from now."""

    grants: tuple[tuple[int, Grant], ...] = ()
    paused: Mapping[str, float] = field(default_factory=dict)
    stopped: tuple[str, ...] = ()
    """Models that were given up."""
    evicted: bool = False
    """True if the worker was evicted as dead: others do its work."""
    next_s: float = 0.5
    """Maximum seconds until the next news; grows with the number of workers."""
    halted: bool = False
    """True if no paid call may be sent: the run is stopping, or its driver is silent."""
    stopping: bool = False
    """True if the run is stopping: no call may be sent, and models in the workers stop generating."""

    def packed(self) -> Packed:
        """The message as plain tuples."""
        grants = tuple((ticket, _plain(grant, _GRANTED)) for ticket, grant in self.grants)
        return grants, self.paused, self.stopped, self.evicted, self.next_s, self.halted, self.stopping

    @classmethod
    def unpacked(cls, message: Packed) -> News:
        """The inverse of `packed`."""
        grants, *rest = message
        return cls(tuple((ticket, Grant._make(_with_location(grant, _GRANTED))) for ticket, grant in grants), *rest)


_LOCATED, _GRANTED = Settlement._fields.index("location"), Grant._fields.index("location")


def _plain(fields: tuple[Any, ...], at: int) -> tuple[Any, ...]:
    """A named tuple as a plain one, and so the location in it."""
    return *fields[:at], None if fields[at] is None else tuple(fields[at]), *fields[at + 1 :]


def _with_location(fields: tuple[Any, ...], at: int) -> tuple[Any, ...]:
    return fields if fields[at] is None else (*fields[:at], Location._make(fields[at]), *fields[at + 1 :])
