"""`--limit`: a fair choice of items in the same run, marked as incomplete; a larger limit continues from there."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from inline_runs import SAMPLE, loaded, rows

from summhay_ray import api
from summhay_ray.errors import UserError
from summhay_ray.store import Store

pytestmark = pytest.mark.core

SPEC = {**SAMPLE, "haystacks": ["sample/news", "sample/conversation"], "retrievers": ["bm25", "oracle"], "executor": "inline"}
N_CELLS, N_INSIGHTS = 16, 88


def test_a_limited_run_is_the_same_run_and_a_longer_look_goes_on(tmp_path: Path) -> None:
    store = str(tmp_path)
    first = api.run(SPEC, store, limit=4)
    assert (first.status, first.cells) == ("limited", {"total": N_CELLS, "done": 4, "failed": 0})
    assert first.left == {"cells": N_CELLS - 4, "calls": None, "usd": None}
    told = api.status(first.run, store)
    assert (told.status, told.left) == ("limited", first.left)
    # Every system has the same queries, and every figure covers only asked items: the rest is not missing.
    summaries = rows(Store(store).run(first.run), "summaries")
    by_system = {(row["haystack_id"], row["subtopic_id"]): set() for row in summaries}
    for row in summaries:
        by_system[row["haystack_id"], row["subtopic_id"]].add(row["system"])
    assert len(by_system) == 2 and all(len(systems) == 2 for systems in by_system.values())
    assert all(0 < one.n_scored == one.n_expected for one in first.scores.systems)
    assert all(one.floor("joint") == one.joint and one.missing == 0 for one in first.scores.by_query)
    assert first.scores.so_far == "4 of 16 cells so far: the figures are of these"
    again = api.run(SPEC, store, limit=4)
    assert (again.status, again.calls["made"]) == ("limited", 0)
    longer = api.run(SPEC, store, limit=6)
    assert (longer.run, longer.status, longer.cells["done"]) == (first.run, "limited", 6)
    kept = {row["cell_id"] for row in rows(Store(store).run(first.run), "summaries")}
    assert {row["cell_id"] for row in summaries} < kept
    whole = api.run(SPEC, store)
    assert sum(one.n_expected for one in whole.scores.systems) == N_INSIGHTS and whole.scores.so_far == ""
    assert (whole.run, whole.status, whole.cells["done"], whole.left) == (first.run, "done", N_CELLS, None)
    assert api.status(first.run, store).status == "done"
    assert api.run(SPEC, store, limit=1000).status == api.run(SPEC, store, limit=4).status == "done"
    with pytest.raises(UserError, match="limit 0: expected 1 item or more"):
        api.run(SPEC, store, limit=0)


def test_a_cell_that_was_asked_and_failed_is_missing(tmp_path: Path) -> None:
    """Four of sixteen cells: the two cells of the model with the small window fail, and their insights are missing."""
    small = {"model": "offline/support", "context_window": 10}
    run = api.run({**SPEC, "retrievers": ["bm25"], "summarizers": ["offline/lead", small]}, str(tmp_path), limit=4)
    assert run.cells == {"total": N_CELLS, "done": 2, "failed": 2}
    answered, failed = sorted(run.scores.by_query, key=lambda one: one.model)
    assert (answered.missing, failed.missing) == (0.0, 1.0) and failed.n_expected == answered.n_expected
    assert (failed.joint, failed.floor("joint")) == (None, 0.0)
    assert sum(run.failures.values()) == api.status(run.run, str(tmp_path)).cells["failed"] == 2


def test_failures_and_the_budget_go_before_the_limit(tmp_path: Path) -> None:
    lost = [{"model": "offline/lead", "context_window": 10}]
    assert api.run({**SPEC, "summarizers": lost}, str(tmp_path), limit=3).status == "partial"
    paid = [{"model": "offline/lead", "price": {"input_per_mtok": 1.0, "output_per_mtok": 2.0}}]
    assert api.run({**SPEC, "summarizers": paid}, str(tmp_path), budget=0.0, limit=3).status == "budget"


def test_whatever_is_taken_first_is_spread_over_the_models() -> None:
    workload = loaded(summarizers=["offline/lead", "offline/support"], retrievers=["bm25", "oracle"])
    items = list(workload.items())
    for n in (2, 4, 8):
        chosen = workload.fair_order(items)[:n]
        assert len(set(Counter(item.queue for item in chosen).values())) == 1
    assert sorted(item.id for item in workload.fair_order(items)) == sorted(item.id for item in items)


def test_a_benchmark_that_says_nothing_has_the_same_places_of_every_queue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(Path(__file__).parents[2] / "examples")
    monkeypatch.syspath_prepend(".")
    spec = {"kind": "needle:Needle", "models": ["offline/support", {"model": "offline/support", "name": "b"}], "seed": 3}
    workload = api.load(spec)
    chosen = [item.data["depth"] for item in workload.fair_order(list(workload.items()))]
    assert chosen[::2] == chosen[1::2] and len(set(chosen[:8])) > 1
