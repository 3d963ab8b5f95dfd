"""Turns an answer's text into a choice and a token count, with faults and limits applied. The functions are pure."""

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from summhay_ray.simulator.bodies import choice_of
from summhay_ray.simulator.prefixes import LEAST, STEP, Encoder
from summhay_ray.text import first_tokens, token_pieces

REFUSAL = "I'm sorry, but I can't help with that."
ABSURD_TOKENS = 10**9


@dataclass(frozen=True, slots=True)
class Finished:
    """A finished choice of a completion, and its token count by the provider."""

    choice: dict[str, Any]
    tokens_out: int


def scaled_prefix(n: int, factor: float) -> int:
    """Return the provider's count of a cached prefix: a multiple of STEP, or 0 below LEAST."""
    steps = int(n * factor) // STEP * STEP
    return steps if steps >= LEAST else 0


def finish(text: str, fault: str, max_tokens: int | None, factor: float, encoder: Encoder) -> Finished:
    """Turn the answer `text` into a choice. `fault`: applied to the choice; `max_tokens`: upper bound of its token count;
    `factor`: see `scaled`."""
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
    tokens_out = round(most * factor)
    if max_tokens is not None:
        tokens_out = min(tokens_out, max_tokens)
    choice = choice_of(None, "stop", text) if fault == "refusals" else choice_of(text, reason)
    return Finished(choice, tokens_out)


def reported_usage(fault: str, variant: float, tokens_in: int, tokens_cached: int, tokens_out: int) -> dict[str, Any] | None:
    """Return the usage in the answer: correct or, as a fault, missing, zero, a thousand million, or negative."""
    if fault == "no_usage":
        return None
    if fault == "wrong_usage":
        wrong = (0, ABSURD_TOKENS, -1)[int(variant * 3)]
        tokens_in, tokens_cached, tokens_out = wrong, 0, wrong
    return {
        "prompt_tokens": tokens_in,
        "completion_tokens": tokens_out,
        "total_tokens": tokens_in + tokens_out,
        "prompt_tokens_details": {"cached_tokens": tokens_cached},
        "completion_tokens_details": {"reasoning_tokens": 0},
    }


_OTHERS = [b" the", b" a", b" and", b" of", b" to", b" in", b" is", b" it", b" no", b" yes", b"0", b"1", b"2", b"3"]
_OTHERS += [b"4", b"5", b".", b",", b"\n", b"[", b"]"]
"""Alternatives to any token. There is one more than can be requested, because the token itself may be among them."""


def with_logprobs(choice: Mapping[str, Any], top: int) -> dict[str, Any]:
    """Add log probabilities to a choice of a completion: those of its tokens, and for each the `top` most likely tokens.

    A token's probability, from 0.5 to 0.75, is hashed from the token and its position; each alternative gets half of the rest.
    """
    text = choice["message"]["content"]
    if not text:
        return dict(choice)
    content = []
    for place, token in enumerate(token_pieces(text)):
        digest = hashlib.blake2b(token + place.to_bytes(8, "little"), digest_size=8).digest()
        chosen = 0.5 + int.from_bytes(digest, "little") / 2**66
        others = [other for other in _OTHERS if other != token][: max(top - 1, 0)]
        left = [(1 - chosen) / 2 ** (rank + 1) for rank in range(len(others))]
        likeliest = [_logprob_entry(token, chosen), *map(_logprob_entry, others, left)]
        content.append({**_logprob_entry(token, chosen), "top_logprobs": likeliest[:top]})
    return {**choice, "logprobs": {"content": content, "refusal": None}}


def _logprob_entry(token: bytes, probability: float) -> dict[str, Any]:
    return {"token": token.decode("utf-8", "replace"), "logprob": math.log(probability), "bytes": list(token)}
