"""Sampling parameters: checks whether they may be sent, and computes the maximum length of an answer."""

from __future__ import annotations

import functools
import json
from collections.abc import Collection, Mapping
from typing import Any

from summhay_ray.text import canonical_json, count_tokens

DEFAULT_MAX_TOKENS = 2000
_FLOOR_BYTES = 1 << 20
_TOKEN_BYTES = 32
"""Maximum bytes of one token in JSON, with all letters escaped."""
_LOGPROB_BYTES = 256
"""Maximum bytes of one token or alternative in an answer with log probabilities."""
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
"""Parameters that only the gateway sets. In a spec, they could change the call so that its log, limits and price would be
wrong."""
QUERY_FIELD = "query_field"
"""For a search: the field of the request's body that holds the query. It is not sent as a separate field."""
REVISION = "revision"
"""The model's revision in the spec: part of the key, but never sent."""
_BESIDE_EXTRA = {*_LENGTHS, REVISION, "seed", "temperature"}
_OF_THE_REQUEST = frozenset({"n", "logprobs", "top_logprobs"})


class Sampling(dict[str, Any]):
    """Immutable sampling parameters. They are hashable, because results are cached per set of parameters: a run has few sets and
    many calls. The hash is of their text, which distinguishes 1, 1.0 and True."""

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
    """The parameters to send. A missing `max_tokens` is set, because an answer of unlimited length has no maximum price."""
    sent = {name: value for name, value in sampling.items() if name != REVISION}
    if any(sent.get(name) is not None for name in _LENGTHS):
        return sent
    return {**sent, "max_tokens": DEFAULT_MAX_TOKENS}


@functools.lru_cache(maxsize=1024)
def longest_answer(sampling: Sampling) -> int:
    """Maximum tokens of one answer; a call for `n` answers may return `n` times as many."""
    return max(sampling.get("max_tokens") or 0, sampling.get("max_completion_tokens") or 0) or DEFAULT_MAX_TOKENS


@functools.lru_cache(maxsize=1024)
def most_bytes(sampling: Sampling, n: int = 1, logprobs: int | None = None) -> int:
    """A generous upper bound, in bytes, on the body of an answer with `n` texts."""
    a_token = _TOKEN_BYTES + (0 if logprobs is None else _LOGPROB_BYTES * (1 + logprobs))
    return _FLOOR_BYTES + longest_answer(sampling) * n * a_token


@functools.lru_cache(maxsize=1024)
def schema_tokens(sampling: Sampling) -> int:
    """Our count of the tokens of schemas, tools and similar parameters, which providers bill as part of the prompt."""
    nested = [value for name, value in sorted(sampling.items()) if isinstance(value, dict | list) and name != "extra_body"]
    return count_tokens("".join(json.dumps(value, default=str) for value in nested))
