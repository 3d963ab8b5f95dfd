"""A paid run of ETHIC with the simulated provider: planned, stopped at its budget, resumed, judged by log probabilities."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from simulated_provider import in_thread

import summhay_ray
from summhay_ray.simulator.start import offline_answer

pytestmark = pytest.mark.core

PRICE = {"input_per_mtok": 2.5, "cached_input_per_mtok": 1.25, "output_per_mtok": 10}


def test_a_paid_run_keeps_its_budget_and_resumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ETHIC_KEY", "sk-ethic")
    with in_thread(offline_answer(), input_price=2.5, cached_price=1.25, output_price=10.0) as provider:
        reach: dict[str, Any] = {"api_base": provider.base, "api_key_env": "ETHIC_KEY", "price": PRICE}
        spec = {
            "kind": "ethic",
            "models": [{"model": "openai/simulated", "max_tokens": 500, **reach}],
            "judges": [{"model": "openai/simulated-judge", **reach}],
            "domains": ["Books"],
            "executor": "inline",
        }
        store = str(tmp_path)
        plan = summhay_ray.plan(spec, store=store)
        calls = {stage.stage: stage.calls for stage in plan.stages}
        # Two documents of five sections, with three criteria per section; each document has four tasks.
        assert (calls["answer"], calls["judge"]) == (8, 3 * 10)
        stopped = summhay_ray.run(spec, store=store, budget=0.02)
        assert stopped.status == "budget" and (stopped.usd["spent"] or 1) <= 0.02
        found = summhay_ray.run(spec, store=store)
        spent = found.usd["spent"] or 0.0
        assert found.status == "done" and plan.usd["min"] <= spent <= plan.usd["max"]
        assert provider.stats()["micros"] == round(spent * 1e6)
        assert summhay_ray.run(spec, store=store).calls["made"] == 0
        # A panel shares the answers of its members with the same judges outside the panel.
        served = provider.stats()["served"]
        panel = {**spec, "judges": [{"model": "panel(openai/simulated-judge,offline)", **reach}]}
        assert sum(stage.calls for stage in summhay_ray.plan(panel, store=store).stages if stage.model != "offline/rater") == 0
        held = summhay_ray.run(panel, store=store)
        assert held.status == "done" and provider.stats()["served"] == served
    votes = summhay_ray.table(held.run, "section_ratings", store)
    assert votes["how"].unique().to_list() == ["panel"] and votes["judge"].unique().to_list() == [
        "panel(openai/simulated-judge,offline)"
    ]
    alone = summhay_ray.table(found.run, "section_ratings", store)
    for row, one in zip(votes.iter_rows(named=True), alone.iter_rows(named=True), strict=True):
        assert row["votes"][0] == one["value"] and row["value"] == row["released"] == pytest.approx(sum(row["votes"]) / 2)
    ratings = summhay_ray.table(found.run, "section_ratings", store)
    assert ratings["how"].unique().to_list() == ["logprobs"] and ratings.height == 3 * 10
    # The simulated judge gives 4 or 5 a probability below 1; the rest lowers only the release's score.
    assert (ratings["released"] < ratings["value"]).all() and ratings["mass"].max() < 1  # type: ignore[operator]
    raw = summhay_ray.table(found.run, "raw_answers", store)
    # The run compared with itself: the cost of the judge's answers is shown with the agreement.
    same = summhay_ray.api.compare_systems(found.run, found.run, judges=["openai/simulated-judge"] * 2, store=store).to_json()
    scored = summhay_ray.api.compare_systems(found.run, found.run, store=store).to_json()["pairs"]
    assert {(pair["unit"], pair["paired"]["n_queries"], pair["paired"]["ties"]) for pair in scored} == {("", 2, 2), ("%", 2, 2)}
    asked = raw.filter(raw["model"] == "openai/simulated-judge")
    assert same["agreement"]["n"] == 3 * 10 and same["agreement"]["same"] == 1.0
    assert same["input_tokens"] == [asked["input_tokens"].sum()] * 2
    assert [round(1e6 * one) for one in same["usd"]] == [asked["usd_micros"].sum()] * 2
    assert (raw.filter(raw["model"] == "openai/simulated-judge")["logprobs"] != "").all()


def test_a_provider_without_log_probabilities_gets_samples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ETHIC_KEY", "sk-ethic")
    with in_thread(offline_answer()) as provider:
        judge = {
            "api_base": provider.base,
            "api_key_env": "ETHIC_KEY",
            "price": PRICE,
            "logprobs": None,
            "samples": 3,
            "role": "system",
        }
        spec = {
            "kind": "ethic",
            "models": ["offline/support"],
            "judges": [{"model": "openai/simulated-judge", **judge}],
            "domains": ["Books"],
            "executor": "inline",
        }
        found = summhay_ray.run(spec, store=str(tmp_path))
    ratings = summhay_ray.table(found.run, "section_ratings", str(tmp_path))
    assert ratings["how"].unique().to_list() == ["samples"] and found.status == "done"
    # The judge's prompt is a system message, as in the release.
    calls = summhay_ray.explain(found.run, ratings["item_id"][0], str(tmp_path))["calls"]
    assert {call["prompt"].partition(":")[0] for call in calls if call["stage"] == "judge"} == {"system"}
