"""Anthropic's cache: the marked beginnings of prompts, their cost, and the plan's report about them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from simulated_provider import KEY, in_thread

import summhay_ray
from summhay_ray import api

pytestmark = [pytest.mark.core, pytest.mark.usefixtures("litellm")]

# litellm's prices of this model, and Anthropic's multiples for its cache.
PRICES = {"input_price": 3.0, "cached_price": 0.3, "output_price": 15.0, "write_factor": 1.25, "write_hour_factor": 2.0}
SUMMARY = "\n".join(f"- The report has a further finding, number {n}. [1]" for n in range(40))


def spec(base: str, retriever: str = "full", judge: Any = "offline/judge", **model: Any) -> dict[str, Any]:
    asked = {"model": "anthropic/claude-sonnet-4-5", "api_base": base, "api_key_env": "CLAUDE_KEY", **model}
    judged = judge if isinstance(judge, str) else {**asked, **judge}
    return {"haystacks": ["sample/news"], "retrievers": [retriever], "judges": [judged], "summarizers": [asked]}


def answer(model: str, prompt: str) -> str:
    return '{"coverage": "NO_COVERAGE", "bullet_id": "NA"}' if "Reference Insight:" in prompt else SUMMARY


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAUDE_KEY", KEY)


@pytest.mark.parametrize(("cache", "price"), [(True, None), ("1h", {"input_per_mtok": 3.0, "output_per_mtok": 15.0})])
def test_the_queries_of_a_haystack_share_its_documents(tmp_path: Path, cache: Any, price: Any) -> None:
    with in_thread(answer, quick=False, **PRICES) as provider:
        asked = spec(provider.base, cache=cache, price=price)
        planned = api.plan(asked, str(tmp_path))
        result = summhay_ray.run(asked, str(tmp_path), executor="inline")
        books = provider.stats()["channels"]["standard"]
        (row,) = [one for one in summhay_ray.status(result.run, str(tmp_path)).usage if one["stage"] == "summarize"]
        again = summhay_ray.run(spec(provider.base, cache=False), str(tmp_path), executor="inline")
    written, stage = books["tokens_written"] + books["tokens_written_1h"], planned.stages[0]
    assert (result.status, round(result.usd["spent"] * 1e6), again.calls["made"]) == ("done", books["micros"], 0)
    assert (books["tokens_written_1h"] > 0) == (cache == "1h")
    # One query pays for storing the documents, and the other three read them from the cache.
    assert books["tokens_cached"] == 3 * written > 0
    assert row["cached_share"] == pytest.approx(books["tokens_cached"] / books["tokens_in"])
    assert (stage.cache_write_tokens, stage.cache_read_tokens) == pytest.approx((written, 3 * written), rel=0.01)
    assert stage.cached_micros < stage.usd_micros


def test_the_judgments_of_a_summary_share_its_bullets(tmp_path: Path) -> None:
    with in_thread(answer, quick=False, cache_minimum=100, **PRICES) as provider:
        result = summhay_ray.run(spec(provider.base, cache=False, judge={"cache": False}), str(tmp_path / "a"), executor="inline")
        none = provider.stats()
        provider.reset()
        cached = summhay_ray.run(spec(provider.base, judge={}), str(tmp_path / "b"), executor="inline")
        calls = provider.calls()
        micros = provider.stats()["micros"]
    assert (result.status, cached.status, none["tokens_cached"] + none["tokens_written"]) == ("done", "done", 0)
    judged = [call for call in calls if call["tokens_out"] < 40]
    assert sum(call["tokens_cached"] for call in judged) > sum(call["tokens_written"] for call in judged) > 0
    assert round(cached.usd["spent"] * 1e6) == micros < none["micros"]


def test_a_ranking_is_not_shared(tmp_path: Path) -> None:
    with in_thread(answer, quick=False, **PRICES) as provider:
        summhay_ray.run(spec(provider.base, retriever="bm25"), str(tmp_path), executor="inline")
        stats = provider.stats()
    assert stats["tokens_written"] == stats["tokens_cached"] == 0


def test_the_plan_warns_of_a_beginning_that_is_too_short_for_the_cache(tmp_path: Path) -> None:
    asked = spec("http://127.0.0.1:1", judge={"model": "anthropic/claude-haiku-4-5"})
    (warning,) = [line for line in api.plan(asked, str(tmp_path)).warnings if "caches only prefixes of at least 4,096" in line]
    assert warning.startswith("anthropic/claude-haiku-4-5: ")


def test_the_ways_to_ask_are_compared(tmp_path: Path) -> None:
    fields = {"haystacks": ["sample/news"], "retrievers": ["full"], "judges": ["anthropic/claude-haiku-4-5"]}
    made = api.plan({**fields, "summarizers": ["openai/o3", "anthropic/claude-sonnet-4-5"]}, str(tmp_path))
    usd = {(way.channel, way.cache): way.usd for way in made.ways}
    assert usd["standard", False] == pytest.approx(made.usd["expected"])
    assert usd["batch", False] == pytest.approx(usd["standard", False] / 2, rel=1e-3)
    assert usd["batch", True] < usd["standard", True] < usd["standard", False]
    assert usd["flex", False] < usd["standard", False]
    ways = {way.channel: way for way in made.ways if not way.cache}
    assert set(ways["flex"].unavailable) == {"anthropic/claude-haiku-4-5", "anthropic/claude-sonnet-4-5"}
    assert (ways["batch"].hours, ways["batch"].waves, ways["standard"].hours) == (48, 2, None)
