"""A paid synthesis with a simulated provider that fails: money, bounds, and a reason for every failed topic."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from simulated_provider import KEY, Simulated, in_thread, simulated_provider
from synth_runs import run_inline, small

from summhay_ray import api
from summhay_ray.benchmarks.synth import Synth
from summhay_ray.benchmarks.synth import explain as explaining
from summhay_ray.cli import explained
from summhay_ray.engine import PlanResult, StatusResult, plan
from summhay_ray.simulator import offline_answer
from summhay_ray.store import RunStore, Store

pytestmark = pytest.mark.core

KEY_ENV = "SYNTH_TEST_KEY"
PRICE = {"input_per_mtok": 2.5, "output_per_mtok": 10}
FAULTS = ("--forget", "0.1", "--extra", "0.05", "--malformed", "0.05", "--seed", "3", "--cache-lifetime", "0")
N_TOPICS = 4


@pytest.fixture(scope="module")
def provider() -> Iterator[Simulated]:
    with pytest.MonkeyPatch.context() as patch, simulated_provider(*FAULTS) as found:
        patch.setenv(KEY_ENV, KEY)
        yield found


def hosted(base: str, domain: str, write: Mapping[str, Any] | None = None, **fields: Any) -> Synth:
    """Every stage asks a model of the provider. `write`: further fields of the writer's entry."""
    known = {"api_base": base, "api_key_env": KEY_ENV, "price": PRICE, "max_tokens": 1500}
    models = {stage: {"model": f"openai/{stage}", **known} for stage in ("outline", "write", "check")}
    models["write"] |= write or {}
    return small(domain=domain, topics={"made_up": N_TOPICS}, models=models, documents=10, insights=3, **fields)


@dataclass(frozen=True)
class Whole:
    """A complete run: its grid, plan and result, and the provider's figures about it."""

    grid: Synth
    planned: PlanResult
    run: RunStore
    result: Any
    bill: Mapping[str, Any]


def run_whole(provider: Simulated, domain: str, folder: Path) -> Whole:
    provider.reset()
    grid, store = hosted(provider.base, domain), Store(str(folder))
    planned = plan(grid, store)
    return Whole(grid, planned, *run_inline(grid, store), provider.stats())


@pytest.fixture(scope="module")
def whole(provider: Simulated, tmp_path_factory: pytest.TempPathFactory) -> Whole:
    return run_whole(provider, "news", tmp_path_factory.mktemp("whole"))


def status(run: RunStore) -> StatusResult:
    return api.status(run.run_id, run.store.uri)


def explain(run: RunStore, key: str) -> dict[str, Any]:
    return api.explain(run.run_id, key, run.store.uri)


def dollars(run: RunStore) -> float:
    return sum(row["real"]["usd"] for row in status(run).usage)


@pytest.mark.parametrize("domain", ["news", pytest.param("conversation", marks=pytest.mark.soak)])
def test_every_topic_is_verified_or_fails_with_its_reason(provider: Simulated, domain: str, whole: Whole, tmp_path: Path) -> None:
    found = whole if domain == "news" else run_whole(provider, domain, tmp_path)
    grid, run, result = found.grid, found.run, found.result
    made, failed = result.scores.haystacks, result.scores.failed
    assert len(made) + len(failed) == N_TOPICS and made
    assert all(one.error and one.message for one in failed)
    assert status(run).cells == {"total": N_TOPICS, "done": len(made), "failed": len(failed)}

    # There were faults; they were found, and repaired as often as the paper allows.
    checks = run.table("checks").filter(pl.col("cell_id").is_in([grid.recipe.cell_id(topic) for topic in grid.recipe.topics]))
    kinds = ("document_insight", "chapter_insight")
    amiss = checks.filter(pl.col("kind").is_in(kinds) & (pl.col("expected") != pl.col("found")))
    assert amiss.height > 0 and sum(one.corrections for one in made) > 0
    assert sum(one.checks_by_model for one in made) > 0

    # charged = billed, and within the bounds.
    assert dollars(run) == pytest.approx(found.bill["micros"] / 1e6, abs=1e-9)
    assert result.calls["made"] == found.bill["served"]
    real = {row["stage"]: row["real"] for row in status(run).usage}
    for stage in (one.to_json() for one in found.planned.stages):
        spent = real[stage["stage"]]
        assert spent["calls"] <= stage["max_calls"] and spent["usd"] <= stage["usd_max"]
        if not failed:
            assert stage["min_calls"] <= spent["calls"] and stage["usd_min"] <= spent["usd"]
    cost = sum(one.usd for one in made) + sum(one.usd for one in failed)
    assert cost == pytest.approx(dollars(run), abs=1e-9), "no answer is for two topics"

    _, again = run_inline(grid, run.store)
    assert (again.executor, again.calls["made"]) == ("", 0), "nothing is left to do"


def test_checks_by_a_model_are_explained_by_their_answers(whole: Whole) -> None:
    run = whole.run
    by_model = run.table("checks").filter((pl.col("by") != "offline") & (pl.col("key") != ""))
    assert by_model["by"].unique().to_list() == ["openai/check"]
    row = by_model.row(0, named=True)
    found = explain(run, row["key"])
    assert found["cell_id"] == row["cell_id"] and row in [{name: one[name] for name in row} for one in found["checks"]]
    assert found["raw_answer"]["model"] == "openai/check" and "\nInput:\n" in found["prompt"]


def test_a_document_is_explained_by_what_wrote_edited_and_checked_it(
    whole: Whole, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = whole.run
    checks, made = run.table("checks"), [one.name for one in whole.result.scores.haystacks]
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
    # Another version sends other prompts: only the answers that checks name are then known.
    monkeypatch.setattr(explaining, "answers_of_document", lambda *_: [])
    later = explain(run, "/".join(edited))
    assert {one["key"] for one in later["document"]["answers"]} == asked
    explained.show(later)
    assert "asks with other prompts" in capsys.readouterr().out


def test_a_model_that_is_gone_fails_every_topic_and_is_asked_again(provider: Simulated, tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    with in_thread(offline_answer(), input_price=2.5, output_price=10.0, unknown_models=("write",)) as lacking:
        gone = hosted(lacking.base, "news")
        run, result = run_inline(gone, store)
    told = api.failures(run.run_id, store.uri)
    assert {(one["stage"], one["kind"], one["error"]) for one in told} == {("documents", "failed", "model_not_found")}
    assert [one.usd > 0 for one in result.scores.failed] == [True] * N_TOPICS, "what their outlines cost"
    assert "openai/write" in result.stopped_models
    there = hosted(provider.base, "news")
    assert there.run_id == gone.run_id, "where a model is reached is no part of the run"
    made, again = run_inline(there, store)
    assert again.scores.haystacks and again.calls["reused"] > 0
    assert made.table("made").height + made.table("failures").height == N_TOPICS
