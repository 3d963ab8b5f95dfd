"""Decides what an attempt's error means, and whether to retry.

Whether a call may have been charged depends on when its error was raised, not on the error's class; see `Wire`. Classes are
recognized by name, so that no HTTP client is imported.
"""

import datetime
import email.utils
import functools
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from summhay_ray.llm.model_queue import LONGEST_PAUSE_S
from summhay_ray.routes import Wire

Kind = Literal["rate_limit", "transient", "ambiguous", "malformed", "row", "model", "stopped"]
"""The kind of a failure:

- rate_limit, transient: try again.
- ambiguous: the request was sent, but no complete answer arrived; it is charged, and tried once more.
- malformed: the answer is unusable; it is charged, and not tried again.
- row: this request will never succeed.
- model: no request to this model will succeed.
- stopped: the run stopped before there was an answer; the call costs nothing, and the next start tries it again.
"""


@dataclass(frozen=True, slots=True)
class Decision:
    """What an error means. `error` is the failure's class. `after_s` is the pause that the provider asked for, in seconds."""

    kind: Kind
    error: str
    after_s: float | None = None


UNREACHED = "connection"
"""Class of failures if the endpoint or the proxy was not reached: nothing listens there, its name does not resolve, or it does
not support TLS."""

NO_ROUTE = "no_route"
"""Class of failures if no request can be sent: the address is not a URL, or the proxy refuses or is unusable."""

NO_CAPACITY = "resource_unavailable"
"""Class of the flex tier's 429 if it has no capacity. The call is sent again, no matter how often this happens."""

_BY_CLASS: Mapping[str, tuple[Kind, str]] = {
    "MissingAnswer": ("row", "missing_answer"),
    "AnswerTooLarge": ("malformed", "answer_too_large"),
    "LocalModelError": ("row", "local_model_error"),
    "GenerationStopped": ("stopped", "stopped"),
    "GenerationTimeout": ("row", "timeout"),
    "UnknownLocalModel": ("model", "model_not_found"),
    "NoKey": ("model", "authentication"),
    "NoRoute": ("model", NO_ROUTE),
    "UnreadableAnswer": ("ambiguous", "bad_response"),
}
"""Class of a transport's error -> its decision, for errors of this package."""
_LOST: Mapping[str, str] = {
    **dict.fromkeys(("TimeoutError", "TimeoutException"), "timeout"),
    **dict.fromkeys(("ServerDisconnectedError", "ClientPayloadError", "ClientOSError", "TransportError"), "connection_lost"),
}
"""Class of an exception -> the error's name, for requests that were sent but not answered. Other errors are named after their
class."""
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
"""HTTP status -> its meaning, without further information. Any other 3xx means a wrong address, any other 4xx a bad request, and
after any other 5xx the call is tried again."""


_pattern = functools.partial(re.compile, flags=re.IGNORECASE | re.DOTALL)


CONTEXT_WINDOW = _pattern(
    # OpenAI, DeepSeek, SGLang, Together, Mistral, llama.cpp, Ollama, LM Studio, MiniMax; also as the error's type or code.
    r"context[ _](length|size|window|limit)|"
    # vLLM, xAI, OpenRouter.
    r"maximum (allowed )?(prompt|model|input) length|"
    # Anthropic, Bedrock, Ollama.
    r"(prompt|input)( is)? too long|"
    # Groq, OpenAI.
    r"reduce (the length of|your) (the )?(messages|prompt|input)|"
    # Gemini, Moonshot, GitHub, Cohere.
    r"exceed(s|ed)?( [\w']+){0,2} (maximum number of tokens|token limit|limit of \d)|input tokens exceed|"
    r"token limit exceeded|too many (input )?tokens|"
    # TGI; a llama.cpp for embeddings; DashScope; Cerebras.
    r"`inputs` (tokens \+|must have less than)|too large to process|range of input length|current length is \S+ while limit is"
)
"""Matches messages of providers and servers about a prompt that is too long, with any status."""

_BY_TEXT: tuple[tuple[frozenset[str], re.Pattern[str], Decision], ...] = (
    (frozenset({"bad_request"}), _pattern(r"(invalid|incorrect) api key|api key not valid"), Decision("model", "authentication")),
    (
        frozenset({"bad_request"}),
        _pattern(r"credit balance is too low|billing_hard_limit_reached|insufficient_quota"),
        Decision("model", "payment_required"),
    ),
    (
        frozenset({"bad_request"}),
        _pattern(
            r"content_filter|content_policy|content management policy|content filtering policy|result of (our|the) safety system"
        ),
        Decision("row", "content_filter"),
    ),
    (
        frozenset({"bad_request", "request_too_large", "server_error", "unavailable"}),
        CONTEXT_WINDOW,
        Decision("row", "context_window"),
    ),
    # OpenAI answers 403 if a model gives no log probabilities. A request without them may still succeed.
    (frozenset({"permission_denied"}), _pattern(r"\brequest logprobs\b"), Decision("row", "bad_request")),
    # A router answers 403 if its moderation flags the text. The model still accepts other prompts.
    (frozenset({"permission_denied"}), _pattern(r"(?=.*\bflagged\b).*\bmoderation\b"), Decision("row", "content_filter")),
    # SDKs send no request without a key.
    (
        frozenset({"server_error"}),
        _pattern(r"missing credentials|api_key client option must be set|api key (is )?missing"),
        Decision("model", "authentication"),
    ),
)
"""(Classes of errors, pattern, decision): if an error's text matches the pattern, the decision replaces that of the status. Some
providers use one status for several problems.

The patterns are searched in the whole body, which may repeat the prompt. So they are words that a document is unlikely to
contain.
"""

_EXHAUSTED = _pattern(r"insufficient_quota|credit balance|billing[ _]hard[ _]limit")
_UNAVAILABLE = _pattern(r"resource[ _]unavailable")
_QUOTA = _pattern(r"exceeded your current quota")
# One provider reports a limit per minute like an exhausted quota, but also reports when to try again.
_SOON = _pattern(r"retry ?delay|(retry|try again) in \d|per ?(minute|day)|\b[rt]p[md]\b")
_READ = 100_000
"""Maximum number of characters of an error's body that are searched."""


def decide(error: BaseException, wire: Wire | None = None) -> Decision:
    """Decide what a transport's error means. `wire`: the progress of the request; None: it was sent.

    Before connecting, an error means that the request cannot be made. While connecting, it means that the endpoint is
    unreachable. After sending, the call may have been charged.
    """
    names = [cls.__name__ for cls in type(error).__mro__]
    if "ProviderError" in names:
        text = f"{error} {getattr(error, 'body', '')[:_READ]}"
        decision = _by_status(getattr(error, "status_code", 0), text, _retry_after(getattr(error, "headers", {})))
        # The received part of a broken answer is charged, and so is each further attempt.
        paid = "AnswerBroken" in names and decision.kind in ("transient", "rate_limit")
        return Decision("ambiguous", decision.error) if paid else decision
    if known := next((known for name, known in _BY_CLASS.items() if name in names), None):
        return Decision(*known)
    if wire is None or wire.sent:
        return Decision("ambiguous", next((word for name, word in _LOST.items() if name in names), type(error).__name__))
    if wire.route is None:
        return Decision("transient", "timeout") if isinstance(error, TimeoutError) else Decision("row", "bad_request")
    # A proxy that refuses with 4xx refuses every request. After 5xx, it may work later.
    refused = 400 <= wire.route.refusal(error) < 500
    return Decision("model", NO_ROUTE) if refused else Decision("transient", UNREACHED)


def _by_status(status: int, text: str, after_s: float | None) -> Decision:
    kind, word = _BY_STATUS.get(status, ("transient", "unavailable"))
    if status not in _BY_STATUS and status < 500:
        kind, word = ("row", "bad_request") if status >= 400 else ("model", "bad_api_base")
    if kind == "rate_limit":
        used_up = _EXHAUSTED.search(text) or (_QUOTA.search(text) and after_s is None and not _SOON.search(text))
        if used_up or (after_s or 0.0) > LONGEST_PAUSE_S:
            return Decision("model", "quota_exhausted")
        return Decision("rate_limit", NO_CAPACITY if _UNAVAILABLE.search(text) else "rate_limit", after_s)
    for named, words, decision in _BY_TEXT:
        if word in named and words.search(text):
            return decision
    if kind != "transient":
        return Decision(kind, word)
    return Decision("model", word) if (after_s or 0.0) > LONGEST_PAUSE_S else Decision(kind, word, after_s)


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the pause that the provider asks for, in seconds; None if it asks for none.

    The pause is in `retry-after-ms`, or in `retry-after` as seconds or as a date. A date is compared with the response's own
    `date`. Both are from the server's clock, so that our clock need not be correct.
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
    """Return the date in an HTTP header, None if it is not one. Without a time zone, it is in GMT, as in all of HTTP."""
    try:
        when = email.utils.parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    return when if when.tzinfo else when.replace(tzinfo=datetime.UTC)
