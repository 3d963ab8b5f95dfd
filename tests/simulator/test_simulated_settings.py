"""The simulated provider's settings, and the errors of invalid ones."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from summhay_ray.errors import UserError
from summhay_ray.simulator import Settings, parse_limit, read_keys

pytestmark = pytest.mark.core


@pytest.mark.parametrize(
    "fields",
    [
        *({"latency": latency} for latency in (-1.0, math.inf, math.nan)),
        *({name: value} for name, value in [("input_price", -2.5), ("rpm", 0.0), ("concurrency", -3), ("errors", 1.5)]),
        *({"token_skew": 0.95}, {"quota": -1.0}, {"no_usage": 0.6, "wrong_usage": 0.5}),
        *({"models": {"m": {"errors": 2.0}}}, {"errors": 0.6, "models": {"m": {"cut": 0.5}}}),
    ],
    ids=str,
)
def test_invalid_settings_are_refused_by_name(fields: dict[str, Any]) -> None:
    with pytest.raises(UserError) as refusal:
        Settings(**fields)
    named = {name for name in (*fields, *fields.get("models", {}).get("m", ())) if name != "models"}
    assert all(name in str(refusal.value) for name in named)


def test_fractions_may_add_up_to_1() -> None:
    assert Settings(errors=0.7, drops=0.2, cut=0.1).cut == 0.1


def test_a_model_differs_only_in_its_own_settings() -> None:
    settings = Settings(rpm=100, latency=1.0, models={"slow": {"latency": 9.0, "concurrency": 2.0}, "openai/other": {"rpm": 5.0}})
    assert settings.of("fast") is settings
    slow = settings.of("slow")
    assert (slow.latency, slow.concurrency, slow.rpm, slow.models) == (9.0, 2, 100, {})
    assert isinstance(slow.concurrency, int)
    assert settings.of("other").rpm == 5.0
    assert settings.of("slow").input_price == settings.input_price


def test_a_limit_names_a_model_and_its_settings() -> None:
    assert parse_limit("simulated:rpm=60") == ("simulated", {"rpm": 60.0})
    assert parse_limit("llama3:8b: input_tpm = 1e4 ,latency=.5") == ("llama3:8b", {"input_tpm": 1e4, "latency": 0.5})


@pytest.mark.parametrize("text", ["rpm=60", "m:", ":rpm=60", "m:rpn=60", "m:quota=1", "m:rpm=many"])
def test_an_unreadable_limit_is_refused(text: str) -> None:
    with pytest.raises(UserError):
        parse_limit(text)


def test_keys_are_read_line_by_line(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text("sk-one\n\n  sk-two \n", encoding="utf-8")
    assert read_keys(path) == {"sk-one", "sk-two"}
    path.write_text("\n", encoding="utf-8")
    with pytest.raises(UserError, match="the file has no key"):
        read_keys(path)
    with pytest.raises(UserError, match="cannot be read .FileNotFoundError."):
        read_keys(tmp_path / "none")
