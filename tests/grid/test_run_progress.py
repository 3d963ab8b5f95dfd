"""From the ledger's snapshots to what a live display shows; the driver's sign of life; cells committed together; budgets."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import still_time
from inprocess import answer_all, grid_of_fields

from summhay_ray.grid.answering import CellRows
from summhay_ray.grid.cells import Cell, Unit
from summhay_ray.grid.progress import ByCalls, Course, Extent, Progress, Watch
from summhay_ray.grid.run import budgets_of
from summhay_ray.grid.standing import StillRun, standing_of
from summhay_ray.llm import FREE, Budgets, Limits, ModelSettings
from summhay_ray.store import TABLES, Store

pytestmark = pytest.mark.core

REMOTE = ModelSettings(model="openai/a", price=FREE, limits=Limits(rpm=600, input_tpm=1_000_000, concurrency=32))
EXTENT = Extent(
    "r1", cells=100, cells_before=20, judgments=500, judgments_before=100, budget_usd=2.0, models={"openai/a": REMOTE}
)


def snapshot(made: int = 0, **numbers: Any) -> dict[str, Any]:
    model = {
        "calls": made,
        "in_flight": 3,
        "cap": 8,
        "requests_per_min": 60,
        "input_per_min": 9000,
        "limited": 2,
        "paused_s": 1.5,
    }
    return {"made": made, "spent_micros": 500_000, "reserved_micros": 250_000, "models": {"openai/a": model}, **numbers}


def test_a_snapshot_becomes_progress() -> None:
    course = Course(EXTENT, started=100.0)
    seen = course.progress(snapshot(0, cells_done=40, judgments=200, failures=1, limited=2, retries=5), now=120.0)
    assert (seen.cells_done, seen.judgments, seen.failures) == (20 + 40, 100 + 200, 1)
    assert (seen.spent_usd, seen.reserved_usd, seen.left_usd) == (0.5, 0.25, 2.0 - 0.5 - 0.25)
    # 40 cells in 20 s, 40 to come.
    assert (seen.seconds, seen.seconds_left) == (20.0, 20.0)
    (model,) = seen.models
    assert (model.requests, model.rpm, model.input_tokens, model.input_tpm) == (60, 600, 9000, 1_000_000)
    assert (model.output_tokens, model.output_tpm) == (0, None)
    assert (model.in_flight, model.cap, model.limited, model.paused_s, model.stopped) == (3, 8, 2, 1.5, "")


def test_where_a_cell_is_hundreds_of_calls_they_tell_how_far_it_is() -> None:
    seen: list[Progress] = []
    expected: list[int | None] = [None]
    show = ByCalls("topics", lambda: expected[0], seen.append)
    course = Course(replace(EXTENT, cells=1, cells_before=0), started=0.0)

    def at(now: float, **numbers: Any) -> Progress:
        show(course.progress(snapshot(**numbers), now))
        return seen[-1]

    assert (at(20.0).calls_expected, seen[-1].seconds_left, seen[-1].unit) == (None, None, "topics")
    expected[0] = 100
    assert (at(30.0).calls_expected, seen[-1].seconds_left) == (100, None), "no call yet"
    at(40.0, in_flight=4)
    # 10 calls in the 20 s since the first was sent; 100 - 10 - 50 are to come: 2 s each.
    assert at(60.0, made=10, reused=50).seconds_left == 80.0
    assert at(61.0, made=90, reused=50).seconds_left is None, "more than expected: nobody knows how many more"
    assert at(62.0, made=90, reused=50, cells_done=1).seconds_left == 0.0


def test_rates_are_those_of_the_last_seconds() -> None:
    course = Course(EXTENT, started=0.0)
    for second in range(31):
        # 5 calls a second at first, 20 a second in the last ten.
        made = 5 * second if second <= 20 else 100 + 20 * (second - 20)
        seen = course.progress(snapshot(made), now=float(second))
    assert seen.calls_a_second == seen.models[0].calls_a_second == pytest.approx(20.0)


def test_what_a_killed_worker_counts_twice_is_no_more_than_there_is() -> None:
    seen = Course(EXTENT, 0.0).progress(snapshot(cells_done=95, judgments=900), 1.0)
    assert (seen.cells_done, seen.judgments) == (100, 500)


def test_without_budget_nothing_is_left_of_it_and_a_stopped_model_says_why() -> None:
    extent = Extent("r1", 1, 0, 5, 0, None, {})
    stopped = {"openai/a": {"error": "quota_exhausted", "reason": "pay first"}}
    seen = Course(extent, 0.0).progress(snapshot(stopped=stopped), 1.0)
    assert (seen.left_usd, seen.seconds_left, seen.calls_a_second) == (None, None, 0.0)
    assert (seen.models[0].stopped, seen.models[0].rpm) == ("quota_exhausted", None)
    assert Course(extent, 0.0).progress({}, 1.0).models == ()


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

    with Watch(ask, show):
        assert goes_on.wait(60)


def test_money_in_whole_micro_dollars() -> None:
    model = {"model": "openai/a", "price": 0}
    grid = grid_of_fields(
        summarizers=[model], stage_budgets_usd={"judge": 0.29}, model_budgets_usd={"openai/a": 1.0000019}, budget_usd=5.0
    )
    assert budgets_of(grid, 0.57) == Budgets(570_000, {"judge": 290_000}, {"openai/a": 1_000_001})
    assert budgets_of(grid, None).total is None


def test_a_still_run_reads_each_table_once_and_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    grid = grid_of_fields()
    run, _, _ = answer_all(grid, Store(str(tmp_path / "store")))
    expected = {name: run.table(name) for name in TABLES}
    still = StillRun(run)
    reads: list[str] = []
    real = run.store.files.read
    monkeypatch.setattr(type(run.store.files), "read", lambda _, name: reads.append(name) or real(name))
    for _ in range(3):
        found = still.tables(list(TABLES))
        assert all(found[name].equals(still.table(name)) and found[name].equals(expected[name]) for name in TABLES)
    assert len(reads) == len(set(reads))
    assert still.finished("cell") == run.finished("cell")
    standing = standing_of(grid, still)
    assert (standing.total, standing.left(), sum(standing.judgments().values())) == (4, {}, 22)


def rows_of_cell(number: int) -> CellRows:
    return CellRows(Cell(f"cell-{number}", Unit("h", "q", "bm25", "given"), 0, 0, "system"))


def commit_all(seconds: Sequence[float], every_s: float, slow_commit_s: float = 0.0) -> list[list[str]]:
    """The commits of cells that take so many seconds."""
    from summhay_ray.grid.worker import Commits

    made: list[list[str]] = []

    async def commit(ready: Sequence[CellRows]) -> None:
        await asyncio.sleep(slow_commit_s)
        made.append([done.cell.cell_id for done in ready])

    async def run() -> None:
        commits = Commits(commit, every_s)

        async def one(number: int, wait_s: float) -> None:
            with commits.under_way():
                await asyncio.sleep(wait_s)
            await commits.keep(rows_of_cell(number))
            assert any(f"cell-{number}" in names for names in made), "kept before it was committed"

        await asyncio.gather(*(one(number, wait_s) for number, wait_s in enumerate(seconds)))

    still_time.run(run())
    return made


def test_cells_are_committed_together() -> None:
    # The last one is ready after 0.1 s: nobody is under way then, and all go together.
    assert [len(names) for names in commit_all([0.0, 0.05, 0.1], every_s=60)] == [3]
    assert [len(names) for names in commit_all([0.0] * 64 + [0.2], every_s=60)] == [64, 1]
    # No cell waits longer than that for others.
    assert [len(names) for names in commit_all([0.0, 0.0, 0.6], every_s=0.2)] == [2, 1]


def test_what_is_ready_during_a_commit_goes_with_the_next() -> None:
    made = commit_all([0.0, *[0.05 + number / 100 for number in range(10)]], every_s=0.01, slow_commit_s=0.3)
    assert sorted(name for names in made for name in names) == sorted(f"cell-{number}" for number in range(11))
    assert len(made) <= 3


def test_a_commit_that_fails_is_an_error_of_every_cell_of_it() -> None:
    from summhay_ray.grid.worker import Commits

    async def full(_: Sequence[CellRows]) -> None:
        raise OSError(28, "no space left on device")

    async def run() -> list[Any]:
        commits = Commits(full)
        return await asyncio.gather(*(commits.keep(rows_of_cell(number)) for number in range(3)), return_exceptions=True)

    assert [type(one) for one in asyncio.run(run())] == [OSError] * 3
