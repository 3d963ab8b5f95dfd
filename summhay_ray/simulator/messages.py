"""The request and response bodies of Anthropic's Messages API, and its errors. The functions are pure."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from summhay_ray.simulator.bodies import CacheMark, ChatAsk, Refused, Reply, is_whole, model_of

WITHOUT_SAMPLING = "2026-10-21"
"""The first version of the API that rejects temperature, top_p and top_k."""
_MOST_MARKS = 4
_TTLS = ("5m", "1h")
_ERRORS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    529: "overloaded_error",
}
_ENDS = {"stop": "end_turn", "length": "max_tokens", "content_filter": "refusal"}


def read_messages(body: Mapping[str, Any], version: str) -> ChatAsk:
    """Parse a request for a message. `version`: the API's. Raise Refused (400) if it is invalid, or needs a feature that is not
    simulated."""
    model = model_of(body)
    if not is_whole(body.get("max_tokens")) or body["max_tokens"] < 1:
        raise _bad("max_tokens: a whole number from 1 is required")
    if body.get("stream"):
        raise _bad("stream: the simulated provider does not stream; leave stream out or send false")
    refused = [name for name in ("temperature", "top_p", "top_k") if body.get(name) is not None]
    if refused and version >= WITHOUT_SAMPLING:
        raise _bad(f"{refused[0]}: Extra inputs are not permitted with anthropic-version {version}")
    given = body.get("messages")
    if not isinstance(given, list) or not given:
        raise _bad("messages: at least one message is required")
    system = [("system", _blocks("system", body["system"]))] if body.get("system") else []
    turns = [*system, *(_turn(number, message) for number, message in enumerate(given))]
    text, ends, marks = "", [], []
    for role, blocks in turns:
        text += ("\n\n" if text else "") + ("" if len(turns) == 1 else f"{role}:\n")
        for block, ttl in blocks:
            text += block
            ends.append(len(text))
            if ttl:
                marks.append(CacheMark(len(ends) - 1, ttl))
    if whole := _ttl("cache_control", body.get("cache_control")):
        marks.append(CacheMark(len(ends) - 1, whole))
    if len(marks) > _MOST_MARKS:
        raise _bad(f"A maximum of {_MOST_MARKS} blocks with cache_control may be provided. Found {len(marks)}.")
    if any(earlier.ttl == "5m" and later.ttl == "1h" for earlier, later in zip(marks, marks[1:], strict=False)):
        raise _bad("a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block")
    by_user = ["".join(block for block, _ in blocks) for role, blocks in turns if role == "user"]
    sha = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return ChatAsk(model, "\n\n".join(by_user), text, body["max_tokens"], sha=sha, block_ends=tuple(ends), marks=tuple(marks))


def message(number: int, model: str, choice: Mapping[str, Any], usage: Mapping[str, Any] | None) -> bytes:
    """Convert a choice in OpenAI's form to the body of a message."""
    said = choice["message"]
    text, end = said["content"] or said["refusal"] or "", _ENDS[choice["finish_reason"]]
    body = {
        "id": f"msg_simulated_{number}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [{"type": "text", "text": text}] if text else [],
        "stop_reason": "refusal" if said["refusal"] else end,
        "stop_sequence": None,
    }
    return json.dumps(body if usage is None else {**body, "usage": usage}).encode()


def usage_of(openai: Mapping[str, Any] | None, written: Sequence[int], tier: str) -> dict[str, Any] | None:
    """Convert OpenAI's usage to Anthropic's form. `written`: tokens stored for five minutes and for an hour."""
    if openai is None:
        return None
    cached = openai["prompt_tokens_details"]["cached_tokens"]
    short, long = written
    return {
        "input_tokens": openai["prompt_tokens"] - cached - short - long,
        "cache_creation_input_tokens": short + long,
        "cache_read_input_tokens": cached,
        "cache_creation": {"ephemeral_5m_input_tokens": short, "ephemeral_1h_input_tokens": long},
        "output_tokens": openai["completion_tokens"],
        "service_tier": tier,
    }


def error_of(refusal: Refused) -> dict[str, Any]:
    """Return an error in the form of Anthropic's API."""
    kind = _ERRORS.get(refusal.status, "api_error")
    return {"type": "error", "error": {"type": kind, "message": refusal.message}, "request_id": "req_simulated"}


def error_reply(refusal: Refused) -> Reply:
    """Return the reply with an error in the form of Anthropic's API."""
    return Reply(refusal.status, json.dumps(error_of(refusal)).encode(), refusal.headers)


def _turn(number: int, given: Any) -> tuple[str, list[tuple[str, str]]]:
    role = given.get("role") if isinstance(given, dict) else None
    if role not in ("user", "assistant"):
        raise _bad(f"messages.{number}.role: expected user or assistant; instructions go into the field system")
    return role, _blocks(f"messages.{number}.content", given.get("content"))


def _blocks(where: str, content: Any) -> list[tuple[str, str]]:
    """Return (text, ttl of its cache_control) of each block. The ttl is empty if there is no cache_control."""
    if isinstance(content, str) and content:
        return [(content, "")]
    if not isinstance(content, list) or not content:
        raise _bad(f"{where}: expected a non-empty string or a list of text blocks")
    found = []
    for number, block in enumerate(content):
        text = block.get("text") if isinstance(block, dict) and block.get("type") == "text" else None
        if not isinstance(text, str) or not text:
            raise _bad(f"{where}.{number}: expected a text block that is not empty")
        found.append((text, _ttl(f"{where}.{number}.cache_control", block.get("cache_control"))))
    return found


def _ttl(where: str, control: Any) -> str:
    if control is None:
        return ""
    ttl = control.get("ttl", "5m") if isinstance(control, dict) and control.get("type") == "ephemeral" else None
    if ttl not in _TTLS:
        raise _bad(f"{where}: expected type ephemeral, and a ttl of 5m or 1h")
    return str(ttl)


def _bad(text: str) -> Refused:
    return Refused(400, "", text)
