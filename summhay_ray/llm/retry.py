"""What to do about an error of one HTTP attempt, as a value. Part of the llm room.

The classes of litellm's errors are recognized by name and base, most special first, so that the decision needs no litellm
import and is tested with the real exceptions.
"""

from __future__ import annotations

import datetime
import email.utils
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

Kind = Literal["rate_limit", "transient", "ambiguous", "row", "model", "lost"]
"""rate_limit, transient: try again. ambiguous: sent, no answer: charged, try again once. row: this request never succeeds.
model: no request to this model succeeds. lost: not sent, since another worker has taken the call over: ask for it again."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What an error means: try again (after `after_s`), give the row up, or give the model up."""

    kind: Kind
    error: str
    after_s: float | None = None


LONGEST_PAUSE_S = 3600.0
"""A provider that asks for a longer pause has a quota that is used up: the model is given up, and a later run goes on."""

_BY_CLASS: tuple[tuple[str, Kind, str], ...] = (
    ("MissingAnswer", "row", "missing_answer"),
    ("ContextWindowExceededError", "row", "context_window"),
    ("ContentPolicyViolationError", "row", "content_filter"),
    ("PaymentRequiredError", "model", "payment_required"),
    ("AuthenticationError", "model", "authentication"),
    ("PermissionDeniedError", "model", "permission_denied"),
    ("NotFoundError", "model", "model_not_found"),
    ("BudgetExceededError", "model", "payment_required"),
    ("RateLimitError", "rate_limit", "rate_limit"),
    ("Timeout", "ambiguous", "timeout"),
    ("TimeoutError", "ambiguous", "timeout"),
    ("UnprocessableEntityError", "row", "bad_request"),
    ("BadRequestError", "row", "bad_request"),
    ("APIResponseValidationError", "ambiguous", "bad_response"),
    ("ServiceUnavailableError", "transient", "unavailable"),
    ("BadGatewayError", "transient", "unavailable"),
    ("InternalServerError", "transient", "server_error"),
    ("APIConnectionError", "transient", "connection"),
    ("APIError", "transient", "api_error"),
)
# litellm has no class of its own for these: they come as APIError with the status beside it.
_BY_STATUS: dict[int, tuple[Kind, str]] = {
    401: ("model", "authentication"),
    402: ("model", "payment_required"),
    403: ("model", "permission_denied"),
    404: ("model", "model_not_found"),
    413: ("row", "request_too_large"),
}
_NEVER_SENT = {"ConnectError", "ConnectTimeout", "ClientConnectorError", "ConnectionRefusedError", "gaierror", "PoolTimeout"}
_EXHAUSTED = re.compile(r"insufficient_quota|credit balance|billing[ _]hard[ _]limit", re.IGNORECASE)
_QUOTA = re.compile(r"exceeded your current quota", re.IGNORECASE)
# One provider words a limit of the minute as a quota that is used up, and says beside it when to come back.
_SOON = re.compile(r"retry ?delay|(retry|try again) in \d|per ?(minute|day)|\b[rt]p[md]\b", re.IGNORECASE)
_FILTERED = re.compile(r"content_filter|content_policy|content management policy", re.IGNORECASE)


_NO_KEY = re.compile(r"missing credentials|api_key client option must be set|api key (is )?missing", re.IGNORECASE)
"""What SDKs say before they send anything; litellm makes an InternalServerError of it."""


def decide(error: BaseException) -> Decision:
    """The decision for an error of litellm or of a local model."""
    names = {cls.__name__ for cls in type(error).__mro__}
    kind, word = next(((kind, word) for name, kind, word in _BY_CLASS if name in names), ("ambiguous", type(error).__name__))
    text = str(error)
    if word == "api_error":
        kind, word = _BY_STATUS.get(getattr(error, "status_code", 0), (kind, word))
    if _NO_KEY.search(text):
        return Decision("model", "authentication")
    if word == "bad_request" and _FILTERED.search(text):
        return Decision("row", "content_filter")
    if kind in ("row", "model"):
        return Decision(kind, word)
    causes = {cls.__name__ for cause in _chain(error) for cls in type(cause).__mro__}
    if causes & _NEVER_SENT:
        return Decision("transient", "connection")
    if "UnicodeEncodeError" in causes:
        return Decision("row", "bad_request")
    after_s = _retry_after(error)
    if kind == "rate_limit":
        return _limited(text, after_s)
    # Without an HTTP error behind it, the request was sent and its answer was lost or unreadable: it may be charged.
    if word in ("server_error", "connection", "api_error") and "HTTPStatusError" not in causes:
        return Decision("ambiguous", "bad_response" if "connection" not in text.lower() else "connection_lost")
    return Decision(kind, word, after_s if kind == "transient" else None)


def _limited(text: str, after_s: float | None) -> Decision:
    used_up = _EXHAUSTED.search(text) or (_QUOTA.search(text) and after_s is None and not _SOON.search(text))
    if used_up or (after_s or 0.0) > LONGEST_PAUSE_S:
        return Decision("model", "quota_exhausted")
    return Decision("rate_limit", "rate_limit", after_s)


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        yield cause
        cause = cause.__cause__ or cause.__context__


def _retry_after(error: BaseException) -> float | None:
    """Seconds: `retry-after-ms`, or `retry-after` as seconds or as a date."""
    headers = {str(name).lower(): str(value) for name, value in (getattr(error, "litellm_response_headers", None) or {}).items()}
    text = headers.get("retry-after", "")
    for value, unit in ((headers.get("retry-after-ms", ""), 0.001), (text, 1.0)):
        try:
            seconds = float(value) * unit
        except ValueError:
            continue
        if math.isfinite(seconds):
            return max(seconds, 0.0)
    try:
        when = email.utils.parsedate_to_datetime(text)
    except ValueError:
        return None
    now = datetime.datetime.now(when.tzinfo)
    return max((when - now).total_seconds(), 0.0)
