"""The spec: accepted and refused fields, the messages, and the parts of a run's identity."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from summhay_ray import api
from summhay_ray.benchmark import Model, Spec
from summhay_ray.engine import SpecError
from summhay_ray.llm import FREE, Limits, ModelSettings, Price

pytestmark = pytest.mark.core

GOOD: dict[str, Any] = {
    "haystacks": ["sample/news"],
    "retrievers": ["bm25", "full"],
    "summarizers": [{"model": "openai/gpt-4o", "max_tokens": 900}, "offline/support"],
    "judges": ["offline/judge"],
}


def parse_spec(fields: Mapping[str, Any]) -> Any:
    """The checked spec; the haystacks are read, and no model is called."""
    return api.load(fields).spec


def test_a_name_is_a_model_with_defaults() -> None:
    spec = parse_spec(GOOD)
    assert [model.model for model in spec.model_entries()] == ["openai/gpt-4o", "offline/support", "offline/judge"]
    assert (spec.token_budget, spec.repeats, spec.orderings, spec.seed) == (15000, 1, ["given"], 0)
    assert spec.summarizers[0].sampling() == {"max_tokens": 900, "temperature": 0.0}
    assert spec.judges[0].max_tokens == 200


def test_null_temperature_and_extra_parameters_are_sent_as_written() -> None:
    model = {"model": "openai/o1", "temperature": None, "seed": 3, "extra": {"reasoning_effort": "low"}}
    spec = parse_spec({**GOOD, "summarizers": [model]})
    assert spec.summarizers[0].sampling() == {"max_tokens": 1000, "seed": 3, "reasoning_effort": "low"}


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        (
            {"summarizers": [{"model": "x", "max_answer_bytes": 10}]},
            "spec: summarizers[0].max_answer_bytes: input should be greater than or equal to 1024, found 10",
        ),
        ({"haystacks": []}, "spec: haystacks: list should have at least 1 item"),
        ({"budget_usd": -1}, "spec: budget_usd: input should be greater than or equal to 0, found -1"),
        ({"summarizers": [{"model": "x", "extra": {"api_key": "sk"}}]}, "spec: x: extra.api_key: keys do not belong in a spec"),
        (
            {"judges": [{"model": "x", "extra": {"logprobs": True}}]},
            "spec: x: extra.logprobs: leave it out; what reads log probabilities asks for them itself",
        ),
        (
            {"judges": [{"model": "x", "extra": {"extra_body": {"top_logprobs": 5}}}]},
            "spec: x: extra.top_logprobs: leave it out;",
        ),
        ({"judges": [{"model": "x", "api_base": "http://127.0.0.1:99999/v1"}]}, "spec: x: api_base: expected a URL without"),
        (
            {"judges": [{"model": "x", "api_base": "localhost:8000/v1"}]},
            "spec: x: api_base: localhost:8000/v1 has no scheme; write http://localhost:8000/v1",
        ),
        (
            {"retrievers": [{"search": "s", "api_base": "127.0.0.1:9/find"}]},
            "spec: s: api_base: 127.0.0.1:9/find has no scheme; write http://127.0.0.1:9/find",
        ),
        (
            {"retrievers": [{"embed": "openai/x", "api_base": "ftp://host/v1", "price": 0}]},
            "spec: openai/x: api_base: 'ftp://host/v1' is no URL; write http:// or https:// and a host",
        ),
        (
            {"judges": [{"model": "x", "api_base": "http://h:1/v1/chat/completions"}]},
            "spec: x: api_base: it ends with /chat/completions, and the path of the service is added to it; write http://h:1/v1",
        ),
        ({"endpoint_url": "https://me:secret@host"}, "spec: endpoint_url: expected http:// or https:// and a host"),
        ({"judges": ["offline/"]}, "spec: model 'offline/': expected offline/NAME or replay/NAME"),
        ({"stage_budgets_usd": {"judg": 1}}, "spec: stage_budgets_usd: no stage is named 'judg'; did you mean judge?"),
        (
            {"summarizers": [{"model": "x", "transport": "dirct"}]},
            "spec: summarizers[0].transport: input should be 'direct' or 'litellm', found \"dirct\"",
        ),
        (
            {"summarizers": [{"model": "x", "transport": "direct"}]},
            "spec: x: transport: direct needs an endpoint; add api_base: URL",
        ),
        (
            {"summarizers": [{"model": "x", "extra": {"service_tier": "priority"}}]},
            "spec: x: extra.service_tier: the known price is the standard tier's; add price:",
        ),
        (
            {"summarizers": [{"model": "x", "price": {"input_per_mtok": 1, "output_per_mtok": 1, "cache_write_per_mtok": -1}}]},
            "spec: summarizers[0].price.cache_write_per_mtok: input should be greater than or equal to 0",
        ),
    ],
)
def test_refusals_name_the_field_and_the_mend_in_one_line(fields: dict[str, Any], expected: str) -> None:
    with pytest.raises(SpecError) as error:
        parse_spec({**GOOD, **fields})
    assert str(error.value).startswith(expected)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("model", "name", "nearest"),
    [
        ("bedrock/anthropic.claude-3-haiku", "aws_sts_endpoint", ""),
        ("bedrock/anthropic.claude-3-haiku", "aws_region", "aws_region_name"),
        ("vertex_ai/gemini-2.5-pro", "vertex_ai_endpoint", ""),
        ("vertex_ai/gemini-2.5-pro", "vertex_projct", "vertex_project"),
        ("azure/mine", "api_versoin", "api_version"),
        ("gemini/gemini-2.5-pro", "top_pp", "top_p"),
        ("openai/gpt-4o", "callbacks", ""),
        ("openai/gpt-4o", "reasoning_efort", "reasoning_effort"),
        ("nobodys/mine", "extra_body", ""),
    ],
)
def test_a_provider_is_given_known_fields_only(model: str, name: str, nearest: str) -> None:
    price = {"input_per_mtok": 1, "output_per_mtok": 1}
    with pytest.raises(SpecError) as error:
        parse_spec({**GOOD, "summarizers": [{"model": model, "price": price, "extra": {"top_p": 0.5, name: "x"}}]})
    told = str(error.value)
    assert told.startswith(f"spec: {model}: extra.{name}: ") and "; the nearest that it may be given is " in told
    assert told.endswith(nearest) and "\n" not in told


def test_known_fields_are_of_the_provider_and_an_endpoint_of_ones_own_takes_any() -> None:
    price = {"input_per_mtok": 1, "output_per_mtok": 1}
    for model, extra in (
        ("bedrock/mine", {"aws_region_name": "eu-west-1"}),
        ("vertex_ai/mine", {"vertex_project": "p", "vertex_location": "europe-west1"}),
        ("azure/mine", {"api_version": "2025-02-01"}),
        ("openai/mine", {"extra_body": {"top_k": 5}}),
        ("ollama/mine", {"num_ctx": 8192}),
    ):
        entry = {"model": model, "price": price, "extra": extra}
        assert parse_spec({**GOOD, "summarizers": [entry]}).summarizers[0].extra == extra
        if "extra_body" not in extra:
            with pytest.raises(SpecError, match=f"groq/mine: extra.{next(iter(extra))}: groq is not asked with this field"):
                parse_spec({**GOOD, "summarizers": [{**entry, "model": "groq/mine"}]})
    mine = {**MINE, "extra": {"guided_choice": ["a", "b"], "aws_sts_endpoint": "only a word there"}}
    assert parse_spec({**GOOD, "summarizers": [mine]})


PRICE = {"input_per_mtok": 1, "output_per_mtok": 2, "cached_input_per_mtok": 0.5, "cache_write_per_mtok": 3}
MINE = {"model": "openai/mine", "price": PRICE, "api_base": "http://127.0.0.1:1/v1"}


def settings_of(**fields: Any) -> Mapping[str, ModelSettings]:
    return api.load({**GOOD, "retrievers": ["full"], **fields}).models.settings()


def test_prices_limits_and_transport_reach_the_gateway() -> None:
    limits = {"openai/mine": {"rpm": 7, "concurrency": 3}}
    found = settings_of(summarizers=[MINE], limits=limits)
    assert found["openai/mine"].price == Price(1, 2, 0.5, 3)
    assert found["openai/mine"].limits == Limits(rpm=7, concurrency=3)
    assert settings_of(summarizers=[{**MINE, "max_answer_bytes": 5000}])["openai/mine"].max_answer_bytes == 5000
    assert (
        found["offline/judge"].limits.concurrency
        == 64
        == parse_spec({**GOOD, "limits": {"offline/judge": {}}}).limits["offline/judge"].concurrency
    )
    assert settings_of(summarizers=[{**MINE, "transport": "litellm"}])["openai/mine"].transport == "litellm"
    assert settings_of(summarizers=[{**MINE, "price": 0}])["openai/mine"].price is FREE
    free = {"input_per_mtok": 0, "output_per_mtok": 0}
    assert settings_of(summarizers=[{**MINE, "price": free}])["openai/mine"].price is FREE


def test_a_service_tier_is_taken_where_its_price_is_written() -> None:
    assert settings_of(summarizers=[{**MINE, "extra": {"service_tier": "priority"}}])
    assert settings_of(summarizers=[{"model": "openai/gpt-4o", "extra": {"service_tier": "default"}}])


def test_a_model_without_a_price_is_refused_by_name() -> None:
    with pytest.raises(SpecError, match=r"spec: model 'openai/unheard-of' has no known price"):
        settings_of(summarizers=["openai/unheard-of"])


def test_a_token_margin_raises_what_is_reserved() -> None:
    one, more = (settings_of(summarizers=[{**MINE, **margin}])["openai/mine"] for margin in ({}, {"token_margin": 2}))
    assert more.reserved_tokens(1000, 100) == (2 * 1516, 200) and more.worst_micros(1000, 100) == 2 * one.worst_micros(1000, 100)
    assert more.expected_micros(1000, 100) == one.expected_micros(1000, 100)


class Asking(Spec):
    models: list[Model]


def test_two_models_of_a_list_need_two_names() -> None:
    with pytest.raises(ValueError, match=r"models\[1\]: 'a/b' is listed twice; give one of them another name"):
        Asking.model_validate({"models": ["a/b", {"model": "a/b", "temperature": 1}]})
    Asking.model_validate({"models": ["a/b", {"model": "a/b", "name": "hot", "temperature": 1}]})


def test_one_model_has_one_transport() -> None:
    assert settings_of(summarizers=[MINE], judges=[{**MINE, "transport": "direct"}])
    both = {"summarizers": [MINE], "judges": [{**MINE, "transport": "litellm"}]}
    with pytest.raises(SpecError, match="is listed twice with different settings"):
        settings_of(**both)


@pytest.mark.parametrize(
    "fields",
    [
        {"budget_usd": 3},
        {"stage_budgets_usd": {"judge": 3}},
        {"model_budgets_usd": {"openai/mine": 3}},
        {"limits": {"openai/mine": {"rpm": 3}}},
        {"summarizers": [{**MINE, "transport": "litellm"}]},
        {"summarizers": [{**MINE, "token_margin": 1.3}]},
        {"summarizers": [{**MINE, "price": {**PRICE, "cache_write_per_mtok": 9}}]},
    ],
)
def test_money_limits_and_transport_are_no_part_of_the_identity(fields: dict[str, Any]) -> None:
    plain, other = (api.load({**GOOD, "summarizers": [MINE], **more}) for more in ({}, fields))
    assert plain.run_id == other.run_id
    assert [item.id for item in plain.items()] == [item.id for item in other.items()]
