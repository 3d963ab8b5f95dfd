"""Made-up log probabilities, hashed from tokens."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from typing import Any

from summhay_ray.text import token_pieces

_OTHERS = [b" the", b" a", b" and", b" of", b" to", b" in", b" is", b" it", b" no", b" yes", b"0", b"1", b"2", b"3"]
_OTHERS += [b"4", b"5", b".", b",", b"\n", b"[", b"]"]
"""The alternatives to any token: one more than can be requested, since the token itself may be one of them."""


def with_logprobs(choice: Mapping[str, Any], top: int) -> dict[str, Any]:
    """The choice of a completion, with log probabilities of its tokens and, for each, the `top` most likely tokens.

    A token's probability, from 0.5 to 0.75, is hashed from the token and its position; each alternative gets half of the rest.
    """
    text = choice["message"]["content"]
    if not text:
        return dict(choice)
    content = [_entry(place, token, top) for place, token in enumerate(token_pieces(text))]
    return {**choice, "logprobs": {"content": content, "refusal": None}}


def _entry(place: int, token: bytes, top: int) -> dict[str, Any]:
    digest = hashlib.blake2b(token + place.to_bytes(8, "little"), digest_size=8).digest()
    chosen = 0.5 + int.from_bytes(digest, "little") / 2**66
    others = [other for other in _OTHERS if other != token][: max(top - 1, 0)]
    left = [(1 - chosen) / 2 ** (rank + 1) for rank in range(len(others))]
    likeliest = [_listed(token, chosen), *map(_listed, others, left)]
    return {**_listed(token, chosen), "top_logprobs": likeliest[:top]}


def _listed(token: bytes, probability: float) -> dict[str, Any]:
    return {"token": token.decode("utf-8", "replace"), "logprob": math.log(probability), "bytes": list(token)}
