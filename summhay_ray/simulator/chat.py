"""An answer as the provider finishes it: cut, refused, filtered, counted. Pure; part of the simulator room."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from summhay_ray.simulator.bodies import choice_of, usage_of
from summhay_ray.simulator.prefixes import LEAST, STEP, Encoder
from summhay_ray.text import first_tokens

REFUSAL = "I'm sorry, but I can't help with that."
ABSURD_TOKENS = 10**9


@dataclass(frozen=True, slots=True)
class Finished:
    """What is answered, and how many tokens it is by the provider's count."""

    choice: dict[str, Any]
    tokens_out: int


def scaled(n: int, factor: float) -> int:
    """cl100k's count as the provider counts."""
    return round(n * factor)


def scaled_prefix(n: int, factor: float) -> int:
    """A cached beginning as the provider counts: in its steps, too, and nothing where it is below its least."""
    steps = int(n * factor) // STEP * STEP
    return steps if steps >= LEAST else 0


def finish(text: str, fault: str, max_tokens: int | None, factor: float, encoder: Encoder) -> Finished:
    """The answer `text` under a fault and a longest length, which its count never exceeds."""
    if fault == "filtered":
        return Finished(choice_of("", "content_filter"), 0)
    if fault == "refusals":
        text = REFUSAL
    n = encoder.count(text)
    most = n if max_tokens is None else min(n, int(max_tokens / factor))
    if fault == "cut":
        most = min(most, n // 2)
    reason = "length" if most < n or fault == "cut" else "stop"
    if most < n:
        text = first_tokens(text, most)
    tokens_out = scaled(most, factor)
    if max_tokens is not None:
        tokens_out = min(tokens_out, max_tokens)
    choice = choice_of(None, "stop", text) if fault == "refusals" else choice_of(text, reason)
    return Finished(choice, tokens_out)


def told_usage(fault: str, variant: float, tokens_in: int, tokens_cached: int, tokens_out: int) -> dict[str, Any] | None:
    """Usage as the answer tells it: true, left out, zero, a thousand millions, or negative."""
    if fault == "no_usage":
        return None
    if fault == "wrong_usage":
        wrong = (0, ABSURD_TOKENS, -1)[int(variant * 3)]
        return usage_of(wrong, 0, wrong)
    return usage_of(tokens_in, tokens_cached, tokens_out)
