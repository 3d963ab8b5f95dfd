"""A server on 127.0.0.1, in a thread, with endless or compressed bodies. The prompt's first word chooses the body."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import threading
import zlib
from collections import Counter
from collections.abc import Iterator

MIB = 1 << 20
BEGINNING = b'{"choices": [{"message": {"role": "assistant", "content": "'
ENDING = b'"}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 5, "completion_tokens": 7}}'
HONEST = BEGINNING + b"an answer" + ENDING
TEN_MIB = BEGINNING + b"a" * 10 * MIB + ENDING


def bomb(window: int) -> bytes:
    """1.5 MB that unpack to 1.5 GB."""
    first, packer = zlib.compressobj(9, zlib.DEFLATED, window), zlib.compressobj(9, zlib.DEFLATED, -15)
    head = first.compress(BEGINNING) + first.flush(zlib.Z_FULL_FLUSH)
    return head + 96 * (packer.compress(b"a" * 16 * MIB) + packer.flush(zlib.Z_FULL_FLUSH))


BODIES = {
    "gzip": (200, "gzip", bomb(31)),
    "zlib": (200, "deflate", bomb(15)),
    "deflate": (200, "deflate", bomb(-15)),
    "brotli": (200, "br", b"\x00" * MIB),
    "gzip_error": (400, "gzip", bomb(31)),
    "ten_mib": (200, "", TEN_MIB),
    "nested": (200, "", BEGINNING + b"an answer" + ENDING[:-1] + b', "x": ' + b'{"x": [' * 400 + b"]}" * 400 + b"}"),
    "brackets": (200, "", b"[" * 100_000),
    "honest_gzip": (200, "gzip", gzip.compress(HONEST)),
    "honest_deflate": (200, "deflate", zlib.compress(HONEST)),
    "honest": (200, "", HONEST),
}
"""Word -> status, encoding, body. `endless` and `endless_error` never end."""


class HostileServer:
    """`prompts` has all prompts, `accepted` the requested encodings, `sent` the prompts whose bodies were sent."""

    def __init__(self) -> None:
        self.prompts: Counter[str] = Counter()
        self.accepted: set[str] = set()
        self.sent: set[str] = set()
        self.base = ""
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> HostileServer:
        self._thread.start()
        assert self._ready.wait(30)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(30)

    def _serve(self) -> None:
        server = self._loop.run_until_complete(asyncio.start_server(self._answer, "127.0.0.1", 0))
        self.base = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        self._ready.set()
        self._loop.run_forever()
        server.close()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0.05))
        self._loop.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # A client that has read enough closes the connection, which is no error of the test.
        with (
            contextlib.suppress(ConnectionError, asyncio.CancelledError, asyncio.IncompleteReadError),
            contextlib.closing(writer),
        ):
            lines = (await reader.readuntil(b"\r\n\r\n")).decode().lower().split("\r\n")
            headers = dict(line.split(": ", 1) for line in lines[1:] if line)
            prompt = json.loads(await reader.readexactly(int(headers["content-length"])))["messages"][0]["content"]
            self.prompts[prompt] += 1
            self.accepted.add(headers.get("accept-encoding", ""))
            word = prompt.split()[0]
            for piece in _endless(400 if word == "endless_error" else 200) if word.startswith("endless") else _whole(word):
                writer.write(piece)
                await writer.drain()
            self.sent.add(prompt)


def _head(status: int, more: str) -> bytes:
    return f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nConnection: close\r\n{more}\r\n\r\n".encode()


def _whole(word: str) -> Iterator[bytes]:
    status, encoding, body = BODIES[word]
    packed = f"Content-Encoding: {encoding}\r\n" if encoding else ""
    yield _head(status, f"{packed}Content-Length: {len(body)}") + body


def _endless(status: int) -> Iterator[bytes]:
    piece = b"a" * 65_536
    yield _head(status, "Transfer-Encoding: chunked") + b"%x\r\n%s\r\n" % (len(BEGINNING), BEGINNING)
    while True:
        yield b"%x\r\n%s\r\n" % (len(piece), piece)
