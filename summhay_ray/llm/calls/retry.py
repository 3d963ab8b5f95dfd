"""What an error of one attempt means, and whether to try again. Part of the llm room.

The classes of the HTTP clients are recognized by name, most specific first, so that none of them is imported. The tests use the
real exceptions.
"""

from __future__ import annotations

import datetime
import email.utils
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Kind = Literal["rate_limit", "transient", "ambiguous", "malformed", "row", "model"]
"""What kind of failure it is:

- rate_limit, transient: try again.
- ambiguous: sent, but no answer came; charged, and tried once more.
- malformed: the answer cannot be used; charged, and not tried again.
- row: this request will never succeed.
- model: no request to this model will succeed.
"""


@dataclass(frozen=True, slots=True)
class Decision:
    """What an error means. `error` is the failure's class; `after_s` is the pause that the provider asked for, in seconds."""

    kind: Kind
    error: str
    after_s: float | None = None


UNREACHED = "connection"
"""Class of failures where the endpoint was not reached: nothing listens there, or its name does not resolve."""

LONGEST_PAUSE_S = 3600.0
"""The longest pause that is kept. A provider that asks for more has used up a quota (429) or is away (503): the model is given
up, and a later run continues."""

_BY_CLASS: Mapping[str, tuple[Kind, str]] = {
    "MissingAnswer": ("row", "missing_answer"),
    "AnswerTooLarge": ("malformed", "answer_too_large"),
    "LocalModelError": ("row", "local_model_error"),
    "UnknownLocalModel": ("model", "model_not_found"),
    "NoKey": ("model", "authentication"),
    "InvalidURL": ("model", "bad_api_base"),
    "UnsupportedProtocol": ("model", "bad_api_base"),
    "UnicodeEncodeError": ("row", "bad_request"),
    "UnreadableAnswer": ("ambiguous", "bad_response"),
    # Nothing was sent.
    **dict.fromkeys(("ClientConnectorError", "ClientHttpProxyError", "ConnectionTimeoutError"), ("transient", UNREACHED)),
    **dict.fromkeys(("ConnectError", "ConnectTimeout", "PoolTimeout"), ("transient", UNREACHED)),
    # It was sent, and no answer came: the provider may charge for it.
    **dict.fromkeys(("TimeoutError", "TimeoutException"), ("ambiguous", "timeout")),
    **dict.fromkeys(("ServerDisconnectedError", "ClientPayloadError", "ClientOSError"), ("ambiguous", "connection_lost")),
    "TransportError": ("ambiguous", "connection_lost"),
}
_BY_STATUS: dict[int, tuple[Kind, str]] = {
    400: ("row", "bad_request"),
    401: ("model", "authentication"),
    402: ("model", "payment_required"),
    403: ("model", "permission_denied"),
    404: ("model", "model_not_found"),
    405: ("model", "bad_api_base"),
    408: ("transient", "unavailable"),
    409: ("transient", "unavailable"),
    413: ("row", "request_too_large"),
    422: ("row", "bad_request"),
    425: ("transient", "unavailable"),
    429: ("rate_limit", "rate_limit"),
    500: ("transient", "server_error"),
    504: ("ambiguous", "timeout"),
    524: ("ambiguous", "timeout"),
}
"""What an HTTP status alone means. Any other 3xx: wrong address. Any other 4xx: bad request. Any other 5xx: try again."""

_EXHAUSTED = re.compile(r"insufficient_quota|credit balance|billing[ _]hard[ _]limit", re.IGNORECASE)
# Matched in the body of a 400, which may repeat the prompt: only words that a document is unlikely to contain.
_UNPAID = re.compile(r"credit balance is too low|billing_hard_limit_reached|insufficient_quota", re.IGNORECASE)
_QUOTA = re.compile(r"exceeded your current quota", re.IGNORECASE)
# One provider words a limit per minute like an exhausted quota, but adds when to try again.
_SOON = re.compile(r"retry ?delay|(retry|try again) in \d|per ?(minute|day)|\b[rt]p[md]\b", re.IGNORECASE)
_FILTERED = re.compile(
    r"content_filter|content_policy|content management policy|content filtering policy|safety system", re.IGNORECASE
)
# A router answers 403 where its moderation flagged the text. The model still takes other prompts.
_FLAGGED = re.compile(r"\bflagged\b", re.IGNORECASE)
_MODERATION = re.compile(r"\bmoderation\b", re.IGNORECASE)
_TOO_LONG = re.compile(
    r"context_length_exceeded|maximum context length|context window|(prompt|input) is too long|too many (input )?tokens|"
    r"exceeds? the maximum number of tokens|exceed context limit",
    re.IGNORECASE,
)
# OpenAI answers 403 where a model gives no log probabilities.
_LOGPROBS = re.compile(r"\brequest logprobs\b", re.IGNORECASE)
_READ = 100_000
"""How many characters of an error's body are searched."""
_BAD_KEY = re.compile(r"(invalid|incorrect) api key|api key not valid", re.IGNORECASE)
_NO_KEY = re.compile(r"missing credentials|api_key client option must be set|api key (is )?missing", re.IGNORECASE)
"""Messages of SDKs that refuse to send without a key, whatever the status that litellm gives them."""


def decide(error: BaseException) -> Decision:
    """What to do about an error of a transport. One that is unknown may have been paid."""
    names = [cls.__name__ for cls in type(error).__mro__]
    if "ProviderError" in names:
        text = f"{error} {getattr(error, 'body', '')[:_READ]}"
        return _by_status(getattr(error, "status_code", 0), text, _retry_after(getattr(error, "headers", {})))
    known = next(((kind, word) for name, (kind, word) in _BY_CLASS.items() if name in names), None)
    return Decision(*(known or ("ambiguous", type(error).__name__)))


def _by_status(status: int, text: str, after_s: float | None) -> Decision:
    kind, word = _BY_STATUS.get(status, ("transient", "unavailable"))
    if word == "server_error" and _NO_KEY.search(text):
        return Decision("model", "authentication")
    if status not in _BY_STATUS and status < 500:
        kind, word = ("row", "bad_request") if status >= 400 else ("model", "bad_api_base")
    if kind == "rate_limit":
        return _limited(text, after_s)
    if kind in ("row", "model"):
        return _final(kind, word, text)
    return _temporary(kind, word, after_s)


def _final(kind: Kind, word: str, text: str) -> Decision:
    """The decision for an error that no retry mends. Some providers use one status for several problems: the text decides."""
    if word == "bad_request" and _BAD_KEY.search(text):
        return Decision("model", "authentication")
    if word == "bad_request" and _UNPAID.search(text):
        return Decision("model", "payment_required")
    # A request without log probabilities may still succeed.
    if word == "permission_denied" and _LOGPROBS.search(text):
        return Decision("row", "bad_request")
    if word == "bad_request" and _FILTERED.search(text) or _is_flagged(word, text):
        return Decision("row", "content_filter")
    if word == "bad_request" and _TOO_LONG.search(text):
        return Decision("row", "context_window")
    return Decision(kind, word)


def _is_flagged(word: str, text: str) -> bool:
    return word == "permission_denied" and bool(_FLAGGED.search(text) and _MODERATION.search(text))


def _temporary(kind: Kind, word: str, after_s: float | None) -> Decision:
    if kind == "transient" and (after_s or 0.0) > LONGEST_PAUSE_S:
        return Decision("model", word)
    return Decision(kind, word, after_s if kind == "transient" else None)


def _limited(text: str, after_s: float | None) -> Decision:
    used_up = _EXHAUSTED.search(text) or (_QUOTA.search(text) and after_s is None and not _SOON.search(text))
    if used_up or (after_s or 0.0) > LONGEST_PAUSE_S:
        return Decision("model", "quota_exhausted")
    return Decision("rate_limit", "rate_limit", after_s)


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """The pause that the provider asks for, in seconds; None if it asks for none.

    Read from `retry-after-ms`, or from `retry-after` as seconds or as a date. A date is compared with the response's own `date`:
    both are by the server's clock, so that ours need not be right.
    """
    text = headers.get("retry-after", "")
    for value, unit in ((headers.get("retry-after-ms", ""), 0.001), (text, 1.0)):
        try:
            seconds = float(value) * unit
        except ValueError:
            continue
        if math.isfinite(seconds):
            return max(seconds, 0.0)
    when, now = _date(text), _date(headers.get("date", "")) or datetime.datetime.now(datetime.UTC)
    return None if when is None else max((when - now).total_seconds(), 0.0)


def _date(text: str) -> datetime.datetime | None:
    """The date in an HTTP header, None if it is not one. Without a zone it is GMT, as everywhere in HTTP."""
    try:
        when = email.utils.parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    return when if when.tzinfo else when.replace(tzinfo=datetime.UTC)
