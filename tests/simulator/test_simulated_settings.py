"""The simulated provider's settings, and the errors of invalid ones."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from summhay_ray.errors import UserError
from summhay_ray.simulator import Settings, parse_limit, read_keys
from summhay_ray.simulator_settings import FAULTS, PER_MODEL

pytestmark = pytest.mark.core


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"latency": -1.0}, "latency is -1.0; expected a number from 0"),
        ({"latency": math.inf}, "latency is inf; expected a number from 0"),
        ({"latency": math.nan}, "latency is nan; expected a number from 0"),
        ({"input_price": -2.5}, "input_price is -2.5; expected a number from 0"),
        ({"rpm": 0.0}, "rpm is 0; expected a number above 0, or none at all for no limit"),
        ({"concurrency": -3}, "concurrency is -3; expected a number above 0, or none at all for no limit"),
        ({"errors": 1.5}, "errors is 1.5; expected a fraction from 0 to 1"),
        ({"token_skew": 0.95}, "token_skew is 0.95; expected a fraction from 0 to 0.9"),
        ({"quota": -1.0}, "quota is -1.0; expected dollars from 0"),
        (
            {"no_usage": 0.6, "wrong_usage": 0.5},
            "no_usage, wrong_usage are 1.1 together; expected fractions of at most 1 together",
        ),
        ({"models": {"m": {"errors": 2.0}}}, "errors is 2; expected a fraction from 0 to 1"),
        (
            {"errors": 0.6, "models": {"m": {"cut": 0.5}}},
            f"{', '.join(FAULTS)} are 1.1 together; expected fractions of at most 1 together",
        ),
    ],
)
def test_invalid_settings_are_refused(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError) as refusal:
        Settings(**fields)
    assert str(refusal.value) == said


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


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("rpm=60", "limit 'rpm=60' cannot be read; expected MODEL:setting=number,... as in simulated:rpm=60"),
        ("m:", "limit 'm:' cannot be read; expected MODEL:setting=number,... as in simulated:rpm=60"),
        (":rpm=60", "limit ':rpm=60' cannot be read; expected MODEL:setting=number,... as in simulated:rpm=60"),
        ("m:rpn=60", "no setting of a model is named 'rpn'; did you mean 'rpm'?"),
        ("m:quota=1", "no setting of a model is named 'quota'; known: " + ", ".join(sorted(PER_MODEL))),
        ("m:rpm=many", "rpm of 'm' is 'many'; expected a number"),
    ],
)
def test_an_unreadable_limit_is_refused(text: str, said: str) -> None:
    with pytest.raises(UserError) as refusal:
        parse_limit(text)
    assert str(refusal.value) == said


def test_keys_are_read_line_by_line(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text("sk-one\n\n  sk-two \n", encoding="utf-8")
    assert read_keys(path) == {"sk-one", "sk-two"}
    path.write_text("\n", encoding="utf-8")
    with pytest.raises(UserError, match="the file has no key"):
        read_keys(path)
    with pytest.raises(UserError, match="cannot be read .FileNotFoundError."):
        read_keys(tmp_path / "none")
