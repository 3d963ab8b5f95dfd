"""Converts a provider's reply to a priced answer record of the log, and an answer record to an outcome."""

import functools
import json
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from typing import Any

from summhay_ray.llm.budgets import suggested_margin
from summhay_ray.llm.keys import Secrets
from summhay_ray.llm.ledger_messages import Claim
from summhay_ray.llm.model_settings import ModelSettings
from summhay_ray.llm.request import MOST_TOKENS, RawAnswer, Reply, Request, Usage
from summhay_ray.llm.vectors_and_scores import is_usable
from summhay_ray.outcome import Answer, Malformed, Outcome, Refusal
from summhay_ray.store import Dimensions, LogIndex, encode_record
from summhay_ray.text import count_tokens as count

Written = tuple[dict[str, Any], bytes]

DEEPEST = 100
"""Maximum depth of nesting of a stored body. The bodies of providers have fewer than ten levels."""

BAD_NUMBERS = "bad_numbers"
"""Class of the failure if vectors or scores have a flaw."""

_FINISH_REASONS: dict[str, str] = {
    # Complete.
    **dict.fromkeys(("complete", "completed", "end_turn", "eos", "eos_token", "stop", "stop_sequence"), "stop"),
    **dict.fromkeys(("tool_call", "tool_calls", "tool_use"), "tool_calls"),
    # Cut off: at the limit of tokens, at the end of the context window, or for another reason.
    **dict.fromkeys(
        ("length", "max_completion_tokens", "max_length", "max_new_tokens", "max_output_tokens", "max_tokens"), "length"
    ),
    **dict.fromkeys(("compaction", "incomplete", "model_context_window_exceeded", "model_length", "pause_turn"), "length"),
    **dict.fromkeys(("continuation", "repetition", "repetition_truncation", "token_limit"), "length"),
    # Filtered by the provider, or refused by the model.
    **dict.fromkeys(("blocklist", "content_filter", "content_filtered", "error_toxic", "guardrail_intervened"), "content_filter"),
    **dict.fromkeys(("image_prohibited_content", "image_recitation", "image_safety", "jailbreak", "language"), "content_filter"),
    **dict.fromkeys(("model_armor", "prohibited_content", "recitation", "safety", "sensitive", "spii"), "content_filter"),
    **dict.fromkeys(("refusal", "refused"), "refusal"),
    # Failed in transit, so the call is retried.
    **dict.fromkeys(("abort", "aborted", "cancelled", "canceled", "connection_error", "error", "failed", "failure"), "error"),
    **dict.fromkeys(("insufficient_system_resource", "internal_error", "interrupted", "malformed_function_call"), "error"),
    **dict.fromkeys(("malformed_response", "network_error", "other", "overloaded", "rate_limit_exceeded"), "error"),
    **dict.fromkeys(("resource_exhausted", "server_error", "service_unavailable", "timeout", "too_many_tool_calls"), "error"),
    "unexpected_tool_call": "error",
}
"""A provider's finish reason in lower case -> our finish reason. To support another finish reason, add it here.

An answer with an unknown finish reason counts as complete, since most new ones mean success. The provider's word is kept, and
`status` reports it with the answers that did not end with `stop`.
"""

BROKEN = "error"
"""The finish reason of an answer that failed in transit. The answer is charged, and the call is retried."""

_UNUSED = ("refusal", "content_filter", BROKEN)
_THOUGHTS = ("reasoning_content", "reasoning", "thinking")


def usage_of(said: Any) -> Usage | None:
    """Read the `usage` of an answer in OpenAI's format. Returns None if its input or output tokens are missing or not a count.

    Cached tokens are parts of `prompt_tokens`. They are read in the formats of OpenAI (`prompt_tokens_details.cached_tokens`),
    DeepSeek (`prompt_cache_hit_tokens`) and litellm for Anthropic (`cache_read_input_tokens`, `cache_creation_input_tokens`). If
    they exceed `prompt_tokens`, they are added to it instead. Reasoning tokens are part of `completion_tokens`. If they exceed
    it, or if the total shows that they are counted separately (xAI), they are added to it instead. Counts above `MOST_TOKENS` are
    reduced to that number.
    """
    if not isinstance(said, dict):
        return None
    read, answered = _tokens(said, "prompt_tokens"), _tokens(said, "completion_tokens")
    if read is None or answered is None:
        return None
    prompt, answer = _part(said, "prompt_tokens_details"), _part(said, "completion_tokens_details")
    cached = _first((prompt, "cached_tokens"), (said, "prompt_cache_hit_tokens"), (said, "cache_read_input_tokens"))
    written = _first((said, "cache_creation_input_tokens"), (prompt, "cache_creation_tokens"), (prompt, "cache_write_tokens"))
    by_lifetime = _part(said, "cache_creation") or _part(prompt, "cache_creation_token_details")
    longer = min(_tokens(by_lifetime, "ephemeral_1h_input_tokens") or 0, written)
    reasoned = _first((answer, "reasoning_tokens"), (said, "reasoning_tokens"))
    if cached + written > read:
        read += cached + written
    if reasoned > answered or (reasoned and _tokens(said, "total_tokens") == read + answered + reasoned):
        answered += reasoned
    usage = Usage(read, answered, cached, written, reasoned, cache_write_1h_tokens=longer)
    return usage if max(read, answered) <= MOST_TOKENS else _within(usage, (MOST_TOKENS, MOST_TOKENS))


def reply_of(body: Any) -> Reply:
    """Read the reply from the body of a chat completion in OpenAI's format. Raises ValueError if the body is not one.

    If there is no text, a refusal in a separate field becomes the text. Reasoning is not part of the text.
    """
    choices = body.get("choices") if isinstance(body, dict) else None
    if not isinstance(choices, list):
        raise ValueError("no chat completion: it has no list of choices")
    usage = usage_of(body.get("usage"))
    if not choices:
        return Reply("", "no_choices", usage, body)
    said = [_text_and_reason(choices[0]), *map(_further, choices[1:])]
    texts = ["" if finish in _UNUSED else text for text, finish in said]
    # Refused and broken choices have no text. The call counts as refused or broken only if no choice has a text; a broken call is
    # retried.
    broken = next((index for index, (_, finish) in enumerate(said) if finish == BROKEN), 0)
    first = next((index for index, text in enumerate(texts) if text.strip()), broken)
    logprobs = _part(choices[0], "logprobs").get("content")
    logprobs = logprobs if isinstance(logprobs, list) else None
    text = texts[0] if first else said[0][0]
    return Reply(text, said[first][1], usage, body, tuple(texts[1:]), logprobs)


def _text_and_reason(choice: Any) -> tuple[str, str]:
    """Return a choice's text and finish reason. Raises ValueError if it has no message."""
    if not isinstance(choice, dict) or not isinstance(message := choice.get("message"), dict):
        raise ValueError("no chat completion: its first choice has no message")
    text = _text(message.get("content"))
    refusal = message.get("refusal") or _part(message, "provider_specific_fields").get("refusal")
    if not text and isinstance(refusal, str) and refusal:
        return refusal, "refusal"
    return text, BROKEN if choice.get("error") else finish_reason_of(finish_word(choice))


def finish_word(choice: Mapping[str, Any]) -> str:
    """Return the provider's own finish reason of a choice; empty if there is none. litellm keeps it in another field."""
    word = _part(choice, "provider_specific_fields").get("native_finish_reason") or choice.get("finish_reason")
    word = word.get("type") if isinstance(word, dict) else word
    return word if isinstance(word, str) else ""


@functools.lru_cache(maxsize=1024)
def finish_reason_of(word: str) -> str:
    """Normalize a finish reason to stop, length, tool_calls, content_filter, refusal or error. Returns unknown words
    unchanged."""
    return _FINISH_REASONS.get(word.rpartition(".")[2].strip().lower().replace("-", "_"), word)


def _further(choice: Any) -> tuple[str, str]:
    """Return text and finish reason of a choice after the first. A broken choice has an empty text, and does not fail the
    call."""
    try:
        return _text_and_reason(choice)
    except ValueError:
        return "", ""


def written(known: Mapping[str, Any], reply: Reply, settings: ModelSettings, asked: Claim, secrets: Secrets) -> Written:
    """Return the log's record of a reply, and the line of the log that encodes this record.

    The record has the fields `known` and those of `answer_of`. It contains no secrets, and the line is valid JSON. A body that is
    nested too deeply for some JSON parsers is left out.
    """
    answer = answer_of(reply, settings, asked)
    record = {**known, **answer}
    # Check the single values only if the whole line may contain a secret or an invalid value.
    try:
        line = encode_record(record)
    except (RecursionError, TypeError, ValueError):
        line = b""
    deep = (not line or line.count(b"[") + line.count(b"{") > DEEPEST) and _deep(reply.raw)
    odd = b"\\ud" in line or (bool(secrets.values) and secrets.are_in(line.decode()))
    # In log probabilities, a secret may be split across tokens.
    if line and not deep and not odd and reply.logprobs is None:
        return record, line
    if reply.raw is not None:
        answer["raw"] = None if deep else json.loads(json.dumps(reply.raw, default=str, skipkeys=True))
    if reply.logprobs is not None:
        answer["logprobs"] = json.dumps(secrets.hide(reply.logprobs))
    record = {**known, **secrets.hide(answer)}
    return record, encode_record(record)


def answer_of(reply: Reply, settings: ModelSettings, asked: Claim) -> dict[str, Any]:
    """Return the fields of the log's answer record: text, finish reason, tokens, price and the provider's body.

    - The charge follows the reported usage, and the service tier that the provider reports.
    - **Without usage**, our own counts are charged, with the margin of the reservation, without a cache, at the highest rate, and
      at most the reservation. If a part of the answer may be hidden, it counts as the longest allowed answer. That is the case if
      it is cut off, filtered, empty or one of several, if it calls tools, or if its model may reason.
    - **Usage that cannot be true** (zero, or less than half of our count of the prompt or the text) is charged like missing
      usage, but by the reported counts if these are larger.
    - **Usage above the reservation**, in dollars, or in tokens for a free model, is not credible, and the reservation is charged.
      The record has the reported usage, and the `token_margin` with which the reservation would have been sufficient.
    """
    if settings.service_tier and isinstance(reply.raw, dict) and reply.raw.get("service_tier") in ("default", "standard"):
        settings = settings.standard()
    usage = reply.usage
    if usage is not None and usage.searches and not usage.input_tokens:
        # Providers that bill by searches need not report tokens.
        usage = replace(usage, input_tokens=asked.input_tokens)
    excess: dict[str, Any] = {}
    if settings.local:
        # If a local model reports no usage, use our counts. Its calls are free, unless the spec gives it a price to rehearse a
        # paid run.
        usage = usage or Usage(asked.input_tokens, _count_tokens(reply))
        charged = saved = 0
        if asked.worst_micros:
            charged, saved = min(settings.price.micros(usage), asked.worst_micros), settings.price.saved_micros(usage)
    else:
        counted, said = _count_tokens(reply), usage or Usage(0, 0)
        micros = settings.price.micros(said)
        excess = _excess(said, micros, settings, asked)
        if excess:
            charged, saved = asked.worst_micros, 0
            usage = _within(said, settings.reserved_tokens(asked.input_tokens, asked.output_tokens))
        elif said.input_tokens > 0 and 2 * said.input_tokens >= asked.input_tokens and 2 * said.output_tokens >= counted:
            usage, charged, saved = said, micros, settings.price.saved_micros(said)
        else:
            charged, saved = min(_own_charge(reply, said, settings, asked), asked.worst_micros), 0
            usage = Usage(max(said.input_tokens, asked.input_tokens), max(said.output_tokens, counted))
    answer: dict[str, Any] = {
        "text": reply.text,
        "finish_reason": reply.finish_reason,
        "input_tokens": usage.input_tokens,
        "cached_tokens": usage.cached_tokens,
        "cache_write_tokens": usage.cache_write_tokens,
        "reasoning_tokens": usage.reasoning_tokens,
        "output_tokens": usage.output_tokens,
        "usd_micros": charged,
        "saved_micros": saved,
        **excess,
    }
    if reply.flaw:
        answer["flaw"] = reply.flaw
    if reply.zero_vectors:
        answer["zero_vectors"] = reply.zero_vectors
    if reply.further:
        answer["further_texts"] = reply.further
    if reply.logprobs is not None:
        answer["logprobs"] = json.dumps(Secrets().hide(reply.logprobs))
    if reply.raw is not None:
        answer["raw"] = reply.raw
    return answer


def _excess(said: Usage, micros: int, settings: ModelSettings, asked: Claim) -> dict[str, Any]:
    """Return the record's fields about usage that exceeds the reservation; empty if it does not. Usage and reservation are
    compared in dollars, or in tokens for a free model.

    `micros`: the usage's price.
    """
    tokens = said.input_tokens + said.output_tokens
    if asked.worst_micros:
        claimed, reserved = micros, asked.worst_micros
    else:
        claimed, reserved = tokens, sum(settings.reserved_tokens(asked.input_tokens, asked.output_tokens))
    if claimed <= reserved:
        return {}
    margin = claimed / reserved * settings.token_margin
    # Reservations are rounded up to whole tokens, so the quotient itself may be slightly too small.
    while (
        not settings.price.per_search and _reservation(replace(settings, token_margin=suggested_margin(margin)), asked) < claimed
    ):
        margin *= 1.01
    return {"claimed_tokens": tokens, "claimed_micros": micros, "claimed_margin": margin}


def _reservation(settings: ModelSettings, asked: Claim) -> int:
    """Return the reservation for a call with these settings, in micro-dollars, or in tokens for a free model."""
    tokens = settings.reserved_tokens(asked.input_tokens, asked.output_tokens)
    return settings.price.dearest_micros(*tokens) if asked.worst_micros else sum(tokens)


def _within(said: Usage, reserved: tuple[int, int]) -> Usage:
    """Reduce the usage to the reservation (tokens of prompt and answer)."""
    read, answered = min(said.input_tokens, reserved[0]), min(said.output_tokens, reserved[1])
    cached = min(said.cached_tokens, read)
    written, reasoned = min(said.cache_write_tokens, read - cached), min(said.reasoning_tokens, answered)
    return Usage(read, answered, cached, written, reasoned, said.searches, min(said.cache_write_1h_tokens, written))


def _count_tokens(reply: Reply) -> int:
    """Count the tokens of all texts with our tokenizer; 0 for vectors and scores."""
    return 0 if reply.numbers else sum(map(count, reply.texts))


def _own_charge(reply: Reply, said: Usage, settings: ModelSettings, asked: Claim) -> int:
    if settings.price.per_search and not said.searches:
        return asked.worst_micros
    thoughts = "".join(_thoughts(reply.raw))
    seen = settings.most_tokens(_count_tokens(reply) + (count(thoughts) if thoughts else 0))
    choices = reply.raw.get("choices") if isinstance(reply.raw, dict) else None
    several = isinstance(choices, list) and len(choices) > 1
    tools = any(message.get(name) for message in _messages(reply.raw) for name in ("tool_calls", "function_call"))
    cut = reply.finish_reason in ("length", "content_filter")
    answer = (
        asked.output_tokens
        if (settings.reasoning or cut or several or tools or not reply.text.strip())
        else min(seen, asked.output_tokens)
    )
    prompt = settings.most_tokens(asked.input_tokens)
    return settings.price.dearest_micros(max(said.input_tokens, prompt), max(said.output_tokens, answer))


def _messages(raw: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the valid messages in all choices of a body."""
    choices = raw.get("choices") if isinstance(raw, dict) else None
    for choice in choices if isinstance(choices, list) else ():
        if message := _part(choice, "message"):
            yield message


def _thoughts(raw: Any) -> Iterator[str]:
    """Yield the visible reasoning of each message; empty if there is none."""
    for message in _messages(raw):
        # Some endpoints repeat the same text under two names.
        yield next((text for text in map(message.get, _THOUGHTS) if isinstance(text, str)), "")


def letters(reply: Reply) -> int:
    """Return the number of characters whose tokens must be counted: those of the text and of the visible reasoning."""
    return len(reply.text) + (0 if reply.raw is None else sum(map(len, _thoughts(reply.raw))))


def _tokens(part: Mapping[str, Any], name: str) -> int | None:
    """Return a count of tokens; None if it is missing or not a count."""
    number = part.get(name)
    return number if type(number) is int and number >= 0 else None


def _part(content: Any, name: str) -> dict[str, Any]:
    """Return an object inside a JSON object; empty if there is none."""
    part = content.get(name) if isinstance(content, dict) else None
    return part if isinstance(part, dict) else {}


def _first(*places: tuple[Mapping[str, Any], str]) -> int:
    """Return the first valid count in these fields; 0 if there is none."""
    for part, name in places:
        if (number := _tokens(part, name)) is not None:
            return number
    return 0


def _text(content: Any) -> str:
    """Return the text of a message: a string, or the joined texts of a list of parts. Raises ValueError for anything else."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise ValueError(f"no chat completion: the message's content is {type(content).__name__}, neither text nor parts")
    parts = [part.get("text") if isinstance(part, dict) else part for part in content]
    return "".join(part for part in parts if isinstance(part, str))


def _deep(raw: Any) -> bool:
    level = [raw]
    for _ in range(DEEPEST):
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not level:
            return False
    return True


_RAW = [field.name for field in fields(RawAnswer)]


def read_answer(record: Mapping[str, Any]) -> tuple[Outcome[RawAnswer], RawAnswer]:
    """Return the outcome and the raw answer from an answer record of the log."""
    # Records of earlier versions lack some fields.
    known = {name: record[name] for name in _RAW if name in record}
    # The key of a repeated or failed attempt begins with the request's key.
    known |= {"key": record["key"].partition("/")[0], "further_texts": tuple(record.get("further_texts", ()))}
    raw = RawAnswer(**known)
    outcome: Outcome[RawAnswer] = Answer(raw, raw.key, raw.attempts, raw.usd_micros)
    # Earlier versions stored the provider's own finish reason.
    end = finish_reason_of(raw.finish_reason)
    if record.get("flaw"):
        message = f"{record['flaw']}; mend the service and run again, so that it is asked again"
        outcome = Malformed(BAD_NUMBERS, message, raw.key, raw.attempts, raw.usd_micros, retryable=True)
    elif end == "content_filter":
        outcome = Refusal("content_filter", "the provider filtered the answer", raw.key, raw.attempts, raw.usd_micros)
    elif end == "refusal":
        outcome = Refusal("refusal", "the model refused to answer", raw.key, raw.attempts, raw.usd_micros)
    elif not any(text.strip() for text in raw.texts):
        outcome = Malformed("empty_answer", "the model answered with nothing", raw.key, raw.attempts, raw.usd_micros)
    return outcome, raw


def stored_answer(index: LogIndex, request: Request, dimensions: Dimensions) -> tuple[Outcome[RawAnswer], RawAnswer] | None:
    """Return the answer to a request from the log; None if there is no usable answer."""
    for key in request.keys:
        record = index.read(key)
        if record is None:
            return None
        outcome, raw = read_answer(record)
        if not request.inputs or is_usable(request, raw.text, dimensions):
            return outcome, raw
    return None
