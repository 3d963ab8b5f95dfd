"""The request and response bodies of OpenAI's API, and its errors."""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeGuard

from summhay_ray.llm import MOST_LOGPROBS, join_messages


@dataclass(frozen=True, slots=True)
class Reply:
    """The reply to a request: a status and JSON, or a closed connection (`drop`)."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    drop: bool = False


class Refused(Exception):
    """A request is not served. `code`: OpenAI's error code, or an empty string if there is none."""

    def __init__(self, status: int, code: str, message: str, **details: Any) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message
        self.type: str = details.get("type", "invalid_request_error")
        self.param: str | None = details.get("param")
        self.headers: Mapping[str, str] = details.get("headers", {})
        self.limit: str = details.get("limit", code)
        """The name by which the totals count the error."""

    def reply(self) -> Reply:
        """Return the error in the form of OpenAI's API."""
        error = {"message": self.message, "type": self.type, "param": self.param, "code": self.code or None}
        return Reply(self.status, json.dumps({"error": error}).encode(), self.headers)


@dataclass(frozen=True, slots=True)
class CacheMark:
    """A `cache_control` of Anthropic's API, at the block with this index (from 0). `ttl`: 5m or 1h."""

    block: int
    ttl: str


@dataclass(frozen=True, slots=True)
class ChatAsk:
    """A chat request. `prompt`: the text of the user's messages; `text`: the text of all messages."""

    model: str
    prompt: str
    text: str
    max_tokens: int | None
    n: int = 1
    logprobs: int | None = None
    """Number of most likely tokens to list for each token; None if log probabilities are not requested."""
    sha: str = ""
    """sha256 (hex) of the text."""
    flex: bool = False
    """Whether the request asks for the service tier flex."""
    block_ends: tuple[int, ...] = ()
    """Length of the text, in characters, at the end of each block of a request to Anthropic's API."""
    marks: tuple[CacheMark, ...] = ()


@dataclass(frozen=True, slots=True)
class EmbeddingAsk:
    """A request for embeddings. `inputs`: texts, or token ids written as text ("12 7 99")."""

    model: str
    inputs: tuple[str, ...]
    n_given_tokens: int | None
    dimensions: int
    base64: bool
    sha: str
    """sha256 (hex) of the inputs."""


@dataclass(frozen=True, slots=True)
class RerankAsk:
    """A request to rank documents by their relevance to a query, in Cohere's form."""

    model: str
    inputs: tuple[str, ...]
    """The query and the documents."""
    top_n: int
    sha: str
    """sha256 (hex) of the query, the documents and `top_n`."""


SERVICE_TIERS = ("auto", "default", "flex", "scale", "priority", "fast")
DIMENSIONS = 256
_MOST_DIMENSIONS = 8192
_MOST_ANSWERS = 128


def read_body(raw: bytes) -> Mapping[str, Any]:
    """Return the request's JSON object. Raise Refused (400)."""
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError):
        raise Refused(400, "", "We could not parse the JSON body of your request; send a JSON object") from None
    if not isinstance(body, dict):
        raise Refused(400, "", "The body of your request is not a JSON object")
    return body


def model_of(body: Mapping[str, Any]) -> str:
    """Return the model named in a request. Raise Refused (400)."""
    model = body.get("model")
    if not isinstance(model, str) or not model:
        raise _bad("model", "you must provide a model parameter, a string")
    return model


def read_chat(body: Mapping[str, Any]) -> ChatAsk:
    """Parse a chat request. Raise Refused (400) if it is invalid, or needs a feature that is not simulated."""
    model = model_of(body)
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise _bad("messages", "messages is a list of at least one message")
    roles_texts = [_role_and_text(message) for message in messages]
    # As at OpenAI, a request may have only a system message. Released judges send their whole prompt in one.
    by_user = [text for role, text in roles_texts if role == "user"]
    prompt = "\n\n".join(by_user or (text for _, text in roles_texts))
    if body.get("stream"):
        raise _bad("stream", "the simulated provider does not stream; leave stream out or send false")
    lengths = {name: body[name] for name in ("max_tokens", "max_completion_tokens") if body.get(name) is not None}
    for name, length in lengths.items():
        if not is_whole(length) or length < 1:
            raise _bad(name, f"{name} is a whole number from 1")
    text = prompt if len(roles_texts) == len(by_user) == 1 else join_messages(roles_texts)
    value = body.get("n") if body.get("n") is not None else 1
    if not is_whole(value) or not 1 <= value <= _MOST_ANSWERS:
        raise _bad("n", f"n is a whole number from 1 to {_MOST_ANSWERS}")
    top, wanted = body.get("top_logprobs"), body.get("logprobs") or False
    if not isinstance(wanted, bool):
        raise _bad("logprobs", "logprobs is true or false")
    if top is not None and not (wanted and is_whole(top) and 0 <= top <= MOST_LOGPROBS):
        raise _bad("top_logprobs", f"top_logprobs is a whole number from 0 to {MOST_LOGPROBS}, beside logprobs: true")
    sha = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    tier = body.get("service_tier") or "auto"
    if tier not in SERVICE_TIERS:
        raise _bad("service_tier", f"service_tier is one of {', '.join(SERVICE_TIERS)}")
    most = min(lengths.values(), default=None)
    return ChatAsk(model, prompt, text, most, value, (top or 0) if wanted else None, sha, flex=tier == "flex")


def read_embeddings(body: Mapping[str, Any]) -> EmbeddingAsk:
    """Parse a request for embeddings. Raises Refused (400) if it is invalid."""
    model = model_of(body)
    given = body.get("input")
    rows: list[Any] = given if isinstance(given, list) and not _is_tokens(given) else [given]
    if not rows or not (all(isinstance(row, str) for row in rows) or all(_is_tokens(row) for row in rows)):
        raise _bad("input", "input is a string, a list of strings, a list of tokens or a list of such lists")
    dimensions = body.get("dimensions") if body.get("dimensions") is not None else DIMENSIONS
    if not is_whole(dimensions) or not 1 <= dimensions <= _MOST_DIMENSIONS:
        raise _bad("dimensions", f"dimensions is a whole number from 1 to {_MOST_DIMENSIONS}")
    form = body.get("encoding_format") or "float"
    if form not in ("float", "base64"):
        raise _bad("encoding_format", "encoding_format is float or base64")
    texts = tuple(row if isinstance(row, str) else " ".join(map(str, row)) for row in rows)
    n_tokens = None if isinstance(rows[0], str) else sum(len(text.split()) for text in texts)
    return EmbeddingAsk(
        model, texts, n_tokens, dimensions, form == "base64", hashlib.sha256(json.dumps(texts).encode()).hexdigest()
    )


def read_rerank(body: Mapping[str, Any]) -> RerankAsk:
    """Parse a request for a reranking. Raises Refused (400) if it is invalid."""
    model = model_of(body)
    query, given = body.get("query"), body.get("documents")
    if not isinstance(query, str) or not query:
        raise _bad("query", "query is a non-empty string")
    if not isinstance(given, list) or not given or not all(isinstance(document, str) for document in given):
        raise _bad("documents", "documents is a list of at least one string")
    top = body.get("top_n") if body.get("top_n") is not None else len(given)
    if not is_whole(top) or top < 1:
        raise _bad("top_n", "top_n is a whole number from 1")
    inputs, top = (query, *given), min(top, len(given))
    return RerankAsk(model, inputs, top, hashlib.sha256(json.dumps([*inputs, top]).encode()).hexdigest())


def reranking(number: int, ranked: Sequence[tuple[int, float]], searches: int | None) -> bytes:
    """Return the body of a reranking. `ranked`: (index, score) of documents; `searches`: None omits the field."""
    results = [{"index": index, "relevance_score": score} for index, score in ranked]
    body: dict[str, Any] = {"id": f"rerank-simulated-{number}", "results": results}
    billed = {} if searches is None else {"billed_units": {"search_units": searches}}
    return json.dumps({**body, "meta": {"api_version": {"version": "2"}, **billed}}).encode()


def completion(
    number: int, model: str, choices: Sequence[Mapping[str, Any]], usage: Mapping[str, Any] | None, created: int, tier: str
) -> bytes:
    """Return the body of a chat completion. `tier`: the service tier that served it."""
    body = {
        "id": f"chatcmpl-simulated-{number}",
        "object": "chat.completion",
        "created": created,
        "model": model,
        "choices": [{**choice, "index": index} for index, choice in enumerate(choices)],
        "service_tier": tier,
    }
    return json.dumps(body if usage is None else {**body, "usage": usage}).encode()


def choice_of(text: str | None, finish_reason: str, refusal: str | None = None) -> dict[str, Any]:
    """Return one choice of a chat completion."""
    message = {"role": "assistant", "content": text, "refusal": refusal}
    return {"index": 0, "message": message, "logprobs": None, "finish_reason": finish_reason}


def embeddings(model: str, vectors: Sequence[Any], usage: Mapping[str, Any] | None) -> bytes:
    """Return the body with the embeddings of a request's inputs, in their order."""
    data = [{"object": "embedding", "index": index, "embedding": vector} for index, vector in enumerate(vectors)]
    body = {"object": "list", "data": data, "model": model}
    return json.dumps(body if usage is None else {**body, "usage": usage}).encode()


def _bad(param: str, message: str) -> Refused:
    return Refused(400, "invalid_value", message, param=param)


def _role_and_text(message: Any) -> tuple[str, str]:
    role = message.get("role") if isinstance(message, dict) else None
    if not isinstance(role, str):
        raise _bad("messages", "each message is an object with role and content")
    content = message.get("content")
    if content is None and role == "assistant":
        content = ""
    if isinstance(content, list):
        parts = [part.get("text") if isinstance(part, dict) else None for part in content]
        content = "".join(map(str, parts)) if all(isinstance(part, str) for part in parts) else None
    if not isinstance(content, str):
        raise _bad("messages", "a message's content is a string or a list of text parts")
    return role, content


def is_whole(value: Any) -> TypeGuard[int]:
    """Whether a value of a JSON body is a whole number."""
    return isinstance(value, int) and not isinstance(value, bool)


def _is_tokens(row: Any) -> bool:
    return isinstance(row, list) and bool(row) and all(map(is_whole, row))


_KINDS = {
    "rpm": ("requests per min (RPM)", "requests"),
    "input_tpm": ("input tokens per min (TPM)", "tokens"),
    "output_tpm": ("output tokens per min (TPM)", "tokens"),
}


def over_limit(which: str, model: str, limit: float, amount: int, wait_s: float) -> Refused:
    """Return a 429 with the time to wait, in seconds and in milliseconds, both rounded up. If waiting never helps, it has no
    time."""
    words, kind = _KINDS[which]
    if math.isinf(wait_s):
        message = f"Request too large for {model} on {words}: Limit {limit:g}, Requested {amount}."
        return Refused(429, "rate_limit_exceeded", message, type=kind, limit=which)
    headers = {"Retry-After": str(max(math.ceil(wait_s), 1)), "retry-after-ms": str(max(math.ceil(wait_s * 1000), 1))}
    message = f"Rate limit reached for {model} on {words}: Limit {limit:g}. Please try again in {wait_s:.3f}s."
    return Refused(429, "rate_limit_exceeded", message, type=kind, limit=which, headers=headers)
