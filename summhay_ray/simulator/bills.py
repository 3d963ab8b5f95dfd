"""The simulated provider's records of calls and bills, by key and model. Money is in micro-dollars.

A served call is billed, whether or not its answer arrives. Errors (4xx, 429, 5xx) are neither served nor billed.
"""

from __future__ import annotations

import functools
import hashlib
import json
from array import array
from collections import Counter, defaultdict
from dataclasses import asdict, dataclass, field
from typing import IO, Any, Literal

from summhay_ray.simulator.limits import Limiter, most_in_a_minute
from summhay_ray.simulator.prefixes import MarkedCache, PrefixCache

_KEPT_CALLS = 1_000_000
_TOKENS = ("tokens_in", "tokens_cached", "tokens_written", "tokens_written_1h", "tokens_out")
_SUMS = ("served", "answered", "micros", *_TOKENS, "repeated", "repeated_answered")
Channel = Literal["standard", "flex", "batch"]
"""The channel that serves and prices a request."""
_SUMS_TOO = ("prompts", "rate_limited", "in_flight")


@dataclass(slots=True)
class Call:
    """A request, from its arrival on."""

    n: int
    """Order of arrival, from 0."""
    time: float
    """Unix seconds at arrival."""
    monotonic: float
    """Time of arrival on the machine's monotonic clock, in seconds."""
    kind: str
    """chat, messages, embeddings or rerank."""
    key: str
    """Fingerprint of the API key: the first 12 hex digits of its sha256; `none` without a key."""
    model: str = ""
    prompt: str = ""
    """The sha256 (hex) of the prompt: the text of a single user message, all messages if there are several, or the inputs of a
    request that is not a chat."""
    attempt: int = 0
    """Number of earlier admitted requests for this prompt with the same key and model."""
    status: int = 0
    """HTTP status; 0 until the answer is sent, and if the connection ends without an answer."""
    fault: str = ""
    """The simulated fault, or the code of the error."""
    served: bool = False
    tokens_in: int = 0
    tokens_cached: int = 0
    tokens_written: int = 0
    """Prompt tokens that `cache_control` stored for 5 minutes."""
    tokens_written_1h: int = 0
    """Prompt tokens that `cache_control` stored for an hour."""
    tokens_out: int = 0
    channel: Channel = "standard"
    batch: str = ""
    """The id of the request's batch."""
    custom_id: str = ""
    """The request's name in its batch."""
    searches: int = 0
    """Number of searches for which a rerank request is billed."""
    micros: int = 0
    answered: bool = False
    """Whether a complete answer, not an error, was sent over an open connection."""
    done: float = 0.0
    """Unix seconds at the end of the request; 0 until then."""


@dataclass(slots=True)
class Totals:
    """The totals of one key and model."""

    served: int = 0
    answered: int = 0
    micros: int = 0
    tokens_in: int = 0
    tokens_cached: int = 0
    tokens_written: int = 0
    tokens_written_1h: int = 0
    tokens_out: int = 0
    repeated: int = 0
    """Served calls for prompts that were served before: served calls minus distinct prompts."""
    repeated_answered: int = 0
    """Repeated calls made after an answer to their prompt had been sent."""
    in_flight: int = 0
    most_in_flight: int = 0
    last_served: float | None = None
    """Unix seconds."""
    channels: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    """Channel -> served requests, micro-dollars and tokens."""
    refused: Counter[str] = field(default_factory=Counter)
    """Refused requests, by the code of the error or the name of the limit."""
    rate_limited: int = 0
    """Requests refused with 429."""
    faults: Counter[str] = field(default_factory=Counter)
    """Requests with a simulated fault, by kind."""
    attempts: Counter[str] = field(default_factory=Counter)
    """Admitted requests, by prompt."""
    prompts: dict[str, bool] = field(default_factory=dict)
    """Served prompt -> whether an answer to it was sent."""
    accepted: array[float] = field(default_factory=lambda: array("d"))
    """Arrival times (monotonic clock) of the admitted requests."""
    limiter: Limiter = field(default_factory=Limiter)
    cache: PrefixCache = field(default_factory=PrefixCache)
    marked: MarkedCache = field(default_factory=MarkedCache)

    def to_json(self) -> dict[str, Any]:
        """Return the totals as JSON."""
        sums = {name: getattr(self, name) for name in _SUMS}
        return {
            **sums,
            "prompts": len(self.prompts),
            "channels": {channel: dict(sums) for channel, sums in sorted(self.channels.items())},
            "rate_limited": self.rate_limited,
            "refused": dict(self.refused),
            "faults": dict(self.faults),
            "in_flight": self.in_flight,
            "most_in_flight": self.most_in_flight,
            "accepted": len(self.accepted),
            "most_in_a_minute": most_in_a_minute(sorted(self.accepted)),
            "last_served": self.last_served,
        }


@functools.lru_cache(maxsize=10_000)
def fingerprint(key: str) -> str:
    """Return the fingerprint of an API key. The key itself is never shown."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:12] if key else "none"


class Books:
    """All calls and totals. `record`: a file for calls as JSON lines. A call is written when it is billed and when it ends."""

    def __init__(self, record: IO[str] | None = None) -> None:
        self._record = record
        self.reset()

    def reset(self) -> None:
        """Delete everything, including bills, limits and caches. Calls in flight no longer count."""
        self.calls: dict[int, Call] = {}
        self.arrived = 0
        self.micros: Counter[str] = Counter()
        self.totals: defaultdict[tuple[str, str], Totals] = defaultdict(Totals)
        """(key, model) -> totals."""

    def arrive(self, kind: str, key: str, time: float, monotonic: float) -> Call:
        """Register a new request."""
        call = Call(self.arrived, time, monotonic, kind, key)
        self.arrived += 1
        self.calls[call.n] = call
        if len(self.calls) > _KEPT_CALLS:
            del self.calls[next(iter(self.calls))]
        return call

    def bill(self, call: Call, totals: Totals, now: float) -> None:
        """Charge the tokens and the price of a served call."""
        call.served = True
        totals.served += 1
        totals.channels[call.channel]["served"] += 1
        for name in ("micros", *_TOKENS):
            setattr(totals, name, getattr(totals, name) + getattr(call, name))
            totals.channels[call.channel][name] += getattr(call, name)
        before = totals.prompts.get(call.prompt)
        if before is None:
            totals.prompts[call.prompt] = False
        else:
            totals.repeated += 1
            totals.repeated_answered += before
        totals.last_served = now
        self.micros[call.key] += call.micros
        self.write(call)

    def end(self, call: Call, totals: Totals | None, now: float) -> None:
        """Register the end of a request."""
        call.done = now
        if call.answered and totals is not None:
            totals.answered += 1
            totals.prompts[call.prompt] = True
        self.write(call)

    def write(self, call: Call) -> None:
        """Write the call to the record. If several lines have the same `n`, the last one is valid."""
        if self._record is not None:
            self._record.write(json.dumps(asdict(call)) + "\n")
            self._record.flush()

    def to_json(self) -> dict[str, Any]:
        """Return the totals over all calls, and the totals by key and model."""
        keys: dict[str, Any] = {}
        for (key, model), totals in self.totals.items():
            keys.setdefault(key, {"micros": self.micros[key], "models": {}})["models"][model] = totals.to_json()
        models = [model for key in keys.values() for model in key["models"].values()]
        sums = {name: sum(model[name] for model in models) for name in (*_SUMS, *_SUMS_TOO)}
        channels: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for totals in self.totals.values():
            for channel, counted in totals.channels.items():
                channels[channel].update(counted)
        return {"requests": self.arrived, **sums, "channels": {name: dict(sums) for name, sums in channels.items()}, "keys": keys}
