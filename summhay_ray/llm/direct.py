"""The direct transport: OpenAI's protocol over aiohttp. Part of the llm room.

For OpenAI, vLLM, SGLang, Together and any other endpoint with an OpenAI-compatible `api_base`. It takes a tenth of litellm's time
per call. Embeddings, reranking in Cohere's form and searches at a service of the user's go this way, too.
"""

from __future__ import annotations

import json
import re
import resource

import aiohttp

from summhay_ray.llm.bodies import UNPACKED, Body, ProviderError, answer_limit, off_loop, reply_in, unreadable
from summhay_ray.llm.gate import key_for
from summhay_ray.llm.models import ModelSettings, wire_name
from summhay_ray.llm.provider_table import PROVIDERS
from summhay_ray.llm.providers import provider_of
from summhay_ray.llm.reply import Reply
from summhay_ray.llm.request import Request
from summhay_ray.llm.sampling import QUERY_FIELD, REVISION, bounded
from summhay_ray.llm.secrets import NoKey

KEEPALIVE_S = 4.0
"""Idle connections are closed before the server does it (5 s is common): a call sent into a closing one is lost but paid."""

CONNECT_S = 30.0
_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S)
"""The time of a whole attempt is limited by whoever sends it (`llm.attempts`)."""
_FILES = 65_536
_REASONING = re.compile(r"(o\d|gpt-5)")
"""OpenAI's models that require `max_completion_tokens` in place of `max_tokens`."""


class DirectTransport:
    """Sends requests through one aiohttp session for all endpoints."""

    def __init__(self) -> None:
        _allow_files()
        # The ledger enforces the limits: the connection pool must not add a hidden one.
        connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEPALIVE_S, ttl_dns_cache=60)
        self._session = aiohttp.ClientSession(
            connector=connector, cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=False, headers=UNPACKED
        )

    async def send(self, request: Request, settings: ModelSettings) -> Reply:
        """Send one POST and read the reply.

        Raises NoKey, ProviderError, UnreadableAnswer, AnswerTooLarge, aiohttp's errors, TimeoutError, UnicodeEncodeError.
        """
        url = _address(request, settings)
        headers = {"Content-Type": "application/json"}
        if key := key_for(settings, url):
            headers["Authorization"] = f"Bearer {key}"
        async with self._session.post(
            url,
            data=_body(request, wire_name(settings.model)),
            headers=headers,
            timeout=_TIMEOUT,
            allow_redirects=False,
        ) as response:
            body = Body(response.status, response.headers, answer_limit(request, settings))
            content = await body.read(response.content.iter_any())
            if response.status != 200:
                raise ProviderError(response.status, content.decode("utf-8", "replace"), response.headers)
        return await off_loop(len(content), lambda: _read(content.decode("utf-8", "replace"), request))

    async def close(self) -> None:
        """Close all connections."""
        await self._session.close()


def _address(request: Request, settings: ModelSettings) -> str:
    base = (settings.api_base or _own_base(request, settings.model)).rstrip("/")
    if request.task == "search":
        return settings.api_base or base
    if request.task == "embed":
        return f"{base}/embeddings"
    if request.task == "rerank":
        return f"{re.sub(r'/v[12](/rerank)?$', '', base)}/v2/rerank"
    return f"{base}/chat/completions"


def _own_base(request: Request, model: str) -> str:
    """The address of the provider's own service. Raises NoKey if it has none that is asked directly."""
    known = PROVIDERS.get(provider_of(model))
    if request.task != "rerank" or known is None or "rerank" not in known.services or not known.domains:
        raise NoKey(f"{model}: no address is known for this; write api_base: URL beside it")
    return f"https://{known.domains[0]}"


def _body(request: Request, model: str) -> bytes:
    if request.inputs:
        sent = {name: value for name, value in request.sampling.items() if name != REVISION}
        if request.task == "search":
            named = sent.pop(QUERY_FIELD, "query")
            return json.dumps({named: request.inputs[0], **sent}, allow_nan=False, ensure_ascii=False).encode("utf-8", "replace")
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
    except (ValueError, RecursionError) as error:
        raise unreadable(error, content, request.task) from error
    return reply_in(body, request)


def _allow_files() -> None:
    """Raise the process's limit of open files, since each call in flight needs one. The system often allows far more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _FILES if hard == resource.RLIM_INFINITY else min(_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
