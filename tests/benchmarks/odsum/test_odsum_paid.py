"""Chains of calls with a provider that bills: planned, within the budget, resumed call by call, and never paid for twice."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from odsum_collections import meetings
from simulated_provider import Simulated, in_thread

import summhay_ray
from summhay_ray.errors import UserError

pytestmark = pytest.mark.core

KEY_ENV = "ODSUM_KEY"
PRICE = {"input_per_mtok": 30.0, "output_per_mtok": 60.0}
STRATEGIES = ["truncate-all", "truncate-one", "map-reduce", "refine-high-to-low", "refine-low-to-high"]


def answer(_: str, prompt: str) -> str:
    """A rating, or a summary that distinguishes the prompts."""
    told = hashlib.sha256(prompt.encode()).hexdigest()[:12]
    return "4" if "<summary>" in prompt else f"The bridge opens in May, as note {told} says."


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[Simulated]:
    monkeypatch.setenv(KEY_ENV, "sk-odsum")
    with in_thread(answer, input_price=30.0, output_price=60.0) as found:
        yield found


def test_every_call_of_a_chain_is_planned_paid_once_and_held_by_the_budget(tmp_path: Path, provider: Simulated) -> None:
    meetings(tmp_path / "meetings")
    reach = {"api_base": provider.base, "api_key_env": KEY_ENV, "price": PRICE}
    spec: dict[str, Any] = {
        "kind": "odsum",
        "corpus": str(tmp_path / "meetings"),
        "retrievers": ["oracle"],
        "k": [2],
        "strategies": STRATEGIES,
        "summarizers": [{"model": "openai/mine", "max_tokens": 60, **reach}],
        "metrics": ["rouge", {"geval": {"model": "openai/rater", **reach}}],
    }
    store = str(tmp_path / "store")
    planned = summhay_ray.plan(spec, store)
    # For the three queries with one document, all strategies except map-reduce ask the same. For the two queries with two
    # documents, both truncations ask the same, and refining begins like mapping: the plan does not see that for the second
    # document.
    calls = {stage.stage: stage.calls for stage in planned.stages}
    summaries, ratings = 3 * (1 + 1) + 2 * (1 + (2 + 1) + 1 + 1), 2 * (3 * 2 + 2 * 4)
    assert calls == {"summarize": summaries + 2, "rate": ratings} and provider.stats()["served"] == 0
    stopped = summhay_ray.run(spec, store=store, executor="inline", budget=planned.usd["expected"] / 3)
    assert stopped.status == "budget" and 0 < stopped.usd["spent"] <= planned.usd["expected"] / 3
    first = provider.stats()["served"]
    done = summhay_ray.run(spec, store=store, executor="inline", budget=1)
    assert done.status == "done" and planned.usd["min"] <= done.usd["spent"] <= planned.usd["max"]
    served = [call for call in provider.calls() if call["status"] == 200]
    assert len(served) == summaries + ratings == provider.stats()["served"] > first
    assert len(set(summhay_ray.table(done.run, "raw_answers", store)["key"])) == len(served)
    assert round(done.usd["spent"] * 1e6) == provider.stats()["micros"]
    assert summhay_ray.run(spec, store=store, executor="inline").calls["made"] == 0
    assert [(row["n_scored"], row["geval"]) for row in done.scores["summaries"].to_dicts()] == [(5, 4.0)] * len(STRATEGIES)

    # A panel shares the answers of its members with the same raters outside the panel; only the other member is paid.
    both = {**spec, "metrics": [{"geval": {"model": "panel(openai/rater,openai/second,offline)", **reach}}]}
    ahead = {stage.model: (stage.calls, stage.reused) for stage in summhay_ray.plan(both, store).stages if stage.stage == "rate"}
    assert (ahead["openai/rater"][0], ahead["openai/second"][0]) == (0, ratings)
    panel = summhay_ray.run(both, store=store, executor="inline")
    assert panel.status == "done" and provider.stats()["served"] == len(served) + ratings
    rows = summhay_ray.table(panel.run, "odsum_ratings", store).to_dicts()
    assert {len(row["votes"]) for row in rows} == {3} and {(row["votes"][:2] == [4.0, 4.0], row["n_votes"]) for row in rows} == {
        (True, 0)
    }
    assert all(row["rating"] == pytest.approx(sum(row["votes"]) / 3) for row in rows)
    cost = summhay_ray.api.compare_systems(done.run, panel.run, judges=["geval", "geval"], store=store).to_json()["usd"]
    assert cost[1] == pytest.approx(2 * cost[0])


def test_another_model_merges_the_summaries(tmp_path: Path, provider: Simulated) -> None:
    meetings(tmp_path / "meetings")
    reach = {"api_base": provider.base, "api_key_env": KEY_ENV, "price": PRICE}
    merging = {"model": "openai/merger", "max_tokens": 40, "temperature": 0.7, **reach}
    spec: dict[str, Any] = {
        "kind": "odsum",
        "corpus": str(tmp_path / "meetings"),
        "retrievers": ["oracle"],
        "k": [2],
        "strategies": [{"strategy": "map-reduce", "reduce": merging}, "map-reduce", "truncate-all"],
        "summarizers": [{"model": "openai/mine", "max_tokens": 60, **reach}],
    }
    store = str(tmp_path / "store")
    assert {stage.model for stage in summhay_ray.plan(spec, store).stages} == {"openai/mine", "openai/merger"}
    done = summhay_ray.run(spec, store=store, executor="inline")
    sent = [call["model"] for call in provider.calls()]
    # Each of the two models merges each of five queries once; parts are asked once for both strategies.
    assert (done.status, sent.count("merger")) == ("done", 5)
    labels = set(summhay_ray.table(done.run, "odsum_summaries", store)["strategy"])
    assert labels == {"map-reduce (reduce=openai/merger)", "map-reduce", "truncate-all"}
    merging["temperature"] = 0.0
    assert summhay_ray.run(spec, store=store, executor="inline").run != done.run
    for entry in (
        {"strategy": "truncate-all", "reduce": "openai/merger"},
        {"strategy": "map-reduce", "reduce": {"answers": "a.jsonl", "name": "a"}},
    ):
        with pytest.raises(UserError, match="reduce"):
            summhay_ray.plan({**spec, "summarizers": [{"model": "openai/mine", **reach, **entry}]}, store)
