"""A provider's response as the log's answer record, and what such a record is worth. Part of the llm room."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from summhay_ray.llm.ledger import Claim
from summhay_ray.llm.models import ModelSettings
from summhay_ray.llm.secrets import hidden
from summhay_ray.llm.tokens import count
from summhay_ray.outcome import Answer, Malformed, Outcome, Refusal
from summhay_ray.records import RawAnswer

MOST_TOKENS = 10**9
"""No call has more; a count beyond it is no count, and would not fit the tables."""


def answer_of(response: Any, settings: ModelSettings, claim: Claim, secrets: Sequence[str]) -> dict[str, Any]:
    """Text, end, usage and price of a response of litellm, and the response itself where it came from outside.

    A response that does not say what was used is charged at the worst case: it was paid, and nobody knows how much.
    """
    text, finish_reason = _said(response)
    answer: dict[str, Any] = {"text": hidden(text, secrets), "finish_reason": finish_reason}
    usage = getattr(response, "usage", None)
    tokens_in = int(getattr(usage, "prompt_tokens", 0) or 0)
    tokens_out = int(getattr(usage, "completion_tokens", 0) or 0)
    absurd = max(tokens_in, tokens_out) > MOST_TOKENS
    if absurd or tokens_in <= 0 or tokens_out < 0 or (text and not tokens_out):
        answer |= {"input_tokens": claim.input_tokens, "cached_tokens": 0, "output_tokens": count(answer["text"])}
        answer["usd_micros"] = claim.worst_micros
    else:
        details = getattr(usage, "prompt_tokens_details", None)
        cached = min(max(int(getattr(details, "cached_tokens", 0) or 0), 0), tokens_in)
        answer |= {"input_tokens": tokens_in, "cached_tokens": cached, "output_tokens": tokens_out}
        answer["usd_micros"] = settings.price.micros(tokens_in, tokens_out, cached)
    if not settings.local:
        answer["raw"] = hidden(response.model_dump(mode="json", warnings=False), secrets)
    return answer


def _said(response: Any) -> tuple[str, str]:
    if not response.choices:
        return "", "no_choices"
    choice = response.choices[0]
    text = choice.message.content or ""
    refusal = (getattr(choice.message, "provider_specific_fields", None) or {}).get("refusal")
    if not text and isinstance(refusal, str) and refusal:
        return refusal, "refusal"
    return text, str(choice.finish_reason or "")


def read_answer(record: Mapping[str, Any]) -> tuple[Outcome[RawAnswer], RawAnswer]:
    """What the log's answer record says: the outcome, and the raw answer that it comes from."""
    names = ("key", "model", "text", "finish_reason", "input_tokens", "cached_tokens", "output_tokens", "usd_micros", "attempts")
    raw = RawAnswer(**{name: record[name] for name in names})
    return outcome_of(raw), raw


def outcome_of(raw: RawAnswer) -> Outcome[RawAnswer]:
    """What a raw answer is worth before anything is parsed: an answer, a refusal, or malformed where it is empty."""
    if raw.finish_reason == "content_filter":
        return Refusal("content_filter", "the provider filtered the answer", raw.key, raw.attempts, raw.usd_micros)
    if raw.finish_reason == "refusal":
        return Refusal("refusal", "the model refused to answer", raw.key, raw.attempts, raw.usd_micros)
    if not raw.text.strip():
        return Malformed("empty_answer", "the model answered with nothing", raw.key, raw.attempts, raw.usd_micros)
    return Answer(raw, raw.key, raw.attempts, raw.usd_micros)
