"""From the ledger's snapshots to the live display; the driver's heartbeat; budgets; a run that is read once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from inline_runs import N_INSIGHTS, N_QUERIES, SAMPLE, loaded

from summhay_ray import api
from summhay_ray.engine import PlanResult, Progress
from summhay_ray.engine.run.progress import Extent, Timeline, watching
from summhay_ray.engine.stage_plan import StagePlan
from summhay_ray.engine.start import budgets_of
from summhay_ray.llm import FREE, Budgets, Limits, ModelSettings

pytestmark = pytest.mark.core

REMOTE = ModelSettings(model="openai/a", price=FREE, limits=Limits(rpm=600, input_tpm=1_000_000, concurrency=32))
EXTENT = Extent("r1", "cells", 100, 20, "judgments", 500, 100, 2.0, {"openai/a": REMOTE})


def timeline(extent: Extent = EXTENT, started: float = 0.0, planned: Callable[[], PlanResult | None] = lambda: None) -> Timeline:
    return Timeline(extent, started, planned)


def plan_of(*stages: StagePlan) -> PlanResult:
    """A plan from bounds."""
    return PlanResult("r1", 1, 0, 0, 0, list(stages))


def snapshot(made: int = 0, requests: int = 0, **numbers: Any) -> dict[str, Any]:
    model = {
        "calls": made,
        "in_flight": 3,
        "cap": 8,
        "requests": requests,
        "input_tokens": 150 * requests,
        "limited": 2,
        "paused_s": 1.5,
    }
    return {"made": made, "spent_micros": 500_000, "reserved_micros": 250_000, "models": {"openai/a": model}, **numbers}


def test_a_snapshot_becomes_progress() -> None:
    course = timeline(started=100.0)
    course.progress(snapshot(), now=115.0)
    seen = course.progress(snapshot(0, 5, items_done=40, counted=200, failures=1, limited=2, retries=5), now=120.0)
    assert (seen.items_done, seen.rows, seen.failures) == (20 + 40, 100 + 200, 1)
    assert (seen.spent_usd, seen.reserved_usd, seen.left_usd) == (0.5, 0.25, 2.0 - 0.5 - 0.25)
    # 40 cells in 20 s; 40 are left.
    assert (seen.seconds, seen.seconds_left) == (20.0, 20.0)
    (model,) = seen.models
    assert (model.requests, model.rpm, model.input_tokens, model.input_tpm) == (60, 600, 9000, 1_000_000)
    assert (model.output_tokens, model.output_tpm) == (0, None)
    assert (model.in_flight, model.cap, model.limited, model.paused_s, model.stopped) == (3, 8, 2, 1.5, "")


def test_calls_show_the_progress_of_an_item_with_hundreds_of_calls() -> None:
    planned: list[PlanResult | None] = [None]
    free = replace(EXTENT, unit="topics", items=1, items_before=0, models={"openai/a": replace(REMOTE, limits=Limits())})
    course = timeline(free, planned=lambda: planned[0])

    def at(now: float, **numbers: Any) -> Progress:
        return course.progress(snapshot(**{"made": 0, **numbers}), now)

    first = at(20.0)
    assert (first.calls_left, first.seconds_left, first.unit, first.table) == (None, None, "topics", "judgments")
    planned[0] = plan_of(StagePlan("write", "openai/a", calls=30, reused=50), StagePlan("check", "openai/a", calls=20))
    no_call_yet = at(30.0)
    assert (no_call_yet.calls_left, no_call_yet.seconds_left) == (50, None)
    # 10 calls in the 40 s since the first snapshot; 40 are left.
    assert at(60.0, made=10, reused=50).seconds_left == 40 * 40 / 10
    assert at(61.0, made=90, reused=50).seconds_left is None, "more than expected: nobody knows how many more"
    assert at(62.0, made=90, reused=50, items_done=1).seconds_left == 0.0


def test_the_time_left_is_that_of_the_slowest_model_and_no_less_than_its_limits_allow() -> None:
    slow = ModelSettings(model="openai/b", price=FREE, limits=Limits(rpm=60))
    extent = replace(EXTENT, models={"openai/a": replace(REMOTE, limits=Limits()), "openai/b": slow})
    planned = plan_of(StagePlan("one", "openai/a", calls=600), StagePlan("two", "openai/b", calls=250))
    course = timeline(extent, planned=lambda: planned)

    def at(now: float, a: int, b: int) -> float | None:
        models = {"openai/a": {"calls": a, "in_flight": 1}, "openai/b": {"calls": b, "in_flight": 1}}
        return course.progress({"made": a + b, "models": models}, now).seconds_left

    assert at(0.0, 0, 0) is None
    # `b` may answer 60 per minute, whatever its first rate: 240 are left.
    assert at(1.0, 30, 10) == 240.0
    # 10 calls in 20 s: half of its limit. `a` needs (600 - 60) / 3 s.
    assert at(20.0, 60, 10) == pytest.approx(240 * 2)
    # The last minute counts: since then both have another rate.
    for second in range(21, 90):
        left = at(float(second), 60 + 6 * (second - 20), 10 + (second - 20))
    assert left == pytest.approx(250 - 79, abs=12)


def test_the_tokens_of_a_local_model_give_the_time_left_before_its_first_answer() -> None:
    planned = plan_of(StagePlan("say", "transformers/m", calls=16))
    local = ModelSettings(model="transformers/m", price=FREE)
    course = timeline(replace(EXTENT, models={"transformers/m": local}), planned=lambda: planned)

    def at(now: float, tokens: int) -> Progress:
        # Eight answers of at most 100 tokens are in progress.
        return course.progress({"generated_tokens": tokens, "answers_under_way": 10 * tokens}, now)

    assert at(0.0, 0).seconds_left is None
    left = [at(now, int(10 * now)).seconds_left for now in (10.0, 20.0, 30.0)]
    # 10 tokens per second: an answer takes 10 s. 14 answers are left after 20 s.
    assert left[1:] == [pytest.approx(140), pytest.approx(130)]
    assert (at(40.0, 400).tokens, at(40.0, 400).tokens_a_second) == (400, 10.0)


def test_without_a_plan_the_items_give_the_time_left() -> None:
    course = timeline()
    assert course.progress(snapshot(0, items_done=7), now=10.0).seconds_left is None
    assert course.progress(snapshot(0, items_done=8), now=10.0).seconds_left == pytest.approx(10 / 8 * 72)


def test_rates_are_those_of_the_last_seconds() -> None:
    course = timeline()
    for second in range(31):
        # 5 calls per second at first, 20 per second in the last ten seconds.
        made = 5 * second if second <= 20 else 100 + 20 * (second - 20)
        seen = course.progress(snapshot(made), now=float(second))
    assert seen.calls_a_second == seen.models[0].calls_a_second == pytest.approx(20.0)


def test_what_a_killed_worker_counts_twice_is_no_more_than_there_is() -> None:
    seen = timeline().progress(snapshot(items_done=95, counted=900), 1.0)
    assert (seen.items_done, seen.rows) == (100, 500)


def test_the_sign_of_life_does_not_wait_for_a_display_that_hangs() -> None:
    shown, goes_on = threading.Event(), threading.Event()
    asked: list[bool] = []

    def ask() -> dict[str, Any]:
        asked.append(shown.is_set() and not goes_on.is_set())
        if sum(asked) >= 4:
            goes_on.set()
        return snapshot()

    def show(_: object) -> None:
        shown.set()
        assert goes_on.wait(60), "nobody asked while it hung"

    with watching(ask, show):
        assert goes_on.wait(60)


def test_money_in_whole_micro_dollars() -> None:
    budgets = {"stage_budgets_usd": {"judge": 0.29}, "model_budgets_usd": {"openai/a": 1.0000019}, "budget_usd": 5.0}
    grid = loaded(summarizers=[{"model": "openai/a", "price": 0}], **budgets)
    assert budgets_of(grid, 0.57) == Budgets(570_000, {"judge": 290_000}, {"openai/a": 1_000_001})
    assert budgets_of(grid, None).total is None


def test_whoever_watches_sees_the_run_from_its_beginning_to_its_end(tmp_path: Path) -> None:
    seen: list[Progress] = []
    result = api.run(SAMPLE, str(tmp_path / "store"), executor="inline", watch=seen.append)
    first, last = seen[0], seen[-1]
    assert (first.items_done, first.items_total, first.rows, first.rows_total) == (0, N_QUERIES, 0, N_INSIGHTS)
    assert (last.items_done, last.rows, last.seconds_left, last.calls) == (N_QUERIES, N_INSIGHTS, 0.0, result.calls["made"])
    assert (last.unit, last.table, last.run) == ("cells", "judgments", result.run)
