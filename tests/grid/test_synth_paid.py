"""A synthesis that is paid for, at a simulated provider with faults: money, bounds, and no topic without a reason. No Ray."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from paid_runs import KEY_ENV, PRICE
from simulated_provider import KEY, Simulated, simulated_provider
from synth_runs import small, synthesize_all

from summhay_ray.cli import explained
from summhay_ray.grid import Synthesizing, explain, failures, plan_synth, status, synth_explained
from summhay_ray.grid.simulate import make_answers, make_faults, offline_answer
from summhay_ray.grid.synth import failed_topics, made_haystacks
from summhay_ray.llm import simulated
from summhay_ray.store import RunStore, Store

pytestmark = pytest.mark.core

FAULTS = ("--forget", "0.1", "--extra", "0.05", "--malformed", "0.05", "--seed", "3", "--cache-lifetime", "0")
N_TOPICS = 4


@pytest.fixture(scope="module")
def provider() -> Iterator[Simulated]:
    with pytest.MonkeyPatch.context() as patch, simulated_provider(*FAULTS) as found:
        patch.setenv(KEY_ENV, KEY)
        yield found


def hosted(base: str, domain: str, **fields: Any) -> Synthesizing:
    """Every stage is asked of a model of the provider's."""
    known = {"api_base": base, "api_key_env": KEY_ENV, "price": PRICE, "max_tokens": 1500}
    models = {stage: {"model": f"openai/{stage}", **known} for stage in ("outline", "write", "check")}
    return small(domain=domain, topics={"made_up": N_TOPICS}, models=models, documents=10, insights=3, **fields)


def dollars(run: RunStore) -> float:
    return sum(row["real"]["usd"] for row in status(run).usage)


@pytest.mark.parametrize("domain", ["news", "conversation"])
def test_every_topic_is_verified_or_fails_with_its_reason(provider: Simulated, domain: str, tmp_path: Path) -> None:
    provider.reset()
    grid, store = hosted(provider.base, domain), Store(str(tmp_path))
    plan = {stage.stage: stage.to_json() for stage in plan_synth(grid, store).stages}
    run, _, ledger = synthesize_all(grid, store)
    made, failed = made_haystacks(run), failed_topics(run)
    assert len(made) + len(failed) == N_TOPICS and made
    assert all(one.error and one.message for one in failed)
    assert status(run).cells == {"total": N_TOPICS, "done": len(made), "failed": len(failed)}

    # Faults were there, were found, and were mended as often as the paper allows.
    checks = run.table("checks").filter(pl.col("cell_id").is_in([grid.cell_id(topic) for topic in grid.topics]))
    kinds = ("document_insight", "chapter_insight")
    amiss = checks.filter(pl.col("kind").is_in(kinds) & (pl.col("expected") != pl.col("found")))
    assert amiss.height > 0 and sum(one.corrections for one in made) > 0
    assert sum(one.checks_by_model for one in made) > 0

    # charged = billed, and within the bounds.
    assert dollars(run) == pytest.approx(provider.stats()["micros"] / 1e6, abs=1e-9)
    assert ledger.counts["made"] == provider.stats()["served"]
    whole = {row["stage"]: row["real"] for row in status(run).usage}
    for name, stage in plan.items():
        assert whole[name]["calls"] <= stage["max_calls"] and whole[name]["usd"] <= stage["usd_max"]
        if not failed:
            assert stage["min_calls"] <= whole[name]["calls"] and stage["usd_min"] <= whole[name]["usd"]
    cost = sum(one.usd for one in made) + sum(one.usd for one in failed)
    assert cost == pytest.approx(dollars(run), abs=1e-9), "no answer is for two topics"

    _, answered, again = synthesize_all(grid, store)
    assert (answered, again.counts["made"]) == ([], 0)


def test_checks_by_a_model_are_explained_by_their_answers(provider: Simulated, tmp_path: Path) -> None:
    grid, store = hosted(provider.base, "news"), Store(str(tmp_path))
    run, _, _ = synthesize_all(grid, store)
    by_model = run.table("checks").filter((pl.col("by") != "offline") & (pl.col("key") != ""))
    assert by_model["by"].unique().to_list() == ["openai/check"]
    row = by_model.row(0, named=True)
    found = explain(run, row["key"])
    assert found["cell_id"] == row["cell_id"] and row in [{name: one[name] for name in row} for one in found["checks"]]
    assert found["raw_answer"]["model"] == "openai/check" and "\nInput:\n" in found["prompt"]


def test_a_document_is_explained_by_what_wrote_edited_and_checked_it(
    provider: Simulated, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run, _, _ = synthesize_all(hosted(provider.base, "news"), Store(str(tmp_path)))
    checks, made = run.table("checks"), {one.name: one for one in made_haystacks(run)}
    edited = next((name, row["document_id"]) for name in made for row in explain(run, name)["documents"] if row["corrections"])
    document = explain(run, "/".join(edited))["document"]
    tasks = [one["task"] for one in document["answers"]]
    assert tasks.count("document") == 1 <= tasks.count("edit_document") == document["corrections"]
    last = [one for one in document["answers"] if one["task"] == "edit_document"][-1]
    assert explain(run, last["key"])["raw_answer"]["text"].strip() == document["text"]
    cell = explain(run, edited[0])["cell_id"]
    of_it = checks.filter((pl.col("cell_id") == cell) & (pl.col("subject") == edited[1]) & (pl.col("key") != ""))
    asked = set(of_it["key"].to_list())
    assert asked <= {one["key"] for one in document["answers"]}
    # Another version asks with other prompts: of the answers only those are known that checks name.
    monkeypatch.setattr(synth_explained, "answers_of_document", lambda *_: [])
    later = explain(run, "/".join(edited))
    assert {one["key"] for one in later["document"]["answers"]} == asked
    explained.show(later)
    assert "asks with other prompts" in capsys.readouterr().out


def test_a_budget_holds_and_more_goes_on(provider: Simulated, tmp_path: Path) -> None:
    provider.reset()
    grid, store = hosted(provider.base, "news"), Store(str(tmp_path / "store"))
    budget = 60_000
    stopped, answered, _ = synthesize_all(grid, store, budget)
    assert any(one.over_budget for one in answered) and status(stopped).status == "unfinished"
    assert provider.stats()["micros"] <= budget
    finished, _, _ = synthesize_all(grid, store)
    assert dollars(finished) == pytest.approx(provider.stats()["micros"] / 1e6, abs=1e-9)
    provider.reset()
    whole, _, _ = synthesize_all(grid, Store(str(tmp_path / "whole")))
    names = ("haystacks", "documents", "checks", "failures")
    assert [finished.digests()[name] for name in names] == [whole.digests()[name] for name in names]


def test_a_model_that_is_gone_fails_every_topic_and_is_asked_again(provider: Simulated, tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    with simulated_provider("--unknown-model", "write") as lacking:
        gone = hosted(lacking.base, "news")
        run, _, _ = synthesize_all(gone, store)
    assert {(one.stage, one.kind, one.error) for one in failures(run)} == {("documents", "failed", "model_not_found")}
    assert [one.usd > 0 for one in failed_topics(run)] == [True] * N_TOPICS, "what their outlines cost"
    there = hosted(provider.base, "news")
    assert there.run_id == gone.run_id, "where a model is reached is no part of the run"
    made, _, again = synthesize_all(there, store)
    assert made_haystacks(made) and again.counts["reused"] > 0


def test_shares_of_faults_are_shares_and_reach_the_answers() -> None:
    with pytest.raises(simulated.SettingsError, match="the share forget is 1.5; expected 0 to 1"):
        make_faults(1.5, 0, 0)
    prompt = 'Propose.\n\nInput:\n{"task": "query", "topic": "a ferry", "domain": "news", "subtopic": "tolls", "avoid": []}'
    good = offline_answer()("m", prompt)
    assert "query" in json.loads(good)
    answers = make_answers(faults=make_faults(0, 0, 1.0))
    assert asyncio.run(answers.find("m", prompt, "sha")) != good
    answers.close()
