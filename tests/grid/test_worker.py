"""A worker without Ray: how often it commits where there are many, what it says when it begins, and how it ends."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import still_time
from inprocess import grid_of_fields

from summhay_ray.grid import worker
from summhay_ray.grid.cells import Grid
from summhay_ray.grid.opening import open_run
from summhay_ray.grid.progress import Course, Extent
from summhay_ray.grid.worker import COMMIT_EVERY_S, WORKERS_A_SECOND, CellWorker, Commits, WorkOrder
from summhay_ray.llm import News
from summhay_ray.store import Store

pytestmark = pytest.mark.core


class LedgerHandle:
    """The ledger's actor as `ray.get_actor` gives it: remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, tuple[Any, ...]]] = []

    def __getattr__(self, name: str) -> Any:
        async def said() -> Any:
            if name == "listen":
                await asyncio.sleep(0.2)
            return News() if name in ("exchange", "listen") else None

        def remote(*values: Any) -> Any:
            self.asked.append((name, values))
            # What nobody waits for must not be a coroutine that nobody awaits.
            return said() if name in ("exchange", "listen", "leave", "commit") else None

        return SimpleNamespace(remote=remote)

    def names(self) -> list[str]:
        return [name for name, _ in list(self.asked)]


@pytest.fixture
def handle(monkeypatch: pytest.MonkeyPatch) -> LedgerHandle:
    found = LedgerHandle()
    context = SimpleNamespace(get_node_id=lambda: "node-1")
    monkeypatch.setattr(worker.ray, "get_actor", lambda name: found if name.startswith("ledger r") else None)
    monkeypatch.setattr(worker.ray, "get_runtime_context", lambda: context)
    monkeypatch.setattr(worker, "BEAT_EVERY_S", 0.02)
    return found


@pytest.fixture
def grid(tmp_path: Path) -> Grid:
    return grid_of_fields()


def made(grid: Grid, folder: Path, workers: int = 1) -> CellWorker:
    store = Store(str(folder / "store"))
    run = open_run(grid, store)
    order = WorkOrder(str(folder / "store"), run.run_id, 1, grid.spec.model_dump(mode="json"), dict(grid.prompts), workers)
    return CellWorker(order, "calling", 3)


def begun(*given: Any, **more: Any) -> CellWorker:
    """One that is ready, its loop over."""
    one = made(*given, **more)
    asyncio.run(one.ready())
    return one


def test_it_takes_its_seat_where_it_is_and_beats(handle: LedgerHandle, grid: Grid, tmp_path: Path) -> None:
    one = begun(grid, tmp_path)
    assert handle.asked[0] == ("sit", (one._log.writer, "calling 3", "node-1"))
    assert one._log.writer.startswith("00000001-calling-3-")
    end = time.monotonic() + 60
    while handle.names().count("beat") < 3:
        assert time.monotonic() < end
        time.sleep(0.01)


def test_it_beats_before_all_that_takes_time(
    handle: LedgerHandle, grid: Grid, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a full machine a worker of low priority takes longer to load its models than the ledger waits for a sign of life."""
    beaten: list[int] = []

    def slow(_: object) -> dict[str, object]:
        # Three beats, 0.02 s apart, come while the models are loaded.
        end = time.monotonic() + 60.0
        while handle.names().count("beat") < 3 and time.monotonic() < end:
            time.sleep(0.01)
        beaten.append(handle.names().count("beat"))
        return {}

    monkeypatch.setattr(worker, "make_local_models", slow)
    monkeypatch.setattr(worker.os, "nice", lambda _: 0)
    one = made(grid, tmp_path)
    asyncio.run(CellWorker(one._order, "computing", 0).ready())
    assert beaten and beaten[0] >= 3


def test_with_many_workers_each_commits_less_often(handle: LedgerHandle, grid: Grid, tmp_path: Path) -> None:
    few, many = begun(grid, tmp_path / "few", 32), begun(grid, tmp_path / "many", 1000)
    assert few._commits._every_s == COMMIT_EVERY_S == 32 / WORKERS_A_SECOND
    # A thousand workers: 16 commits a second over all of them.
    assert many._commits._every_s == 1000 / 16 == 62.5


def test_what_is_ready_waits_as_long_as_it_is_told() -> None:
    made: list[float] = []

    async def commit(ready: Any) -> None:
        made.append(asyncio.get_running_loop().time())

    async def run(every_s: float) -> float:
        commits, began = Commits(commit, every_s), asyncio.get_running_loop().time()
        with commits.under_way():
            await commits.keep(None)  # type: ignore[arg-type]
        return made[-1] - began

    assert [still_time.run(run(every_s)) for every_s in (0.05, 2.0, 62.5)] == pytest.approx([0.05, 2.0, 62.5], abs=1e-3)


def test_told_to_end_it_says_all_leaves_and_takes_no_further_cell(
    handle: LedgerHandle, grid: Grid, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends: list[int] = []
    monkeypatch.setattr(worker.os, "_exit", ends.append)
    one = made(grid, tmp_path)

    async def run() -> None:
        assert await one.answer("[]") == []
        # As the notice comes: in a thread of its own, while the loop goes on.
        notice = threading.Thread(target=one._end)
        notice.start()
        while notice.is_alive():
            await asyncio.sleep(0.01)
        late = asyncio.ensure_future(one.answer("[]"))
        await asyncio.sleep(0.05)
        # An answer would make Ray end the process before its log is in the store.
        assert not late.done()
        late.cancel()

    asyncio.run(run())
    assert ends == [0] and handle.names().count("leave") == 1
    assert one._log._descriptor is None  # type: ignore[attr-defined]


def test_a_notice_before_any_cell_ends_it_at_once(
    handle: LedgerHandle, grid: Grid, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends: list[int] = []
    monkeypatch.setattr(worker.os, "_exit", ends.append)
    made(grid, tmp_path)._end()
    assert ends == [0]


def test_that_it_stops_is_part_of_the_progress() -> None:
    course = Course(Extent("r", 4, 0, 20, 0, None, {}), 0.0)
    assert not course.progress({"made": 3}, 1.0).stopping
    seen = course.progress({"made": 3, "stopping": True, "in_flight": 2}, 2.0)
    assert (seen.stopping, seen.in_flight) == (True, 2)
