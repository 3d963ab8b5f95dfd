"""A call of which nothing was sent costs nothing, at the first start and at the next, whatever kept it here."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest
from inline_runs import N_QUERIES, answered

from summhay_ray import api
from summhay_ray.llm import gateway

pytestmark = pytest.mark.core


@pytest.mark.parametrize(
    ("model", "base", "environment", "words"),
    [
        ("openai/m", "http://127.0.0.1:PORT/v1", {}, "nobody answers at http://127.0.0.1:PORT ("),
        ("openai/m", "http://provider.invalid/v1", {}, "nobody answers at http://provider.invalid:80 ("),
        ("anthropic/m", "http://provider.invalid/v1", {}, "nobody answers at http://provider.invalid:80 ("),
        (
            "anthropic/m",
            "https://provider.invalid/v1",
            {"HTTPS_PROXY": "127.0.0.1:PORT"},
            "the proxy 127.0.0.1:PORT of HTTPS_PROXY does not lead",
        ),
        ("openai/m", "https://provider.invalid/v1", {"ALL_PROXY": "socks5h://127.0.0.1:PORT"}, "ALL_PROXY names a socks5h proxy"),
    ],
)
def test_what_is_never_sent_costs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, litellm: Any, model: str, base: str, environment: dict[str, str], words: str
) -> None:
    for name in ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(gateway, "BACKOFF_S", 0.0)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = str(taken.getsockname()[1])
        for name, value in {"OWN_KEY": "sk-0123456789", **environment}.items():
            monkeypatch.setenv(name, value.replace("PORT", port))
        price = {"input_per_mtok": 100.0, "output_per_mtok": 100.0}
        entry = {"model": model, "api_base": base.replace("PORT", port), "api_key_env": "OWN_KEY", "price": price}
        for _ in range(2):
            result, _ = answered(tmp_path, 5.0, summarizers=[entry])
            most = result.commonest_failure
            assert most is not None and most["count"] == N_QUERIES and most["message"].startswith(words.replace("PORT", port))
            usd = api.status(result.run, str(tmp_path)).usd
            assert (usd["spent"], usd["reserved"], usd["uncertain"], usd["left"]) == (0, 0, 0, 5.0)
