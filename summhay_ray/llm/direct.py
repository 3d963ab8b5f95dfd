"""The direct transport: OpenAI's protocol over aiohttp, and reranking in Cohere's format.

It serves all providers that have a base URL in the table, any endpoint (vLLM, SGLang, ...) that is given as `api_base`, and the
user's own search services. A call takes a tenth of the time that it takes through litellm.
"""

import asyncio
import functools
import json
import os
import re
import resource
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from urllib.parse import urljoin, urlsplit

import aiohttp
from aiohttp.connector import Connection

from summhay_ray.llm.bodies import UNPACKED, Body, ProviderError, answer_limit, reply_in, unreadable
from summhay_ray.llm.keys import NoKey, key_for
from summhay_ray.llm.model_settings import ModelSettings
from summhay_ray.llm.prices import default_effort
from summhay_ray.llm.provider_table import PROVIDERS, address_of, place_of, provider_of, wire_name
from summhay_ray.llm.request import QUERY_FIELD, REVISION, Reply, Request, Sampling, Task, wanted, with_max_tokens
from summhay_ray.loops import off_loop
from summhay_ray.routes import Wire, route_to

KEEPALIVE_S = 4.0
"""Idle connections are closed after this time, before the server closes them (5 s is common). A call on a connection that the
server closes may be lost but charged."""

CONNECT_S = 30.0
_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S)
"""The timeouts of single steps. The caller (`llm.gateway.Gateway`) limits the time of a whole attempt."""
_FILES = 65_536
_REASONING = re.compile(r"(ft:)?(o\d|gpt-[5-9](?!-chat))")
"""Matches OpenAI's models that require `max_completion_tokens` instead of `max_tokens`, and that refuse a temperature if they
reason."""


_WIRE: ContextVar[Wire] = ContextVar("wire")
"""The wire of the attempt that the current task makes."""


class _Request(aiohttp.ClientRequest):
    """A request that reports when it is sent. aiohttp does not use this class for its CONNECT requests to proxies."""

    async def send(self, conn: Connection) -> aiohttp.ClientResponse:
        """Record that the request is sent. aiohttp calls this before it writes the first byte to an open connection."""
        _WIRE.get().sent = True
        return await super().send(conn)


class DirectTransport:
    """Sends requests through one aiohttp session for all endpoints."""

    def __init__(self) -> None:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = _FILES if hard == resource.RLIM_INFINITY else min(_FILES, hard)
        if soft != resource.RLIM_INFINITY and soft < wanted:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        # The ledger enforces the limits, so the connection pool must not add a hidden one.
        connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEPALIVE_S, ttl_dns_cache=60)
        headers = {**UNPACKED, "Content-Type": "application/json"}
        self._session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            headers=headers,
            timeout=_TIMEOUT,
            request_class=_Request,
        )

    async def send(self, request: Request, settings: ModelSettings, wire: Wire) -> Reply:
        """Send one POST and read the reply.

        Raises NoKey, NoRoute, ProviderError, UnreadableAnswer, AnswerTooLarge, aiohttp's errors, UnicodeEncodeError.
        """
        url = _address(request.task, settings)
        route = route_to(url)
        key = key_for(settings, url)
        headers = {"Authorization": f"Bearer {key}"} if key else None
        data = body_of(request, settings)
        wire.route = route
        _WIRE.set(wire)
        async with self._session.post(
            url, data=data, headers=headers, proxy=route.proxy or None, allow_redirects=False
        ) as response:
            body = Body(response.status, response.headers, answer_limit(request, settings))
            # A short answer arrives in one piece.
            while not response.content.at_eof() and body.take(await response.content.readany()):
                pass
            content = body.content()
            if response.status != 200:
                raise ProviderError(response.status, content.decode("utf-8", "replace"), response.headers)
        return await off_loop(len(content), lambda: _read(content.decode("utf-8", "replace"), request, settings.model))

    async def fetch(
        self,
        method: str,
        url: str,
        settings: ModelSettings,
        wire: Wire,
        data: bytes | None,
        kind: str,
        headers_of: Callable[[str | None], Mapping[str, str]],
        limit: int,
    ) -> bytes:
        """Send any request to the model's provider, and return the body of the answer (at most `limit` bytes).

        `kind`: the content type of `data`. `headers_of`: returns the headers for a key. Raises the errors of `send`.
        """
        route = route_to(url)
        key = key_for(settings, url)
        headers = {"Content-Type": kind, **headers_of(key)}
        wire.route = route
        _WIRE.set(wire)
        async with (
            asyncio.timeout(settings.timeout_s),
            self._session.request(
                method, url, data=data, headers=headers, proxy=route.proxy or None, allow_redirects=False
            ) as response,
        ):
            body = Body(response.status, response.headers, limit)
            while not response.content.at_eof() and body.take(await response.content.readany()):
                pass
            content = body.content()
            if not 200 <= response.status < 300:
                raise ProviderError(response.status, content.decode("utf-8", "replace"), response.headers)
        return content

    async def close(self) -> None:
        """Close all connections."""
        await self._session.close()


def _address(task: Task, settings: ModelSettings) -> str:
    """Return the URL of the service. Raises NoKey if its address is unknown."""
    if task == "search":
        return settings.api_base or ""
    base = address_of(settings.model, settings.api_base).rstrip("/")
    if not base:
        raise NoKey(f"{settings.model}: no address is known for this; add api_base: URL")
    provider = provider_of(settings.model)
    if not settings.api_base:
        for name in (f"{provider.upper()}_BASE_URL", f"{provider.upper()}_API_BASE"):
            if os.environ.get(name, base).rstrip("/") != base:
                raise NoKey(f"{name} names another address than {base}; write it as api_base beside the model, or unset it")
    if task == "embed":
        return f"{base}/embeddings"
    if task == "chat":
        return f"{base}/chat/completions"
    known = PROVIDERS.get(provider)
    if known and known.base and place_of(provider, base) == "own":
        return urljoin(base, f"{urlsplit(known.base).path}/rerank")
    return f"{re.sub(r'/v[12](/rerank)?$', '', base)}/v2/rerank"


def body_of(request: Request, settings: ModelSettings) -> bytes:
    """Return the JSON body of a request. Raises ValueError for NaN and infinity; UnicodeEncodeError for lone surrogates."""
    model = settings.model
    if not request.inputs:
        fields = _chat_fields(request.sampling, model, request.n, request.logprobs, settings.service_tier)
        return request.body(fields, settings.cache)
    name, renamed = wire_name(model), _renamed(model)
    sent = {field: value for field, value in request.sampling.items() if field != REVISION}
    if request.task == "search":
        field = sent.pop(QUERY_FIELD, "query")
        return json.dumps({field: request.inputs[0], **sent}, allow_nan=False, ensure_ascii=False).encode("utf-8", "replace")
    query, *documents = request.inputs
    reranked = {"query": query, "documents": documents, renamed.get("top_n", "top_n"): len(documents)}
    asked = {"input": request.inputs} if request.task == "embed" else reranked
    return json.dumps({"model": name, **asked, **sent}, allow_nan=False, ensure_ascii=False).encode("utf-8", "replace")


@functools.lru_cache(maxsize=1024)
def _chat_fields(sampling: Sampling, model: str, n: int, logprobs: int | None, tier: str | None) -> str:
    """Return the JSON of a chat request's fields except the messages. `tier`: the service tier. Raises ValueError for NaN and
    infinity."""
    name, renamed, sent = wire_name(model), _renamed(model), with_max_tokens(sampling)
    sent |= sent.pop("extra_body", None) or {}
    if _REASONING.match(name):
        renamed = {**renamed, "max_tokens": "max_completion_tokens"}
        if sent.get("reasoning_effort", default_effort(model)) != "none":
            sent.pop("temperature", None)
    fields = {renamed.get(field, field): value for field, value in sent.items()} | ({"service_tier": tier} if tier else {})
    return json.dumps({"model": name, **wanted(n, logprobs), **fields}, allow_nan=False)


def _renamed(model: str) -> Mapping[str, str]:
    known = PROVIDERS.get(provider_of(model))
    return known.renamed if known else {}


def _read(content: str, request: Request, model: str) -> Reply:
    try:
        body = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise unreadable(error, content, request.task) from error
    named = _renamed(model).get("results")
    if request.task == "rerank" and isinstance(body, dict) and named in body:
        body["results"] = body.pop(named)
    return reply_in(body, request)
