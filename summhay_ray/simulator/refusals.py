"""The errors of OpenAI's API for requests that are not served."""

from __future__ import annotations

import math

from summhay_ray.simulator.bodies import Refused

_KINDS = {
    "rpm": ("requests per min (RPM)", "requests"),
    "input_tpm": ("input tokens per min (TPM)", "tokens"),
    "output_tpm": ("output tokens per min (TPM)", "tokens"),
}


def wrong_key() -> Refused:
    """401. The message does not repeat the key."""
    message = "Incorrect API key provided. The simulated provider accepts only the keys in its --keys file."
    return Refused(401, "invalid_api_key", message)


def unknown_model(model: str) -> Refused:
    """404."""
    return Refused(404, "model_not_found", f"The model `{model}` does not exist or you do not have access to it.")


def no_quota() -> Refused:
    """429 for which waiting does not help."""
    message = "You exceeded your current quota, please check your plan and billing details."
    return Refused(429, "insufficient_quota", message, type="insufficient_quota")


def too_long(window: int, tokens_in: int, max_tokens: int) -> Refused:
    """400: prompt and max_tokens exceed the context window."""
    requested = f"you requested {tokens_in + max_tokens} tokens ({tokens_in} in the messages, {max_tokens} in the completion)"
    exceeded = f"This model's maximum context length is {window} tokens. However, {requested}."
    message = f"{exceeded} Please reduce the length of either one."
    return Refused(400, "context_length_exceeded", message, param="messages")


def too_many_at_once(model: str, limit: int) -> Refused:
    """429 without a time to wait."""
    message = f"Too many requests at once for {model}: limit {limit}. Please wait for an answer before the next request."
    return Refused(429, "rate_limit_exceeded", message, type="requests", limit="concurrency")


def over_limit(which: str, model: str, limit: float, amount: int, wait_s: float) -> Refused:
    """429 with the time to wait, in seconds and in milliseconds, both rounded up; without it if waiting never helps."""
    words, kind = _KINDS[which]
    if math.isinf(wait_s):
        message = f"Request too large for {model} on {words}: Limit {limit:g}, Requested {amount}."
        return Refused(429, "rate_limit_exceeded", message, type=kind, limit=which)
    headers = {"Retry-After": str(max(math.ceil(wait_s), 1)), "retry-after-ms": str(max(math.ceil(wait_s * 1000), 1))}
    message = f"Rate limit reached for {model} on {words}: Limit {limit:g}. Please try again in {wait_s:.3f}s."
    return Refused(429, "rate_limit_exceeded", message, type=kind, limit=which, headers=headers)


def server_error(status: int) -> Refused:
    """500, 502 or 503."""
    message = "The server had an error while processing your request. Sorry about that! (simulated)"
    return Refused(status, "", message, type="server_error", limit="errors")
