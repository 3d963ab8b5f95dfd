"""How the simulated provider behaves, as a value. Part of the simulator room; the command line has an option for each field."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from summhay_ray.errors import UserError
from summhay_ray.llm import Price
from summhay_ray.plugins import unknown

FAULTS = ("errors", "hangs", "drops", "broken", "refusals", "filtered", "cut")
"""Fractions of the calls that meet one of these instead of an answer; together at most 1."""
USAGE_FAULTS = ("no_usage", "wrong_usage")
"""Fractions of the answers whose usage is left out, or untrue; together at most 1."""
_FRACTIONS = (*FAULTS, *USAGE_FAULTS, "latency_spread", "token_skew")
_POSITIVE = ("rpm", "input_tpm", "output_tpm", "concurrency", "context_window")
_ALONE = ("quota", "seed", "unknown_models", "models")


class SettingsError(UserError):
    """A setting that cannot be; the message says which, and what is expected."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Prices in dollars a million tokens, times in seconds, limits for each API key and model; None: no limit."""

    latency: float = 0.0
    """Mean time from request to answer."""
    latency_spread: float = 0.0
    """Latencies lie evenly within latency x (1 - spread) to latency x (1 + spread)."""
    rpm: float | None = None
    """Requests in any 60 seconds."""
    input_tpm: float | None = None
    """Prompt tokens in any 60 seconds, cached ones included."""
    output_tpm: float | None = None
    """Answer tokens in any 60 seconds."""
    concurrency: int | None = None
    """Requests at once."""
    errors: float = 0.0
    """Fraction answered 500, 502 or 503; not billed."""
    hangs: float = 0.0
    """Fraction billed and never answered; they end when the client goes."""
    drops: float = 0.0
    """Fraction billed, the connection then closed without an answer."""
    broken: float = 0.0
    """Fraction billed and answered 200 with JSON that breaks off."""
    refusals: float = 0.0
    """Fraction billed and refused in `message.refusal`, without content."""
    filtered: float = 0.0
    """Fraction billed, finish reason content_filter, without content."""
    cut: float = 0.0
    """Fraction billed, half of the answer, finish reason length."""
    no_usage: float = 0.0
    """Fraction of the answers without usage."""
    wrong_usage: float = 0.0
    """Fraction of the answers whose usage is zero or absurd; the bill stays true."""
    claim: float = 1.0
    """Usage tells so many times the tokens that are billed; the bill stays true."""
    token_skew: float = 0.0
    """The provider's counts are cl100k's times a factor within 1 - skew to 1 + skew, the same for the same prompt."""
    context_window: int | None = None
    """Tokens of prompt and longest answer together."""
    input_price: float = 2.5
    cached_price: float = 1.25
    output_price: float = 10.0
    search_price: float = 0.002
    """Dollars of a search: all that a reranking costs."""
    cache_lifetime: float = 300.0
    """How long the prefixes of a served prompt are discounted after it."""
    quota: float | None = None
    """Dollars: a key whose bill reaches it is refused."""
    seed: int = 0
    """Of all draws; with the prompt and its attempt it decides every fault, latency and skew."""
    unknown_models: tuple[str, ...] = ()
    """Models answered 404."""
    models: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Model -> the settings that differ for it, by field; see `PER_MODEL`."""

    def __post_init__(self) -> None:
        for name in PER_MODEL:
            _check(name, getattr(self, name))
        if self.quota is not None and not 0 <= self.quota < math.inf:
            raise SettingsError(f"quota is {self.quota}; expected dollars from 0")
        for group in (FAULTS, USAGE_FAULTS):
            total = sum(getattr(self, name) for name in group)
            if total > 1 + 1e-9:
                raise SettingsError(f"{', '.join(group)} are {total:g} together; expected fractions of at most 1 together")
        for model in self.models:
            self.of(model)

    def of(self, model: str) -> Settings:
        """The settings of one model, as a request names it (a leading `openai/` says nothing)."""
        changes = self.models.get(model) or self.models.get(f"openai/{model}") or {}
        return dataclasses.replace(self, models={}, **_whole(changes)) if changes else self

    @property
    def never_fails(self) -> bool:
        """Whether every request that is let in gets a whole answer with true usage."""
        return not any(getattr(self, name) for name in (*FAULTS, *USAGE_FAULTS))

    @property
    def price(self) -> Price:
        """What a token costs."""
        return Price(self.input_price, self.output_price, self.cached_price)

    @property
    def price_of_searches(self) -> Price:
        """What a search costs."""
        return Price(0, 0, per_search=self.search_price)


PER_MODEL = tuple(one.name for one in dataclasses.fields(Settings) if one.name not in _ALONE)
"""The settings that a model may have of its own."""


def parse_limit(text: str) -> tuple[str, dict[str, float]]:
    """`MODEL:rpm=60,latency=0.5` as model and settings. Raises SettingsError, or UnknownName naming the nearest setting."""
    model, colon, pairs = text.rpartition(":")
    found: dict[str, float] = {}
    for pair in pairs.split(","):
        name, equals, value = (part.strip() for part in pair.partition("="))
        if not (model and colon and name and equals):
            raise SettingsError(f"limit {text!r} cannot be read; expected MODEL:setting=number,... as in simulated:rpm=60")
        if name not in PER_MODEL:
            raise unknown("setting of a model", name, PER_MODEL)
        try:
            found[name] = float(value)
        except ValueError:
            raise SettingsError(f"{name} of {model!r} is {value!r}; expected a number") from None
    return model, found


def read_keys(path: str | Path) -> frozenset[str]:
    """The API keys of a file, one a line; blank lines are none. Raises SettingsError where there is none to read."""
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(
            f"{path}: the keys cannot be read ({type(error).__name__}); expected a text file, a key a line"
        ) from None
    keys = frozenset(line.strip() for line in lines if line.strip())
    if not keys:
        raise SettingsError(f"{path}: no key in it, so that every request would be refused; write one a line")
    return keys


def _check(name: str, value: float | None) -> None:
    if name in _POSITIVE:
        if value is not None and not 0 < value < math.inf:
            raise SettingsError(f"{name} is {value:g}; expected a number above 0, or none at all for no limit")
    elif value is None or not 0 <= value < math.inf:
        raise SettingsError(f"{name} is {value}; expected a number from 0")
    elif name in _FRACTIONS and value > (0.9 if name == "token_skew" else 1.0):
        raise SettingsError(f"{name} is {value:g}; expected a fraction from 0 to {0.9 if name == 'token_skew' else 1}")


def _whole(changes: Mapping[str, float]) -> dict[str, Any]:
    whole = ("concurrency", "context_window")
    return {name: int(value) if name in whole else value for name, value in changes.items()}
