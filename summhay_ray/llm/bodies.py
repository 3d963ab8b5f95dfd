"""Response bodies, read up to a limit whatever the server sends. Part of the llm room, for the room alone.

Requests ask for uncompressed bodies. A body that comes compressed all the same is unpacked up to the limit only: a megabyte can
unpack to a gigabyte.
"""

from __future__ import annotations

import asyncio
import functools
import zlib
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import httpx

R = TypeVar("R")

UNPACKED = {"Accept-Encoding": "identity"}
"""The header that asks for an uncompressed body."""

ERROR_BYTES = 1 << 16
"""How much is read of an error's body, whose meaning is at its beginning."""

LONG = 100_000
"""Work on texts of more characters takes 20 ms and more, which is too long for an event loop."""

_WINDOWS = {"gzip": (zlib.MAX_WBITS | 32,), "x-gzip": (zlib.MAX_WBITS | 32,), "deflate": (zlib.MAX_WBITS | 32, -zlib.MAX_WBITS)}
"""Encoding -> zlib's window bits to try; some servers send deflate without its header."""


class UnreadableAnswer(Exception):
    """The provider answered 200, but the body is not what was asked for, or cannot be read."""


class AnswerTooLarge(Exception):
    """The response body is longer than the model's limit."""


class Body:
    """The body of one response, collected in pieces. An error's body is cut at its limit; an answer's raises."""

    def __init__(self, status: int, headers: Mapping[str, str], limit: int) -> None:
        self._answers = 200 <= status < 300
        self._limit = limit if self._answers else min(limit, ERROR_BYTES)
        self._encoding = headers.get("Content-Encoding", "").strip().lower()
        self._raw = bytearray()

    def take(self, piece: bytes) -> bool:
        """Add a piece. Returns whether to read on."""
        self._raw += piece
        return len(self._raw) <= self._limit

    async def read(self, pieces: AsyncIterator[bytes]) -> bytes:
        """Read the pieces up to the limit, and return `content`."""
        async for piece in pieces:
            if not self.take(piece):
                break
        return await asyncio.to_thread(self.content) if self._packed else self.content()

    def content(self) -> bytes:
        """The collected body, unpacked. Raises AnswerTooLarge, UnreadableAnswer."""
        content = self._unpacked() if self._packed else bytes(self._raw)
        if self._answers and max(len(content), len(self._raw)) > self._limit:
            raise AnswerTooLarge(
                f"the answer's body is longer than {self._limit} bytes; if that is right, write a larger max_answer_bytes "
                "beside the model"
            )
        return content[: self._limit]

    @property
    def _packed(self) -> bool:
        return self._encoding not in ("", "identity")

    def _unpacked(self) -> bytes:
        problem = "it was not requested"
        for window in _WINDOWS.get(self._encoding, ()):
            try:
                return zlib.decompressobj(window).decompress(bytes(self._raw), self._limit + 1)
            except zlib.error as error:
                problem = str(error)
        if self._answers:
            raise UnreadableAnswer(f"the answer's encoding {self._encoding[:50]!r} cannot be read: {problem}")
        return b""


async def off_loop(letters: int, work: Callable[[], R]) -> R:
    """The result of `work`. If its text is long (`letters` characters), the work runs in a thread."""
    return await asyncio.to_thread(work) if letters > LONG else work()


@dataclass
class _Bound:
    """The limit for one call of an SDK, and why its answer was rejected, if it was."""

    limit: int
    problem: AnswerTooLarge | UnreadableAnswer | None = None

    @contextmanager
    def noting(self) -> Iterator[None]:
        try:
            yield
        except (AnswerTooLarge, UnreadableAnswer) as problem:
            self.problem = problem
            raise


_BOUND: ContextVar[_Bound | None] = ContextVar("summhay_body_limit", default=None)


@contextmanager
def bounded_bodies(limit: int) -> Iterator[None]:
    """Within this context, httpx reads at most `limit` bytes of each answer.

    Raises AnswerTooLarge or UnreadableAnswer in place of the error that an SDK makes of them.
    """
    bound = _Bound(limit)
    token = _BOUND.set(bound)
    try:
        yield
    finally:
        _BOUND.reset(token)
        if bound.problem is not None:
            raise bound.problem from None


@functools.cache
def bound_httpx() -> None:
    """Patch httpx's clients to respect `bounded_bodies`. Outside that context they are unchanged."""
    # Imported here because only litellm needs httpx, whose import takes time.
    import httpx

    send, send_async = httpx.Client.send, httpx.AsyncClient.send

    def bounded(self: httpx.Client, request: httpx.Request, **options: Any) -> httpx.Response:
        bound = _BOUND.get()
        if bound is None:
            return send(self, request, **options)
        request.headers.update(UNPACKED)
        response = send(self, request, **{**options, "stream": True})
        try:
            body = Body(response.status_code, response.headers, bound.limit)
            with bound.noting():
                all(map(body.take, response.iter_raw()))
                content = body.content()
        finally:
            response.close()
        return _whole(response, content)

    async def bounded_async(self: httpx.AsyncClient, request: httpx.Request, **options: Any) -> httpx.Response:
        bound = _BOUND.get()
        if bound is None:
            return await send_async(self, request, **options)
        request.headers.update(UNPACKED)
        response = await send_async(self, request, **{**options, "stream": True})
        try:
            with bound.noting():
                content = await Body(response.status_code, response.headers, bound.limit).read(response.aiter_raw())
        finally:
            await response.aclose()
        return _whole(response, content)

    httpx.Client.send = bounded  # type: ignore[method-assign]
    httpx.AsyncClient.send = bounded_async  # type: ignore[method-assign]


def _whole(response: httpx.Response, content: bytes) -> httpx.Response:
    """The response with its whole body, as if it had come uncompressed."""
    import httpx

    ways = ("content-encoding", "content-length", "transfer-encoding")
    headers = [(name, value) for name, value in response.headers.multi_items() if name.lower() not in ways]
    whole = httpx.Response(
        response.status_code,
        headers=headers,
        content=content,
        request=response.request,
        extensions=response.extensions,
        history=response.history,
    )
    whole.elapsed = response.elapsed
    return whole
