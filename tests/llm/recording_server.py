"""A server on a loopback address that keeps every received byte, and gives the same answer for every path."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from fake_provider import Reply, completion

ANSWER = json.dumps(completion("m", Reply())).encode()


@dataclass
class Recording:
    """`seen` has the requests as text; `answer` is the body of all answers; with `location`, each answer is a redirect with
    `status`. A server that `drops` closes the connection after reading the request."""

    base: str
    seen: list[str] = field(default_factory=list)
    connections: int = 0
    status: int = 200
    location: str = ""
    drops: bool = False
    answer: bytes = ANSWER


@contextmanager
def recording(host: str, tls: ssl.SSLContext | None = None) -> Iterator[Recording]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # Otherwise head and body of an answer would arrive 40 ms apart.
        disable_nagle_algorithm = True

        def setup(self) -> None:
            super().setup()
            told.connections += 1

        def _any(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            told.seen.append(f"{self.requestline}\n{self.headers}\n{body.decode('utf-8', 'replace')}")
            if told.drops:
                self.close_connection = True
                return
            self.send_response(told.status)
            if told.location:
                self.send_header("location", told.location + self.path)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(told.answer)))
            self.end_headers()
            self.wfile.write(told.answer)

        do_GET = do_POST = do_PUT = do_CONNECT = _any

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing is printed."""

    server = ThreadingHTTPServer((host, 0), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    told = Recording(f"http://{host}:{server.server_address[1]}/v1")
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield told
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
