"""Turns an answer's text into a choice and a token count, with faults and limits applied. Pure."""

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
    """A choice of the completion, and its tokens by the provider's count."""

    choice: dict[str, Any]
    tokens_out: int


def scaled(n: int, factor: float) -> int:
    """The provider's count for a count of cl100k tokens."""
    return round(n * factor)


def scaled_prefix(n: int, factor: float) -> int:
    """The provider's count of a cached prefix: a multiple of STEP, or 0 below LEAST."""
    steps = int(n * factor) // STEP * STEP
    return steps if steps >= LEAST else 0


def finish(text: str, fault: str, max_tokens: int | None, factor: float, encoder: Encoder) -> Finished:
    """Finish the answer `text`. `fault`: applied to it; `max_tokens`: an upper bound of its count; `factor`: see `scaled`."""
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


def reported_usage(fault: str, variant: float, tokens_in: int, tokens_cached: int, tokens_out: int) -> dict[str, Any] | None:
    """The usage in the answer: true, or, by fault, left out, zero, a thousand million, or negative."""
    if fault == "no_usage":
        return None
    if fault == "wrong_usage":
        wrong = (0, ABSURD_TOKENS, -1)[int(variant * 3)]
        return usage_of(wrong, 0, wrong)
    return usage_of(tokens_in, tokens_cached, tokens_out)
