"""The simulated provider's web server (aiohttp)."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import Any

from aiohttp import web

from summhay_ray.simulator.provider import Provider

_LONGEST_BODY = 256 * 2**20
_JSON = "application/json"
_MODEL = {"object": "model", "created": 0, "owned_by": "summhay"}
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def application(provider: Provider) -> web.Application:
    """The routes of OpenAI's API, with and without `/v1`, and the provider's books under `/simulated`."""
    made = web.Application(client_max_size=_LONGEST_BODY)
    provider.warm()
    for prefix in ("/v1", ""):
        made.router.add_post(f"{prefix}/chat/completions", _handler(provider, "chat"))
        made.router.add_post(f"{prefix}/embeddings", _handler(provider, "embeddings"))
        made.router.add_post(f"{prefix}/rerank", _handler(provider, "rerank"))

    made.router.add_post("/v2/rerank", _handler(provider, "rerank"))

    def get(path: str, content: Callable[[], Any]) -> None:
        async def handle(_: web.Request) -> web.Response:
            return web.json_response(content())

        made.router.add_get(path, handle)

    async def reset(_: web.Request) -> web.Response:
        provider.books.reset()
        return web.json_response({"reset": True})

    get("/simulated/stats", provider.books.to_json)
    get("/simulated/calls", lambda: [asdict(call) for call in provider.books.calls.values()])
    for path in ("/v1/models", "/models"):
        get(path, lambda: {"object": "list", "data": [{"id": model, **_MODEL} for model in provider.models]})
    made.router.add_post("/simulated/reset", reset)
    return made


def _handler(provider: Provider, kind: str) -> Handler:
    async def handle(request: web.Request) -> web.StreamResponse:
        key = request.headers.get("Authorization", "").removeprefix("Bearer ").strip()
        call, reply = await provider.serve(kind, key, await request.read())
        transport = request.transport
        is_open = transport is not None and not transport.is_closing()
        if reply.drop and transport is not None:
            transport.abort()
        provider.sent(call, is_open and not reply.drop)
        return web.Response(status=reply.status or 500, body=reply.body, content_type=_JSON, headers=reply.headers)

    return handle


async def start(provider: Provider, host: str, port: int) -> tuple[web.AppRunner, str]:
    """Start to listen. Returns the runner, which the caller cleans up, and the API's base URL. Raises OSError."""
    # Cancellation ends a hang when the client disconnects, so that it no longer counts as in flight.
    runner = web.AppRunner(application(provider), access_log=None, handler_cancellation=True, shutdown_timeout=0.2)
    await runner.setup()
    await web.TCPSite(runner, host, port, backlog=4096).start()
    name = f"[{host}]" if ":" in host else host
    return runner, f"http://{name}:{runner.addresses[0][1]}/v1"


async def serve(provider: Provider, host: str, port: int, announce: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT. Port 0 means any free port. Raises OSError if it cannot listen.

    `announce`: called with the API's base URL (`http://HOST:PORT/v1`) once it listens.
    """
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    runner, base = await start(provider, host, port)
    try:
        announce(base)
        await stopped.wait()
    finally:
        provider.answers.close()
        await runner.cleanup()
