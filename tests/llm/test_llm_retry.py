"""The decision about a transport's error, with the real exceptions of its HTTP client."""

from __future__ import annotations

import email.utils
import json
import time
from collections.abc import Mapping

import aiohttp
import httpx
import pytest

from summhay_ray.llm import NoKey
from summhay_ray.llm.bodies import AnswerTooLarge, ProviderError, UnreadableAnswer
from summhay_ray.llm.retry import LONGEST_PAUSE_S, Decision, decide
from summhay_ray.routes import NoRoute, Route, Wire

pytestmark = pytest.mark.core


def answered(status: int, message: str = "went wrong", headers: Mapping[str, str] | None = None) -> ProviderError:
    """The error that the direct transport raises for a provider's error."""
    return ProviderError(status, json.dumps({"error": {"message": message, "type": "error", "code": None}}), headers)


QUOTA = "You exceeded your current quota, please check your plan and billing details."


@pytest.mark.parametrize(
    ("message", "headers", "kind"),
    [
        (QUOTA, {}, "model"),
        ("Error code: 429 - {'error': {'code': 'insufficient_quota'}} try again in 5s", {}, "model"),
        ("Your credit balance is too low to access the API", {}, "model"),
        # Gemini words a limit per minute like this, and adds the time to wait.
        (QUOTA + ' "retryDelay": "34s"', {}, "rate_limit"),
        (QUOTA + " Please retry in 34.5s.", {}, "rate_limit"),
        (QUOTA, {"retry-after": "20"}, "rate_limit"),
        ("Rate limit reached on tokens per min (TPM): Limit 30000. Please try again in 6s.", {}, "rate_limit"),
        # The message about the free tier's limit names the billing page.
        (
            "Rate limit reached for requests. Add a payment method at https://platform.openai.com/account/billing.",
            {},
            "rate_limit",
        ),
        ("slow down", {"retry-after": str(LONGEST_PAUSE_S + 1)}, "model"),
    ],
)
def test_a_used_up_quota_is_no_rate_limit(message: str, headers: Mapping[str, str], kind: str) -> None:
    decision = decide(answered(429, message, headers))
    assert (decision.kind, decision.error) == (kind, "quota_exhausted" if kind == "model" else "rate_limit")


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "3"}, 3.0),
        ({"retry-after": "-4"}, 0.0),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "nan"}, None),
        ({}, None),
    ],
)
@pytest.mark.parametrize("status", [429, 503])
def test_retry_after_is_read(headers: Mapping[str, str], seconds: float | None, status: int) -> None:
    assert decide(answered(status, headers=headers)).after_s == seconds


@pytest.mark.parametrize(("ahead", "low", "high"), [(30, 25, 31), (-30, 0, 0)])
def test_retry_after_may_be_a_date(ahead: float, low: float, high: float) -> None:
    date = email.utils.formatdate(time.time() + ahead, usegmt=True)
    after_s = decide(answered(429, headers={"retry-after": date})).after_s
    assert after_s is not None and low <= after_s <= high


@pytest.mark.parametrize("error", [TypeError("x"), KeyError("choices"), RuntimeError()])
def test_an_unknown_error_may_have_been_paid(error: Exception) -> None:
    assert decide(error) == Decision("ambiguous", type(error).__name__)


@pytest.mark.parametrize(
    ("status", "decision"),
    [
        (302, Decision("model", "bad_api_base")),
        (400, Decision("row", "bad_request")),
        (401, Decision("model", "authentication")),
        (402, Decision("model", "payment_required")),
        (403, Decision("model", "permission_denied")),
        (404, Decision("model", "model_not_found")),
        (405, Decision("model", "bad_api_base")),
        (408, Decision("transient", "unavailable")),
        (409, Decision("transient", "unavailable")),
        (413, Decision("row", "request_too_large")),
        (418, Decision("row", "bad_request")),
        (422, Decision("row", "bad_request")),
        (429, Decision("rate_limit", "rate_limit")),
        (500, Decision("transient", "server_error")),
        (502, Decision("transient", "unavailable")),
        (503, Decision("transient", "unavailable")),
        (504, Decision("ambiguous", "timeout")),
        (524, Decision("ambiguous", "timeout")),
        (529, Decision("transient", "unavailable")),
    ],
)
def test_each_status_of_an_endpoint_has_its_decision(status: int, decision: Decision) -> None:
    assert decide(answered(status)) == decision


@pytest.mark.parametrize(
    ("status", "message", "decision"),
    [
        (
            400,
            "This model's maximum context length is 8192 tokens. However, you requested 9000.",
            Decision("row", "context_window"),
        ),
        (400, "The response was filtered: content_filter", Decision("row", "content_filter")),
        (400, "API key not valid. Please pass a valid API key.", Decision("model", "authentication")),
        (400, "Your credit balance is too low to access the API.", Decision("model", "payment_required")),
        (400, "Your request was rejected as a result of our safety system.", Decision("row", "content_filter")),
        (400, "ValidationException: Input is too long for requested model.", Decision("row", "context_window")),
        (500, "Missing credentials. Please pass an `api_key`.", Decision("model", "authentication")),
        (422, "documents[3]: 'a credit balance of 30 dollars' is no number", Decision("row", "bad_request")),
        (403, "This model requires moderation. Your input was flagged for violence.", Decision("row", "content_filter")),
        (403, "Your account was suspended.", Decision("model", "permission_denied")),
        (403, "You are not allowed to request logprobs from this model.", Decision("row", "bad_request")),
        (
            429,
            "You exceeded your current quota, please check your plan and billing details.",
            Decision("model", "quota_exhausted"),
        ),
        (429, "Rate limit reached for requests per min (RPM): Limit 3", Decision("rate_limit", "rate_limit")),
    ],
)
def test_the_message_of_an_endpoint_counts_in_addition_to_its_status(status: int, message: str, decision: Decision) -> None:
    assert decide(answered(status, message)) == decision


def test_nobody_waits_for_ever() -> None:
    assert decide(answered(429, headers={"retry-after": str(LONGEST_PAUSE_S + 1)})) == Decision("model", "quota_exhausted")
    assert decide(answered(503, headers={"retry-after": str(LONGEST_PAUSE_S)})).after_s == LONGEST_PAUSE_S
    assert decide(answered(503, headers={"retry-after": "1e300"})) == Decision("model", "unavailable"), "nobody waits for ever"


@pytest.mark.parametrize("date", ["Mon, 1 Jan 99999999999999999999 00:00:00 GMT", "Mon, 99 Jan 2024 25:61:61 GMT", "1 2 3"])
def test_a_date_that_is_none_is_no_pause(date: str) -> None:
    assert decide(answered(429, headers={"retry-after": date})) == Decision("rate_limit", "rate_limit")


@pytest.mark.parametrize(
    ("error", "decision"),
    [
        (TimeoutError(), Decision("ambiguous", "timeout")),
        (httpx.ReadTimeout("x"), Decision("ambiguous", "timeout")),
        (httpx.ReadError("x"), Decision("ambiguous", "connection_lost")),
        (httpx.RemoteProtocolError("x"), Decision("ambiguous", "connection_lost")),
        (aiohttp.ServerDisconnectedError(), Decision("ambiguous", "connection_lost")),
        (aiohttp.ClientOSError(104, "reset by peer"), Decision("ambiguous", "connection_lost")),
        (aiohttp.ClientPayloadError("cut"), Decision("ambiguous", "connection_lost")),
        (aiohttp.ServerTimeoutError(), Decision("ambiguous", "timeout")),
        (UnreadableAnswer("<html>"), Decision("ambiguous", "bad_response")),
        (AnswerTooLarge("longer than 9 bytes"), Decision("malformed", "answer_too_large")),
        (NoKey("KEY_FILE names '/x', which cannot be read"), Decision("model", "authentication")),
        (NoRoute("ALL_PROXY names a socks5 proxy"), Decision("model", "no_route")),
    ],
)
def test_what_breaks_below_http_has_its_decision(error: BaseException, decision: Decision) -> None:
    assert decide(error) == decision


@pytest.mark.parametrize(
    "error", [TimeoutError(), httpx.ReadError("x"), aiohttp.ServerDisconnectedError(), ValueError("x"), KeyError("y")]
)
def test_where_an_error_was_raised_decides_whatever_its_class(error: Exception) -> None:
    route = Route("https://provider.invalid:443")
    assert decide(error, Wire(route, sent=True)).kind == "ambiguous"
    assert decide(error, Wire(route)) == Decision("transient", "connection")
    timed = isinstance(error, TimeoutError)
    assert decide(error, Wire()) == (Decision("transient", "timeout") if timed else Decision("row", "bad_request"))
