"""The direct transport: OpenAI's protocol over aiohttp. Part of the llm room.

For OpenAI, vLLM, SGLang, Together and any other endpoint with an OpenAI-compatible `api_base`. It takes a tenth of litellm's time
per call. Embeddings and reranking in Cohere's form go this way, too.
"""

from __future__ import annotations

import json
import re
import resource
from collections.abc import Mapping
from typing import Any

import aiohttp

from summhay_ray.llm.answers import reply_of
from summhay_ray.llm.bodies import UNPACKED, Body, UnreadableAnswer, off_loop
from summhay_ray.llm.models import ModelSettings, wire_name
from summhay_ray.llm.numbers import scores_reply, vectors_reply
from summhay_ray.llm.reply import Reply
from summhay_ray.llm.request import Request
from summhay_ray.llm.sampling import REVISION, bounded

KEEPALIVE_S = 4.0
"""Idle connections are closed before the server does it (5 s is common): a call sent into a closing one is lost but paid."""

CONNECT_S = 30.0
_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S)
"""The time of a whole attempt is limited by whoever sends it (`llm.attempts`)."""
COHERE = "https://api.cohere.com"
BYTES_A_TEXT = 1 << 18
"""The most bytes of one text's vector or score: 8,192 dimensions of 32 characters each."""
_FILES = 65_536
_REASONING = re.compile(r"(o\d|gpt-5)")
"""OpenAI's models that require `max_completion_tokens` in place of `max_tokens`."""
_SHOWN = 2000


class ProviderError(Exception):
    """The provider answered with an error. The message begins with the HTTP status."""

    def __init__(self, status: int, body: str, headers: Mapping[str, str] | None = None) -> None:
        self.headers = {name.lower(): value for name, value in (headers or {}).items()}
        super().__init__(f"HTTP {status}: {self._elsewhere() if 300 <= status < 400 else _message(body)}")
        self.status_code = status
        self.body = body

    def _elsewhere(self) -> str:
        place = self.headers.get("location", "")[:_SHOWN]
        return f"the endpoint redirects to {place!r}, and redirects are not followed; write the right api_base"


class DirectTransport:
    """Sends requests through one aiohttp session for all endpoints."""

    def __init__(self) -> None:
        _allow_files()
        # The ledger enforces the limits: the connection pool must not add a hidden one.
        connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEPALIVE_S, ttl_dns_cache=60)
        self._session = aiohttp.ClientSession(
            connector=connector, cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=False, headers=UNPACKED
        )

    async def send(self, request: Request, settings: ModelSettings, key: str | None) -> Reply:
        """Send one POST and read the reply.

        Raises ProviderError, UnreadableAnswer, AnswerTooLarge, aiohttp's errors, TimeoutError, UnicodeEncodeError.
        """
        headers = {"Content-Type": "application/json"}
        if key:
            headers["Authorization"] = f"Bearer {key}"
        async with self._session.post(
            _address(request, settings),
            data=_body(request, wire_name(settings.model)),
            headers=headers,
            timeout=_TIMEOUT,
            allow_redirects=False,
        ) as response:
            body = Body(response.status, response.headers, _limit(request, settings))
            content = await body.read(response.content.iter_any())
            if response.status != 200:
                raise ProviderError(response.status, content.decode("utf-8", "replace"), response.headers)
        return await off_loop(len(content), lambda: _read(content.decode("utf-8", "replace"), request))

    async def close(self) -> None:
        """Close all connections."""
        await self._session.close()


def _address(request: Request, settings: ModelSettings) -> str:
    base = (settings.api_base or COHERE).rstrip("/")
    if request.task == "embed":
        return f"{base}/embeddings"
    if request.task == "rerank":
        return f"{re.sub(r'/v[12](/rerank)?$', '', base)}/v2/rerank"
    return f"{base}/chat/completions"


def _limit(request: Request, settings: ModelSettings) -> int:
    """The most bytes of an answer: a bound per text for vectors and scores, else the model's own bound."""
    if request.inputs and settings.max_answer_bytes is None:
        return (1 << 20) + len(request.inputs) * BYTES_A_TEXT
    return settings.body_limit(request.sampling, request.n, request.logprobs)


def _body(request: Request, model: str) -> bytes:
    if request.inputs:
        sent = {name: value for name, value in request.sampling.items() if name != REVISION}
        query, *documents = request.inputs
        reranked = {"query": query, "documents": documents, "top_n": len(documents)}
        asked = {"input": request.inputs} if request.task == "embed" else reranked
        return json.dumps({"model": model, **asked, **sent}, allow_nan=False, ensure_ascii=False).encode("utf-8", "replace")
    sampling = bounded(request.sampling)
    extra = sampling.pop("extra_body", None) or {}
    if _REASONING.match(model) and "max_tokens" in sampling:
        sampling["max_completion_tokens"] = sampling.pop("max_tokens")
    return request.body(model, {**sampling, **extra})


def _read(content: str, request: Request) -> Reply:
    try:
        body = json.loads(content)
        if request.task == "embed":
            return vectors_reply(body, len(request.inputs))
        if request.task == "rerank":
            return scores_reply(body, len(request.inputs) - 1)
        if isinstance(body, dict) and "choices" not in body and isinstance(body.get("error"), dict):
            # Some gateways answer 200 with the error of the model behind them.
            code = body["error"].get("code")
            status = code if isinstance(code, int) and not isinstance(code, bool) and 400 <= code < 600 else 500
            raise ProviderError(status, content)
        return reply_of(body)
    except (ValueError, RecursionError) as error:
        what = {"chat": "chat completion", "embed": "list of embeddings", "rerank": "reranking"}[request.task]
        raise UnreadableAnswer(f"the answer is no {what} ({error}): {content[:150]!r}") from error


def _message(body: str) -> str:
    """The message in an error's body, in OpenAI's and similar forms; else the beginning of the body."""
    try:
        content: Any = json.loads(body)
    except (ValueError, RecursionError):
        return body[:_SHOWN]
    error = content.get("error", content) if isinstance(content, dict) else content
    if not isinstance(error, dict):
        return str(error)[:_SHOWN]
    words = [error.get(name) for name in ("message", "detail", "type", "code")]
    return "; ".join(str(word) for word in words if word) or body[:_SHOWN]


def _allow_files() -> None:
    """Raise the process's limit of open files, since each call in flight needs one. The system often allows far more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _FILES if hard == resource.RLIM_INFINITY else min(_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
