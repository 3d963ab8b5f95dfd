"""Sampling parameters: which ones may be sent, and how long an answer they allow."""

from __future__ import annotations

import functools
import json
from collections.abc import Collection, Mapping
from typing import Any

from summhay_ray.text import canonical_json, count_tokens

DEFAULT_MAX_TOKENS = 2000
_FLOOR_BYTES = 1 << 20
_TOKEN_BYTES = 32
"""The most bytes of one token in JSON, with all letters escaped."""
_LOGPROB_BYTES = 256
"""The most bytes that a server writes about one token, or one alternative to it, when log probabilities are requested."""
_LENGTHS = ("max_tokens", "max_completion_tokens")
RESERVED = frozenset(
    {
        "api_base",
        "api_key",
        "base_url",
        "caching",
        "client",
        "context_window_fallback_dict",
        "custom_llm_provider",
        "extra_headers",
        "fallbacks",
        "headers",
        "max_retries",
        "messages",
        "mock_response",
        "mock_timeout",
        "model",
        "num_retries",
        "retry_policy",
        "retry_strategy",
        "stream",
        "timeout",
    }
)
"""Parameters that the gateway sets itself. From a spec, they would change the call that is logged, limited and paid for."""
QUERY_FIELD = "query_field"
"""For a search: the field of the request's body that holds the query. It is not sent as a field of its own."""
REVISION = "revision"
"""The revision of the model, as the spec gives it: part of the key, but never sent."""
_BESIDE_EXTRA = {*_LENGTHS, REVISION, "seed", "temperature"}
_OF_THE_REQUEST = frozenset({"n", "logprobs", "top_logprobs"})


class Sampling(dict[str, Any]):
    """Sampling parameters that are not changed any more. A run has few of them, and each call asks what follows from them, so
    they have a hash: that of their text, since 1 is neither 1.0 nor True here."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        super().__init__(given)
        self._hash = hash(repr(self))

    def __hash__(self) -> int:  # type: ignore[override]
        return self._hash


@functools.lru_cache(maxsize=1024)
def canonical(sampling: Sampling) -> str:
    """The parameters as canonical JSON, as keys require."""
    return canonical_json(sampling)


@functools.lru_cache(maxsize=1024)
def unusable(sampling: Sampling, known: Collection[str] | None = None) -> str:
    """Why the sampling parameters cannot be sent, in one line; empty if they can. `known`: see `providers.known_extra`."""
    if known is not None and (others := sorted(sampling.keys() - _BESIDE_EXTRA - set(known))):
        return f"sampling parameter {others[0]!r} is none that may be given here; known: {', '.join(sorted(known))}"
    body = sampling.get("extra_body")
    for given in (sampling, body if isinstance(body, Mapping) else {}):
        if taken := sorted(RESERVED.intersection(given)):
            return f"sampling parameter {taken[0]!r} is set by the gateway; leave it out of extra"
        if taken := sorted(_OF_THE_REQUEST.intersection(given)):
            field = taken[0].removeprefix("top_")
            return f"sampling parameter {taken[0]!r} belongs to the request; leave it out of extra and write Request({field}=...)"
        if given is body and (taken := sorted(set(_LENGTHS).intersection(given))):
            return (
                f"sampling parameter {taken[0]!r} is in extra_body, where the budget does not see it; write it beside extra_body"
            )
    for name in _LENGTHS:
        value = sampling.get(name)
        if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
            return f"sampling parameter {name!r} is {value!r}; expected a whole number from 1"
    return ""


def bounded(sampling: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters as they are sent. A missing `max_tokens` is set: no price can be reserved for an answer of any length."""
    sent = {name: value for name, value in sampling.items() if name != REVISION}
    if any(sent.get(name) is not None for name in _LENGTHS):
        return sent
    return {**sent, "max_tokens": DEFAULT_MAX_TOKENS}


@functools.lru_cache(maxsize=1024)
def longest_answer(sampling: Sampling) -> int:
    """The most tokens of one answer; a call for `n` answers may bring `n` times as many."""
    return max(sampling.get("max_tokens") or 0, sampling.get("max_completion_tokens") or 0) or DEFAULT_MAX_TOKENS


@functools.lru_cache(maxsize=1024)
def most_bytes(sampling: Sampling, n: int = 1, logprobs: int | None = None) -> int:
    """A generous upper bound, in bytes, on the body of an answer with `n` texts."""
    a_token = _TOKEN_BYTES + (0 if logprobs is None else _LOGPROB_BYTES * (1 + logprobs))
    return _FLOOR_BYTES + longest_answer(sampling) * n * a_token


@functools.lru_cache(maxsize=1024)
def schema_tokens(sampling: Sampling) -> int:
    """Our count of the tokens of schemas, tools and the like, which providers bill as part of the prompt."""
    nested = [value for name, value in sorted(sampling.items()) if isinstance(value, dict | list) and name != "extra_body"]
    return count_tokens("".join(json.dumps(value, default=str) for value in nested))
