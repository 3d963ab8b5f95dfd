"""Prices are written, mapped, dated, or refused; the worst case is never below the real cost. And how a model is reached."""

from __future__ import annotations

import ast
import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from summhay_ray.llm import prices, provider_table
from summhay_ray.llm.model_settings import ModelSettings, transport_of
from summhay_ray.llm.prices import FREE, Price, Unpriced, find_price, find_window, may_reason
from summhay_ray.llm.provider_table import wire_name
from summhay_ray.llm.request import DEFAULT_MAX_TOKENS, Sampling, Task, Usage, longest_answer, unusable, with_max_tokens
from summhay_ray.text import count_tokens as count

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
    "hit": {"input_cost_per_token": 1e-6, "output_cost_per_token": 2e-6, "input_cost_per_token_cache_hit": 1e-7}
    | {"cache_creation_input_token_cost": 0.0},
    "thinker": {"input_cost_per_token": 1e-6, "output_cost_per_token": 2e-6, "output_cost_per_reasoning_token": 4e-6}
    | {"supports_reasoning": True},
    "cheap thinker": {"input_cost_per_token": 1e-6, "output_cost_per_token": 2e-6, "output_cost_per_reasoning_token": 1e-6},
    "tiered": {
        "input_cost_per_token": 1.25e-6,
        "input_cost_per_token_above_200k_tokens": 2.5e-6,
        "input_cost_per_token_above_200k_tokens_priority": 9e-6,
        "output_cost_per_token": 1e-5,
        "output_cost_per_token_above_200k_tokens": 1.5e-5,
        "cache_read_input_token_cost": 1.25e-7,
        "cache_read_input_token_cost_above_200k_tokens": 2.5e-7,
        "cache_creation_input_token_cost": 1.5e-6,
    },
    "ranges": {
        "tiered_pricing": [
            {"range": [0, 1000.0], "input_cost_per_token": 1e-6, "output_cost_per_token": 5e-6},
            {"range": [1000.0, 2000.0], "input_cost_per_token": 2e-6, "output_cost_per_token": 9e-6},
        ]
    },
}


@pytest.fixture
def price_map(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prices, "_litellm_map", lambda: MAP)


@pytest.mark.usefixtures("price_map")
def test_where_a_price_comes_from() -> None:
    assert find_price("known", None) == Price(2.5, 10.0, 1.25)
    assert find_price("any/known", None) == Price(2.5, 10.0, 1.25)
    assert find_price("prov/known", None) == Price(3.0, 10.0)
    assert find_price("known", {"input_per_mtok": 1, "output_per_mtok": 2}) == Price(1, 2)
    written = {"input_per_mtok": 1, "output_per_mtok": 2, "cached_input_per_mtok": 0.5, "cache_write_per_mtok": 3}
    assert find_price("known", written) == Price(1, 2, 0.5, 3)
    assert find_price("zero", {"input_per_mtok": 0, "output_per_mtok": 0}) is FREE
    assert find_price("offline/support", None) is FREE is find_price("replay/known", None)
    assert find_price("hit", None) == Price(1, 2, 0.1), "a zero in a map is no price of writing to the cache"
    assert find_price("thinker", None) == Price(1, 2, reasoning_per_mtok=4)
    assert find_price("cheap thinker", None) == Price(1, 2)
    assert find_price("ranges", None) == Price(1, 5, tiers=((1000, Price(2, 9)),))
    assert find_price("anthropic/claude-3-opus-20240229", None) == Price(15, 75)


@pytest.mark.usefixtures("price_map")
@pytest.mark.parametrize("model", ["zero", "half", "nobody/knows", "openai/offline", "claude-opus-4-1"])
def test_a_price_that_nobody_wrote_is_refused_in_one_line(model: str) -> None:
    with pytest.raises(Unpriced, match="add price: {input_per_mtok") as refused:
        find_price(model, None)
    assert model in str(refused.value) and "\n" not in str(refused.value)


@pytest.mark.usefixtures("price_map")
def test_longer_prompts_may_cost_more_a_token() -> None:
    price = find_price("tiered", None)
    assert price.micros(Usage(200_000, 1000)) == 200_000 * 1.25 + 1000 * 10
    assert price.micros(Usage(200_001, 1000)) == 500_003 + 1000 * 15  # 200,001 x 2.5 = 500,002.5, rounded up
    assert price.micros(Usage(300_000, 0, 100_000)) == 200_000 * 2.5 + 100_000 * 0.25
    # The map gives no price for writing in the longer tier: it is at least the input price there.
    assert price.micros(Usage(300_000, 0, 0, 100_000)) == 300_000 * 2.5
    assert price.micros(Usage(100_000, 0, 0, 50_000)) == 50_000 * 1.25 + 50_000 * 1.5
    assert find_price("gemini-1.5-pro-preview-0514", None).micros(Usage(128_001, 10)) == 128_001 * 7 + 10 * 21


def test_the_installed_map_is_read_and_has_no_free_paid_models() -> None:
    assert find_price("openai/gpt-4o", None) == Price(2.5, 10.0, 1.25)
    assert find_price("openai/gpt-4o-2024-05-13", None) == Price(5.0, 15.0)
    assert find_window("openai/gpt-4o", None) == 128000


def test_every_model_of_the_papers_has_a_price_and_a_window() -> None:
    for name in prices._paper_models():
        price = find_price(f"some-provider/{name}", None)
        assert price.input_per_mtok > 0 and price.output_per_mtok > 0
        assert (find_window(name, None) or 0) >= 8000
    json.dumps(prices._paper_models())


@pytest.mark.usefixtures("price_map")
def test_windows() -> None:
    assert find_window("known", None) == 128000 and find_window("known", 5) == 5
    assert find_window("prov/known", None) == 4096
    assert find_window("nobody/knows", None) is None
    assert find_window("offline/support", None) is None and find_window("replay/known", 7) == 7


@pytest.mark.parametrize(
    ("usage", "micros", "saved"),
    [
        (Usage(0, 0), 0, 0),
        (Usage(1, 0), 1, 0),  # 0.15 is rounded up.
        (Usage(1000, 0), 150, 0),
        (Usage(1000, 500), 150 + 300, 0),
        (Usage(1000, 0, 1000), 75, 75),
        (Usage(1000, 500, 400), 90 + 30 + 300, 30),
        (Usage(10, 1), 3, 0),  # 1.5 + 0.6 = 2.1
        (Usage(1000, 0, 0, 1000), 200, -50),  # More expensive than without a cache.
        (Usage(1000, 0, 500, 100), 60 + 37.5 + 20 + 0.5, 32),  # 118; 150 without: 32
        (Usage(1000, 0, 900, 900), 68 + 20, 62),  # 67.5 + 20 = 87.5; at most the rest can be written.
        (Usage(0, 100, 0, 0, 60), 40 * 0.6 + 60 * 0.9, 0),
        (Usage(0, 100, 0, 0, 600), 90, 0),  # Reasoning cannot exceed the answer.
    ],
)
def test_money_by_hand(usage: Usage, micros: int, saved: int) -> None:
    price = Price(0.15, 0.6, 0.075, 0.2, reasoning_per_mtok=0.9)
    assert (price.micros(usage), price.saved_micros(usage)) == (micros, saved)


RATES = st.floats(0, 200)
SOME_RATES = st.none() | RATES


@st.composite
def some_prices(draw: st.DrawFn) -> Price:
    """Any price, plausible or not: tiers that get cheaper, caches more expensive than input."""
    rates = [(draw(RATES), draw(RATES), draw(SOME_RATES), draw(SOME_RATES), (), draw(SOME_RATES)) for _ in range(3)]
    marks = sorted(draw(st.lists(st.integers(0, 400_000), max_size=2, unique=True)))
    base = Price(*rates[0])
    return Price(
        *rates[0][:4], tuple((mark, Price(*one)) for mark, one in zip(marks, rates[1:], strict=False)), base.reasoning_per_mtok
    )


@given(
    some_prices(), st.sampled_from(["openai/gpt-4o", "mistral/large"]), st.integers(0, 300_000), st.integers(1, 5000), st.data()
)
def test_every_real_price_lies_between_the_least_and_the_worst(
    price: Price, model: str, tokens_in: int, tokens_out: int, data: st.DataObject
) -> None:
    settings = ModelSettings(model, price)
    fewest, most = -int(-tokens_in // settings.tokenizer_margin), int(tokens_in * settings.tokenizer_margin)
    real_in, real_out = data.draw(st.integers(fewest, most)), data.draw(st.integers(1, tokens_out))
    usage = Usage(real_in, real_out, *(data.draw(st.integers(0, real_in)) for _ in range(2)), data.draw(st.integers(0, real_out)))
    assert settings.least_micros(tokens_in) <= price.micros(usage) <= settings.worst_micros(tokens_in, tokens_out)
    assert settings.least_micros(tokens_in) <= settings.expected_micros(tokens_in, real_out)
    assert settings.expected_micros(tokens_in, real_out) <= settings.worst_micros(tokens_in, tokens_out)


@given(some_prices(), st.integers(0, 10**6), st.data())
def test_what_a_cache_saves_is_what_the_call_would_have_cost_more(price: Price, tokens_in: int, data: st.DataObject) -> None:
    cached = data.draw(st.integers(0, tokens_in))
    usage = Usage(tokens_in, 100, cached, data.draw(st.integers(0, tokens_in - cached)))
    saved = price.saved_micros(usage)
    assert saved == price.micros(Usage(tokens_in, 100)) - price.micros(usage)


def test_the_worst_case_is_all_written_to_the_cache_and_all_reasoning() -> None:
    settings = ModelSettings("openai/gpt-4o", Price(1, 2, 0.1, 1.25, reasoning_per_mtok=3))
    assert settings.worst_micros(1000, 100) == (1150 + 16) * 1.25 + 0.5 + 100 * 3  # 1457.5, rounded up
    assert settings.least_micros(1150) == 1000 * 0.1 + 1 * 2


def test_what_goes_in_beside_the_prompt_is_counted() -> None:
    tools = {"tools": [{"type": "function"}], "temperature": 0}
    paid, local = (ModelSettings(name, FREE) for name in ("openai/m", "offline/lead"))
    assert paid.prompt_tokens("one two", Sampling(tools)) == count("one two") + count(json.dumps(tools["tools"]))
    assert local.prompt_tokens("one two", Sampling(tools)) == count("one two")


@pytest.mark.usefixtures("price_map")
def test_who_reasons_unseen() -> None:
    names = ("x/thinker", "known", "o1-mini-2024-09-12", "offline/lead", "nobody/knows")
    assert [may_reason(name) for name in names] == [True, False, True, False, False]


@pytest.mark.parametrize(
    ("model", "api_base", "written", "transport", "name"),
    [
        ("offline/lead", None, None, "local", "offline/lead"),
        ("replay/gpt-4o", "http://x/v1", "direct", "local", "replay/gpt-4o"),
        ("openai/gpt-4o", None, None, "direct", "gpt-4o"),
        ("gpt-4o", None, None, "direct", "gpt-4o"),
        ("openai/gpt-5-pro", None, None, "litellm", "gpt-5-pro"),
        ("openrouter/openai/gpt-5-pro", None, None, "direct", "openai/gpt-5-pro"),
        ("claude-3-opus", None, None, "litellm", "claude-3-opus"),
        ("command-r", "http://x/v1", None, "direct", "command-r"),
        ("baseten/x", None, None, "litellm", "x"),
        ("gpt-4o", None, "litellm", "litellm", "gpt-4o"),
        ("openai/gpt-4o", "http://x/v1", None, "direct", "gpt-4o"),
        ("openai/gpt-4o", "http://x/v1", "litellm", "litellm", "gpt-4o"),
        ("hosted_vllm/Qwen/Q", "http://x/v1", None, "direct", "Qwen/Q"),
        ("hosted_vllm/openai/gpt-oss-20b", "http://x/v1", None, "direct", "openai/gpt-oss-20b"),
        ("Qwen/Q", "http://x/v1", None, "direct", "Qwen/Q"),
        ("gpt-4o", "http://x/v1", None, "direct", "gpt-4o"),
        ("openai", "http://x/v1", None, "direct", "openai"),
        ("azure/mine", "http://x", None, "litellm", "mine"),
        ("anthropic/claude", "http://x", None, "litellm", "claude"),
        ("ollama_chat/llama3", "http://x", None, "litellm", "llama3"),
        ("gemini/pro", "http://x", "direct", "direct", "pro"),
        ("together_ai/mistralai/Mixtral", "http://x", None, "direct", "mistralai/Mixtral"),
    ],
)
def test_how_a_model_is_reached(model: str, api_base: str | None, written: str | None, transport: str, name: str) -> None:
    assert transport_of(model, "chat", api_base, written) == transport  # type: ignore[arg-type]
    assert wire_name(model) == name


@pytest.mark.parametrize(
    ("model", "task", "api_base", "transport"),
    [
        ("cohere/x", "rerank", None, "direct"),
        ("cohere/x", "embed", None, "litellm"),
        ("deepinfra/x", "rerank", None, "litellm"),
        ("deepinfra/x", "rerank", "http://x", "direct"),
        ("deepinfra/x", "embed", None, "direct"),
    ],
)
def test_a_service_in_a_form_of_its_own_is_asked_by_litellm(model: str, task: Task, api_base: str | None, transport: str) -> None:
    assert transport_of(model, task, api_base) == transport


def test_our_provider_names_are_litellms() -> None:
    spec = importlib.util.find_spec("litellm")
    assert spec is not None and spec.submodule_search_locations
    tree = ast.parse((Path(spec.submodule_search_locations[0]) / "types" / "utils.py").read_text(encoding="utf-8"))
    listed = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "LlmProviders")
    theirs = {node.value.value for node in listed.body if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)}
    ours = provider_table.PROVIDERS.items()
    assert theirs >= {name for name, known in ours if known.translated or not known.base}


@pytest.mark.parametrize(
    ("sampling", "longest"),
    [
        ({}, DEFAULT_MAX_TOKENS),
        ({"max_tokens": None, "temperature": 0}, DEFAULT_MAX_TOKENS),
        ({"max_tokens": 10}, 10),
        ({"max_tokens": 10, "max_completion_tokens": 300}, 300),
        ({"max_completion_tokens": 7}, 7),
    ],
)
def test_no_answer_is_without_bounds(sampling: dict[str, Any], longest: int) -> None:
    assert unusable(Sampling(sampling)) == "" and longest_answer(Sampling(sampling)) == longest
    sent = Sampling(with_max_tokens(sampling))
    assert any(sent.get(name) for name in ("max_tokens", "max_completion_tokens")) and longest_answer(sent) == longest


@pytest.mark.parametrize(
    "sampling", [{"max_tokens": 0}, {"max_tokens": "9"}, {"max_tokens": True}, {"stream": True}, {"num_retries": 2}]
)
def test_parameters_that_would_break_the_promises_are_refused(sampling: dict[str, Any]) -> None:
    problem = unusable(Sampling(sampling))
    assert next(iter(sampling)) in problem and "\n" not in problem


@pytest.mark.parametrize(("name", "field"), [("n", "n"), ("logprobs", "logprobs"), ("top_logprobs", "logprobs")])
def test_what_belongs_to_the_request_is_no_parameter(name: str, field: str) -> None:
    expected = f"sampling parameter {name!r} belongs to the request; leave it out of extra and write Request({field}=...)"
    assert unusable(Sampling({name: 1})) == unusable(Sampling({"extra_body": {name: 1}})) == expected


@pytest.mark.parametrize("name", ["stream", "messages", "max_tokens", "max_completion_tokens"])
def test_nothing_gets_past_the_budget_in_the_body(name: str) -> None:
    problem = unusable(Sampling({"max_tokens": 5, "extra_body": {"top_k": 3, name: 10**6}}))
    assert problem.startswith(f"sampling parameter {name!r} ") and "\n" not in problem
    assert unusable(Sampling({"extra_body": {"top_k": 3}})) == unusable(Sampling({"extra_body": None})) == ""


@pytest.mark.parametrize("model", ["perplexity/sonar", "perplexity/sonar-deep-research"])
def test_a_model_with_fees_beside_its_tokens_is_refused_unless_a_price_is_written(model: str) -> None:
    with pytest.raises(Unpriced, match=f"'{model}' has fees besides its tokens"):
        find_price(model, None)
    assert find_price(model, {"input_per_mtok": 9.0, "output_per_mtok": 9.0}).micros(Usage(1, 1)) == 18
