"""Where workers find no room: others hold it (one clear line), or the machine is only slow (patience)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
import still_time
from inprocess import grid_of_fields

from summhay_ray.grid import placing
from summhay_ray.grid.lanes import lane_settings
from summhay_ray.grid.placing import CPUS_A_WORKER, PLACED_WITHIN_S, PlacementError, Work, placed

pytestmark = pytest.mark.core

WORKERS = 4


def cluster(patch: pytest.MonkeyPatch, cpus: float, free: float) -> None:
    """What Ray says of the cluster."""
    patch.setattr(placing.ray, "cluster_resources", lambda: {"CPU": cpus})
    patch.setattr(placing.ray, "available_resources", lambda: {"CPU": free} if free else {})


def begin(begun_after_s: Sequence[float | None]) -> None:
    """Wait for workers that begin after so many seconds (None: never)."""
    grid = grid_of_fields()
    work = Work(grid, {}, lane_settings(grid, {0: 4}, WORKERS), contexts=1)  # type: ignore[arg-type]

    async def ready(after_s: float | None) -> None:
        await (asyncio.sleep(after_s) if after_s is not None else asyncio.Future())

    async def run() -> None:
        await placed([ready(after_s) for after_s in begun_after_s], work)
        assert len(asyncio.all_tasks()) == 1

    still_time.run(run())


def test_workers_that_begin_are_all_there_is_to_wait_for(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster(monkeypatch, 2.0, 0.0)
    begin([0.0] * WORKERS)


def test_where_others_hold_the_room_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    # Four workers and one that makes contexts need 1.25 of 8 CPUs; with nothing free, others have the rest.
    cluster(monkeypatch, 8.0, 0.0)
    with pytest.raises(PlacementError) as said:
        begin([0.0, 0.0, None, None])
    assert said.value.exit_code == 2
    assert str(said.value) == (
        "2 of 4 workers found no room within 120 s: each needs 0.25 CPUs, and other jobs hold them (8 in all); "
        "wait, or set workers: 2"
    )


@pytest.mark.parametrize(
    ("cpus", "free"),
    [
        (8.0, CPUS_A_WORKER),  # there is room: they are starting
        # The cluster is ours to the last CPU: nobody else holds anything.
        (CPUS_A_WORKER * 5, 0.0),
        # What others can hold is too little for one worker.
        (CPUS_A_WORKER * 5.9, 0.0),
    ],
)
def test_a_slow_start_is_waited_for(monkeypatch: pytest.MonkeyPatch, cpus: float, free: float) -> None:
    cluster(monkeypatch, cpus, free)
    begin([0.0, 2.5 * PLACED_WITHIN_S, 4.5 * PLACED_WITHIN_S, 4.5 * PLACED_WITHIN_S])


def test_who_has_not_begun_after_long_finds_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    # All that is there may be ours: only the time tells.
    cluster(monkeypatch, CPUS_A_WORKER * 5, 0.0)
    with pytest.raises(PlacementError, match="2 of 4 workers found no room"):
        begin([0.0, 0.0, None, None])


def test_what_hinders_a_worker_from_beginning_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster(monkeypatch, 8.0, 0.0)
    grid = grid_of_fields()
    work = Work(grid, {}, lane_settings(grid, {0: 4}, WORKERS), contexts=1)  # type: ignore[arg-type]

    async def broken() -> None:
        raise RuntimeError("its actor died")

    with pytest.raises(RuntimeError, match="its actor died"):
        still_time.run(placed([broken()], work))
