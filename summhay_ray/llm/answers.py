"""A provider's reply as the log's answer record, what it is charged, and what such a record is worth. Part of the llm room."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from summhay_ray.llm.excess import enough
from summhay_ray.llm.learned import Learned
from summhay_ray.llm.models import ModelSettings
from summhay_ray.llm.raw_answer import RawAnswer
from summhay_ray.llm.reply import Reply, Usage
from summhay_ray.llm.secrets import hidden
from summhay_ray.outcome import Answer, Malformed, Outcome, Refusal
from summhay_ray.text import count_tokens as count

MOST_TOKENS = 20_000_000
"""No model reads or writes more at once; a count beyond it is kept as so many."""

DEEPEST = 100
"""Levels of a body that is kept; of those of providers none has ten."""

_FINISH = {"max_tokens": "length", "model_length": "length", "eos": "stop", "eos_token": "stop", "end_turn": "stop"}
"""What endpoints of OpenAI's protocol say in words of their own; a cut answer must be seen as one, whoever cut it."""

_REFUSED = ("refusal", "content_filter")
_THOUGHTS = ("reasoning_content", "reasoning", "thinking")
_NEW_FIELDS = ("cache_write_tokens", "reasoning_tokens", "claimed_tokens", "claimed_micros")
_FIELDS = ("key", "model", "text", "finish_reason", "input_tokens", "cached_tokens", "output_tokens", "usd_micros", "attempts")


@dataclass(frozen=True, slots=True)
class Asked:
    """What a call was reserved for: its prompt as we count it, the longest answer, and the most that it can cost."""

    input_tokens: int
    max_tokens: int
    worst_micros: int


def usage_of(usage: Any) -> Usage | None:
    """The `usage` of an OpenAI-shaped answer, whatever is in it; None where input or output is missing or is no count.

    Cached tokens are read as OpenAI (`prompt_tokens_details.cached_tokens`), DeepSeek (`prompt_cache_hit_tokens`) and litellm
    for Anthropic (`cache_read_input_tokens`, `cache_creation_input_tokens`) write them: parts of `prompt_tokens`. Where they
    exceed it, or where reasoning exceeds the answer or the total says that it stands beside it (xAI), they are added to it.
    """
    read, answered = _tokens(usage, "prompt_tokens"), _tokens(usage, "completion_tokens")
    if read is None or answered is None:
        return None
    prompt, answer = _part(usage, "prompt_tokens_details"), _part(usage, "completion_tokens_details")
    cached = _first(
        _tokens(prompt, "cached_tokens"), _tokens(usage, "prompt_cache_hit_tokens"), _tokens(usage, "cache_read_input_tokens")
    )
    written = _first(
        _tokens(usage, "cache_creation_input_tokens"),
        _tokens(prompt, "cache_creation_tokens"),
        _tokens(prompt, "cache_write_tokens"),
    )
    reasoned = _first(_tokens(answer, "reasoning_tokens"), _tokens(usage, "reasoning_tokens"))
    if cached + written > read:
        read += cached + written
    if reasoned > answered or (reasoned and _tokens(usage, "total_tokens") == read + answered + reasoned):
        answered += reasoned
    return Usage(read, answered, cached, written, reasoned)


def reply_of(body: Any) -> Reply:
    """The reply in the body of an OpenAI-shaped chat completion. Raises ValueError where it is none.

    A refusal in its own field is the text of an answer that has no other. What a model thought is no part of the text.
    """
    choices = body.get("choices") if isinstance(body, Mapping) else None
    if not isinstance(choices, list):
        raise ValueError("no chat completion: it has no list of choices")
    usage = usage_of(body.get("usage"))
    if not choices:
        return Reply("", "no_choices", usage, body)
    said = [_said_in(choices[0]), *map(_further, choices[1:])]
    texts = ["" if finish in _REFUSED else text for text, finish in said]
    # Of several choices those that were refused are no texts; where all were, the call was.
    first = next((index for index, text in enumerate(texts) if text.strip()), 0)
    logprobs = (_part(choices[0], "logprobs") or {}).get("content")
    logprobs = logprobs if isinstance(logprobs, list) else None
    text = texts[0] if first else said[0][0]
    return Reply(text, said[first][1], usage, body, tuple(texts[1:]), logprobs)


def _said_in(choice: Any) -> tuple[str, str]:
    """Text and end of a choice. Raises ValueError."""
    message = _part(choice, "message")
    if message is None:
        raise ValueError("no chat completion: its first choice has no message")
    text, finish = _text(message.get("content")), choice.get("finish_reason")
    refusal = message.get("refusal") or (_part(message, "provider_specific_fields") or {}).get("refusal")
    if not text and isinstance(refusal, str) and refusal:
        return refusal, "refusal"
    finish = finish if isinstance(finish, str) else ""
    return text, _FINISH.get(finish, finish)


def _further(choice: Any) -> tuple[str, str]:
    """The same of a choice after the first: what is no text costs the call nothing else."""
    try:
        return _said_in(choice)
    except ValueError:
        return "", ""


def answer_of(
    reply: Reply, settings: ModelSettings, asked: Asked, secrets: Sequence[str], learned: Learned | None = None
) -> dict[str, Any]:
    """Text, end, tokens and price of a reply, and its body where it came from outside, with the secrets hidden.

    It is charged what its usage says. **Without usage** it is charged by our own counts with a margin (`learned` from the
    model's other answers, else that of a strange tokenizer), nothing cached, at the dearest rate, and never more than was
    reserved. The answer counts as the longest allowed where not all of it can be seen: cut, filtered, empty, one of several, or
    of a model that may reason. **Usage that cannot be true** (no whole number, zero, negative, or less than half of our count in
    prompt or text) is charged the greater of what it says and that. **Usage above what was reserved**, in dollars, or in tokens
    where the model is free, is not credible: the reservation is charged; the answer tells the claim, and the `token_margin` that
    would have reserved as much.
    """
    text: str = hidden(reply.text, secrets)
    usage = reply.usage
    if usage is not None and usage.searches and not usage.input_tokens:
        # Who bills by searches need not say how many tokens they had.
        usage = replace(usage, input_tokens=asked.input_tokens)
    learned = learned or Learned()
    excess: dict[str, Any] = {}
    if settings.local:
        # What runs here counts as we do; it costs nothing, unless a person wrote a price, to rehearse a paid run.
        usage = usage or Usage(asked.input_tokens, _counted(reply))
        charged, saved = min(settings.price.micros(usage), asked.worst_micros), settings.price.saved_micros(usage)
    else:
        counted, said = _counted(reply), _counts_of(usage)
        excess = _excess(said, settings, asked)
        if excess:
            charged, saved = asked.worst_micros, 0
            usage = _within(said, settings.reserved_tokens(asked.input_tokens, asked.max_tokens))
        elif usage is not None and _credible(usage, asked.input_tokens, counted):
            charged, saved = settings.price.micros(usage), settings.price.saved_micros(usage)
            learned.note(asked.input_tokens, usage.input_tokens)
            learned.note(counted, usage.output_tokens - usage.reasoning_tokens)
        else:
            most = functools.partial(learned.most_tokens, settings)
            charged, saved = min(_own_charge(reply, said, settings, asked, most), asked.worst_micros), 0
            usage = Usage(max(said.input_tokens, asked.input_tokens), max(said.output_tokens, counted))
    answer: dict[str, Any] = {
        "text": text,
        "finish_reason": hidden(reply.finish_reason, secrets),
        "input_tokens": usage.input_tokens,
        "cached_tokens": usage.cached_tokens,
        "cache_write_tokens": usage.cache_write_tokens,
        "reasoning_tokens": usage.reasoning_tokens,
        "output_tokens": usage.output_tokens,
        "usd_micros": charged,
        "saved_micros": saved,
        **excess,
    }
    if reply.further:
        answer["further_texts"] = hidden(reply.further, secrets)
    if reply.logprobs is not None:
        answer["logprobs"] = json.dumps(hidden(reply.logprobs, secrets))
    if reply.raw is not None:
        answer["raw"] = _clean(reply.raw, secrets)
    return answer


def _counts_of(usage: Usage | None) -> Usage:
    """The counts of a usage as numbers that a table holds: 0 where one is no count, and none beyond `MOST_TOKENS`."""
    counts = (getattr(usage, name, None) for name in Usage.__dataclass_fields__)
    return Usage(*(min(number, MOST_TOKENS) if number is not None and _whole(number) else 0 for number in counts))


def _excess(said: Usage, settings: ModelSettings, asked: Asked) -> dict[str, Any]:
    """What a usage claims where it costs more than was reserved, or of a free model is more tokens; else nothing."""
    tokens, micros = said.input_tokens + said.output_tokens, settings.price.micros(said)
    if asked.worst_micros:
        claimed, reserved = micros, asked.worst_micros
    else:
        claimed, reserved = tokens, sum(settings.reserved_tokens(asked.input_tokens, asked.max_tokens))
    if claimed <= reserved:
        return {}
    margin = claimed / reserved * settings.token_margin
    # Reservations are rounded up to whole tokens, this one perhaps more than one with the larger margin.
    while not settings.price.per_search and _reserved(replace(settings, token_margin=enough(margin)), asked) < claimed:
        margin *= 1.01
    return {"claimed_tokens": tokens, "claimed_micros": micros, "claimed_margin": margin}


def _reserved(settings: ModelSettings, asked: Asked) -> int:
    """Micro-dollars that are reserved for such a call, tokens where the model is free."""
    tokens = settings.reserved_tokens(asked.input_tokens, asked.max_tokens)
    return settings.price.dearest_micros(*tokens) if asked.worst_micros else sum(tokens)


def _within(said: Usage, reserved: tuple[int, int]) -> Usage:
    """As much of a usage as was reserved."""
    read, answered = min(said.input_tokens, reserved[0]), min(said.output_tokens, reserved[1])
    cached = min(said.cached_tokens, read)
    written, reasoned = min(said.cache_write_tokens, read - cached), min(said.reasoning_tokens, answered)
    return Usage(read, answered, cached, written, reasoned, said.searches)


def _counted(reply: Reply) -> int:
    """Tokens of all texts, by our count."""
    return 0 if reply.numbers else sum(map(count, reply.texts))


def _credible(usage: Usage, prompt: int, text: int) -> bool:
    """Whether the provider's counts can be true, held against ours."""
    counts = tuple(getattr(usage, name) for name in Usage.__dataclass_fields__)
    whole = all(_whole(number) for number in counts)
    return whole and usage.input_tokens > 0 and 2 * usage.input_tokens >= prompt and 2 * usage.output_tokens >= text


def _own_charge(reply: Reply, said: Usage, settings: ModelSettings, asked: Asked, most_tokens: Callable[[int], int]) -> int:
    if settings.price.per_search and not said.searches:
        return asked.worst_micros
    thoughts = "".join(_thoughts(reply.raw))
    seen = most_tokens(_counted(reply) + (count(thoughts) if thoughts else 0))
    answer = asked.max_tokens if _unseen(reply, settings) else min(seen, asked.max_tokens)
    prompt = most_tokens(asked.input_tokens)
    return settings.price.dearest_micros(max(said.input_tokens, prompt), max(said.output_tokens, answer))


def _unseen(reply: Reply, settings: ModelSettings) -> bool:
    """Whether the model may have written more than the text shows."""
    choices = reply.raw.get("choices") if isinstance(reply.raw, Mapping) else None
    several = isinstance(choices, list) and len(choices) > 1
    tools = any(message.get(name) for message in _messages(reply.raw) for name in ("tool_calls", "function_call"))
    cut = reply.finish_reason in ("length", "content_filter")
    return settings.reasoning or cut or several or tools or not reply.text.strip()


def _whole(number: Any) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and number >= 0


def _messages(raw: Any) -> Iterator[Mapping[str, Any]]:
    """The messages of all choices of a body, as far as they are any."""
    choices = raw.get("choices") if isinstance(raw, Mapping) else None
    for choice in choices if isinstance(choices, list) else ():
        message = _part(choice, "message")
        if message is not None:
            yield message


def _thoughts(raw: Any) -> Iterator[str]:
    """What the model thought, as far as it is shown."""
    for message in _messages(raw):
        # Some endpoints say the same under two names.
        yield next((text for text in map(message.get, _THOUGHTS) if isinstance(text, str)), "")


def letters(reply: Reply) -> int:
    """Of all that the model wrote, as far as it is shown: how much there is to count."""
    return len(reply.text) + sum(map(len, _thoughts(reply.raw)))


def _tokens(usage: Any, name: str) -> int | None:
    """A count of tokens, None where it is absent or no count."""
    number = usage.get(name) if isinstance(usage, Mapping) else None
    return number if number is not None and _whole(number) else None


def _part(content: Any, name: str) -> Mapping[str, Any] | None:
    found = content.get(name) if isinstance(content, Mapping) else None
    return found if isinstance(found, Mapping) else None


def _first(*numbers: int | None) -> int:
    return next((number for number in numbers if number is not None), 0)


def _text(content: Any) -> str:
    """The text of a message: a string, or a list of parts of which those with a text count. Raises ValueError."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise ValueError(f"no chat completion: the message's content is {type(content).__name__}, neither text nor parts")
    parts = [part.get("text") if isinstance(part, Mapping) else part for part in content]
    return "".join(part for part in parts if isinstance(part, str))


def _clean(raw: Any, secrets: Sequence[str]) -> Any:
    """The body with the secrets hidden, and fit for the log's JSON; None where it is too deep for some reader of it."""
    if _deep(raw):
        return None
    # Written once as a whole, which is quick; looked through value by value only where that shows something.
    try:
        text = json.dumps(raw, allow_nan=False)
    except (TypeError, ValueError):
        return hidden(json.loads(json.dumps(raw, default=str, skipkeys=True)), secrets)
    if "\\ud" in text or any(json.dumps(secret)[1:-1] in text for secret in secrets):
        return hidden(raw, secrets)
    return raw


def _deep(raw: Any) -> bool:
    level = [raw]
    for _ in range(DEEPEST):
        level = [
            inner
            for one in level
            if isinstance(one, Mapping | list)
            for inner in (one.values() if isinstance(one, Mapping) else one)
        ]
        if not level:
            return False
    return True


def read_answer(record: Mapping[str, Any]) -> tuple[Outcome[RawAnswer], RawAnswer]:
    """What the log's answer record says: the outcome, and the raw answer that it comes from."""
    known = {name: record[name] for name in _FIELDS}
    # Records of earlier versions lack these.
    texts, logprobs = tuple(record.get("further_texts", ())), record.get("logprobs", "")
    counts = {name: record.get(name, 0) for name in _NEW_FIELDS}
    raw = RawAnswer(**known, **counts, further_texts=texts, logprobs=logprobs, origin=record.get("origin", ""))
    return outcome_of(raw), raw


def outcome_of(raw: RawAnswer) -> Outcome[RawAnswer]:
    """What a raw answer is worth before anything is parsed: an answer, a refusal, or malformed where it is empty."""
    if raw.finish_reason == "content_filter":
        return Refusal("content_filter", "the provider filtered the answer", raw.key, raw.attempts, raw.usd_micros)
    if raw.finish_reason == "refusal":
        return Refusal("refusal", "the model refused to answer", raw.key, raw.attempts, raw.usd_micros)
    if not any(text.strip() for text in raw.texts):
        return Malformed("empty_answer", "the model answered with nothing", raw.key, raw.attempts, raw.usd_micros)
    return Answer(raw, raw.key, raw.attempts, raw.usd_micros)
