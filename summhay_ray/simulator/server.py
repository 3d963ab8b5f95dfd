"""The simulated provider's web server (aiohttp)."""

import asyncio
import signal
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import Any

from aiohttp import web

from summhay_ray.simulator import batches, messages
from summhay_ray.simulator.bodies import Refused
from summhay_ray.simulator.provider import Provider

_LONGEST_BODY = 256 * 2**20
_JSON = "application/json"
_MODEL = {"object": "model", "created": 0, "owned_by": "summhay"}
_VERSION = "anthropic-version"
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def application(provider: Provider) -> web.Application:
    """Return the routes of OpenAI's API, with and without `/v1`, of Anthropic's API, and of the provider's books under
    `/simulated`."""
    made = web.Application(client_max_size=_LONGEST_BODY)
    provider.warm()
    for prefix in ("/v1", ""):
        made.router.add_post(f"{prefix}/chat/completions", _handler(provider, "chat"))
        made.router.add_post(f"{prefix}/embeddings", _handler(provider, "embeddings"))
        made.router.add_post(f"{prefix}/rerank", _handler(provider, "rerank"))

        _add_batches(made.router, provider, prefix)

    made.router.add_post("/v2/rerank", _handler(provider, "rerank"))
    # An SDK of Anthropic adds `/v1` to its base URL, which may already end with `/v1`.
    for prefix in ("/v1", "/v1/v1"):
        made.router.add_post(f"{prefix}/messages", _handler(provider, "messages"))
        _add_message_batches(made.router, provider, prefix)

    def get(path: str, content: Callable[[], Any]) -> None:
        async def handle(_: web.Request) -> web.Response:
            return web.json_response(content())

        made.router.add_get(path, handle)

    async def reset(_: web.Request) -> web.Response:
        provider.reset()
        return web.json_response({"reset": True})

    get("/simulated/stats", provider.books.to_json)
    get("/simulated/batches", provider.batches.to_json)
    get("/simulated/calls", lambda: [asdict(call) for call in provider.books.calls.values()])
    for path in ("/v1/models", "/models"):
        get(path, lambda: {"object": "list", "data": [{"id": model, **_MODEL} for model in provider.models]})
    made.router.add_post("/simulated/reset", reset)
    return made


def _handler(provider: Provider, kind: str) -> Handler:
    async def handle(request: web.Request) -> web.StreamResponse:
        version = request.headers.get(_VERSION, "")
        call, reply = await provider.serve(kind, _key(request), await request.read(), version)
        transport = request.transport
        is_open = transport is not None and not transport.is_closing()
        if reply.drop and transport is not None:
            transport.abort()
        provider.sent(call, is_open and not reply.drop)
        return web.Response(status=reply.status or 500, body=reply.body, content_type=_JSON, headers=reply.headers)

    return handle


def _key(request: web.Request) -> str:
    bearer = request.headers.get("Authorization", "").removeprefix("Bearer ").strip()
    return request.headers.get("x-api-key", "").strip() or bearer


Work = Callable[[web.Request, str], Awaitable[web.StreamResponse]]
"""Answers a request for files or batches. Arguments: the request and the fingerprint of its key. Raises Refused."""


def _guarded(provider: Provider, work: Work, anthropic: bool = False) -> Handler:
    """Make a handler that returns the provider's errors. It counts a GET as a poll."""

    async def handle(request: web.Request) -> web.StreamResponse:
        try:
            key = provider.check_key(_key(request))
            if anthropic and not request.headers.get(_VERSION):
                raise Refused(400, "", f"{_VERSION}: header is required")
            if request.method == "GET":
                provider.batches.poll(provider.settings)
            return await work(request, key)
        except Refused as refusal:
            reply = messages.error_reply(refusal) if anthropic else refusal.reply()
            return web.Response(status=reply.status, body=reply.body, content_type=_JSON, headers=reply.headers)

    return handle


def _created(request: web.Request, made: batches.Batch, body: Any) -> web.Response:
    """Return the reply to a creation. If the fault is drawn, the reply is lost with its connection."""
    if "batch_lost" in made.faults and request.transport is not None:
        request.transport.abort()
    return web.json_response(body)


def _add_batches(router: web.UrlDispatcher, provider: Provider, prefix: str) -> None:
    """Add the routes of OpenAI's files and batches."""
    held = provider.batches

    async def upload(request: web.Request, key: str) -> web.Response:
        form = await request.post()
        file, purpose = form.get("file"), form.get("purpose")
        if not isinstance(file, web.FileField) or purpose != "batch":
            raise Refused(400, "invalid_value", "expected a file, and the purpose batch", param="purpose")
        return web.json_response(held.create_file(key, file.file.read(), file.filename, purpose).to_json())

    async def files(request: web.Request, key: str) -> web.Response:
        data = [file.to_json() for file in reversed(held.files.values()) if file.key == key]
        return web.json_response({"object": "list", "data": data, "has_more": False})

    async def file(request: web.Request, key: str) -> web.Response:
        return web.json_response(held.file(key, request.match_info["id"]).to_json())

    async def content(request: web.Request, key: str) -> web.Response:
        return web.Response(body=held.file(key, request.match_info["id"]).content, content_type="application/octet-stream")

    async def delete(request: web.Request, key: str) -> web.Response:
        del held.files[held.file(key, request.match_info["id"]).id]
        return web.json_response({"id": request.match_info["id"], "object": "file", "deleted": True})

    async def create(request: web.Request, key: str) -> web.Response:
        made = held.create(key, await request.read())
        return _created(request, made, batches.openai_json(made))

    async def listed(request: web.Request, key: str) -> web.Response:
        query = request.query
        found, more = batches.page(held.listed(key, "openai"), query.get("after", ""), "", query.get("limit", ""), 100)
        ends = {"first_id": found[0].id if found else None, "last_id": found[-1].id if found else None}
        data = [batches.openai_json(batch) for batch in found]
        return web.json_response({"object": "list", "data": data, **ends, "has_more": more})

    async def batch(request: web.Request, key: str) -> web.Response:
        return web.json_response(batches.openai_json(held.batch(key, "openai", request.match_info["id"])))

    async def cancel(request: web.Request, key: str) -> web.Response:
        found = held.batch(key, "openai", request.match_info["id"])
        held.cancel(found)
        return web.json_response(batches.openai_json(found))

    router.add_post(f"{prefix}/files", _guarded(provider, upload))
    router.add_get(f"{prefix}/files", _guarded(provider, files))
    router.add_get(f"{prefix}/files/{{id}}", _guarded(provider, file))
    router.add_get(f"{prefix}/files/{{id}}/content", _guarded(provider, content))
    router.add_delete(f"{prefix}/files/{{id}}", _guarded(provider, delete))
    router.add_post(f"{prefix}/batches", _guarded(provider, create))
    router.add_get(f"{prefix}/batches", _guarded(provider, listed))
    router.add_get(f"{prefix}/batches/{{id}}", _guarded(provider, batch))
    router.add_post(f"{prefix}/batches/{{id}}/cancel", _guarded(provider, cancel))


def _add_message_batches(router: web.UrlDispatcher, provider: Provider, prefix: str) -> None:
    """Add the routes of Anthropic's message batches."""
    held = provider.batches

    def batch_json(request: web.Request, batch: batches.Batch) -> dict[str, Any]:
        return batches.anthropic_json(batch, str(request.url.origin()))

    async def create(request: web.Request, key: str) -> web.Response:
        made = held.create_messages(key, request.headers[_VERSION], await request.read())
        return _created(request, made, batch_json(request, made))

    async def listed(request: web.Request, key: str) -> web.Response:
        after, before, limit = (request.query.get(name, "") for name in ("after_id", "before_id", "limit"))
        found, more = batches.page(held.listed(key, "anthropic"), after, before, limit, 1000)
        ends = {"first_id": found[0].id if found else None, "last_id": found[-1].id if found else None}
        return web.json_response({"data": [batch_json(request, batch) for batch in found], "has_more": more, **ends})

    async def batch(request: web.Request, key: str) -> web.Response:
        return web.json_response(batch_json(request, held.batch(key, "anthropic", request.match_info["id"])))

    async def cancel(request: web.Request, key: str) -> web.Response:
        found = held.batch(key, "anthropic", request.match_info["id"])
        held.cancel(found)
        return web.json_response(batch_json(request, found))

    async def results(request: web.Request, key: str) -> web.Response:
        body = batches.results_of(held.batch(key, "anthropic", request.match_info["id"]))
        return web.Response(body=body, content_type="application/x-jsonl")

    router.add_post(f"{prefix}/messages/batches", _guarded(provider, create, True))
    router.add_get(f"{prefix}/messages/batches", _guarded(provider, listed, True))
    router.add_get(f"{prefix}/messages/batches/{{id}}", _guarded(provider, batch, True))
    router.add_post(f"{prefix}/messages/batches/{{id}}/cancel", _guarded(provider, cancel, True))
    router.add_get(f"{prefix}/messages/batches/{{id}}/results", _guarded(provider, results, True))


async def start(provider: Provider, host: str, port: int) -> tuple[web.AppRunner, str]:
    """Start to listen. Return the runner, which the caller must clean up, and the API's base URL. Raise OSError."""
    # Cancellation ends a hang when the client disconnects, so that it no longer counts as in flight.
    runner = web.AppRunner(application(provider), access_log=None, handler_cancellation=True, shutdown_timeout=0.2)
    await runner.setup()
    await web.TCPSite(runner, host, port, backlog=4096).start()
    name = f"[{host}]" if ":" in host else host
    return runner, f"http://{name}:{runner.addresses[0][1]}/v1"


async def serve(provider: Provider, host: str, port: int, announce: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT. Port 0 means any free port. Raises OSError if it cannot listen.

    `announce`: called with the API's base URL (`http://HOST:PORT/v1`) when the provider listens.
    """
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    runner, base = await start(provider, host, port)
    try:
        announce(base)
        await stopped.wait()
    finally:
        provider.batches.stop()
        provider.answers.close()
        await runner.cleanup()
