"""A proxy in front of an S3 server that simulates faults of networks and busy services, for every folder of tests.

    with FaultProxy(server.url) as proxy:
        proxy.add(Fault("lose", method="PUT", key="commits/", times=1))
        files = open_files(server.uri(bucket, url=proxy.url))
        ...
        assert proxy.count("GET") <= 5

It serves in a thread of this process on 127.0.0.1: any process of this machine can use `proxy.url`. `Host` is forwarded
unchanged, because S3 signs it. Rules may be added and cleared while the proxy runs; the first rule that matches applies.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import unquote

import aiohttp
from aiohttp import web

Kind = Literal["delay", "drop", "500", "503", "refuse", "lose", "cut", "strip", "html", "before", "after"]
ERROR = '<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>{}</Code><Message>{}</Message><RequestId>0</RequestId></Error>'
BODIES = {
    "500": ("InternalError", "We encountered an internal error. Please try again."),
    "503": ("SlowDown", "Please reduce your request rate."),
}
# Headers of a single connection, which are never forwarded. The proxy answers `Expect` itself.
OF_CONNECTION = {
    "connection",
    "keep-alive",
    "transfer-encoding",
    "expect",
    "upgrade",
    "te",
    "trailer",
    "proxy-connection",
    "server",
    "date",
}


@dataclass
class Fault:
    """A fault of the matching requests: those with `method` ("" any) and a key that the regex `key` matches.

    kind: `delay` (by `seconds`) · `drop` (the connection), `500`, `503` (SlowDown), `refuse` (S3's error `code` with `status`),
    `html` (a web server's page, with `status`): nothing reaches the server · `lose` (the server executes the request, and the
    connection breaks before its answer) · `cut` (the connection breaks within the answer's body) · `strip` (a write's conditions
    do not reach the server).
    share: the random share of the matching requests. times: the maximum number of faults; None: no limit.
    """

    kind: Kind
    share: float = 1.0
    times: int | None = None
    method: str = ""
    key: str = ""
    seconds: float = 0.0
    status: int = 403
    code: str = "AccessDenied"
    struck: int = 0
    act: Callable[[], None] = lambda: None

    def matches(self, method: str, key: str) -> bool:
        """True if it applies to this request, and has not reached its limit."""
        left = self.times is None or self.struck < self.times
        return left and self.method in {"", method} and re.search(self.key, key) is not None


@dataclass(frozen=True)
class Seen:
    """One request: `key` is the path after the bucket, `query` the part after `?`; `status` 0: no answer was given."""

    method: str
    key: str
    query: str
    status: int
    fault: str


@dataclass
class FaultProxy:
    """Forwards to `server` (its URL). With the same seed, the same order of requests gets the same faults."""

    server: str
    seed: int = 7
    url: str = ""
    requests: list[Seen] = field(default_factory=list)
    _faults: list[Fault] = field(default_factory=list)

    def add(self, fault: Fault) -> Fault:
        """Add a fault after the present ones."""
        with self._lock:
            self._faults.append(fault)
        return fault

    def clear(self) -> None:
        """Remove all faults."""
        with self._lock:
            self._faults.clear()

    @contextlib.contextmanager
    def during(self, fault: Fault) -> Iterator[Fault]:
        """Add faults while the block runs."""
        self.add(fault)
        try:
            yield fault
        finally:
            with self._lock:
                self._faults = [one for one in self._faults if one is not fault]

    def count(self, method: str = "", key: str = "") -> int:
        """The number of requests with this method ("" any) and a key that the regex matches."""
        return sum(
            seen.method == (method or seen.method) and re.search(key, seen.key) is not None for seen in list(self.requests)
        )

    def __enter__(self) -> FaultProxy:
        self._lock, self._random = threading.Lock(), random.Random(self.seed)
        started: Future[tuple[str, asyncio.AbstractEventLoop, asyncio.Event]] = Future()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve(started)), daemon=True, name="fault-proxy")
        self._thread.start()
        self.url, self._loop, self._ended = started.result(timeout=30)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join(timeout=30)

    async def _serve(self, started: Future[Any]) -> None:
        timeout = aiohttp.ClientTimeout(total=120)
        connector = aiohttp.TCPConnector(limit=256, force_close=True)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout, auto_decompress=False) as self._onward:
            app = web.Application(client_max_size=1 << 30)
            app.router.add_route("*", "/{path:.*}", self._answer)
            runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
            await runner.setup()
            site = web.TCPSite(runner, "127.0.0.1", 0, backlog=512)
            await site.start()
            ended = asyncio.Event()
            port = runner.addresses[0][1]
            started.set_result((f"http://127.0.0.1:{port}", asyncio.get_running_loop(), ended))
            await ended.wait()
            await runner.cleanup()

    def _strike(self, method: str, key: str) -> Fault | None:
        with self._lock:
            for fault in self._faults:
                if fault.matches(method, key) and self._random.random() < fault.share:
                    fault.struck += 1
                    return fault
        return None

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        path, _, query = request.raw_path.partition("?")
        key = unquote(path).lstrip("/").partition("/")[2]
        fault = self._strike(request.method, key)
        kind = fault.kind if fault is not None else ""
        body = await request.read()
        if fault is not None and kind == "delay":
            await asyncio.sleep(fault.seconds)
        if fault is not None and kind == "before":
            fault.act()
        response = await self._respond(request, body, fault)
        if fault is not None and kind == "after":
            fault.act()
        self.requests.append(Seen(request.method, key, query, response.status if response is not None else 0, kind))
        if response is not None and kind != "cut":
            return response
        if response is not None:
            await self._half(request, response)
        if request.transport is not None:
            request.transport.abort()
        return web.Response(status=500)

    async def _respond(self, request: web.Request, body: bytes, fault: Fault | None) -> web.Response | None:
        """None: the connection breaks."""
        kind = fault.kind if fault is not None else ""
        if kind == "drop":
            return None
        if kind in BODIES:
            return web.Response(status=int(kind), text=ERROR.format(*BODIES[kind]), content_type="application/xml")
        if fault is not None and kind == "refuse":
            return web.Response(status=fault.status, text=ERROR.format(fault.code, fault.code), content_type="application/xml")
        if fault is not None and kind == "html":
            return web.Response(
                status=fault.status, text="<html><body><h1>Not Found</h1><br></body></html>", content_type="text/html"
            )
        headers = [(name, value) for name, value in request.headers.items() if name.lower() not in OF_CONNECTION]
        if kind == "strip":
            headers = [(name, value) for name, value in headers if name.lower() not in {"if-none-match", "if-match"}]
        try:
            response = await self._forward(request, headers, body)
        except aiohttp.ClientError:
            return None
        return None if kind == "lose" else response

    async def _half(self, request: web.Request, whole: web.Response) -> None:
        half = web.StreamResponse(status=whole.status, headers=whole.headers)
        content = bytes(whole.body or b"")  # type: ignore[arg-type]
        half.content_length = len(content)
        await half.prepare(request)
        await half.write(content[: len(content) // 2])

    async def _forward(self, request: web.Request, headers: list[tuple[str, str]], body: bytes) -> web.Response:
        from yarl import URL

        url = URL(self.server + request.raw_path, encoded=True)
        sent = body if body or request.method in {"PUT", "POST"} else None
        async with self._onward.request(request.method, url, headers=headers, data=sent, allow_redirects=False) as answer:
            content = await answer.read()
            kept = [(name, value) for name, value in answer.headers.items() if name.lower() not in OF_CONNECTION]
            if request.method != "HEAD":
                kept = [(name, value) for name, value in kept if name.lower() != "content-length"]
            response = web.Response(status=answer.status, body=content if request.method != "HEAD" else None)
            response.headers.popall("Content-Type", None)
            response.headers.extend(kept)
            return response
