"""On the wire: no secret of this machine reaches a foreign endpoint, for any provider and any sender."""

from __future__ import annotations

import asyncio
import base64
import os
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from gateway_room import Room
from recording_server import Recording, recording

from summhay_ray.llm import FREE, ModelSettings, NoKey, Request, Task
from summhay_ray.llm.bodies import ProviderError
from summhay_ray.llm.gateway import Transports
from summhay_ray.llm.provider_table import PROVIDERS, SECRET_VARIABLES, WITH_DOMAINS, own_variables
from summhay_ray.llm.retry import Decision, decide
from summhay_ray.llm.via_litellm import load_litellm
from summhay_ray.outcome import Failed
from summhay_ray.routes import Wire

pytestmark = pytest.mark.core

NAMED = "NAMED_FOR_THE_ENDPOINT"
NAMED_KEY = "named-0123456789abcdef"

CLOUDS = {provider for provider, known in WITH_DOMAINS.items() if not known.variables}
LOGINS = {provider for provider, known in WITH_DOMAINS.items() if known.login}
OTHERS = {"bytez", "replicate"}
"""litellm sends to their own address whatever `api_base` says: not sent at all."""

SILENT = {"clarifai", "gdc", "gradient_ai", "openai_like", "predibase", "ragflow", "triton", "vllm"} | {*("langgraph", "v0")}
"""litellm wants more than a plain `api_base` of these (a package, a tenant, another path or name), or takes no length of an
answer, and sends nothing."""

KEYLESS = {"infinity", "oobabooga", "petals", "triton"}
"""litellm sends them no key."""

USUAL = {"anthropic", "azure", "bedrock", "bytez", "clarifai", "cohere_chat", "gemini", "groq", "mistral", "ollama", "openai"} | {
    *("jina_ai", "openrouter", "replicate", "together_ai", "vertex_ai", "vllm")
}
"""Asked each time, one of every way that litellm goes among them; all others by `make soak`."""


def seldom(cases: Iterable[tuple[str, ...]]) -> list[Any]:
    """Cases, the first of each a provider."""
    return [pytest.param(*case, marks=[] if case[0] in USUAL else pytest.mark.soak) for case in cases]


CHATTING = {provider for provider, known in PROVIDERS.items() if "chat" in known.services}
SPEAKING = seldom(
    [
        *((provider, "direct") for provider in sorted(CHATTING)),
        *((provider, "litellm") for provider in sorted(CHATTING - CLOUDS - OTHERS - SILENT)),
    ]
)
SERVING = seldom(
    (provider, task)
    for provider, known in sorted(PROVIDERS.items())
    for task in ("embed", "rerank")
    if task in known.translated or (provider, task) in {("openai", "embed"), ("jina_ai", "rerank")}
)
"""What litellm asks for embeddings and rerankings, and two services that it asks only if a spec says so."""

_NAMES = re.compile(r'"([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)"')
_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|CRED|JWT|ORG|PROJECT|ACCOUNT|CLIENT_ID|TENANT|USERNAME")
_SETTING = re.compile(r"BASE|URL|ENDPOINT|FILE|PATH|HOST|PROXY|MAX|TTL|LITELLM|TOKENS|DEFAULT|CACHE")
_SDKS = {"OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_ADMIN_KEY", "OPENAI_CUSTOM_HEADERS", "ANTHROPIC_CUSTOM_HEADERS"} | {
    *("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "HF_TOKEN")
}
_ENTRA = {"AZURE_CLIENT_ID", "AZURE_TENANT_ID"}
"""With these, litellm asks Microsoft for a token before anything else."""


def secret_names() -> list[str]:
    """Every variable with a secret or an account in litellm's source, and those of the SDKs."""
    root = Path(load_litellm().__file__).parent
    files = [root / "main.py", root / "utils.py", *(root / "litellm_core_utils").glob("*.py"), *(root / "llms").rglob("*.py")]
    found = {name for file in files for name in _NAMES.findall(file.read_text(encoding="utf-8"))}
    found = {name for name in found if _SECRET.search(name) and not _SETTING.search(name)}
    return sorted((found | _SDKS | {name for known in WITH_DOMAINS.values() for name in known.variables}) - _ENTRA)


_HOLDS_A_KEY = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|CREDENTIALS?|JWT)$")
_KINDS = {"AZURE_CREDENTIAL", "API_KEY", "KEYPAIR_JWT", "PROGRAMMATIC_ACCESS_TOKEN", "AZURE_SPEECH_API_KEY"} | {
    *("AGENTCORE_GATEWAY_TOKEN", "BING_GROUNDING_TOKEN")
}
"""Names of kinds, not variables; and keys of services that are neither asked for chat, nor for vectors, nor for scores."""


def test_every_key_that_litellm_reads_for_a_provider_is_hidden() -> None:
    root = Path(load_litellm().__file__).parent / "llms"
    files = [file for name in PROVIDERS for file in (root / name).rglob("*.py")]
    found = {name for file in files for name in _NAMES.findall(file.read_text(encoding="utf-8")) if _HOLDS_A_KEY.search(name)}
    assert len(found) > 80 and not found - SECRET_VARIABLES - _KINDS


@pytest.fixture(scope="module", autouse=True)
def canaries(litellm: Any) -> Iterator[None]:
    """A distinct value in each variable, and in each of litellm's globals that hold a key."""
    with pytest.MonkeyPatch.context() as patch:
        for name in secret_names():
            value = f"canary-{name}-0123456789"
            patch.setenv(name, f"x-mine: {value}" if name.endswith("HEADERS") else value)
        patch.setenv(NAMED, NAMED_KEY)
        for name, value in vars(litellm).items():
            if value is None and re.fullmatch(r"api_key|organization|\w+_key", name):
                patch.setattr(litellm, name, f"canary-global-{name}-0123456789")
        yield


@pytest.fixture(scope="module")
def far() -> Iterator[Recording]:
    with recording("127.0.0.2") as server:
        yield server


@pytest.fixture(scope="module")
def near() -> Iterator[Recording]:
    with recording("127.0.0.1") as server:
        yield server


@pytest.fixture(scope="module")
def transports(loop: asyncio.AbstractEventLoop) -> Iterator[Transports]:
    made = Transports()
    yield made
    loop.run_until_complete(made.close())


Ask = Callable[..., Exception | None]


@pytest.fixture
def ask(transports: Transports, loop: asyncio.AbstractEventLoop) -> Ask:
    """`ask(provider, base, transport, named, task)`: one attempt of a worker; the error, if any."""

    def asked(provider: str, base: str | None, transport: str, named: str | None = None, task: Task = "chat") -> Exception | None:
        settings = ModelSettings(f"{provider}/m", FREE, None, base, named, 60.0, transport=transport)  # type: ignore[arg-type]

        async def send() -> None:
            request = Request(settings.model, "a prompt", {"max_tokens": 5})
            if task != "chat":
                request = Request(settings.model, (), task=task, inputs=("a prompt", "a text"))
            await asyncio.wait_for(transports.of(settings, request.task).send(request, settings, Wire()), 90)

        try:
            loop.run_until_complete(send())
        # An attempt ends with the server's one answer; an SDK's reaction to it is not tested here.
        except Exception as error:  # noqa: BLE001
            return error
        return None

    return asked


def told(server: Recording) -> str:
    """All received texts, with the decoded base64 in them."""
    text = "\n".join(server.seen)
    coded = re.findall(r"(?i)basic ([a-z0-9+/=]+)", text)
    return text + "".join(base64.b64decode(one).decode("latin-1") for one in coded)


@pytest.mark.parametrize("named", [None, NAMED])
@pytest.mark.parametrize(("provider", "transport"), SPEAKING)
def test_a_foreign_endpoint_gets_the_key_that_is_named_and_nothing_else(
    ask: Ask, far: Recording, provider: str, transport: str, named: str | None
) -> None:
    far.seen.clear()
    error = ask(provider, far.base, transport, named)
    if transport == "litellm" and provider in LOGINS and not named:
        assert isinstance(error, NoKey) and far.seen == []
        return
    text = told(far)
    assert "a prompt" in text.replace("+", " ")
    own = {f"canary-{name}-0123456789" for name in (f"{provider.upper()}_API_KEY",) if PROVIDERS[provider].anywhere and not named}
    assert set(re.findall(r"canary-\w+-[0-9]+", text)) <= own
    assert not named or NAMED_KEY in text or transport == "litellm" and provider in KEYLESS


@pytest.mark.parametrize("named", [None, NAMED])
@pytest.mark.parametrize(("provider", "task"), SERVING)
def test_the_same_holds_for_embeddings_and_rerankings(
    ask: Ask, far: Recording, provider: str, task: Task, named: str | None
) -> None:
    far.seen.clear()
    error = ask(provider, far.base, "litellm", named, task)
    if provider in LOGINS and (not named or provider in CLOUDS):
        assert isinstance(error, NoKey) and far.seen == []
        return
    text = told(far)
    assert "a prompt" in text
    own = {f"canary-{provider.upper()}_API_KEY-0123456789"} if PROVIDERS[provider].anywhere and not named else set()
    assert set(re.findall(r"canary-\w+-[0-9]+", text)) <= own
    assert not named or NAMED_KEY in text or provider in KEYLESS


def test_no_service_that_is_asked_directly_gets_the_key_of_another(ask: Ask, near: Recording, far: Recording) -> None:
    for provider, known in PROVIDERS.items():
        own = [os.environ[name] for name in own_variables(provider) if name in os.environ][:1]
        cases: list[tuple[Recording, Task, str | None]] = [(far, "embed", None), (near, "embed", None)]
        cases += [(far, "rerank", None), (far, "rerank", NAMED)]
        for server, task, named in cases:
            server.seen.clear()
            ask(provider, server.base, "direct", named, task)
            (request,) = server.seen
            keys = re.findall(r"(?im)^authorization: bearer (.*?)\s*$", request)
            assert keys == ([NAMED_KEY] if named else own if server is near or known.anywhere else []), provider
            assert "canary" not in request.replace(keys[0] if keys else "-", "")


def test_a_service_without_an_address_is_not_asked_at_anothers(ask: Ask) -> None:
    """The key goes with the request, and no provider's request goes to another provider."""
    for provider, known in PROVIDERS.items():
        if not known.base:
            for named in (None, NAMED):
                error = ask(provider, None, "direct", named, "rerank")
                assert isinstance(error, NoKey) and decide(error).kind == "model" and "add api_base: URL" in str(error)


@pytest.mark.parametrize("named", [None, NAMED])
@pytest.mark.parametrize(("provider",), seldom((provider,) for provider in sorted(CLOUDS | OTHERS | SILENT)))
def test_what_is_not_sent_to_a_plain_endpoint_gets_no_secret_there(
    ask: Ask, far: Recording, provider: str, named: str | None
) -> None:
    far.connections = 0
    error = ask(provider, far.base, "litellm", named)
    assert far.connections == 0 and error is not None
    if provider in CLOUDS:
        assert isinstance(error, NoKey) and decide(error).kind == "model"
    if provider in OTHERS:
        assert isinstance(error, NoKey) and f"the host is not the api_base of {provider}/m" in str(error)


@pytest.mark.parametrize(("provider", "transport"), SPEAKING)
def test_no_redirect_is_followed(ask: Ask, near: Recording, far: Recording, provider: str, transport: str) -> None:
    far.connections, near.status, near.location = 0, 307, far.base.removesuffix("/v1")
    near.seen.clear()
    error = ask(provider, near.base, transport, NAMED)
    assert far.connections == 0
    assert len(near.seen) == 1 and isinstance(error, ProviderError) and decide(error) == Decision("model", "bad_api_base")
    assert str(error).startswith(f"HTTP 307: the endpoint redirects to '{near.location}/")


@pytest.mark.parametrize("transport", ["direct", "litellm"])
@pytest.mark.parametrize("status", [301, 307])
def test_a_model_whose_endpoint_redirects_is_given_up(
    near: Recording, far: Recording, tmp_path: Path, loop: asyncio.AbstractEventLoop, transport: str, status: int
) -> None:
    far.connections, near.status, near.location = 0, status, far.base.removesuffix("/v1")
    near.seen.clear()
    settings = ModelSettings("openai/m", FREE, None, near.base, NAMED, 60.0, transport=transport)  # type: ignore[arg-type]
    room = Room(tmp_path / "store", [settings], loop)
    try:
        outcome, _ = room.told(Request("openai/m", "a prompt", {"max_tokens": 5}))
        again, _ = room.told(Request("openai/m", "another", {"max_tokens": 5}))
    finally:
        loop.run_until_complete(room.gateway.close())
    assert isinstance(outcome, Failed) and outcome.error == "bad_api_base" and "redirects to 'http://127.0.0.2" in outcome.message
    assert isinstance(again, Failed) and again.error == "bad_api_base"
    assert len(near.seen) == 1 and far.connections == 0


def test_without_an_api_base_a_key_goes_to_no_place_that_the_environment_names(
    ask: Ask, far: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    far.connections = 0
    monkeypatch.setenv("OPENAI_BASE_URL", far.base)
    error = ask("openai", None, "litellm")
    assert isinstance(error, NoKey) and far.connections == 0 and "127.0.0.2" in str(error)


LOGIN_ELSEWHERE = {
    "bedrock": {"aws_sts_endpoint": "BASE", "aws_role_name": "arn:aws:iam::1:role/r", "aws_session_name": "s"},
    "sagemaker": {"sagemaker_base_url": "BASE"},
    "vertex_ai": {"vertex_credentials": {"type": "service_account", "token_uri": "BASE"}},
    "oci": {"oci_key_file": "/proc/self/environ"},
    "openai": {"base_model": "BASE"},
}


@pytest.mark.parametrize("provider", LOGIN_ELSEWHERE)
def test_no_parameter_leads_a_login_elsewhere(
    far: Recording, tmp_path: Path, loop: asyncio.AbstractEventLoop, provider: str
) -> None:
    """boto3 and google-auth bypass httpx: parameters with another address never reach litellm."""
    far.connections = 0
    sampling = {name: far.base if value == "BASE" else value for name, value in LOGIN_ELSEWHERE[provider].items()}
    room = Room(tmp_path / "store", [ModelSettings(f"{provider}/m", FREE, timeout_s=60.0)], loop)
    try:
        outcome, _ = room.told(Request(f"{provider}/m", "a prompt", sampling))
    finally:
        loop.run_until_complete(room.gateway.close())
    assert isinstance(outcome, Failed) and outcome.error == "unusable_sampling" and far.connections == 0


def test_a_service_that_is_asked_past_httpx_is_not_offered(tmp_path: Path, loop: asyncio.AbstractEventLoop) -> None:
    """litellm asks SageMaker for embeddings through boto3."""
    room = Room(tmp_path / "store", [ModelSettings("sagemaker/m", FREE, timeout_s=60.0)], loop)
    try:
        asked = Request("sagemaker/m", (), task="embed", inputs=("a text",))
        outcome, _ = room.told(asked)
    finally:
        loop.run_until_complete(room.gateway.close())
    assert isinstance(outcome, Failed) and outcome.error == "no_such_service"


def test_no_field_that_litellm_is_given_names_an_address_or_a_secret() -> None:
    words = re.compile(
        r"url|uri|base$|host|endpoint$|token|secret|credential|password|file|profile|role|sts|callback|header|client|proxy"
    )
    for provider, known in PROVIDERS.items():
        assert not [name for name in known.extra if words.search(name)], provider
        assert known.login or "extra_body" in known.extra


def test_a_key_for_a_proxy_of_ones_own_does_not_go_to_a_provider(ask: Ask) -> None:
    """litellm sends requests to OpenAI if a proxy has no address."""
    error = ask("litellm_proxy", None, "litellm", None, "embed")
    assert isinstance(error, NoKey) and "a request to api.openai.com was not sent" in str(error)


def test_a_provider_outside_the_table_is_not_asked_by_litellm(ask: Ask, far: Recording) -> None:
    """aiohttp_openai bypasses httpx."""
    far.connections = 0
    for provider in ("aiohttp_openai", "nobodys"):
        for base in (None, far.base):
            error = ask(provider, base, "litellm", NAMED)
            assert isinstance(error, NoKey) and "its provider is unknown" in str(error)
    assert far.connections == 0


def test_without_a_key_a_provider_is_not_asked(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MISTRAL_API_KEY")
    error = ask("mistral", None, "litellm")
    assert isinstance(error, NoKey) and "MISTRAL_API_KEY" in str(error)


def test_a_secret_within_a_request_keeps_the_request_here(ask: Ask, far: Recording) -> None:
    far.connections = 0
    secret = os.environ["GROQ_API_KEY"]
    error = ask("openai", f"{far.base}/{secret}", "litellm")
    assert isinstance(error, NoKey) and "holds a secret of the worker's environment" in str(error) and far.connections == 0


def test_a_model_whose_provider_nobody_knows_is_not_guessed(transports: Transports, loop: asyncio.AbstractEventLoop) -> None:
    settings = ModelSettings("mistral-large", FREE)
    with pytest.raises(NoKey, match="mistral-large: its provider is unknown"):
        request = Request("mistral-large", "a prompt", {})
        loop.run_until_complete(transports.of(settings, request.task).send(request, settings, Wire()))
