"""The transport through litellm, with one attempt per call. It also controls the requests of litellm and its SDKs.

In addition to the given key, litellm searches for keys in about a hundred variables, files and globals, and it follows redirects.
For some providers, it lets an SDK retry lost or failed requests, even if retries are switched off. So httpx and requests are
patched here. For each request, `keys` checks the URL, and `routes` chooses the proxy. The request is sent once, and its answer is
read up to a limit.
"""

import functools
import importlib.util
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any

import httpx

from summhay_ray.llm import bodies
from summhay_ray.llm.direct import KEEPALIVE_S
from summhay_ray.llm.keys import NoKey, key_for, key_for_litellm, known_secrets, note_sent
from summhay_ray.llm.model_settings import ModelSettings
from summhay_ray.llm.provider_table import place_of, provider_of
from summhay_ray.llm.request import REVISION, Reply, Request, Task, with_max_tokens
from summhay_ray.routes import NoRoute, Wire, route_to


@functools.cache
def load_litellm() -> Any:
    """Import litellm, and switch off its network requests and prints. The first call takes seconds."""
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    os.environ.setdefault("LITELLM_LOG", "ERROR")
    import litellm

    litellm.suppress_debug_info = True
    litellm.telemetry = False
    litellm.drop_params = False
    from litellm.litellm_core_utils.litellm_logging import Logging

    async def nothing(*_: Any, **__: Any) -> None:
        return None

    # Switch off litellm's pricing and logging of each call. They take a fifth of the call's time, and we have our own.
    for name, instead in (("response_cost_calculator", lambda *_, **__: None), ("async_success_handler", nothing)):
        # Without these methods, other versions of litellm are only slower.
        if hasattr(Logging, name):
            setattr(Logging, name, instead)
    # During a call, the patches decide how each request is sent; otherwise they change nothing. OpenAI's SDK uses httpx2 if
    # litellm gives it no client, and some cloud logins use requests.
    for name, watch in (("httpx", _watch), ("httpx2", _watch), ("requests", _watch_logins)):
        if importlib.util.find_spec(name) is not None:
            watch(importlib.import_module(name))
    return litellm


class LitellmTransport:
    """Sends requests to any provider that litellm supports."""

    def __init__(self) -> None:
        self._litellm = load_litellm()
        self._clients = Clients()

    async def send(self, request: Request, settings: ModelSettings, wire: Wire) -> Reply:
        """Make one call through litellm.

        Raises NoKey, NoRoute, ProviderError, UnreadableAnswer, AnswerTooLarge, httpx's errors, UnicodeEncodeError;
        none of litellm's own errors.
        """
        request.prompt.encode()
        key = key_for_litellm(settings)
        how = {
            "model": request.model,
            "api_base": settings.api_base,
            "api_key": key,
            "timeout": settings.timeout_s,
            "max_retries": 0,
        }
        sampling = {name: value for name, value in request.sampling.items() if name != REVISION}
        with watching(Outgoing(settings, bodies.answer_limit(request, settings), request.task, wire, self._clients)):
            if request.task == "embed":
                response = await self._litellm.aembedding(**how, input=list(request.inputs), **sampling)
            elif request.task == "rerank":
                query, *documents = request.inputs
                more = {"query": query, "documents": documents, "top_n": len(documents), **sampling}
                response = await self._litellm.arerank(**how, **more)
            else:
                tier = {"service_tier": settings.service_tier} if settings.service_tier else {}
                asked = {**request.asked, "messages": request.conversation(settings.cache)}
                response = await self._litellm.acompletion(**how, **asked, **with_max_tokens(request.sampling), **tier)
        return bodies.reply_in(response.model_dump(mode="json", warnings=False), request)

    async def close(self) -> None:
        """Close all connections."""
        await self._clients.close()


# A foreign endpoint gets only these headers and the headers with its key, since other headers may identify an account.
_PROTOCOL = re.compile(
    r"accept(-.*)?|connection|content-.*|host|prefer|transfer-encoding|user-agent|x-stainless-.*|.*-(version|beta)"
)


@dataclass
class Clients:
    """Clients of httpx (or httpx2) for one event loop, one per proxy. They replace the clients of litellm and the SDKs."""

    _made: dict[tuple[type, str], Any] = field(default_factory=dict)

    def of(self, library: Any, client: Any, proxy: str) -> Any:
        """Return a client that sends through the proxy, or directly if `proxy` is empty. It ignores the environment."""
        asynchronous = isinstance(client, library.AsyncClient)
        kind, way = (library.AsyncClient, library.AsyncHTTPTransport) if asynchronous else (library.Client, library.HTTPTransport)
        if (kind, proxy) not in self._made:
            # The ledger enforces the limits, so the connection pool must not add a hidden one.
            pool = library.Limits(max_connections=None, keepalive_expiry=KEEPALIVE_S)
            self._made[kind, proxy] = kind(transport=way(proxy=proxy or None, limits=pool), trust_env=False)
        return self._made[kind, proxy]

    async def close(self) -> None:
        """Close all connections."""
        for client in self._made.values():
            await client.aclose() if hasattr(client, "aclose") else client.close()
        self._made.clear()


@dataclass
class Outgoing:
    """One call through litellm. `limit`: maximum bytes of an answer."""

    settings: ModelSettings
    limit: int
    task: Task = "chat"
    wire: Wire = field(default_factory=Wire)
    clients: Clients = field(default_factory=Clients)
    problem: Exception | None = None
    """The reason why there is no answer. It is raised instead of litellm's error."""
    asked: set[tuple[str, str]] = field(default_factory=set)
    """Method and URL of each request that may be sent only once."""

    def __post_init__(self) -> None:
        base = self.settings.api_base
        self.own = place_of(provider_of(self.settings.model), base) == "own"
        if base:
            # Normalize the URL in the same way as httpx.
            self.settings = replace(self.settings, api_base=str(httpx.URL(base)))

    def admit(self, request: httpx.Request, options: dict[str, Any]) -> dict[str, Any]:
        """Return the options with which to send the request. Removes everything from a request to a foreign endpoint that is not
        meant for it.

        Raises NoKey or NoRoute if the request may not be sent. If the call already has an error from the provider, raises this
        error. If litellm tries to send the same request twice, raises the call's earlier problem, or UnreadableAnswer if there is
        none.
        """
        if isinstance(self.problem, bodies.ProviderError):
            raise self.problem
        if _name(request) in self.asked:
            again = f"litellm tried to send a request of {self.settings.model} twice; the second was not sent"
            self.problem = self.problem or bodies.UnreadableAnswer(again)
            raise self.problem
        try:
            route = route_to(str(request.url))
            key = key_for(self.settings, str(request.url))
            if not self.own:
                for name, value in list(request.headers.items()):
                    if not _PROTOCOL.fullmatch(name.lower()) and not (key and key in value):
                        del request.headers[name]
                sent = str(request.url) + request.content.decode("utf-8", "replace")
                named = [self.settings.api_key_env] if self.settings.api_key_env else []
                if known_secrets(named).unmistakable(but=key).are_in(sent):
                    raise NoKey(f"a request to {request.url.host} was not sent: it holds a secret of the worker's environment")
        except (NoKey, NoRoute) as why:
            # If the call has already sent another request, do not overwrite that request's problem, since the call may be charged
            # for it. The refused request may be for something else, such as a tokenizer.
            if not self.wire.sent:
                self.problem = why
            raise why from None
        note_sent([*request.headers.items(), *request.url.params.items()])
        self.problem, self.wire.route = None, route
        # GET and HEAD cost nothing, and may be repeated. A login before the request has another URL.
        if request.method not in ("GET", "HEAD"):
            self.asked.add(_name(request))
        request.headers.update(bodies.UNPACKED)
        # Stream the body, so that its length can be limited here.
        options = {**options, "follow_redirects": False, "stream": True}
        return options if self.own else {**options, "auth": None}

    def note(self, event: str, info: Mapping[str, Any], before: bool) -> None:
        """Record from httpcore's trace whether any byte of a request was sent. `before`: whether an earlier request was sent."""
        if event.endswith("send_request_headers.started"):
            # CONNECT only goes to the proxy.
            self.wire.sent |= info["request"].method not in (b"CONNECT", b"GET", b"HEAD")
        # The headers were invalid, so nothing was sent.
        elif event.endswith("send_request_headers.failed") and type(info["exception"]).__name__ == "LocalProtocolError":
            self.wire.sent = before

    @contextmanager
    def noting(self, request: httpx.Request) -> Iterator[None]:
        """Return a context that records an error of a request or of reading its answer."""
        try:
            yield
        except Exception as error:
            if _name(request) in self.asked:
                self.problem = error
            raise

    def answered(self, request: httpx.Request, response: httpx.Response, content: bytes) -> httpx.Response:
        """Return the complete answer to a request. Raises ProviderError if the answer is an error."""
        # Make the answer look as if it had not been compressed.
        ways = ("content-encoding", "content-length", "transfer-encoding")
        headers = [(name, value) for name, value in response.headers.multi_items() if name.lower() not in ways]
        whole = type(response)(
            response.status_code,
            headers=headers,
            content=content,
            request=response.request,
            extensions=response.extensions,
            history=response.history,
        )
        whole.elapsed = response.elapsed
        asked = request.method not in ("GET", "HEAD")
        if 300 <= whole.status_code < 400 or asked and whole.status_code >= 400:
            self.problem = bodies.ProviderError(whole.status_code, content.decode("utf-8", "replace"), whole.headers)
            raise self.problem
        if asked and whole.status_code == 200 and len(content) <= bodies.ERROR_BYTES:
            with suppress(ValueError, RecursionError):
                if problem := bodies.error_in(json.loads(content), self.task):
                    self.problem = problem
                    raise problem
        return whole


_CALL: ContextVar[Outgoing | None] = ContextVar("summhay_outgoing", default=None)


@contextmanager
def watching(call: Outgoing) -> Iterator[None]:
    """Return a context in which httpx's requests belong to the call. If the call has a `problem`, this is raised instead of an
    error."""
    token = _CALL.set(call)
    try:
        yield
    # Each SDK raises its own errors.
    except Exception as error:  # noqa: BLE001
        if call.problem is not None:
            raise call.problem from None
        # This is litellm's own error. If nothing was sent, the request is wrong. Otherwise the answer is unreadable, and may be
        # charged.
        if call.wire.sent:
            raise bodies.UnreadableAnswer(f"litellm cannot read the answer ({error})") from None
        raise bodies.ProviderError(getattr(error, "status_code", None) or 500, str(error)) from None
    finally:
        _CALL.reset(token)
    if call.problem is not None:
        raise call.problem


def _name(request: httpx.Request) -> tuple[str, str]:
    return request.method, str(request.url.copy_with(query=None, fragment=None))


def _watch(library: Any) -> None:
    send, send_async = library.Client.send, library.AsyncClient.send

    def watched(self: httpx.Client, request: httpx.Request, **options: Any) -> httpx.Response:
        call = _CALL.get()
        if call is None:
            return send(self, request, **options)  # type: ignore[no-any-return]
        client, options = _prepare(call, library, self, request, options)
        before = call.wire.sent
        request.extensions["trace"] = lambda event, info: call.note(event, info, before)
        with call.noting(request):
            response: httpx.Response = send(client, request, **options)
            try:
                body = bodies.Body(response.status_code, response.headers, call.limit)
                all(map(body.take, response.iter_raw()))
                content = body.content()
            finally:
                response.close()
        return call.answered(request, response, content)

    async def watched_async(self: httpx.AsyncClient, request: httpx.Request, **options: Any) -> httpx.Response:
        call = _CALL.get()
        if call is None:
            return await send_async(self, request, **options)  # type: ignore[no-any-return]
        client, options = _prepare(call, library, self, request, options)
        before = call.wire.sent

        async def traced(event: str, info: Mapping[str, Any]) -> None:
            call.note(event, info, before)

        request.extensions["trace"] = traced
        with call.noting(request):
            response = await send_async(client, request, **options)
            try:
                body = bodies.Body(response.status_code, response.headers, call.limit)
                async for piece in response.aiter_raw():
                    if not body.take(piece):
                        break
                content = body.content()
            finally:
                await response.aclose()
        return call.answered(request, response, content)

    library.Client.send = watched
    library.AsyncClient.send = watched_async


def _prepare(
    call: Outgoing, library: Any, client: Any, request: httpx.Request, options: dict[str, Any]
) -> tuple[Any, dict[str, Any]]:
    """Return the client with which to send a request in place of `client`, and the options with which to send it. Raises the same
    errors as `Outgoing.admit`."""
    if options.get("auth", library.USE_CLIENT_DEFAULT) is library.USE_CLIENT_DEFAULT:
        options = {**options, "auth": client.auth}
    options, route = call.admit(request, options), call.wire.route
    assert route is not None
    return call.clients.of(library, client, route.proxy), options


def _watch_logins(requests: Any) -> None:
    send = requests.Session.send

    def watched(self: Any, request: Any, **options: Any) -> Any:
        return send(self, request, **options if _CALL.get() is None else {**options, "proxies": route_to(request.url).proxies})

    requests.Session.send = watched
