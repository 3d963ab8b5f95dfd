"""The proxy does what its rules say, to the requests that they name, and counts all."""

from __future__ import annotations

import http.client
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest
from fault_proxy import Fault, FaultProxy, Kind

pytestmark = pytest.mark.core


class Upstream(BaseHTTPRequestHandler):
    """Answers with what it was sent; remembers it."""

    seen: list[tuple[str, str, str, bytes]] = []

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.seen.append((self.command, self.path, self.headers["Host"], body))
        self.send_response(200)
        self.send_header("Content-Length", "10")
        self.send_header("x-condition", self.headers.get("If-None-Match", "none"))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(b"0123456789")

    do_GET = do_HEAD = do_PUT

    def log_message(self, *_: object) -> None:
        """Quiet."""


@pytest.fixture
def proxy() -> Iterator[FaultProxy]:
    Upstream.seen = []
    upstream = ThreadingHTTPServer(("127.0.0.1", 0), Upstream)
    Thread(target=upstream.serve_forever, daemon=True).start()
    with FaultProxy(f"http://127.0.0.1:{upstream.server_port}") as running:
        yield running
    upstream.shutdown()
    upstream.server_close()


def ask(proxy: FaultProxy, method: str, path: str, headers: dict[str, str] | None = None) -> tuple[int, bytes, str | None]:
    """Status, body, what reached the server as its condition."""
    connection = http.client.HTTPConnection(proxy.url.removeprefix("http://"), timeout=10)
    try:
        connection.request(method, path, b"sent" if method == "PUT" else None, headers or {})
        answer = connection.getresponse()
        return answer.status, answer.read(), answer.headers.get("x-condition")
    finally:
        connection.close()


def test_without_a_rule_all_passes_unchanged(proxy: FaultProxy) -> None:
    path = "/bucket/a%20b/c%252F?x=%2F&y"
    assert ask(proxy, "PUT", path, {"Host": "signed.example.org", "If-None-Match": "*"}) == (200, b"0123456789", "*")
    assert Upstream.seen == [("PUT", path, "signed.example.org", b"sent")]
    assert ask(proxy, "HEAD", "/bucket/key") == (200, b"", "none")
    assert [(seen.method, seen.key, seen.status, seen.fault) for seen in proxy.requests] == [
        ("PUT", "a b/c%2F", 200, ""),
        ("HEAD", "key", 200, ""),
    ]


@pytest.mark.parametrize(("kind", "reaches"), [("drop", 0), ("lose", 1), ("cut", 1)])
def test_connections_break(proxy: FaultProxy, kind: Kind, reaches: int) -> None:
    proxy.add(Fault(kind, times=1))
    with pytest.raises((http.client.HTTPException, ConnectionError)):
        ask(proxy, "GET", "/bucket/key")
    assert len(Upstream.seen) == reaches
    assert ask(proxy, "GET", "/bucket/key")[:2] == (200, b"0123456789")


@pytest.mark.parametrize(
    ("fault", "status", "said"),
    [
        (Fault("503"), 503, b"<Code>SlowDown</Code>"),
        (Fault("500"), 500, b"<Code>InternalError</Code>"),
        (Fault("refuse", status=403, code="AccessDenied"), 403, b"<Code>AccessDenied</Code>"),
        (Fault("html", status=404), 404, b"<html>"),
    ],
)
def test_it_answers_in_the_servers_place(proxy: FaultProxy, fault: Fault, status: int, said: bytes) -> None:
    with proxy.during(fault):
        got, body, _ = ask(proxy, "GET", "/bucket/key")
        assert got == status and said in body and not Upstream.seen
    assert ask(proxy, "GET", "/bucket/key")[0] == 200


def test_conditions_are_stripped(proxy: FaultProxy) -> None:
    proxy.add(Fault("strip"))
    assert ask(proxy, "PUT", "/bucket/key", {"If-None-Match": "*"})[2] == "none"


def test_a_rule_is_about_a_method_and_a_key_and_a_number_of_times(proxy: FaultProxy) -> None:
    fault = proxy.add(Fault("503", times=2, method="PUT", key=r"commits/\d+$"))
    asked = [("PUT", "commits/1"), ("GET", "commits/1"), ("PUT", "commits/x"), ("PUT", "commits/2"), ("PUT", "commits/3")]
    assert [ask(proxy, method, f"/bucket/{key}")[0] for method, key in asked] == [503, 200, 200, 503, 200]
    assert fault.struck == 2 and proxy.count() == 5 and proxy.count("PUT") == 4 and proxy.count("PUT", r"\d$") == 3


def test_equal_seeds_strike_alike(proxy: FaultProxy) -> None:
    def strikes(seed: int) -> list[int]:
        with FaultProxy(proxy.server, seed=seed) as one:
            one.add(Fault("503", share=0.5))
            return [ask(one, "GET", "/bucket/key")[0] for _ in range(40)]

    first = strikes(1)
    assert first == strikes(1) != strikes(2) and 5 < first.count(503) < 35


def test_another_process_can_use_it(proxy: FaultProxy) -> None:
    code = "import sys, urllib.request as r; print(r.urlopen(sys.argv[1] + '/bucket/key').read().decode())"
    done = subprocess.run([sys.executable, "-c", code, proxy.url], capture_output=True, text=True, timeout=30)
    assert done.stdout == "0123456789\n" and proxy.count("GET", "^key$") == 1
