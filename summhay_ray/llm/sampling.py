"""What may be sent beside the messages, and how long an answer it allows. Part of the llm room."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

DEFAULT_MAX_TOKENS = 2000
_FLOOR_BYTES = 1 << 20
_TOKEN_BYTES = 32
"""A token of any script as JSON writes it, escaped."""
_LOGPROB_BYTES = 256
"""What a server writes of one token, or of one that it might have been, where it is asked for log probabilities."""
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
"""Parameters that would make another call of the request than the one that is kept, limited and paid for."""
REVISION = "revision"
"""Of the model, as a spec tells it: part of the key, and never sent."""
_OF_THE_REQUEST = frozenset({"n", "logprobs", "top_logprobs"})


def unusable(sampling: Mapping[str, Any]) -> str:
    """Why the sampling parameters cannot be sent, in one line; empty where they can."""
    body = sampling.get("extra_body")
    for given in (sampling, body if isinstance(body, Mapping) else {}):
        if taken := sorted(RESERVED.intersection(given)):
            return f"sampling parameter {taken[0]!r} is decided by the gateway; leave it out of extra"
        if taken := sorted(_OF_THE_REQUEST.intersection(given)):
            field = taken[0].removeprefix("top_")
            return f"sampling parameter {taken[0]!r} belongs to the request; leave it out of extra and write Request({field}=...)"
        if given is body and (taken := sorted(set(_LENGTHS).intersection(given))):
            return f"sampling parameter {taken[0]!r} stands in extra_body, past the budget; write it beside extra_body"
    for name in _LENGTHS:
        value = sampling.get(name)
        if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
            return f"sampling parameter {name!r} is {value!r}; expected a whole number from 1"
    return ""


def bounded(sampling: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters as they are sent: always with a length, since the price of an endless answer cannot be reserved."""
    sent = {name: value for name, value in sampling.items() if name != REVISION}
    if any(sent.get(name) is not None for name in _LENGTHS):
        return sent
    return {**sent, "max_tokens": DEFAULT_MAX_TOKENS}


def longest_answer(sampling: Mapping[str, Any]) -> int:
    """The most tokens of one answer; a call for `n` of them may bring n times as many."""
    lengths = bounded(sampling)
    return max([lengths.get(name) or 0 for name in _LENGTHS])


def most_bytes(sampling: Mapping[str, Any], n: int = 1, logprobs: int | None = None) -> int:
    """How long the body of an honest answer may be: a generous bound for all that an endpoint writes around `n` texts."""
    a_token = _TOKEN_BYTES + (0 if logprobs is None else _LOGPROB_BYTES * (1 + logprobs))
    return _FLOOR_BYTES + longest_answer(sampling) * n * a_token


def beside(sampling: Mapping[str, Any]) -> str:
    """Schemas, tools and the like as text: they go with the prompt, and are billed with it."""
    nested = [value for name, value in sorted(sampling.items()) if isinstance(value, dict | list) and name != "extra_body"]
    return "".join(json.dumps(value, default=str) for value in nested)
