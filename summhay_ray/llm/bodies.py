"""Reads response bodies up to a limit, and finds the reply or the error in them.

Requests ask for uncompressed bodies. If a body is compressed anyway, it is decompressed only up to the limit, since a megabyte
may decompress to a gigabyte.
"""

import json
import re
import zlib
from collections.abc import Mapping
from typing import Any, TypeVar

from summhay_ray.llm.model_settings import ModelSettings
from summhay_ray.llm.read_reply import BROKEN, finish_word, reply_of
from summhay_ray.llm.request import Reply, Request, Task, Usage, most_bytes
from summhay_ray.llm.vectors_and_scores import scores_reply, vectors_reply

R = TypeVar("R")

UNPACKED = {"Accept-Encoding": "identity"}
"""The header that asks for an uncompressed body."""

ERROR_BYTES = 1 << 16
"""Maximum number of bytes that are read of an error's body. The message is at its beginning."""

BYTES_A_TEXT = 1 << 18
"""Maximum number of bytes of one text's vector or score: 8,192 dimensions with 32 characters each."""

_SHOWN = ERROR_BYTES
"""Maximum number of characters of a body in an error's message. The message is shortened for display only after keys were hidden,
since half a key would not be recognized."""

_PAYLOAD: Mapping[Task, str] = {"chat": "choices", "embed": "data", "rerank": "results", "search": ""}
_NAMES: Mapping[Task, str] = {
    "chat": "chat completion",
    "embed": "list of embeddings",
    "rerank": "reranking",
    "search": "answer to a search",
}
_LIMITED = re.compile(r"quota|rate[ _-]?limit|too many requests", re.IGNORECASE)

_WINDOWS = {"gzip": (zlib.MAX_WBITS | 32,), "x-gzip": (zlib.MAX_WBITS | 32,), "deflate": (zlib.MAX_WBITS | 32, -zlib.MAX_WBITS)}
"""Encoding -> zlib's window bits to try. Some servers send deflate without its header."""


class UnreadableAnswer(Exception):
    """Raised if the provider answers 200 with a body that is unreadable or not an answer to the request."""


class AnswerTooLarge(Exception):
    """Raised if the response body is longer than the model's limit."""


class ProviderError(Exception):
    """Raised if the provider answers with an error. The message begins with the HTTP status."""

    def __init__(self, status: int, body: str, headers: Mapping[str, str] | None = None) -> None:
        self.headers = {name.lower(): value for name, value in (headers or {}).items()}
        place = self.headers.get("location", "")[:_SHOWN]
        elsewhere = f"the endpoint redirects to {place!r}, and redirects are not followed; write the right api_base"
        super().__init__(f"HTTP {status}: {elsewhere if 300 <= status < 400 else _message(body)}")
        self.status_code = status
        self.body = body


class AnswerBroken(ProviderError):
    """Raised if the provider answers 200, but the answer ends with an error. `reply`: the received part, for which the provider
    may charge."""

    def __init__(self, reply: Reply) -> None:
        choices = [choice for choice in reply.raw["choices"] if isinstance(choice, Mapping)]
        error: Any = next((choice["error"] for choice in choices if choice.get("error")), {})
        words = sorted({word for choice in choices if (word := finish_word(choice))})
        said = json.dumps(error, default=str)
        super().__init__(_status_in(said, error) if error else 500, said)
        self.args = (f"the answer broke off ({', '.join(words)}){': ' * bool(error)}{_message(said) if error else ''}",)
        self.reply = reply


class Body:
    """Collects the body of one response in pieces. An error's body is truncated at its limit. An answer that is too long raises
    AnswerTooLarge."""

    def __init__(self, status: int, headers: Mapping[str, str], limit: int) -> None:
        self._answers = 200 <= status < 300
        self._limit = limit if self._answers else min(limit, ERROR_BYTES)
        self._encoding = headers.get("Content-Encoding", "").strip().lower()
        self._raw = bytearray()

    def take(self, piece: bytes) -> bool:
        """Add a piece. Returns whether to read more."""
        self._raw += piece
        return len(self._raw) <= self._limit

    def content(self) -> bytes:
        """Return the collected body, decompressed. Raises AnswerTooLarge, UnreadableAnswer."""
        content = bytes(self._raw)
        if self._encoding not in ("", "identity"):
            content, problem = b"", "it was not requested"
            for window in _WINDOWS.get(self._encoding, ()):
                try:
                    content, problem = zlib.decompressobj(window).decompress(bytes(self._raw), self._limit + 1), ""
                    break
                except zlib.error as error:
                    problem = str(error)
            if problem and self._answers:
                raise UnreadableAnswer(f"the answer's encoding {self._encoding[:50]!r} cannot be read: {problem}")
        if self._answers and max(len(content), len(self._raw)) > self._limit:
            raise AnswerTooLarge(
                f"the answer's body is longer than {self._limit} bytes; if that is right, write a larger max_answer_bytes "
                "beside the model"
            )
        return content[: self._limit]


def answer_limit(request: Request, settings: ModelSettings) -> int:
    """Return the maximum bytes of an answer: from the spec, else computed from the number of texts (for vectors and scores) or
    from `max_tokens`."""
    if settings.max_answer_bytes is not None:
        return settings.max_answer_bytes
    if request.inputs:
        return (1 << 20) + len(request.inputs) * BYTES_A_TEXT
    return most_bytes(request.sampling, request.n, request.logprobs)


def reply_in(body: Any, request: Request) -> Reply:
    """Return the reply in the body of a response with status 200. The body is in OpenAI's format or, for a reranking, in
    Cohere's.

    Raises ProviderError if the body is an error, and UnreadableAnswer for anything else.
    """
    if request.task == "search":
        # The caller of a search parses the body, since each service has its own fields.
        return Reply(json.dumps(body), "stop", Usage(0, 0, searches=1), {}, numbers=True)
    if problem := error_in(body, request.task):
        raise problem
    try:
        if request.task == "embed":
            return vectors_reply(body, len(request.inputs))
        if request.task == "rerank":
            return scores_reply(body, len(request.inputs) - 1)
        reply = reply_of(body)
    except (ValueError, RecursionError) as error:
        raise unreadable(error, str(body), request.task) from error
    if reply.finish_reason == BROKEN:
        raise AnswerBroken(reply)
    return reply


def unreadable(error: Exception, content: str, task: Task) -> UnreadableAnswer:
    """Return the error for a body that is not an answer to the task."""
    return UnreadableAnswer(f"the answer is no {_NAMES[task]} ({error}): {content[:_SHOWN]!r}")


def error_in(body: Any, task: Task) -> ProviderError | None:
    """Return the error in a body with status 200. Some gateways report errors of the service behind them in this way.

    The error's status is the code in the body; else 429 if the text mentions a quota or a rate limit; else 500.
    """
    if not isinstance(body, Mapping) or body.get(_PAYLOAD[task]):
        return None
    # In a chat, `message` may be the answer.
    error = body.get("error") or (body.get("message") if task != "chat" else None)
    if not error or not isinstance(error, Mapping | str):
        return None
    said = json.dumps(body, default=str)
    return ProviderError(_status_in(said, error, body), said)


def _status_in(said: str, *places: Any) -> int:
    named = [held.get("code") for held in places if isinstance(held, Mapping)]
    codes = [int(code) for code in map(str, named) if code.isdecimal() and len(code) == 3 and 400 <= int(code) < 600]
    return codes[0] if codes else 429 if _LIMITED.search(said) else 500


def _message(body: str) -> str:
    """Return the message in an error's body in OpenAI's or a similar format; else the beginning of the body."""
    try:
        content: Any = json.loads(body)
    except (ValueError, RecursionError):
        return body[:_SHOWN]
    error = (content.get("error") or content) if isinstance(content, dict) else content
    if not isinstance(error, dict):
        return str(error)[:_SHOWN]
    words = [error.get(name) for name in ("message", "detail", "type", "code")]
    return "; ".join(str(word) for word in words if word) or body[:_SHOWN]
