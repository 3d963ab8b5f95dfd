"""What to do about an error of one HTTP attempt, as a value. Part of the llm room.

The classes of litellm's errors are recognized by name and base, most special first, so that the decision needs no litellm
import and is tested with the real exceptions.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Kind = Literal["rate_limit", "transient", "ambiguous", "row", "model"]
"""rate_limit, transient: try again. ambiguous: sent, no answer: charged, try again once. row: this request never succeeds.
model: no request to this model succeeds."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What an error means: try again (after `after_s`), give the row up, or give the model up."""

    kind: Kind
    error: str
    after_s: float | None = None


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
    ("UnprocessableEntityError", "row", "bad_request"),
    ("BadRequestError", "row", "bad_request"),
    ("APIResponseValidationError", "ambiguous", "bad_response"),
    ("ServiceUnavailableError", "transient", "unavailable"),
    ("BadGatewayError", "transient", "unavailable"),
    ("InternalServerError", "transient", "server_error"),
    ("APIConnectionError", "transient", "connection"),
    ("APIError", "transient", "api_error"),
)
_EXHAUSTED = re.compile(r"insufficient_quota|exceeded your current quota|billing|credit balance", re.IGNORECASE)


def decide(error: BaseException) -> Decision:
    """The decision for an error of litellm or of a local model; an unknown class is transient."""
    names = {cls.__name__ for cls in type(error).__mro__}
    text = str(error)
    for name, kind, word in _BY_CLASS:
        if name not in names:
            continue
        if word == "rate_limit" and _EXHAUSTED.search(text):
            return Decision("model", "quota_exhausted")
        # A dropped connection comes as InternalServerError: it was sent, and it may be charged.
        if word in ("server_error", "connection") and re.search(r"disconnected|connection (reset|closed|error)", text, re.I):
            return Decision("ambiguous", "connection_lost")
        return Decision(kind, word, _retry_after(error) if kind in ("rate_limit", "transient") else None)
    return Decision("transient", type(error).__name__)


def _retry_after(error: BaseException) -> float | None:
    headers = getattr(error, "litellm_response_headers", None) or {}
    try:
        seconds = float(headers.get("retry-after", ""))
    except (TypeError, ValueError, AttributeError):
        return None
    return max(seconds, 0.0)
