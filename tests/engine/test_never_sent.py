"""A call that was never sent costs nothing, at the first start and at the next, for any reason."""

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
    ("environment", "models"),
    [
        (
            {"HTTPS_PROXY": "127.0.0.1:PORT"},
            [
                ("openai/a", "http://127.0.0.1:PORT/v1", "nobody answers at http://127.0.0.1:PORT ("),
                ("openai/b", "http://provider.invalid/v1", "nobody answers at http://provider.invalid:80 ("),
                ("anthropic/c", "http://provider.invalid/v1", "nobody answers at http://provider.invalid:80 ("),
                ("anthropic/d", "https://provider.invalid/v1", "the proxy 127.0.0.1:PORT of HTTPS_PROXY does not lead"),
            ],
        ),
        (
            {"ALL_PROXY": "socks5h://127.0.0.1:PORT"},
            [("openai/e", "https://provider.invalid/v1", "ALL_PROXY names a socks5h proxy")],
        ),
    ],
)
def test_what_is_never_sent_costs_nothing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    litellm: Any,
    environment: dict[str, str],
    models: list[tuple[str, str, str]],
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
        entries = [
            {"model": model, "api_base": base.replace("PORT", port), "api_key_env": "OWN_KEY", "price": price}
            for model, base, _ in models
        ]
        for _ in range(2):
            result, run = answered(tmp_path, 5.0, summarizers=entries)
            assert run.table("failures").height == N_QUERIES * len(models)
            for model, _, words in models:
                assert result.stopped_models[model].partition(": ")[2].startswith(words.replace("PORT", port))
            usd = api.status(result.run, str(tmp_path)).usd
            assert (usd["spent"], usd["reserved"], usd["uncertain"], usd["left"]) == (0, 0, 0, 5.0)
