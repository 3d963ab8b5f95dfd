"""A small OpenAI-compatible chat server on 127.0.0.1, in a thread, whose every answer a test programs."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

PROMPT_TOKENS, OUTPUT_TOKENS = 5, 7


@dataclass(frozen=True)
class Reply:
    """One programmed reply; `body` replaces the whole chat completion, `drop` closes the connection after reading."""

    text: str | None = "an answer"
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    finish_reason: str = "stop"
    usage: Mapping[str, Any] | None = field(
        default_factory=lambda: {"prompt_tokens": PROMPT_TOKENS, "completion_tokens": OUTPUT_TOKENS, "total_tokens": 12}
    )
    error: Mapping[str, Any] | None = None
    body: Any = None
    drop: bool = False
    delay_s: float = 0.0
    trickle_s: float = 0.0
    echo_key: bool = False


class FakeProvider:
    """`replies` are used first to last, then `default` answers. `requests` has all requests with their times. While `held`, no
    request is answered."""

    def __init__(self) -> None:
        self.replies: deque[Reply] = deque()
        self.default = Reply()
        self.requests: list[dict[str, Any]] = []
        self.times: list[float] = []
        self.in_flight = 0
        self.most_in_flight = 0
        self.held = False
        self.base = ""
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def start(self) -> None:
        self._thread.start()
        assert self._ready.wait(10)

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def clear(self) -> None:
        self.replies.clear()
        self.requests.clear()
        self.times.clear()
        self.default = Reply()
        self.most_in_flight = 0
        self.held = False

    @property
    def prompts(self) -> Counter[str]:
        return Counter(request["messages"][0]["content"] for request in self.requests)

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        application = web.Application(client_max_size=64 * 2**20)
        application.router.add_post("/v1/chat/completions", self._chat)
        # A client that has left is no request in flight: a later test must not count it.
        runner = web.AppRunner(application, shutdown_timeout=0.1, handler_cancellation=True)
        self._loop.run_until_complete(runner.setup())
        site = web.TCPSite(runner, "127.0.0.1", 0)
        self._loop.run_until_complete(site.start())
        self.base = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
        self._ready.set()
        self._loop.run_forever()
        self._loop.run_until_complete(runner.cleanup())
        self._loop.close()

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        content = await request.json()
        self.requests.append(content)
        self.times.append(time.monotonic())
        reply = self.replies.popleft() if self.replies else self.default
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            while self.held:
                await asyncio.sleep(0.005)
            return await self._reply(request, content, reply)
        finally:
            self.in_flight -= 1

    async def _reply(self, request: web.Request, content: Mapping[str, Any], reply: Reply) -> web.StreamResponse:
        await asyncio.sleep(reply.delay_s)
        if reply.drop:
            assert request.transport is not None
            request.transport.abort()
            return web.Response()
        if reply.trickle_s:
            return await self._trickle(request, reply)
        if reply.status != 200:
            error = dict(reply.error or {"message": "something went wrong", "type": "error"})
            if reply.echo_key:
                error["message"] = f"bad credentials {request.headers.get('Authorization', '')} given"
            return web.json_response({"error": error}, status=reply.status, headers=dict(reply.headers))
        if isinstance(reply.body, str):
            return web.Response(text=reply.body, content_type="application/json")
        return web.json_response(reply.body if reply.body is not None else completion(content["model"], reply))

    async def _trickle(self, request: web.Request, reply: Reply) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "application/json"})
        await response.prepare(request)
        ends = time.monotonic() + reply.trickle_s
        while time.monotonic() < ends:
            await response.write(b" ")
            await asyncio.sleep(0.05)
        await response.write(b"{}")
        return response


def completion(model: str, reply: Reply) -> dict[str, Any]:
    """The body of a chat completion in the form of OpenAI's API."""
    message = {"role": "assistant", "content": reply.text}
    body: dict[str, Any] = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": reply.finish_reason}],
    }
    if reply.usage is not None:
        body["usage"] = dict(reply.usage)
    return body


@contextmanager
def fake_provider() -> Iterator[FakeProvider]:
    provider = FakeProvider()
    provider.start()
    try:
        yield provider
    finally:
        provider.stop()
