"""What workers and the ledger say to each other. Part of the llm room; plain values, so that any channel can carry them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from summhay_ray.store import Excess, Location, Purpose

State = Literal["answered", "go", "budget", "stopped", "lost"]
Held = Literal["", "retry", "late"]


@dataclass(frozen=True, slots=True)
class Claim:
    """A call that a worker wants to send: its key, and the most that it may cost in money and tokens."""

    key: str
    model: str
    stage: str = ""
    worst_micros: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    writer: str = ""
    """The log writer that tells of the call; the worker's own name where empty."""
    ticket: int = 0
    """The worker's number of the claim: the grant comes back under it."""
    held: Held = ""
    """The call is granted already: another attempt (retry), or it was not sent in its time (late)."""

    @property
    def purpose(self) -> Purpose:
        """What the money is for."""
        return self.stage, self.model

    @property
    def amounts(self) -> dict[str, float]:
        """What the call takes of the model's limits."""
        return {"requests": 1.0, "input": float(self.input_tokens), "output": float(self.output_tokens)}


@dataclass(frozen=True, slots=True)
class Grant:
    """The answer to a claim.

    `answered`: the log has it, at `location`. `go`: send it, after `wait_s`, and soon after where it is `timed` (the model has
    limits a minute, and this is its turn). `budget`: its worst case does not fit.
    `stopped`: the model was given up (`error`, `reason`). `lost`: a held call that is not this worker's any more.
    """

    state: State
    location: Location | None = None
    wait_s: float = 0.0
    timed: bool = False
    error: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Settlement:
    """How a granted call ended: with an answer at `location`, or without; what it is charged, and the tokens it used."""

    key: str
    model: str
    usd_micros: int
    location: Location | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    stop: tuple[str, str] | None = None
    """(class, reason): the model is given up."""
    unheard: tuple[str, str] | None = None
    """(class, reason): nobody answered, and no attempt reached anybody; a model that has never answered is given up."""
    sent: bool = True
    """False: the call was given back before any attempt of it."""
    excess: Excess | None = None
    """What the provider claims where it is more than was reserved."""
    unended: bool = False
    """The log could not take the call's end: there its intent stays open."""


@dataclass(frozen=True, slots=True)
class WorkerMessage:
    """What a worker has to say: one message carries all that came together since the last one."""

    claims: tuple[Claim, ...] = ()
    settlements: tuple[Settlement, ...] = ()
    limited: tuple[str, ...] = ()
    """Models whose provider answered 429, once for each answer."""
    unasked: tuple[str, ...] = ()
    """Of those, the ones that named no time to wait."""
    pauses: tuple[tuple[str, float], ...] = ()
    """(model, seconds): nothing is to be sent for so long."""
    returned: Mapping[str, int] = field(default_factory=dict)
    """Model -> slots given back."""
    reused: int = 0
    """Answers that the worker had itself, used again."""


@dataclass(frozen=True, slots=True)
class News:
    """What a worker must know. Times are seconds from now."""

    grants: tuple[tuple[int, Grant], ...] = ()
    slots: Mapping[str, int] = field(default_factory=dict)
    """Model -> further calls that the worker may have in flight at once."""
    keep: Mapping[str, int] = field(default_factory=dict)
    """Model -> slots that the worker may keep; the others go back as they become free."""
    paused: Mapping[str, float] = field(default_factory=dict)
    stopped: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    epoch: int = 0
    """Counts how often the worker was taken for dead: what was granted in an earlier epoch is void."""
    next_s: float = 0.5
    """There is news again within this time: the more workers there are, the longer it takes."""
    halted: bool = False
    """The driver is silent: nothing that costs money is sent until it is heard again."""
