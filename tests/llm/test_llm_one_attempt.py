"""On the wire: an attempt sends its request once, although the SDK behind litellm would retry an error."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from recording_server import Recording, recording

from summhay_ray.llm import FREE, ModelSettings, NoKey, Request
from summhay_ray.llm.bodies import ProviderError, UnreadableAnswer
from summhay_ray.llm.gateway import Transports
from summhay_ray.llm.retry import Decision, decide
from summhay_ray.llm.via_litellm import Outgoing, watching
from summhay_ray.routes import Wire

pytestmark = pytest.mark.core

EAGER = [
    *("ai21", "ai21_chat", "baseten", "codestral", "deepinfra", "featherless_ai", "hyperbolic", "inception"),
    *("text-completion-inception", "nscale", "nvidia_nim", "sambanova", "zai"),
]
"""litellm does not tell the SDK of these that it is to try once."""
OTHERS = ["openai", "anthropic", "cohere_chat", "hosted_vllm", "huggingface", "mistral", "ollama", "text-completion-openai"]


@pytest.fixture(scope="module")
def server() -> Iterator[Recording]:
    with recording("127.0.0.1") as server:
        yield server


@pytest.fixture
def transports(
    server: Recording, loop: asyncio.AbstractEventLoop, litellm: Any, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Transports]:
    import openai._base_client

    # The SDK's wait before a retry.
    monkeypatch.setattr(openai._base_client, "INITIAL_RETRY_DELAY", 0.0)
    monkeypatch.setenv("ENDPOINT_KEY", "named-0123456789abcdef")
    server.seen.clear()
    server.status, server.drops = 200, False
    made = Transports()
    yield made
    loop.run_until_complete(made.close())


def failed(transports: Transports, loop: asyncio.AbstractEventLoop, provider: str, base: str) -> Decision:
    settings = ModelSettings(f"{provider}/m", FREE, None, base, "ENDPOINT_KEY", 10.0, transport="litellm")
    request = Request(settings.model, "a prompt", {"max_tokens": 5})
    sending = transports.of(settings, request.task).send(request, settings, Wire())
    with pytest.raises(Exception) as raised:
        loop.run_until_complete(asyncio.wait_for(sending, 30))
    return decide(raised.value)


@pytest.mark.parametrize(
    ("provider", "status"), [*zip(EAGER + OTHERS, itertools.cycle([429, 500, 503])), ("openai", 429), ("openai", 503)]
)
def test_an_error_is_asked_for_once(
    server: Recording, transports: Transports, loop: asyncio.AbstractEventLoop, provider: str, status: int
) -> None:
    server.status = status
    decision = failed(transports, loop, provider, server.base)
    assert len([one for one in server.seen if "a prompt" in one]) == 1
    assert decision.kind == ("rate_limit" if status == 429 else "transient")


@pytest.mark.parametrize("provider", [*EAGER[::5], *OTHERS[:3]])
def test_a_lost_connection_is_not_made_again(
    server: Recording, transports: Transports, loop: asyncio.AbstractEventLoop, provider: str
) -> None:
    server.drops = True
    decision = failed(transports, loop, provider, server.base)
    assert len([one for one in server.seen if "a prompt" in one]) == 1
    assert decision.kind == "ambiguous"


def posted(server: Recording, paths: list[str]) -> list[int | str]:
    """Status or error of requests to these paths, within one call."""
    found: list[int | str] = []
    call = Outgoing(ModelSettings("openai/m", FREE, None, server.base), 1 << 20)
    # The call's error is the same.
    with contextlib.suppress(ProviderError, UnreadableAnswer), httpx.Client() as client, watching(call):
        for path in paths:
            try:
                found.append(client.post(f"{server.base}{path}", json={}).status_code)
            except (ProviderError, UnreadableAnswer) as error:
                found.append(str(error).partition(" ")[0])
    return found


@pytest.mark.parametrize("library", ["httpx", "httpx2"])
def test_whichever_client_an_sdk_brings_is_watched(server: Recording, transports: Transports, library: str) -> None:
    client = pytest.importorskip(library)
    call = Outgoing(ModelSettings("openai/m", FREE), 1 << 20)
    with client.Client() as asking, pytest.raises(NoKey, match="the host is not openai's own"), watching(call):
        asking.post(f"{server.base}/chat/completions", json={})
    assert server.seen == []


def test_a_login_before_the_request_is_no_second_attempt(server: Recording, transports: Transports) -> None:
    assert posted(server, ["/token", "/chat/completions"]) == [200, 200]
    server.seen.clear()
    assert posted(server, ["/chat/completions", "/chat/completions?again=1"]) == [200, "litellm"] and len(server.seen) == 1


def test_an_error_that_is_to_be_tried_again_is_the_attempts_end(server: Recording, transports: Transports) -> None:
    server.status = 503
    assert posted(server, ["/chat/completions"] * 3) == ["HTTP"] * 3 and len(server.seen) == 1
