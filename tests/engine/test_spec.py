"""The spec: what is accepted, what is refused and how, and what makes a run's identity."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from summhay_ray import api
from summhay_ray.engine import SpecError
from summhay_ray.llm import FREE, Limits, ModelSettings, Price

pytestmark = pytest.mark.core

GOOD: dict[str, Any] = {
    "haystacks": ["sample/news"],
    "retrievers": ["bm25", "full"],
    "summarizers": [{"model": "openai/gpt-4o", "max_tokens": 900}, "offline/support"],
    "judges": ["offline/judge"],
}


def written(tmp_path: Path, text: str) -> str:
    path = tmp_path / "spec.yaml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def parse_spec(fields: Mapping[str, Any]) -> Any:
    """The checked spec; the haystacks are read, and nothing is asked."""
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


def test_a_price_of_zero_is_written_as_zero() -> None:
    spec = parse_spec({**GOOD, "summarizers": [{"model": "hosted_vllm/mine", "price": 0}]})
    assert spec.summarizers[0].price is not None
    assert spec.summarizers[0].price.output_per_mtok == 0


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"retriever": ["bm25"]}, "spec: retriever: unknown field; did you mean retrievers?"),
        (
            {"summarizers": [{"model": "x", "max_token": 3}]},
            "spec: summarizers[0].max_token: unknown field; did you mean max_tokens?",
        ),
        ({"limits": {"offline/support": {"rps": 3}}}, "spec: limits.offline/support.rps: unknown field; did you mean rpm?"),
        (
            {"summarizers": [{"model": "x", "price": {"input": 3}}]},
            "spec: summarizers[0].price.input: unknown field; did you mean",
        ),
        ({"token_budget": "15000"}, 'spec: token_budget: input should be a valid integer, found "15000"'),
        ({"token_budget": 0}, "spec: token_budget: input should be greater than or equal to 1, found 0"),
        (
            {"summarizers": [{"model": "x", "max_answer_bytes": 10}]},
            "spec: summarizers[0].max_answer_bytes: input should be greater than or equal to 1024, found 10",
        ),
        ({"haystacks": []}, "spec: haystacks: list should have at least 1 item"),
        ({"haystacks": "sample/news"}, "spec: haystacks: input should be a valid list"),
        ({"budget_usd": -1}, "spec: budget_usd: input should be greater than or equal to 0, found -1"),
        ({"retrievers": ["bm25", "bm25"]}, "spec: retrievers: 'bm25' is listed twice; remove one"),
        (
            {"judges": ["offline/judge", "offline/judge"]},
            "spec: judges[1]: 'offline/judge' is listed twice; give one of them another name",
        ),
        (
            {"limits": {"openai/gpt-4": {"rpm": 3}}},
            "spec: limits: nothing in the spec asks 'openai/gpt-4'; did you mean openai/gpt-4o?",
        ),
        ({"summarizers": [{"model": "x", "extra": {"api_key": "sk"}}]}, "spec: x: extra.api_key: keys never stand in a spec"),
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
            {"summarizers": [{"model": "x", "api_base": "api.example.com/v1"}]},
            "spec: x: api_base: api.example.com/v1 has no scheme; write https://api.example.com/v1",
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
        (
            {"retrievers": [{"embed": "openai/x", "api_base": "http://h:1/v1/embeddings/", "price": 0}]},
            "spec: openai/x: api_base: it ends with /embeddings/, and the path of the service is added to it; write http://h:1/v1",
        ),
        (
            {"retrievers": [{"rerank": "cohere/x", "api_base": "http://h:1/rerank", "price": 0}]},
            "spec: cohere/x: api_base: it ends with /rerank, and the path of the service is added to it; write http://h:1",
        ),
        ({"endpoint_url": "127.0.0.1:9000"}, "spec: endpoint_url: expected http:// or https:// and a host, such as"),
        ({"endpoint_url": "ftp://127.0.0.1"}, "spec: endpoint_url: expected http:// or https:// and a host"),
        ({"endpoint_url": "https://"}, "spec: endpoint_url: expected http:// or https:// and a host"),
        ({"endpoint_url": "https://me:secret@host"}, "spec: endpoint_url: expected http:// or https:// and a host"),
        ({"judges": ["offline/"]}, "spec: model 'offline/': expected offline/NAME or replay/NAME"),
        ({"stage_budgets_usd": {"judg": 1}}, "spec: stage_budgets_usd: no stage is named 'judg'; did you mean judge?"),
        ({"stage_budgets_usd": {"judge": -1}}, "spec: stage_budgets_usd.judge: input should be greater than or equal to 0"),
        (
            {"model_budgets_usd": {"openai/gpt-4o": -1}},
            "spec: model_budgets_usd.openai/gpt-4o: input should be greater than or equal",
        ),
        (
            {"model_budgets_usd": {"openai/gpt-4": 1}},
            "spec: model_budgets_usd: nothing in the spec asks 'openai/gpt-4'; did you mean openai/gpt-4o?",
        ),
        (
            {"summarizers": [{"model": "x", "transport": "dirct"}]},
            "spec: summarizers[0].transport: input should be 'direct' or 'litellm', found \"dirct\"",
        ),
        (
            {"summarizers": [{"model": "x", "transport": "direct"}]},
            "spec: x: transport: direct needs an endpoint; write api_base: URL beside it",
        ),
        (
            {"summarizers": [{"model": "x", "extra": {"service_tier": "priority"}}]},
            "spec: x: extra.service_tier: the known price is the standard tier's; write price:",
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
        ("sagemaker/mine", "sagemaker_base_url", ""),
        ("vertex_ai/gemini-2.5-pro", "vertex_ai_endpoint", ""),
        ("vertex_ai/gemini-2.5-pro", "vertex_projct", "vertex_project"),
        ("azure/mine", "tenant_id", ""),
        ("azure/mine", "api_versoin", "api_version"),
        ("oci/mine", "oci_fingerprint", ""),
        ("gemini/gemini-2.5-pro", "top_pp", "top_p"),
        ("openai/gpt-4o", "callbacks", ""),
        ("openai/gpt-4o", "reasoning_efort", "reasoning_effort"),
        ("gpt-4o", "organization", ""),
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


@pytest.mark.parametrize("margin", [0.9, 0, -1, float("inf"), float("nan"), "1.3", True, 1e7])
def test_a_token_margin_that_cannot_be_is_refused_in_one_line(margin: Any) -> None:
    with pytest.raises(SpecError, match=r"summarizers\[0\]\.token_margin: ") as refused:
        settings_of(summarizers=[{**MINE, "token_margin": margin}])
    assert "\n" not in str(refused.value)


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


def test_two_summarizers_of_one_model_need_names() -> None:
    both = [{"model": "openai/gpt-4o"}, {"model": "openai/gpt-4o", "name": "warm", "temperature": 1}]
    assert [model.label for model in parse_spec({**GOOD, "summarizers": both}).summarizers] == ["openai/gpt-4o", "warm"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("haystacks: [", "line 1"),
        ("- a\n- b\n", "expected a mapping of fields such as name: my-run, found list"),
        ("", "expected a mapping of fields such as name: my-run, found NoneType"),
        ("a: b: c\n", "line 1, column 5: not YAML"),
        ("!!python/object/apply:os.system ['true']", "not YAML"),
    ],
)
def test_a_file_that_is_no_spec(tmp_path: Path, text: str, expected: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(SpecError) as error:
        api.load(path)
    assert str(error.value).startswith(path + ":")
    assert expected in str(error.value)


def test_a_missing_spec_is_said(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="no such file"):
        api.load(tmp_path / "none.yaml")


SPEC = """
haystacks: [sample/news]
retrievers: [bm25]
summarizers:
  - {model: openai/gpt-3.5-turbo, max_tokens: 500}
limits: {openai/gpt-3.5-turbo: {rpm: 10}}
"""


def overridden(tmp_path: Path, *overrides: str) -> Any:
    return api.load(written(tmp_path, SPEC), overrides).spec


def test_set_replaces_fields_by_path(tmp_path: Path) -> None:
    spec = overridden(
        tmp_path, "token_budget=99", "summarizers.0.max_tokens=7", 'limits."openai/gpt-3.5-turbo".rpm=20', "retrievers=[full]"
    )
    assert (spec.token_budget, spec.summarizers[0].max_tokens, spec.retrievers) == (99, 7, ["full"])
    assert spec.limits["openai/gpt-3.5-turbo"].rpm == 20


def test_set_makes_what_is_not_there(tmp_path: Path) -> None:
    assert overridden(tmp_path, "limits.offline/judge.rpm=5").limits["offline/judge"].rpm == 5


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("token_budget", "expected a.b=c"),
        ("=3", "expected a.b=c"),
        ("summarizers.1.max_tokens=3", "expected an index from 0 to 0 instead of '1'"),
        ("summarizers.first=3", "expected an index from 0 to 0 instead of 'first'"),
        ("haystacks.0.x=3", "holds no fields"),
        ("token_budget=[", "the value is not YAML"),
        ("token_bugdet=3", "token_bugdet: unknown field; did you mean token_budget?"),
    ],
)
def test_a_wrong_override_is_said(tmp_path: Path, override: str, expected: str) -> None:
    with pytest.raises(SpecError) as error:
        overridden(tmp_path, override)
    assert expected in str(error.value)
    assert "\n" not in str(error.value)
