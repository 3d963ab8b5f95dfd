"""Committers: one driver has the run, nothing is added twice or lost, and a stop anywhere leaves the old or the new state."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from run_rows import Stopped, Watched, commit, done, lost, new_run, watched_run

from summhay_ray.store import RunStore, Store, StoreError, Superseded
from summhay_ray.store.tables import digest

pytestmark = pytest.mark.core


def at_once(count: int, work: Callable[[int], None]) -> None:
    start, failed = threading.Barrier(count), []

    def one(who: int) -> None:
        start.wait()
        try:
            work(who)
        except BaseException as error:
            failed.append(error)
            raise

    threads = [threading.Thread(target=one, args=(who,)) for who in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


def units_of(run: RunStore) -> int:
    return sum(parts.units.rows for parts in run.manifest().parts)


def test_parts_travel_between_processes(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    parts = run.write("item", [done("a")])
    assert pickle.loads(pickle.dumps(parts)) == parts  # noqa: S301
    run.committer(1).add([parts])
    assert list(run.manifest().parts) == [parts]


def test_parts_are_added_once_and_make_no_row_twice_after_they_were_merged(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    parts = [run.write("item", [done(f"c{place:02d}")]) for place in range(17)]
    committer = run.committer(1)
    committer.add([*parts[:3], parts[0]])
    committer.add(parts[1:])
    committer.add([])
    assert (run.version(), run.manifest().added, units_of(run)) == (3, 17, 17), "taken over, and two that added something"
    assert committer.compact() == 17
    committer.add(parts)
    assert len(run.finished("item")) == run.table("summaries").height == 17, "what was merged meanwhile makes no row twice"


def test_a_higher_driver_takes_over_and_the_lower_stops(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    first = run.committer(1)
    first.add([run.write("item", [done("a")])])
    second = run.committer(2)
    message = r"run run: another driver took the run over; this one stops, nothing is lost"
    late = run.write("item", [done("b")])
    for attempt in (lambda: first.add([late]), lambda: run.committer(1)):
        with pytest.raises(Superseded, match=message) as refused:
            attempt()
        assert refused.value.exit_code == 6
    second.add([late])
    assert run.table("summaries").height == 2 and run.manifest().session == 2


def test_what_a_lower_driver_merges_late_changes_nothing(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    first = run.committer(1)
    first.add([run.write("item", [done(f"c{place}")]) for place in range(17)])
    known = run.digests()
    run.committer(2)
    for work in (first.compact, first.finish):
        with pytest.raises(Superseded):
            work()
    assert len(run.manifest().parts) == 17 and run.digests() == known


def test_an_addition_beside_a_committer_leaves_the_run_its_own(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    committer = run.committer(5)
    run.commit("haystack", [done("h")])
    committer.add([run.write("item", [done("a")])])
    commit(run, [done("b")])
    assert (run.manifest().session, units_of(run)) == (5, 3)


@pytest.mark.parametrize("driver", [pytest.param(None, marks=pytest.mark.soak), 7])
def test_of_8_that_commit_at_once_every_commit_is_there_once(tmp_path: Path, driver: int | None) -> None:
    new_run(tmp_path)

    def work(who: int) -> None:
        run = Store(str(tmp_path)).run("run")
        committer = None if driver is None else run.committer(driver)
        for place in range(2):
            finished = [done(f"c{who}-{place}")]
            if committer is None:
                commit(run, finished)
            else:
                committer.add([run.write("item", finished)])

    at_once(8, work)
    run = Store(str(tmp_path)).run("run")
    assert (len(run.manifest().parts), run.manifest().added, units_of(run)) == (16, 16, 16)
    assert len(run.finished("item")) == run.table("summaries").height == 16
    alone = new_run(tmp_path / "alone")
    commit(alone, [done(f"c{who}-{place}") for who in range(8) for place in range(2)])
    assert run.digests() == alone.digests()


def test_of_many_drivers_the_highest_goes_on_and_what_counted_before_stays(tmp_path: Path) -> None:
    new_run(tmp_path)
    counted: dict[int, list[str]] = {}

    def work(who: int) -> None:
        run = Store(str(tmp_path)).run("run")
        try:
            committer = run.committer(who)
            for place in range(4):
                committer.add([run.write("item", [done(f"c{who}-{place}")])])
                counted.setdefault(who, []).append(f"c{who}-{place}")
        except Superseded:
            pass

    at_once(8, work)
    run = Store(str(tmp_path)).run("run")
    assert run.manifest().session == 7 and len(counted[7]) == 4
    assert sorted(run.finished("item")) == sorted(cell for cells in counted.values() for cell in cells)


def test_one_committer_in_many_threads_while_it_merges(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    committer = run.committer(1)

    def work(who: int) -> None:
        for place in range(4):
            if who < 2:
                committer.compact()
            else:
                committer.add([run.write("item", [done(f"c{who}-{place}")])])

    at_once(8, work)
    committer.compact()
    assert run.manifest().added == units_of(run) == 24 and len(run.manifest().parts) <= 17
    committer.finish()
    assert len(run.manifest().parts) == 1 and run.table("summaries").height == 24


def work_of(run: RunStore) -> None:
    """The life of a run: taken over, parts added and merged, all merged twice; any step may be the last."""
    committer = run.committer(1)
    for place in range(3):
        committer.add([run.write("item", [done(f"c{place}") if place else lost("c0")])])
        committer.compact()
    committer.finish()
    committer.add([run.write("item", [done("c0")])])
    committer.finish()


def look(root: Path) -> dict[str, Any]:
    run = Store(str(root)).run("run")
    names = ["summaries", "failures", "raw_answers"]
    return {"tables": {name: digest(frame) for name, frame in run.tables(names).items()}, "finished": run.finished("item")}


@pytest.mark.parametrize("stride", [17, pytest.param(1, marks=pytest.mark.soak)])
def test_a_stop_at_any_write_shows_the_old_or_the_new_and_going_on_ends_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stride: int
) -> None:
    monkeypatch.setattr("summhay_ray.store.commits.MOST", 1)
    monkeypatch.setattr("summhay_ray.store.commits.FEWEST", 2)
    whole, files = watched_run(tmp_path / "whole")
    seen: list[dict[str, Any]] = [look(tmp_path / "whole")]
    real = Watched.create

    def create(self: Watched, name: str, content: bytes) -> bool:
        created = real(self, name, content)
        seen.append(look(tmp_path / "whole"))
        return created

    files.create = create.__get__(files)  # type: ignore[method-assign]
    work_of(whole)
    states = [state for place, state in enumerate(seen) if state not in seen[:place]]
    for step in range(0, 200, stride):
        run, files = watched_run(tmp_path / f"{step}")
        files.stop_at = step
        try:
            work_of(run)
        except Stopped:
            assert look(tmp_path / f"{step}") in states
            again, _ = watched_run(tmp_path / f"{step}")
            work_of(again)
            assert look(tmp_path / f"{step}") == seen[-1]
        else:
            break
    assert 12 < step < 200 - stride, "writes from the first to the last were each the last one once"


def test_a_store_that_fails_for_a_while_loses_nothing(tmp_path: Path) -> None:
    run, files = watched_run(tmp_path)
    committer = run.committer(1)
    parts = run.write("item", [done("a")])
    files.stop_at, files.stop_after = 0, True
    # The manifest is written, but the reply was lost.
    with pytest.raises(Stopped):
        committer.add([parts])
    committer.add([parts])
    committer.add([run.write("item", [done("b")])])
    assert (run.manifest().added, units_of(run)) == (2, 2)


def test_a_missing_part_stops_merging_with_a_clear_line(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    committer = run.committer(1)
    committer.add([run.write("item", [done(f"c{place}")]) for place in range(20)])
    name = run.manifest().parts[15].tables["judgments"].name
    (tmp_path / "runs/run/parts" / name).unlink()
    for work in (committer.compact, committer.finish):
        with pytest.raises(StoreError, match=f"run run is damaged .*{name} is gone"):
            work()
    assert len(run.manifest().parts) == 20
