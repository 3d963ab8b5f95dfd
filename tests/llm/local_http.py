"""A web server in a thread of this process, whose every answer a test computes."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from fake_provider import Reply, completion


@dataclass(frozen=True)
class Asked:
    """A request."""

    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def fields(self) -> dict[str, Any]:
        """The body's JSON."""
        found: dict[str, Any] = json.loads(self.body)
        return found


@dataclass(frozen=True)
class Answer:
    """A response; a HEAD gets it without the body."""

    body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


@contextmanager
def serving(answer: Callable[[Asked], Any]) -> Iterator[str]:
    """Serve within the block, and yield the address. A value that is no `Answer` is sent as JSON."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # Otherwise head and body of an answer would arrive 40 ms apart.
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            found = answer(Asked(self.path, self.headers, body))
            if not isinstance(found, Answer):
                found = Answer(json.dumps(found).encode(), headers={"content-type": "application/json"})
            self.send_response(found.status)
            for name, value in {**found.headers, "content-length": str(len(found.body))}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(found.body)

        do_POST = do_HEAD = do_GET

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing is printed."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 64

    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


@contextmanager
def chatting(text: Callable[[list[str]], str], input_tokens: int = 10, output_tokens: int = 5) -> Iterator[str]:
    """A provider of chat completions. `text`: the answer to the contents of a request's messages. Yields the API's base URL."""
    usage = {"prompt_tokens": input_tokens, "completion_tokens": output_tokens, "total_tokens": input_tokens + output_tokens}

    def answer(asked: Asked) -> dict[str, Any]:
        messages = [message["content"] for message in asked.fields["messages"]]
        return completion(asked.fields["model"], Reply(text(messages), usage=usage))

    with serving(answer) as address:
        yield f"{address}/v1"
