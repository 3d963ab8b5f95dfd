"""What an error means, with litellm's own classes, built as litellm builds them: from an HTTP error of the SDK beneath."""

from __future__ import annotations

import email.utils
import json
import time
from collections.abc import Callable, Mapping
from typing import Any

import aiohttp
import httpx
import pytest

from summhay_ray.llm import NoKey
from summhay_ray.llm.calls import retry
from summhay_ray.llm.calls.bodies import AnswerTooLarge, ProviderError, UnreadableAnswer
from summhay_ray.llm.calls.retry import LONGEST_PAUSE_S, Decision, decide
from summhay_ray.llm.transports.via_litellm import load_litellm

pytestmark = [pytest.mark.core, pytest.mark.usefixtures("litellm")]

REFUSED = aiohttp.client_reqrep.ConnectionKey("127.0.0.1", 1, False, True, None, None, None)


def response(status: int, headers: Mapping[str, str] | None = None) -> httpx.Response:
    return httpx.Response(status, headers=headers, request=httpx.Request("POST", "http://127.0.0.1/v1"))


def caused(error: BaseException, *causes: BaseException) -> BaseException:
    """`error` raised from the first cause, that from the second, and so on."""
    outer = error
    for cause in causes:
        outer.__cause__ = cause
        outer = cause
    return error


def made(name: str, message: str = "went wrong", status: int = 400, headers: Mapping[str, str] | None = None) -> BaseException:
    """litellm's exception of that name over an HTTP error, as its exception mapping makes it."""
    import openai

    litellm, answered = load_litellm(), response(status, headers)
    known: dict[str, Any] = {"message": message, "llm_provider": "openai", "model": "m"}
    if name == "APIError":
        error = litellm.APIError(status_code=status, **known)
    elif name in ("PermissionDeniedError", "UnprocessableEntityError"):
        error = getattr(litellm, name)(response=answered, **known)
    else:
        error = getattr(litellm, name)(**known)
    error.litellm_response_headers = answered.headers if headers else None
    http = httpx.HTTPStatusError(message, request=answered.request, response=answered)
    return caused(error, openai.APIStatusError(message, response=answered, body=None), http)


@pytest.mark.parametrize(
    ("name", "status", "decision"),
    [
        ("ContextWindowExceededError", 400, Decision("row", "context_window")),
        ("ContentPolicyViolationError", 400, Decision("row", "content_filter")),
        ("BadRequestError", 400, Decision("row", "bad_request")),
        ("UnprocessableEntityError", 422, Decision("row", "bad_request")),
        ("AuthenticationError", 401, Decision("model", "authentication")),
        ("PermissionDeniedError", 403, Decision("model", "permission_denied")),
        ("NotFoundError", 404, Decision("model", "model_not_found")),
        ("Timeout", 408, Decision("ambiguous", "timeout")),
        ("RateLimitError", 429, Decision("rate_limit", "rate_limit")),
        ("InternalServerError", 500, Decision("transient", "server_error")),
        ("BadGatewayError", 502, Decision("transient", "unavailable")),
        ("ServiceUnavailableError", 503, Decision("transient", "unavailable")),
        ("APIConnectionError", 500, Decision("transient", "connection")),
        ("APIError", 402, Decision("model", "payment_required")),
        ("APIError", 403, Decision("model", "permission_denied")),
        ("APIError", 409, Decision("transient", "api_error")),
        ("APIError", 413, Decision("row", "request_too_large")),
        ("APIError", 524, Decision("ambiguous", "timeout")),
        ("APIError", 529, Decision("transient", "api_error")),
    ],
)
def test_classes(name: str, status: int, decision: Decision) -> None:
    assert decide(made(name, status=status)) == decision


def test_every_error_that_litellm_knows_of_is_known() -> None:
    import openai

    known = {name for name, _, _ in retry._BY_CLASS}
    named = [cls for cls in vars(load_litellm()).values() if isinstance(cls, type) and issubclass(cls, openai.APIError)]
    assert len(named) >= 12
    assert [cls.__name__ for cls in named if not known & {base.__name__ for base in cls.__mro__}] == []


QUOTA = "You exceeded your current quota, please check your plan and billing details."


@pytest.mark.parametrize(
    ("message", "headers", "kind"),
    [
        (QUOTA, {}, "model"),
        ("Error code: 429 - {'error': {'code': 'insufficient_quota'}} try again in 5s", {}, "model"),
        ("Your credit balance is too low to access the API", {}, "model"),
        # Gemini words a limit of the minute so, and says beside it when to come back.
        (QUOTA + ' "retryDelay": "34s"', {}, "rate_limit"),
        (QUOTA + " Please retry in 34.5s.", {}, "rate_limit"),
        (QUOTA, {"retry-after": "20"}, "rate_limit"),
        ("Rate limit reached on tokens per min (TPM): Limit 30000. Please try again in 6s.", {}, "rate_limit"),
        # The free tier's limit names the billing page.
        (
            "Rate limit reached for requests. Add a payment method at https://platform.openai.com/account/billing.",
            {},
            "rate_limit",
        ),
        ("slow down", {"retry-after": str(LONGEST_PAUSE_S + 1)}, "model"),
    ],
)
def test_a_used_up_quota_is_no_rate_limit(message: str, headers: Mapping[str, str], kind: str) -> None:
    decision = decide(made("RateLimitError", message, 429, headers))
    assert (decision.kind, decision.error) == (kind, "quota_exhausted" if kind == "model" else "rate_limit")


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "3"}, 3.0),
        ({"retry-after": "2.5"}, 2.5),
        ({"RETRY-AFTER": "0"}, 0.0),
        ({"retry-after": "-4"}, 0.0),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": ""}, None),
        ({}, None),
    ],
)
@pytest.mark.parametrize("name", ["RateLimitError", "ServiceUnavailableError", "InternalServerError"])
@pytest.mark.parametrize("shape", [httpx.Headers, dict])
def test_retry_after_is_read_from_litellms_headers(
    headers: Mapping[str, str], seconds: float | None, name: str, shape: Callable[[Mapping[str, str]], Any]
) -> None:
    error = made(name, status=429)
    error.litellm_response_headers = shape(headers)  # type: ignore[attr-defined]
    assert decide(error).after_s == seconds


@pytest.mark.parametrize(("ahead", "low", "high"), [(30, 25, 31), (-30, 0, 0)])
def test_retry_after_may_be_a_date(ahead: float, low: float, high: float) -> None:
    date = email.utils.formatdate(time.time() + ahead, usegmt=True)
    after_s = decide(made("RateLimitError", status=429, headers={"retry-after": date})).after_s
    assert after_s is not None and low <= after_s <= high


def lost(name: str, message: str, *causes: BaseException) -> BaseException:
    return caused(getattr(load_litellm(), name)(message=message, llm_provider="openai", model="m"), *causes)


@pytest.mark.parametrize("name", ["InternalServerError", "APIConnectionError"])
def test_what_was_sent_and_lost_is_charged_and_what_never_left_is_not(name: str) -> None:
    import openai

    message = "OpenAIException - Connection error."
    connection = openai.APIConnectionError(request=httpx.Request("POST", "http://127.0.0.1/v1"))
    assert decide(lost(name, message, connection, httpx.ReadError("x"))) == Decision("ambiguous", "connection_lost")
    assert decide(lost(name, message)) == Decision("ambiguous", "connection_lost")
    for cause in (httpx.ConnectError("x"), httpx.ConnectTimeout("x"), ConnectionRefusedError(111, "x")):
        connection.__cause__ = None
        assert decide(lost(name, message, connection, cause)) == Decision("transient", "connection")


def test_a_response_that_cannot_be_read_was_paid() -> None:
    unreadable = lost("InternalServerError", "Expecting value: line 1 column 1 (char 0)", ValueError("x"))
    assert decide(unreadable) == Decision("ambiguous", "bad_response")


@pytest.mark.parametrize("error", [TypeError("x"), KeyError("choices"), RuntimeError()])
def test_an_unknown_error_may_have_been_paid(error: Exception) -> None:
    assert decide(error) == Decision("ambiguous", type(error).__name__)


def test_other_decisions() -> None:
    assert decide(TimeoutError()) == Decision("ambiguous", "timeout")
    assert decide(httpx.ConnectError("x")) == Decision("transient", "connection")
    assert decide(made("BadRequestError", "API key not valid.")) == Decision("model", "authentication")
    filtered = "The response was filtered due to the prompt triggering content management policy."
    assert decide(made("BadRequestError", filtered)) == Decision("row", "content_filter")
    unsendable = lost("InternalServerError", "surrogates not allowed", UnicodeEncodeError("utf-8", "\ud800", 0, 1, "x"))
    assert decide(unsendable) == Decision("row", "bad_request")
    circle = RuntimeError("x")
    circle.__cause__ = KeyError("y")
    circle.__cause__.__cause__ = circle
    assert decide(circle).kind == "ambiguous"


def answered(status: int, message: str = "went wrong", headers: Mapping[str, str] | None = None) -> ProviderError:
    """What the direct transport raises for an error of the provider."""
    return ProviderError(status, json.dumps({"error": {"message": message, "type": "error", "code": None}}), headers)


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
        (422, "documents[3]: 'a credit balance of 30 dollars' is no number", Decision("row", "bad_request")),
        (403, "This model requires moderation. Your input was flagged for violence.", Decision("row", "content_filter")),
        (403, "Your account was suspended.", Decision("model", "permission_denied")),
        (403, "You are not allowed to request logprobs from this model.", Decision("row", "bad_request")),
        (
            429,
            "You exceeded your current quota, please check your plan and billing details.",
            Decision("model", "quota_exhausted"),
        ),
        (429, "insufficient_quota", Decision("model", "quota_exhausted")),
        (429, "Rate limit reached for requests per min (RPM): Limit 3", Decision("rate_limit", "rate_limit")),
    ],
)
def test_what_an_endpoint_says_beside_its_status_counts(status: int, message: str, decision: Decision) -> None:
    assert decide(answered(status, message)) == decision


def test_an_endpoints_retry_after_is_read() -> None:
    assert decide(answered(429, headers={"Retry-After": "7"})) == Decision("rate_limit", "rate_limit", 7.0)
    assert decide(answered(429, headers={"Retry-After-Ms": "250"})) == Decision("rate_limit", "rate_limit", 0.25)
    assert decide(answered(503, headers={"retry-after": "2"})) == Decision("transient", "unavailable", 2.0)
    assert decide(answered(429, headers={"retry-after": str(LONGEST_PAUSE_S + 1)})) == Decision("model", "quota_exhausted")
    assert decide(answered(503, headers={"retry-after": str(LONGEST_PAUSE_S)})).after_s == LONGEST_PAUSE_S
    assert decide(answered(503, headers={"retry-after": "1e300"})) == Decision("model", "unavailable"), "nobody waits for ever"


@pytest.mark.parametrize("date", ["Mon, 1 Jan 99999999999999999999 00:00:00 GMT", "Mon, 99 Jan 2024 25:61:61 GMT", "1 2 3"])
def test_a_date_that_is_none_is_no_pause(date: str) -> None:
    assert decide(answered(429, headers={"retry-after": date})) == Decision("rate_limit", "rate_limit")


@pytest.mark.parametrize(
    ("error", "decision"),
    [
        (aiohttp.ServerDisconnectedError(), Decision("ambiguous", "connection_lost")),
        (aiohttp.ClientOSError(104, "reset by peer"), Decision("ambiguous", "connection_lost")),
        (aiohttp.ClientPayloadError("cut"), Decision("ambiguous", "connection_lost")),
        (aiohttp.ServerTimeoutError(), Decision("ambiguous", "timeout")),
        (aiohttp.ConnectionTimeoutError(), Decision("transient", "connection")),
        (aiohttp.ClientConnectorError(REFUSED, ConnectionRefusedError(111, "x")), Decision("transient", "connection")),
        (aiohttp.ClientConnectorDNSError(REFUSED, OSError(-2, "x")), Decision("transient", "connection")),
        (aiohttp.InvalidURL("no url"), Decision("model", "bad_api_base")),
        (UnreadableAnswer("<html>"), Decision("ambiguous", "bad_response")),
        (AnswerTooLarge("longer than 9 bytes"), Decision("malformed", "answer_too_large")),
        (NoKey("KEY_FILE names '/x', which cannot be read"), Decision("model", "authentication")),
    ],
)
def test_what_breaks_below_http_has_its_decision(error: BaseException, decision: Decision) -> None:
    assert decide(error) == decision
