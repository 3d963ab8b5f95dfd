"""The plan of one stage."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from summhay_ray.outcome import MICROS


@dataclass
class StagePlan:
    """The plan of one stage and model: calls to make, answers to reuse, and the tokens and micro-dollars of the calls.

    If every call is answered once, the actual cost is between `min_micros` (the provider counts fewer tokens than we do, all
    prompts are cached, every answer is one token long) and `max_micros` (it counts more, nothing is cached, every answer has the
    maximum length). `usd_micros` is the expected cost: our token counts, nothing cached.
    """

    stage: str
    model: str
    calls: int = 0
    reused: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    usd_micros: int = 0
    min_micros: int = 0
    max_micros: int = 0
    spared_tokens: int = 0
    """Input tokens saved because a call shows only a part of a text."""
    spared_micros: int = 0
    """The cost of the saved tokens, nothing cached."""
    max_calls: int = 0
    """Upper bound of the calls: questions that depend on unknown answers may turn out equal, or not be asked."""
    minutes: float | None = None
    """Minimum minutes for the expected calls and tokens at the model's rate limits; None without limits."""

    def add(self, input_tokens: int, output_tokens: int, micros: tuple[int, int, int]) -> None:
        """Count one call. `micros`: its cost (expected, least, most)."""
        self.calls += 1
        self.input_tokens += input_tokens
        self.output_tokens += output_tokens
        self.usd_micros += micros[0]
        self.min_micros += micros[1]
        self.max_micros += micros[2]

    def reuse(self, n: int = 1) -> None:
        """Count answers that are already stored, or questions that other items ask, too."""
        self.reused += n

    def spare(self, tokens: int, micros: int) -> None:
        """Count tokens that a shorter prompt saves, and their cost."""
        self.spared_tokens += tokens
        self.spared_micros += micros

    def add_between(self, least: StagePlan, expected: StagePlan, most: StagePlan, share: float) -> None:
        """Add the calls of `expected`, with the bounds of `least` and `most`. A `share` of them is expected to be made; below 1,
        the lower bound is no call, and the upper bound is all calls."""
        self.reused += expected.reused
        for name in ("calls", "input_tokens", "output_tokens", "usd_micros", "spared_tokens", "spared_micros"):
            setattr(self, name, getattr(self, name) + round(getattr(expected, name) * share))
        self.min_micros += min(least.min_micros, expected.min_micros) if share == 1 else 0
        self.max_micros += max(most.max_micros, expected.max_micros)
        self.max_calls += max(most.calls, expected.calls)

    @property
    def usd(self) -> float:
        """Expected dollars."""
        return self.usd_micros / MICROS

    @property
    def usd_min(self) -> float:
        """Lower bound of the dollars."""
        return self.min_micros / MICROS

    @property
    def usd_max(self) -> float:
        """Upper bound of the dollars."""
        return self.max_micros / MICROS

    def to_json(self) -> dict[str, Any]:
        """The stage as JSON."""
        names = ("stage", "model", "calls", "reused", "input_tokens", "output_tokens", "usd", "usd_min", "usd_max", "minutes")
        spared = {"spared_tokens": self.spared_tokens, "usd_spared": self.spared_micros / MICROS}
        return {**{name: getattr(self, name) for name in names}, **(spared if self.spared_tokens else {})}
