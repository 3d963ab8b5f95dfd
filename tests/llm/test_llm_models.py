"""Prices: written, mapped, dated, or refused; the worst case is never less than the real one."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from summhay_ray.llm import Limits, ModelSettings, Price, Unpriced, find_price, find_window, models
from summhay_ray.llm.sampling import DEFAULT_MAX_TOKENS, bounded, longest_answer, unusable

pytestmark = pytest.mark.core

MAP: dict[str, dict[str, Any]] = {
    "known": {
        "input_cost_per_token": 2.5e-6,
        "output_cost_per_token": 1e-5,
        "cache_read_input_token_cost": 1.25e-6,
        "max_input_tokens": 128000,
    },
    "prov/known": {"input_cost_per_token": 3e-6, "output_cost_per_token": 1e-5, "max_tokens": 4096},
    "zero": {"input_cost_per_token": 0.0, "output_cost_per_token": 0.0, "max_input_tokens": 10},
    "half": {"input_cost_per_token": 1e-6},
    "tiered": {
        "input_cost_per_token": 1.25e-6,
        "input_cost_per_token_above_200k_tokens": 2.5e-6,
        "input_cost_per_token_above_200k_tokens_priority": 9e-6,
        "output_cost_per_token": 1e-5,
        "output_cost_per_token_above_200k_tokens": 1.5e-5,
        "cache_read_input_token_cost": 1.25e-7,
        "cache_read_input_token_cost_above_200k_tokens": 2.5e-7,
    },
}


@pytest.fixture
def price_map(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "_litellm_map", lambda: MAP)


@pytest.mark.usefixtures("price_map")
def test_where_a_price_comes_from() -> None:
    assert find_price("known", None) == Price(2.5, 10.0, 1.25)
    assert find_price("any/known", None) == Price(2.5, 10.0, 1.25)
    assert find_price("prov/known", None) == Price(3.0, 10.0)
    assert find_price("known", {"input_per_mtok": 1, "output_per_mtok": 2}) == Price(1, 2)
    assert find_price("zero", {"input_per_mtok": 0, "output_per_mtok": 0}) == Price(0, 0)
    assert find_price("offline/support", None) == Price(0, 0, 0) == find_price("replay/known", None)
    assert find_price("anthropic/claude-3-opus-20240229", None) == Price(15, 75)


@pytest.mark.usefixtures("price_map")
@pytest.mark.parametrize("model", ["zero", "half", "nobody/knows", "openai/offline", "claude-opus-4-1"])
def test_a_price_that_nobody_wrote_is_refused_in_one_line(model: str) -> None:
    with pytest.raises(Unpriced, match="write price: {input_per_mtok") as refused:
        find_price(model, None)
    assert model in str(refused.value) and "\n" not in str(refused.value)


@pytest.mark.usefixtures("price_map")
def test_longer_prompts_may_cost_more_a_token() -> None:
    price = find_price("tiered", None)
    assert price.micros(200_000, 1000) == 200_000 * 1.25 + 1000 * 10
    assert price.micros(200_001, 1000) == 500_003 + 1000 * 15  # 200,001 x 2.5 = 500,002.5, rounded up
    assert price.micros(300_000, 0, 100_000) == 200_000 * 2.5 + 100_000 * 0.25
    assert find_price("gemini-1.5-pro-preview-0514", None).micros(128_001, 10) == 128_001 * 7 + 10 * 21


def test_the_installed_map_is_read_and_has_no_free_paid_models() -> None:
    assert find_price("openai/gpt-4o", None) == Price(2.5, 10.0, 1.25)
    assert find_price("openai/gpt-4o-2024-05-13", None) == Price(5.0, 15.0)
    assert find_window("openai/gpt-4o", None) == 128000


def test_every_model_of_the_papers_has_a_price_and_a_window() -> None:
    for name in models._paper_models():
        price = find_price(f"some-provider/{name}", None)
        assert price.input_per_mtok > 0 and price.output_per_mtok > 0
        assert (find_window(name, None) or 0) >= 8000
    json.dumps(models._paper_models())


@pytest.mark.usefixtures("price_map")
def test_windows() -> None:
    assert find_window("known", None) == 128000 and find_window("known", 5) == 5
    assert find_window("prov/known", None) == 4096
    assert find_window("nobody/knows", None) is None
    assert find_window("offline/support", None) is None and find_window("replay/known", 7) == 7


@pytest.mark.parametrize(
    ("tokens", "micros"),
    [
        ((0, 0, 0), 0),
        ((1, 0, 0), 1),  # 0.15 is rounded up
        ((1000, 0, 0), 150),
        ((1000, 500, 0), 150 + 300),
        ((1000, 0, 1000), 75),
        ((1000, 500, 400), 90 + 30 + 300),
        ((10, 1, 0), 3),  # 1.5 + 0.6 = 2.1
    ],
)
def test_money_by_hand(tokens: tuple[int, int, int], micros: int) -> None:
    tokens_in, tokens_out, cached = tokens
    assert Price(0.15, 0.6, 0.075).micros(tokens_in, tokens_out, cached) == micros


def test_a_float_never_rounds_a_whole_price_up() -> None:
    assert 100 * 1.1 > 110 and Price(1.1, 0).micros(100, 0) == 110


PRICES = st.floats(0, 200)


@given(PRICES, PRICES, st.none() | PRICES, st.integers(0, 300_000), st.integers(0, 5000), st.data())
def test_the_worst_case_covers_every_real_one(
    price_in: float, price_out: float, cached_price: float | None, tokens_in: int, tokens_out: int, data: st.DataObject
) -> None:
    cached_rate = None if cached_price is None else min(cached_price, price_in)
    long = Price(price_in * 2, price_out * 2, cached_rate)
    settings = ModelSettings("openai/gpt-4o", Price(price_in, price_out, cached_rate, ((200_000, long),)))
    worst = settings.worst_micros(tokens_in, tokens_out)
    real_in = data.draw(st.integers(0, int(tokens_in * models.TOKEN_MARGIN)))
    real_out = data.draw(st.integers(0, tokens_out))
    assert worst >= settings.price.micros(real_in, real_out, data.draw(st.integers(0, real_in)))


def test_other_tokenizers_are_given_more_room() -> None:
    known, other = (ModelSettings(name, Price(1, 0)).worst_micros(1000, 0) for name in ("openai/gpt-4o-mini", "mistral/large"))
    assert (known, other) == (1150 + 16, 1500 + 16)


@pytest.mark.parametrize(
    ("sampling", "longest"),
    [
        ({}, DEFAULT_MAX_TOKENS),
        ({"max_tokens": None, "temperature": 0}, DEFAULT_MAX_TOKENS),
        ({"max_tokens": 10}, 10),
        ({"max_tokens": 10, "max_completion_tokens": 300}, 300),
        ({"max_completion_tokens": 7}, 7),
        ({"max_tokens": 10, "n": 3}, 30),
    ],
)
def test_no_answer_is_without_bounds(sampling: dict[str, Any], longest: int) -> None:
    assert unusable(sampling) == "" and longest_answer(sampling) == longest
    sent = bounded(sampling)
    assert any(sent.get(name) for name in ("max_tokens", "max_completion_tokens")) and longest_answer(sent) == longest


@pytest.mark.parametrize(
    "sampling", [{"max_tokens": 0}, {"max_tokens": "9"}, {"n": -1}, {"max_tokens": True}, {"stream": True}, {"num_retries": 2}]
)
def test_parameters_that_would_break_the_promises_are_refused(sampling: dict[str, Any]) -> None:
    problem = unusable(sampling)
    assert next(iter(sampling)) in problem and "\n" not in problem


def test_limits_are_off_until_somebody_writes_them() -> None:
    assert Limits() == Limits(None, None, None, 16)
