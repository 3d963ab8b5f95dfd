"""On the wire: every provider with a base URL in the table is called there directly, with its own key, over TLS.

All hosts of the table resolve to a server on this machine, whose certificate names them.
"""

from __future__ import annotations

import asyncio
import datetime
import json
import socket
import ssl
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from fake_provider import Reply, completion
from recording_server import Recording, recording

from summhay_ray.llm import FREE, PROVIDERS, ModelSettings, NoKey, Request, Task
from summhay_ray.llm.gateway import Transports
from summhay_ray.llm.retry import decide
from summhay_ray.routes import Wire

pytestmark = pytest.mark.core

HOSTS = sorted({urlsplit(known.base).hostname or "" for known in PROVIDERS.values() if known.base})
ANSWERS = {
    "chat": completion("m", Reply("an answer")),
    "embed": {"data": [{"index": 0, "embedding": [1.0]}, {"index": 1, "embedding": [2.0]}], "usage": {"prompt_tokens": 2}},
    "rerank": {"results": [{"index": 0, "relevance_score": 0.5}], "usage": {"total_tokens": 2}},
}
VOYAGE = {"data": [{"index": 0, "relevance_score": 0.5}], "usage": {"total_tokens": 2}}
PATHS = {"chat": "chat/completions", "embed": "embeddings", "rerank": "rerank"}
Ask = Callable[..., Any]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recording]:
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "here")])
    now = datetime.datetime.now(datetime.UTC)
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key()).serial_number(1)
    made = made.not_valid_before(now - datetime.timedelta(days=1)).not_valid_after(now + datetime.timedelta(days=1))
    made = made.add_extension(x509.SubjectAlternativeName([x509.DNSName(host) for host in HOSTS]), critical=False)
    secret = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    path = tmp_path_factory.mktemp("home") / "both.pem"
    path.write_bytes(secret + made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    serving, trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context(cafile=str(path))
    serving.load_cert_chain(path)
    resolve = socket.getaddrinfo

    def here(host: Any, port: Any, *rest: Any, **more: Any) -> Any:
        at = ("127.0.0.1", urlsplit(server.base).port) if host in HOSTS else (host, port)
        return resolve(*at, *rest, **more)

    with recording("127.0.0.1", serving) as server, pytest.MonkeyPatch.context() as patch:
        patch.setattr("aiohttp.connector._SSL_CONTEXT_VERIFIED", trusting)
        patch.setattr(socket, "getaddrinfo", here)
        for variable in ("HTTPS_PROXY", "https_proxy", "OPENAI_BASE_URL", "OPENAI_API_BASE"):
            patch.delenv(variable, raising=False)
        for variable in {variable for known in PROVIDERS.values() for variable in known.variables}:
            patch.setenv(variable, f"{variable}-0123456789")
        yield server


@pytest.fixture
def ask(home: Recording, loop: asyncio.AbstractEventLoop) -> Iterator[Ask]:
    """`ask(model, task, answer, sampling)`: one attempt at the provider's own address; the request line, host, key and body."""
    transports = Transports()

    def asked(model: str, task: Task = "chat", answer: Any = None, **sampling: Any) -> tuple[str, str, str, dict[str, Any]]:
        home.seen.clear()
        home.answer = json.dumps(answer or ANSWERS[task]).encode()
        request = Request(model, "a prompt", {"max_tokens": 5, **sampling})
        if task != "chat":
            request = Request(model, (), sampling, task=task, inputs=("a", "b"))
        settings = ModelSettings(model, FREE, timeout_s=60.0)

        async def send() -> None:
            await asyncio.wait_for(transports.of(settings, request.task).send(request, settings, Wire()), 90)

        loop.run_until_complete(send())
        (seen,) = home.seen
        head, _, body = seen.partition("\n\n")
        line, *rest = head.splitlines()
        headers = {name.lower(): value for name, _, value in (one.partition(": ") for one in rest)}
        return line, headers["host"], headers["authorization"], json.loads(body)

    yield asked
    loop.run_until_complete(transports.close())


def test_every_service_is_asked_at_its_base_url_with_the_key_of_its_row(ask: Ask) -> None:
    seen = 0
    for provider, known in PROVIDERS.items():
        for task in sorted(known.services - known.translated - {"batch"}) if known.base else ():
            base = urlsplit(known.base)
            line, host, key, body = ask(f"{provider}/org/m", task)
            assert line == f"POST {base.path}/{PATHS[task]} HTTP/1.1" and host == base.hostname, provider
            assert key == f"Bearer {known.variables[0]}-0123456789" and body["model"] == "org/m"
            seen += 1
    assert seen > 90


@pytest.mark.parametrize(
    ("model", "task", "sampling", "sent"),
    [
        ("gpt-4o", "chat", {"seed": 3, "temperature": 0}, {"model": "gpt-4o", "seed": 3, "temperature": 0}),
        ("mistral/large", "chat", {"seed": 3, "temperature": 0}, {"model": "large", "random_seed": 3, "temperature": 0}),
        ("fireworks_ai/small", "chat", {}, {"model": "accounts/fireworks/models/small"}),
        ("openrouter/openai/gpt-4o", "chat", {}, {"model": "openai/gpt-4o"}),
        ("voyage/rerank-2", "rerank", {}, {"model": "rerank-2", "query": "a", "documents": ["b"], "top_k": 1}),
        ("cohere/rerank-v3", "rerank", {}, {"model": "rerank-v3", "query": "a", "documents": ["b"], "top_n": 1}),
        ("openai/small", "embed", {"dimensions": 8}, {"model": "small", "input": ["a", "b"], "dimensions": 8}),
    ],
)
def test_the_body_is_in_the_words_of_its_provider(
    ask: Ask, model: str, task: Task, sampling: dict[str, Any], sent: dict[str, Any]
) -> None:
    *_, body = ask(model, task, VOYAGE if model.startswith("voyage") else None, **sampling)
    chat = {"messages": [{"content": "a prompt", "role": "user"}], "max_tokens": 5} if task == "chat" else {}
    assert body == {**chat, **sent}


@pytest.mark.parametrize("name", ["OPENAI_BASE_URL", "OPENAI_API_BASE"])
def test_an_address_in_the_environment_is_refused_and_not_followed(
    ask: Ask, home: Recording, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, "https://api.openai.com/v1/")
    assert ask("openai/m")[1] == "api.openai.com"
    monkeypatch.setenv(name, "http://127.0.0.2:9/v1")
    with pytest.raises(NoKey, match=f"{name} names another address than https://api.openai.com/v1") as why:
        ask("openai/m")
    assert decide(why.value).kind == "model" and home.seen == []
    assert ask("groq/m")[1] == "api.groq.com"


def test_a_proxy_on_the_way_sees_the_host_alone(ask: Ask, home: Recording, monkeypatch: pytest.MonkeyPatch) -> None:
    with recording("127.0.0.1") as proxy:
        proxy.status = 502
        monkeypatch.setenv("HTTPS_PROXY", proxy.base)
        monkeypatch.setenv("NO_PROXY", "api.groq.com")
        with pytest.raises(aiohttp.ClientHttpProxyError):
            ask("openai/m")
        (seen,) = proxy.seen
        assert seen.startswith("CONNECT api.openai.com:443 ") and "0123456789" not in seen and home.seen == []
        assert not home.seen and ask("groq/m")[1] == "api.groq.com"


def test_without_a_key_nothing_is_sent(ask: Ask, home: Recording, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CO_API_KEY")
    for model, task, variable in (("gpt-4o", "chat", "OPENAI_API_KEY"), ("cohere/m", "rerank", "COHERE_API_KEY")):
        monkeypatch.delenv(variable)
        with pytest.raises(NoKey, match=f"{model}: no key"):
            ask(model, task)
        assert home.seen == []
