"""The spec: what is accepted, what is refused and how, and what makes a run's identity."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from summhay_ray.grid import RunSpec, SpecError, load_grid, parse_spec, read_spec
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


def test_a_name_is_a_model_with_defaults() -> None:
    spec = parse_spec(GOOD)
    assert [model.model for model in spec.models()] == ["openai/gpt-4o", "offline/support", "offline/judge"]
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
        ({"haystacks": []}, "spec: haystacks: list should have at least 1 item"),
        ({"haystacks": "sample/news"}, "spec: haystacks: input should be a valid list"),
        ({"budget_usd": -1}, "spec: budget_usd: input should be greater than or equal to 0, found -1"),
        ({"retrievers": ["bm25", "bm25"]}, "spec: retrievers: 'bm25' stands twice; leave one out"),
        (
            {"judges": ["offline/judge", "offline/judge"]},
            "spec: judges[1]: 'offline/judge' stands twice; give one of them another name",
        ),
        (
            {"limits": {"openai/gpt-4": {"rpm": 3}}},
            "spec: limits: no summarizer or judge uses 'openai/gpt-4'; did you mean openai/gpt-4o?",
        ),
        ({"summarizers": [{"model": "x", "extra": {"api_key": "sk"}}]}, "spec: x: extra.api_key: keys never stand in a spec"),
        ({"endpoint_url": "127.0.0.1:9000"}, "spec: endpoint_url: expected http:// or https:// and a host, such as"),
        ({"endpoint_url": "ftp://127.0.0.1"}, "spec: endpoint_url: expected http:// or https:// and a host"),
        ({"endpoint_url": "https://"}, "spec: endpoint_url: expected http:// or https:// and a host"),
        ({"endpoint_url": "https://me:secret@host"}, "spec: endpoint_url: expected http:// or https:// and a host"),
        ({"judges": ["offline/"]}, "spec: model 'offline/': expected offline/NAME or replay/NAME"),
        ({"stage_budgets_usd": {"judg": 1}}, "spec: stage_budgets_usd.judg: unknown field; did you mean judge?"),
        ({"stage_budgets_usd": {"judge": -1}}, "spec: stage_budgets_usd.judge: input should be greater than or equal to 0"),
        (
            {"model_budgets_usd": {"openai/gpt-4o": -1}},
            "spec: model_budgets_usd.openai/gpt-4o: input should be greater than or equal",
        ),
        (
            {"model_budgets_usd": {"openai/gpt-4": 1}},
            "spec: model_budgets_usd: no summarizer or judge uses 'openai/gpt-4'; did you mean openai/gpt-4o?",
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


PRICE = {"input_per_mtok": 1, "output_per_mtok": 2, "cached_input_per_mtok": 0.5, "cache_write_per_mtok": 3}
MINE = {"model": "openai/mine", "price": PRICE, "api_base": "http://127.0.0.1:1/v1"}


def settings_of(**fields: Any) -> Mapping[str, ModelSettings]:
    return load_grid(parse_spec({**GOOD, "retrievers": ["full"], **fields}), Path.cwd()).settings()


def test_prices_limits_and_transport_reach_the_gateway() -> None:
    limits = {"openai/mine": {"rpm": 7, "concurrency": 3}}
    found = settings_of(summarizers=[MINE], limits=limits)
    assert found["openai/mine"].price == Price(1, 2, 0.5, 3)
    assert found["openai/mine"].limits == Limits(rpm=7, concurrency=3)
    assert (found["openai/mine"].transport, found["offline/judge"].transport) == ("direct", "local")
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
    with pytest.raises(SpecError, match=r"spec: model 'openai/unheard-of' has no known price; write price:"):
        settings_of(summarizers=["openai/unheard-of"])


def test_one_model_has_one_transport() -> None:
    both = {"summarizers": [MINE], "judges": [{**MINE, "transport": "litellm"}]}
    with pytest.raises(SpecError, match=r"stands twice, not alike; give both entries the same price, .* timeout_s and transport"):
        settings_of(**both)


@pytest.mark.parametrize(
    "fields",
    [
        {"budget_usd": 3},
        {"stage_budgets_usd": {"judge": 3}},
        {"model_budgets_usd": {"openai/mine": 3}},
        {"limits": {"openai/mine": {"rpm": 3}}},
        {"summarizers": [{**MINE, "transport": "litellm"}]},
        {"summarizers": [{**MINE, "price": {**PRICE, "cache_write_per_mtok": 9}}]},
    ],
)
def test_money_limits_and_transport_are_no_part_of_the_identity(fields: dict[str, Any]) -> None:
    plain, other = (load_grid(parse_spec({**GOOD, "summarizers": [MINE], **more}), Path.cwd()) for more in ({}, fields))
    assert plain.run_id == other.run_id
    assert [cell.cell_id for cell in plain.cells()] == [cell.cell_id for cell in other.cells()]


def test_stage_budgets_are_those_that_are_written() -> None:
    assert parse_spec(GOOD).stage_budgets() == {}
    assert parse_spec({**GOOD, "stage_budgets_usd": {"judge": 2, "summarize": None}}).stage_budgets() == {"judge": 2.0}


def test_two_summarizers_of_one_model_need_names() -> None:
    both = [{"model": "openai/gpt-4o"}, {"model": "openai/gpt-4o", "name": "warm", "temperature": 1}]
    assert [model.label for model in parse_spec({**GOOD, "summarizers": both}).summarizers] == ["openai/gpt-4o", "warm"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("haystacks: [", "line 1"),
        ("- a\n- b\n", "expected a mapping of fields such as haystacks: [...], found list"),
        ("", "expected a mapping of fields such as haystacks: [...], found NoneType"),
        ("a: b: c\n", "line 1, column 5: not YAML"),
        ("!!python/object/apply:os.system ['true']", "not YAML"),
    ],
)
def test_a_file_that_is_no_spec(tmp_path: Path, text: str, expected: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(SpecError) as error:
        read_spec(path)
    assert str(error.value).startswith(path + ":")
    assert expected in str(error.value)


def test_a_missing_spec_is_said(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="no such file"):
        read_spec(str(tmp_path / "none.yaml"))


SPEC = """
haystacks: [sample/news]
retrievers: [bm25]
summarizers:
  - {model: openai/gpt-3.5-turbo, max_tokens: 500}
limits: {openai/gpt-3.5-turbo: {rpm: 10}}
"""


def overridden(tmp_path: Path, *overrides: str) -> RunSpec:
    return read_spec(written(tmp_path, SPEC), overrides)[0]


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
