"""The URLs that belong to a provider: by whole domains, read alike by every parser that sees a request."""

from __future__ import annotations

import re
import string
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
import yarl
from hypothesis import given
from hypothesis import strategies as st

from summhay_ray.llm import FREE, ModelSettings, NoKey
from summhay_ray.llm.keys import key_for
from summhay_ray.llm.provider_table import PROVIDERS, SAMPLING, WITH_DOMAINS, place_of

pytestmark = pytest.mark.core

PLAIN = sorted((provider, domain) for provider, known in WITH_DOMAINS.items() for domain in known.domains if "*" not in domain)


def key_of(named: str | None, model: str, base: str | None = None) -> str | None:
    """The key in a request to an `api_base`; without one, to the provider's address in litellm."""
    return key_for(ModelSettings(model, FREE, api_base=base, api_key_env=named), base)


def test_a_provider_is_at_home_at_its_domains_and_below() -> None:
    for provider, domain in PLAIN:
        for url in (
            f"https://{domain}",
            f"https://{domain}/v1",
            f"HTTPS://eu.{domain.upper()}:443/v1/",
            f"https://a.b.{domain}/",
        ):
            assert place_of(provider, url) == "own", (provider, url)


@pytest.mark.parametrize(
    ("provider", "url"),
    [
        ("openai", "https://evil-openai.attacker.net/v1"),
        ("openai", "https://api.openai.com.attacker.example/v1"),
        ("openai", "https://evilapi.openai.com/v1"),
        ("openai", "https://api.openai.com@evil.example/v1"),
        ("openai", "https://evil.example/https://api.openai.com/v1"),
        ("openai", "https://evil.example#api.openai.com"),
        ("openai", "https://api.openai.com#@evil.example/"),
        ("openai", "https://api.openai.com\\@evil.example/"),
        ("openai", "https://evil.example%2f.api.openai.com/"),
        ("openai", "https://api.openai.com./v1"),
        ("openai", "https://api.openai.com/v1\n"),
        ("openai", "https://api.openai.com\x00.evil.example/"),
        ("openai", "https:///api.openai.com/v1"),
        ("openai", "//api.openai.com/v1"),
        ("openai", "ftp://api.openai.com/v1"),
        ("openai", "https://\u0430pi.openai.com/v1"),
        ("openai", "https://api.openai\u3002com/v1"),
        ("openai", "https://xn--pi-7kc.xn--penai-3we.com/v1"),
        ("openai", "https://[::ffff:127.0.0.1]/v1"),
        ("openai", "http://127.0.0.2:8000/v1"),
        ("openai", "http://localhost.evil.example/v1"),
        ("openai", "http://127.0.0.1@evil.example/v1"),
        ("xai", "https://api.x.ai.example/v1"),
        ("groq", "https://api.openai.com/v1"),
        ("azure", "https://openai.azure.com.evil.example"),
        ("bedrock", "https://evil.s3.amazonaws.com"),
        ("bedrock", "https://bedrock-runtime.evil.example.amazonaws.com"),
        ("vertex_ai", "https://storage.googleapis.com/evil"),
        ("nobodys", "https://api.nobodys.com/v1"),
    ],
)
def test_a_look_alike_is_elsewhere_and_gets_no_key(provider: str, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"{provider.upper()}_API_KEY", "sk-own-0123456789")
    assert place_of(provider, url) == "elsewhere" and key_of(None, f"{provider}/m", url) is None


@pytest.mark.parametrize("base", ["http://127.0.0.1:8000/v1", "http://localhost/v1", "http://[::1]:8000/v1", "https://LOCALHOST"])
def test_this_machine_gets_the_providers_key(base: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-own-0123456789")
    assert key_of(None, "openai/m", base) == "sk-own-0123456789"


@pytest.mark.parametrize("named", [None, "NAMED"])
def test_no_key_goes_to_a_provider_in_clear_text(named: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-own-0123456789")
    monkeypatch.setenv("NAMED", "sk-own-0123456789")
    with pytest.raises(NoKey, match=r"api_base http://api\.openai\.com/v1 .* no key goes there in clear text"):
        key_of(named, "openai/m", "http://api.openai.com/v1")
    monkeypatch.delenv("OPENAI_API_KEY")
    assert key_of(None, "openai/m", "http://api.openai.com/v1") is None


def test_every_name_of_a_providers_key_is_read_in_its_order(monkeypatch: pytest.MonkeyPatch) -> None:
    for provider, known in WITH_DOMAINS.items():
        for name in known.variables:
            monkeypatch.delenv(name, raising=False)
        for name in reversed(known.variables):
            monkeypatch.setenv(name, f"key-of-{name}")
            assert key_of(None, f"{provider}/m") == f"key-of-{name}"


def test_the_table_is_litellms(litellm: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = 0
    # These log in first.
    for provider in sorted(set(WITH_DOMAINS) - {"github_copilot", "chatgpt"}):
        try:
            _, _, _, base = litellm.get_llm_provider(f"{provider}/m", api_key="any")
        except litellm.BadRequestError:
            # litellm does not know this provider of ours, so it is called directly.
            continue
        if base is not None:
            seen += 1
            assert place_of(provider, base) == "own", (provider, base)
            assert PROVIDERS[provider].base in ("", base.rstrip("/"))
    assert seen > 50
    assert list(PROVIDERS) == sorted(PROVIDERS) and not any(known.anywhere for known in WITH_DOMAINS.values())


def test_the_page_about_specs_lists_the_fields_that_litellm_gets() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "spec.md").read_text(encoding="utf-8")
    rows = [set(re.findall(r"`([\w-]+)`", line)) for line in page.partition("### Extra")[2].partition("\n#")[0].splitlines()]
    assert SAMPLING in rows
    for provider, known in PROVIDERS.items():
        own = known.extra - SAMPLING - (set() if known.login else {"extra_body"})
        (told,) = [row for row in rows if provider in row] or [{provider}]
        assert own <= told and (told - own) <= set(PROVIDERS), provider


HOSTS = st.sampled_from(["api.openai.com", "eu.api.openai.com", "127.0.0.1", "localhost", "[::1]", "evil.example", "openai.com"])
ODD = st.text("@\\/?#:.%[] \t\r\n\x00\u00ad\u3002\uff0e\u2024\u0430\uff0f-_~;&=1a" + string.punctuation, max_size=4)
URLS = st.builds(
    "{}{}{}{}{}{}".format, ODD, st.sampled_from(["https://", "http://", "HTTPS://", "https:/", "//"]), ODD, HOSTS, ODD, HOSTS
) | st.builds("https://{}{}{}/v1{}".format, ODD, HOSTS, ODD, ODD)


@given(URLS)
def test_what_is_at_home_is_the_same_host_to_every_parser(url: str) -> None:
    place = place_of("openai", url)
    if place == "elsewhere":
        return
    try:
        hosts = {urlsplit(url).hostname, yarl.URL(f"{url.rstrip('/')}/chat").host, httpx.URL(url).host}
    except (ValueError, httpx.InvalidURL):
        # An invalid port: nobody connects.
        return
    assert len(hosts) == 1
    host = hosts.pop() or ""
    assert host in ("127.0.0.1", "::1", "localhost") if place == "here" else host.endswith("api.openai.com")


LABEL = st.text(string.ascii_lowercase + string.digits + "-", min_size=1, max_size=8).filter(
    lambda label: label.strip("-") == label
)


@given(
    st.sampled_from(PLAIN),
    LABEL,
    st.sampled_from(["{d}.{x}.example", "{x}{d}", "{x}-{d}", "{d}{x}", "{x}.{d}.", "{d}@{x}.example"]),
)
def test_a_domain_with_something_about_it_is_another(known: tuple[str, str], label: str, shape: str) -> None:
    provider, domain = known
    if provider.startswith("vertex_ai"):
        return  # REGION-aiplatform.googleapis.com is a domain of its own.
    if any(name == provider and domain.endswith(f".{parent}") for name, parent in PLAIN):
        return  # oai.endpoints.kepler.ai.cloud.ovh.net: domains below its parent belong to it, too.
    assert place_of(provider, f"https://{shape.format(d=domain, x=label)}/v1") == "elsewhere"
