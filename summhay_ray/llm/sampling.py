"""What may be sent beside the messages, and how long an answer it allows. Part of the llm room."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

DEFAULT_MAX_TOKENS = 2000
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


def unusable(sampling: Mapping[str, Any]) -> str:
    """Why the sampling parameters cannot be sent, in one line; empty where they can."""
    taken = sorted(RESERVED.intersection(sampling))
    if taken:
        return f"sampling parameter {taken[0]!r} is decided by the gateway; leave it out of extra"
    for name in (*_LENGTHS, "n"):
        value = sampling.get(name)
        if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
            return f"sampling parameter {name!r} is {value!r}; expected a whole number from 1"
    return ""


def bounded(sampling: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters as they are sent: always with a length, since the price of an endless answer cannot be reserved."""
    if any(sampling.get(name) is not None for name in _LENGTHS):
        return dict(sampling)
    return {**sampling, "max_tokens": DEFAULT_MAX_TOKENS}


def longest_answer(sampling: Mapping[str, Any]) -> int:
    """The most tokens that can come back, over all answers of the call."""
    return max(bounded(sampling).get(name) or 0 for name in _LENGTHS) * (sampling.get("n") or 1)


def beside(sampling: Mapping[str, Any]) -> str:
    """Schemas, tools and the like as text: they go with the prompt, and are billed with it."""
    nested = [value for name, value in sorted(sampling.items()) if isinstance(value, dict | list) and name != "extra_body"]
    return "".join(json.dumps(value, default=str) for value in nested)
