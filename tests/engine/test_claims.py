"""A provider reports false usage: its answers count, the budget holds, no other model waits, and the user is informed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_provider import FakeProvider, Reply
from inline_runs import answered as run_inline
from inline_runs import rows
from runs import summhay, write_spec
from simulated_provider import KEY, in_thread

from summhay_ray.cli.read import status_facts
from summhay_ray.engine import entries, status
from summhay_ray.store import LogIndex

KEY_ENV = "CLAIMS_TEST_KEY"
PRICE = {"input_per_mtok": 2.5, "output_per_mtok": 10}
N_QUERIES, REPEATS = 4, 5
N_CELLS = N_QUERIES * REPEATS
AHEAD = 8
"""Calls that have leave to be sent, at most, when a model is stopped."""
BUDGET = 5.0


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY_ENV, KEY)


def models(base: str, *names: str, **fields: Any) -> list[dict[str, Any]]:
    return [{"model": f"openai/{name}", "api_base": base, "api_key_env": KEY_ENV, "price": PRICE, **fields} for name in names]


@pytest.mark.core
@pytest.mark.parametrize(
    # Answers have the maximum length, and prompts reserve half as much again: 1.5 times the usage is 1.3 times the reservation.
    ("claim", "least"),
    [(1.5, 3), pytest.param(10_000.0, 1, marks=pytest.mark.soak)],
)
def test_a_liar_is_stopped_and_the_honest_go_on(tmp_path: Path, claim: float, least: int) -> None:
    with in_thread(models={"liar": {"claim": claim}}, cache_lifetime=0.0) as provider:
        spec = {
            "summarizers": models(provider.base, "liar", "honest"),
            "repeats": REPEATS,
            # One call at a time, so that few calls are in flight when the model is stopped.
            "limits": {"openai/liar": {"concurrency": 1}},
        }
        result, run = run_inline(tmp_path / "store", BUDGET, **spec)
        bills = {name: provider.tally(name)["micros"] for name in ("liar", "honest")}
    summaries = [row["model"] for row in rows(run, "summaries")]
    answered = summaries.count("openai/liar")
    assert least <= answered <= least + AHEAD < N_CELLS
    assert summaries.count("openai/honest") == N_CELLS
    assert {row["error"] for row in rows(run, "failures")} == {"usage_not_credible"}
    index = LogIndex(run.store.files)
    index.refresh()
    tallies = index.totals(run.run_id)
    charged = {name: tallies["summarize", f"openai/{name}"].usd_micros for name in bills}
    assert sum(charged.values()) <= BUDGET * 1e6 and result.usd["spent"] == sum(charged.values()) / 1e6
    assert charged["honest"] == bills["honest"] and bills["liar"] <= charged["liar"]
    found = status(run)
    lost = N_CELLS - answered
    assert (found.status, found.cells) == ("partial", {"total": 2 * N_CELLS, "done": 2 * N_CELLS - lost, "failed": lost})
    [told] = found.claims
    marked = [row for row in rows(run, "raw_answers") if row["claimed_tokens"]]
    assert {row["model"] for row in marked} == {told["model"]} == {"openai/liar"} and told["stopped"]
    assert told["answers"] == answered == len(marked)
    assert (
        told["claimed_usd"] == sum(row["claimed_micros"] for row in marked) / 1e6 > told["charged_usd"] == charged["liar"] / 1e6
    )
    line = dict(status_facts(found))["stopped openai/liar"]
    assert f"{told['claimed_usd']:.6f} dollars" in line and f"{told['charged_usd']:.6f} dollars are charged" in line
    assert f"write token_margin: {told['token_margin']:g}" in line


@pytest.mark.core
def test_a_tokenizer_that_counts_more_is_believed_with_a_token_margin(tmp_path: Path) -> None:
    with in_thread(models={"many": {"claim": 4.0}}) as provider:
        _, stopped = run_inline(tmp_path / "store", summarizers=models(provider.base, "many"))
        [told] = status(stopped).claims
        covered = models(provider.base, "many", token_margin=told["token_margin"])
        result, again = run_inline(tmp_path / "store", summarizers=covered)
        assert again.run_id == stopped.run_id and provider.tally("many")["repeated"] == 0
    assert (result.status, result.warnings, rows(again, "failures"), status(again).claims) == ("done", (), [], [])
    assert status(again).cells == {"total": N_QUERIES, "done": N_QUERIES, "failed": 0}


@pytest.fixture
def fake() -> Iterator[FakeProvider]:
    server = FakeProvider()
    server.start()
    yield server
    server.stop()


@pytest.mark.core
def test_a_run_with_a_marked_answer_and_all_else_done_is_partial_until_a_margin_covers_it(
    tmp_path: Path, fake: FakeProvider
) -> None:
    fake.replies.append(Reply(usage={"prompt_tokens": 10_000, "completion_tokens": 7}))
    plain, more = (models(fake.base, "odd", **fields) for fields in ({}, {"token_margin": 4}))
    result, run = run_inline(tmp_path / "store", summarizers=plain)
    assert (result.status, result.cells["done"], result.stopped_models) == ("partial", N_QUERIES, {})
    [warning] = result.warnings
    assert warning.startswith("openai/odd: 1 answer claims 10,007 tokens for 0.025070 dollars, more than was reserved: ")
    assert (status(run).status, status(run).claims[0]["stopped"]) == ("partial", False)
    (entry,) = entries(run.store)
    assert (entry.status, entry.usd, entry.cells) == ("partial", status(run).usd, status(run).cells)
    covered, _ = run_inline(tmp_path / "store", summarizers=more)
    assert (covered.status, covered.warnings, covered.run) == ("done", (), run.run_id)
    assert (status(run).status, status(run).claims) == ("done", [])
    again, _ = run_inline(tmp_path / "store", summarizers=plain)
    assert again.status == status(run).status == "partial"


def test_a_run_with_a_liar_ends_with_4_and_a_run_without_money_with_3(tmp_path: Path) -> None:
    with in_thread(models={"liar": {"claim": 10_000.0}}, cache_lifetime=0.0) as provider:
        fields = {
            "haystacks": ["sample/news"],
            "retrievers": ["bm25", "oracle"],
            "token_budget": 1500,
            "summarizers": models(provider.base, "liar", "honest"),
            "judges": ["offline/judge"],
            # Two calls at once: the liar's other calls wait, and are never sent.
            "limits": {"openai/liar": {"concurrency": 2, "input_tpm": 10_000_000}},
            "executor": "inline",
        }
        spec, poor, store = write_spec(tmp_path, fields), tmp_path / "poor", tmp_path / "store"
        left = summhay("run", spec, "--store", poor, "--budget", "0.000001", code=3)
        assert (left["status"], left["calls"], left["left"]["cells"]) == ("budget", {"made": 0, "reused": 0, "failed": 0}, 16)
        assert provider.stats()["requests"] == 0
        ended = summhay("run", spec, "--store", store, "--budget", "1", code=4)
        bill, honest = provider.stats()["micros"], provider.tally("honest")
        assert honest["answered"] == 8 and bill / 1e6 <= ended["usd"]["spent"] <= 1
        assert "write token_margin: " in ended["stopped_models"]["openai/liar"]
        systems = {system["model"]: system["n_scored"] for system in ended["systems"] if system["retriever"] == "bm25"}
        assert systems["openai/honest"] == 22
        told = summhay("status", ended["run"], "--store", store)
        [claims] = told["claims"]
        assert told["status"] == "partial" and claims["model"] == "openai/liar" and claims["stopped"]
        assert claims["claimed_usd"] > 1 > claims["charged_usd"] + honest["micros"] / 1e6 - 1e-9
        answered = provider.tally("liar")["answered"]
        assert claims["answers"] == answered == 8 - told["failures"].get("usage_not_credible", 0)
