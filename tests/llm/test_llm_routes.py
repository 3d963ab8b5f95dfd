"""On the wire: the data that a proxy sees, the cost of a proxy that refuses, and the named culprit."""

from __future__ import annotations

import asyncio
import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import pytest
import requests
from gateway_room import Room
from recording_server import Recording, recording

from summhay_ray.llm import ModelSettings, Price, Request, Task, gateway
from summhay_ray.llm.via_litellm import Outgoing, watching
from summhay_ray.outcome import Failed
from summhay_ray.routes import NoRoute, route_to

pytestmark = pytest.mark.core

KEY = "sk-routed-0123456789abcdef"
SECRET = "pa55-0123456789"
VARIABLES = [name for word in ("http", "https", "all", "no") for name in (f"{word}_proxy", f"{word.upper()}_PROXY")]
WAYS: list[tuple[Task, str, Literal["direct", "litellm"]]] = [
    ("chat", "openai", "direct"),
    ("chat", "openai", "litellm"),
    ("chat", "anthropic", "litellm"),
    ("search", "search", "direct"),
]
Ask = Callable[[str], tuple[Any, Room]]


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch, litellm: Any) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ROUTED_KEY", KEY)
    monkeypatch.setattr(gateway, "BACKOFF_S", 0.0)


@pytest.fixture(params=WAYS, ids="-".join)
def ask(request: pytest.FixtureRequest, tmp_path: Path, loop: asyncio.AbstractEventLoop) -> Iterator[Ask]:
    """`ask(base)`: the outcome of one call with a fresh store, and its room."""
    task, provider, transport = request.param
    rooms: list[Room] = []

    def asked(base: str) -> tuple[Any, Room]:
        price = Price(2.0, 10.0, per_search=0.1)
        settings = ModelSettings(f"{provider}/m", price, None, base, "ROUTED_KEY", 60.0, transport=transport)
        room = Room(tmp_path / f"store{len(rooms)}", [settings], loop)
        rooms.append(room)
        chat = Request(settings.model, "a prompt", {"max_tokens": 5})
        inputs = ("a prompt",) if task == "search" else ("a prompt", "a text")
        return room.told(chat if task == "chat" else Request(settings.model, (), task=task, inputs=inputs))[0], room

    yield asked
    for room in rooms:
        loop.run_until_complete(room.gateway.close())


@pytest.fixture
def proxy() -> Iterator[Recording]:
    with recording("127.0.0.2") as proxy:
        yield proxy


def nothing_paid(room: Room) -> bool:
    """True if nothing is spent, reserved or uncertain."""
    return room.money == (0, 0) and room.ledger.account.uncertain["", ""] == 0


def test_what_stays_here_and_plain_http_goes_through_no_proxy(
    ask: Ask, proxy: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in VARIABLES[:6]:
        monkeypatch.setenv(name, proxy.base)
    with recording("127.0.0.1") as server:
        for host in ("127.0.0.1", "localhost"):
            server.seen.clear()
            ask(server.base.replace("127.0.0.1", host))
            assert KEY in server.seen[0]
    outcome, room = ask("http://provider.invalid/v1")
    assert isinstance(outcome, Failed) and outcome.error == "connection" and "http://provider.invalid:80" in outcome.message
    assert proxy.connections == 0 and nothing_paid(room)


@pytest.mark.parametrize(
    ("status", "error", "words"),
    [
        (407, "no_route", "(HTTP 407 Proxy Authentication Required); write its user and password into https_proxy"),
        (403, "no_route", "(HTTP 403 Forbidden); mend https_proxy"),
        (502, "connection", "(HTTP 502 Bad Gateway); mend https_proxy"),
    ],
)
def test_a_proxy_that_refuses_sees_the_host_alone_and_is_named(
    ask: Ask, proxy: Recording, monkeypatch: pytest.MonkeyPatch, status: int, error: str, words: str
) -> None:
    proxy.status = status
    monkeypatch.setenv("https_proxy", proxy.base.replace("http://", f"http://someone:{SECRET}@"))
    outcome, room = ask("https://provider.invalid/v1")
    assert isinstance(outcome, Failed) and (outcome.error, outcome.usd_micros) == (error, 0)
    place = proxy.base.removeprefix("http://").removesuffix("/v1")
    assert outcome.message.startswith(f"the proxy {place} of https_proxy does not lead to provider.invalid {words}")
    assert len(proxy.seen) == (6 if status == 502 else 1) and nothing_paid(room)
    for seen in proxy.seen:
        assert seen.startswith("CONNECT provider.invalid:443 ") and "Proxy-Authorization: Basic" in seen
        assert KEY not in seen and "a prompt" not in seen
    assert SECRET not in outcome.message and SECRET.encode() not in room.on_disk()


@contextmanager
def hanging_up() -> Iterator[str]:
    """The host and port of a server that reads a little and closes, like a server of another protocol."""
    with socket.create_server(("127.0.0.2", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    peer, _ = server.accept()
                except OSError:
                    return
                with peer:
                    peer.recv(1000)

        threading.Thread(target=serve, daemon=True).start()
        yield "{}:{}".format(*server.getsockname())
        server.shutdown(socket.SHUT_RDWR)


def test_a_proxy_that_is_down_or_speaks_something_else_is_named(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken, hanging_up() as other:
        taken.bind(("127.0.0.2", 0))
        for place in ("{}:{}".format(*taken.getsockname()), other, "proxy.invalid:3128"):
            monkeypatch.setenv("ALL_PROXY", place)
            outcome, room = ask("https://provider.invalid/v1")
            assert isinstance(outcome, Failed) and (outcome.error, outcome.usd_micros) == ("connection", 0)
            assert outcome.message.startswith(f"the proxy {place} of ALL_PROXY does not lead to provider.invalid (")
            assert "mend ALL_PROXY, or add provider.invalid to NO_PROXY" in outcome.message and nothing_paid(room)


def test_what_cannot_be_sent_is_refused_before_anything_is(ask: Ask, proxy: Recording, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", proxy.base.replace("http://", f"socks5h://someone:{SECRET}@"))
    for base, words in (
        ("https://provider.invalid/v1", "HTTPS_PROXY names a socks5h proxy (127.0.0.2:"),
        ("localhost:1/v1", "the address is no URL with http:// or https:// and a host"),
    ):
        outcome, room = ask(base)
        assert isinstance(outcome, Failed) and outcome.error == "no_route" and outcome.message.startswith(words)
        assert SECRET not in outcome.message and nothing_paid(room)
    assert proxy.connections == 0


def test_a_server_that_speaks_no_tls_costs_nothing(ask: Ask) -> None:
    with recording("127.0.0.1") as server:
        outcome, room = ask(server.base.replace("http://", "https://"))
        assert isinstance(outcome, Failed) and (outcome.error, outcome.usd_micros) == ("connection", 0)
        assert server.seen == [] and nothing_paid(room)


def test_what_was_sent_stays_charged(ask: Ask) -> None:
    with recording("127.0.0.1") as server:
        server.drops = True
        outcome, room = ask(server.base)
        assert isinstance(outcome, Failed) and outcome.error == "connection_lost" and len(server.seen) == outcome.attempts == 2
        assert outcome.usd_micros > 0 and room.money == (outcome.usd_micros, 0)


def test_an_attempt_that_is_not_sent_costs_nothing_after_one_that_was(ask: Ask) -> None:
    """Each attempt is judged alone: one is lost, and the next finds no server."""
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        peer, _ = server.accept()
        server.close()
        with peer:
            peer.recv(100_000)

    serving = threading.Thread(target=serve)
    serving.start()
    outcome, room = ask(f"http://127.0.0.1:{server.getsockname()[1]}/v1")
    serving.join()
    assert isinstance(outcome, Failed) and outcome.error == "connection" and outcome.attempts > 2
    assert room.money == (outcome.usd_micros, 0) and outcome.usd_micros > 0


def test_an_endpoint_without_v1_is_hinted_at(ask: Ask, request: pytest.FixtureRequest) -> None:
    # A search is sent to the URL itself.
    hinted = "search" not in request.node.callspec.id
    with recording("127.0.0.1") as server:
        server.status = 404
        for base in ("/", "/api/"):
            without = server.base.removesuffix("/v1") + base
            assert ask(without)[0].message.endswith(f"does the api_base {without} lack /v1?") == hinted
        assert "lack" not in ask(server.base)[0].message


@pytest.mark.parametrize("sampling", [{"response_format": 7}, {"thinking": "x"}])
@pytest.mark.parametrize("model", ["anthropic/m", "openai/m"])
def test_a_request_that_cannot_be_made_costs_nothing(
    tmp_path: Path, loop: asyncio.AbstractEventLoop, model: str, sampling: dict[str, Any]
) -> None:
    with recording("127.0.0.1") as server:
        room = Room(tmp_path / "store", [ModelSettings(model, Price(2.0, 10.0), None, server.base, transport="litellm")], loop)
        try:
            outcome, _ = room.told(Request(model, "a prompt", sampling))
        finally:
            loop.run_until_complete(room.gateway.close())
        assert isinstance(outcome, Failed) and outcome.usd_micros == 0 and server.seen == [] and nothing_paid(room)


@pytest.mark.parametrize("library", ["httpx", "httpx2"])
def test_a_header_that_cannot_be_written_was_not_sent(loop: asyncio.AbstractEventLoop, library: str) -> None:
    client = pytest.importorskip(library)

    async def post(url: str) -> None:
        async with client.AsyncClient() as asking:
            await asking.post(url, headers={"content-note": "a\nb"})

    with recording("127.0.0.1") as server:
        settings = ModelSettings("openai/m", Price(1.0, 1.0), None, server.base)
        calls = [Outgoing(settings, 1 << 20), Outgoing(settings, 1 << 20), Outgoing(settings, 1 << 20)]
        with pytest.raises(client.LocalProtocolError), client.Client() as asking, watching(calls[0]):
            asking.post(f"{server.base}/chat/completions", headers={"content-note": "a\nb"})
        with pytest.raises(client.LocalProtocolError), watching(calls[1]):
            loop.run_until_complete(post(f"{server.base}/chat/completions"))
        assert server.seen == []
        with client.Client() as asking, watching(calls[2]):
            asking.get(f"{server.base}/models")
            assert not calls[2].wire.sent
            asking.post(f"{server.base}/chat/completions")
    assert [call.wire.sent for call in calls] == [False, False, True]


def test_logins_by_requests_go_the_same_way(proxy: Recording, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES[:6]:
        monkeypatch.setenv(name, proxy.base)
    with recording("127.0.0.1") as server, watching(Outgoing(ModelSettings("openai/m", Price(1.0, 1.0)), 1 << 20)):
        assert requests.post(f"{server.base}/token", data=KEY, timeout=60).status_code == 200
        with pytest.raises(requests.exceptions.ConnectionError):
            requests.get("http://provider.invalid/", timeout=60)
        assert proxy.connections == 0
        with pytest.raises(requests.exceptions.RequestException):
            requests.get("https://provider.invalid/", timeout=60)
    assert re.match("CONNECT provider.invalid:443 ", proxy.seen[0])


@pytest.mark.parametrize(
    ("variables", "url", "proxy"),
    [
        ({"https_proxy": "p:1", "HTTPS_PROXY": "q:2"}, "https://a.example/v1", "http://p:1"),
        ({"https_proxy": "", "HTTPS_PROXY": "q:2"}, "https://a.example/v1", ""),
        ({"ALL_PROXY": "https://q:2"}, "https://a.example/v1", "https://q:2"),
        ({"all_proxy": "socks5://r:3", "HTTPS_PROXY": "http://q:2"}, "https://a.example/v1", "http://q:2"),
        ({"HTTPS_PROXY": "http://q:2", "NO_PROXY": "b.example,.a.example"}, "https://api.a.example/v1", ""),
        ({"HTTPS_PROXY": "http://q:2", "no_proxy": "a.example:444"}, "https://a.example:444/v1", ""),
        ({"HTTPS_PROXY": "http://q:2", "no_proxy": "*"}, "https://a.example/v1", ""),
        ({"HTTPS_PROXY": "http://q:2"}, "https://[::1]:9/v1", ""),
        ({"HTTPS_PROXY": "http://q:2"}, "https://127.8.9.1/v1", ""),
        ({"HTTPS_PROXY": "http://q:2"}, "https://LOCALHOST/v1", ""),
        ({"HTTPS_PROXY": "http://q:2"}, "https://localhost.example/v1", "http://q:2"),
        ({"HTTP_PROXY": "http://q:2", "http_proxy": "http://q:2"}, "https://a.example/v1", ""),
        ({"HTTPS_PROXY": "http://q:2", "ALL_PROXY": "http://q:2", "http_proxy": "http://q:2"}, "HTTP://10.0.0.1/v1", ""),
    ],
)
def test_the_proxy_is_the_one_that_the_environment_names(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], url: str, proxy: str
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert route_to(url).proxy == proxy


@pytest.mark.parametrize("named", ["http://", "http://q:port", "ftp://q:2", "http://u:0123456789@[q"])
def test_a_proxy_that_cannot_be_read_is_not_repeated(monkeypatch: pytest.MonkeyPatch, named: str) -> None:
    monkeypatch.setenv("HTTPS_PROXY", named)
    with pytest.raises(NoRoute, match="HTTPS_PROXY names .*; write http://HOST:PORT of an HTTP proxy there") as refused:
        route_to("https://a.example/v1")
    assert "0123456789" not in str(refused.value)
