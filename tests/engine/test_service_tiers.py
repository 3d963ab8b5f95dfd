"""The flex tier: its price, its lack of capacity, and the fallback to the standard tier, with the simulated provider."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from simulated_provider import KEY, Simulated, in_thread

import summhay_ray
from summhay_ray import api
from summhay_ray.engine import SpecError

pytestmark = pytest.mark.core

# litellm's prices of this model: its flex tier costs half.
PRICES = {"input_price": 2.0, "cached_price": 0.5, "output_price": 8.0}
MODEL = {"model": "openai/o3", "service_tier": "flex", "api_key_env": "FLEX_KEY"}


def spec(**model: Any) -> dict[str, Any]:
    return {"haystacks": ["sample/news"], "retrievers": ["full"], "judges": ["offline/judge"], "summarizers": [model]}


def run(store: Path, provider: Simulated, **more: Any) -> Any:
    return summhay_ray.run(spec(**MODEL, api_base=provider.base, **more), str(store), executor="inline")


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEX_KEY", KEY)


@pytest.mark.parametrize("price", [None, {"input_per_mtok": 2.0, "cached_input_per_mtok": 0.5, "output_per_mtok": 8.0}])
def test_flex_costs_its_price_and_lack_of_capacity_is_no_attempt(tmp_path: Path, price: Any) -> None:
    with in_thread(lambda model, prompt: "- A bullet. [1]", quick=False, flex_unavailable=0.6, **PRICES) as provider:
        result = run(tmp_path, provider, price=price)
        stats = provider.stats()
        again = summhay_ray.run(spec(model="openai/o3", api_base=provider.base), str(tmp_path), executor="inline")
    assert (result.status, stats["rate_limited"] > 0, list(stats["channels"])) == ("done", True, ["flex"])
    assert round(result.usd["spent"] * 1e6) == stats["micros"]
    # The tier is not part of an answer's key.
    assert (again.calls["made"], again.run) == (0, result.run)


def test_the_fallback_is_served_at_once_and_priced_as_standard(tmp_path: Path) -> None:
    with in_thread(lambda model, prompt: "- A bullet. [1]", quick=False, flex_unavailable=1.0, **PRICES) as provider:
        planned = api.plan(spec(**MODEL, api_base=provider.base, fallback="standard"), str(tmp_path))
        cheap = api.plan(spec(**MODEL, api_base=provider.base), str(tmp_path))
        result = run(tmp_path, provider, fallback="standard")
        stats = provider.stats()
    assert (result.status, list(stats["channels"])) == ("done", ["standard"])
    assert round(result.usd["spent"] * 1e6) == stats["micros"]
    assert planned.usd["expected"] == cheap.usd["expected"]
    assert planned.usd["max"] == pytest.approx(2 * cheap.usd["max"])


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ({"model": "openai/gpt-4o", "service_tier": "flex"}, "no known price for service_tier: flex"),
        ({"model": "openai/o3", "fallback": "standard"}, "fallback: is for a service tier"),
        ({"model": "openai/o3", "extra": {"service_tier": "flex"}}, "write service_tier: flex next to extra"),
        ({"model": "openai/o3", "service_tier": "priority"}, "service_tier"),
    ],
)
def test_a_tier_that_cannot_be_priced_is_refused(model: dict[str, Any], expected: str, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=expected):
        api.plan(spec(**model), str(tmp_path))
