"""`status` of a run that continues after a stop, and the work that is left: grids, rejudges and syntheses."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from synth_runs import run_inline, small

from summhay_ray.benchmarks.summhay import SummHay
from summhay_ray.cli.read import status as show_status
from summhay_ray.cli.read import status_facts
from summhay_ray.engine import ITEM, all_tables, entries, plan, status, stop
from summhay_ray.engine.state.history import History, keep_start, keep_stop
from summhay_ray.errors import UserError
from summhay_ray.store import Files, Finished, RunStore, Store, begin_session, drivers, open_sessions
from summhay_ray.store.drivers import SessionRecord, record_death

status_room = sys.modules["summhay_ray.engine.read.status"]

pytestmark = pytest.mark.core

LEFT = {"cells": 3, "calls": 30, "usd": {"min": 0.1, "expected": 0.25, "max": 9.0}}
PRICED = {"model": "offline/writer", "max_tokens": 400, "price": {"input_per_mtok": 1.0, "output_per_mtok": 2.0}}


def told(run: RunStore) -> dict[str, str]:
    return dict(status_facts(status(run)))


def start(run: RunStore, budget_usd: float | None) -> drivers.DriverSession:
    """Start a run as the engine does."""
    session = begin_session(run.store.files, run.run_id, True)
    keep_start(run, session.number, budget_usd)
    return session


def record(kind: str) -> Mapping[str, Any]:
    of = {"of": "r1"} if kind == "rejudge" else {}
    grid = {"haystacks": ["sample/news"], "retrievers": ["bm25"], "summarizers": ["offline/lead"]}
    asked = {"judges": ["offline/judge"]}
    return {
        "kind": kind,
        "name": "small",
        "spec": {"name": "small", "budget_usd": 3, **asked, **(of or grid)},
        "prompts": {},
        "haystacks": [],
        "cells": 4,
        **of,
    }


@pytest.fixture
def run(tmp_path: Path) -> RunStore:
    return Store(str(tmp_path / "store")).create_run("r1", record("summhay"), all_tables(SummHay))


def test_a_start_ends_an_earlier_stop_and_reports_its_budget(run: RunStore) -> None:
    first = start(run, 0.05)
    keep_stop(run, first.number, {"status": "budget", "budget_usd": 0.05, "left": LEFT})
    first.end("done")
    at_stop = status(run)
    assert (at_stop.status, at_stop.usd["budget"], at_stop.left) == ("budget", 0.05, LEFT)
    assert told(run)["left to do"] == (
        "3 cells, about 30 calls, 0.2500 dollars expected, 9.0000 dollars at most; go on with: summhay run SPEC --budget MORE"
    )
    second = start(run, 3.0)
    # Nothing is committed yet, and the old stop is not valid any more.
    history = History(run)
    assert (history.stop, history.budget_usd, history.start) == (
        None,
        3.0,
        {"session": 2, "budget_usd": 3.0, "token_margins": {}, "origins": {}},
    )
    going = status(run)
    assert (going.status, going.stop, going.usd["budget"]) == ("running", None, 3.0)
    assert going.left == {"cells": 4, "calls": None, "usd": None}
    assert told(run)["status"] == f"running {second.record.where}" and told(run)["left to do"] == "4 cells"
    second.end("stopped")
    assert (status(run).status, status(run).driver) == ("interrupted", "")
    assert told(run)["left to do"] == "4 cells; go on with: summhay run SPEC, every stored answer is reused"
    third = start(run, None)
    assert History(run).budget_usd is None, "without a bound"
    record_death(run.store.files, third.number)
    assert status(run).status == "interrupted"
    fourth = start(run, 4.0)
    keep_stop(run, fourth.number, {"status": "budget", "budget_usd": 4.0, "left": LEFT})
    fourth.end("done")
    assert (status(run).status, status(run).usd["budget"]) == ("budget", 4.0)


def test_what_a_run_is_at_ends_with_its_cells(run: RunStore) -> None:
    session = start(run, 1.0)
    run.commit(ITEM, [Finished(f"c{number}", {}) for number in range(4)])
    assert (status(run).status, status(run).left) == ("done", None), "it packs up"
    session.end("done")
    assert status(run).status == "done"


def test_a_rejudge_has_the_status_of_a_run(run: RunStore) -> None:
    for cell in ("c1", "c2"):
        run.commit(ITEM, [Finished(cell, {})])
    judged = run.store.create_run("j1", record("rejudge"), all_tables(SummHay))
    first = start(judged, 0.5)
    keep_stop(judged, first.number, {"status": "budget", "budget_usd": 0.5, "left": LEFT})
    first.end("done")
    second = start(judged, 2.0)
    assert (History(judged).stop, History(judged).budget_usd) == (None, 2.0)
    second.end("stopped")
    assert History(judged).stop is None


def test_a_synthesis_in_progress_reports_the_remaining_work(tmp_path: Path) -> None:
    grid, store = small(models={"outline": PRICED, "write": PRICED}, topics={"made_up": 2}), Store(str(tmp_path))
    stopped, first = run_inline(grid, store, 0.003)
    stopped, second = run_inline(grid, store, 0.006)
    assert (first.status, second.status) == ("budget", "budget") and second.calls["made"] > 0
    assert status(stopped).left == second.left
    going = start(stopped, 0.006)
    found, planned = status(stopped), plan(grid, store)
    calls = sum(stage.calls for stage in planned.stages)
    n_open = found.cells["total"] - found.cells["done"]
    assert (found.status, found.left) == ("running", {**planned.left, "cells": n_open})
    going.end("stopped")
    facts = told(stopped)
    assert facts["topics"].endswith("of 2") and facts["status"] == "interrupted" and facts["dollars"].endswith(" of 0.006")
    assert facts["left to do"].startswith(f"{n_open} topics, about {calls} calls, ")
    assert facts["left to do"].endswith("SPEC, every stored answer is reused")


def test_a_synthesis_that_is_done_is_held_against_its_bounds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    grid, store = small(models={"outline": PRICED, "write": PRICED}), Store(str(tmp_path))
    planned = plan(grid, store)
    done, _ = run_inline(grid, store)
    for row, stage in zip(status(done).usage, planned.stages, strict=True):
        told, bounds, made = stage.to_json(), row["planned"], row["real"]["calls"]
        assert row["stage"] == stage.stage and {name: told[name] for name in bounds} == bounds
        assert 0 < bounds["min_calls"] <= made <= bounds["max_calls"]
        assert 0 < bounds["usd_min"] <= row["real"]["usd"] <= bounds["usd_max"]
        shown = f"{made} of {told['min_calls']:,} / {told['calls']:,} / {told['max_calls']:,}"
        show_status(done.run_id, store.uri)
        out = capsys.readouterr().out
        assert "planned at least / expected / at most" in out and shown in out


def test_a_damaged_start_is_reported(run: RunStore) -> None:
    start(run, 1.0).end("done")
    (Path(run.store.uri) / "runs/r1/starts/00000001.json").write_bytes(b"[1")
    told = status(run)
    assert [line for line in told.problems if "starts/00000001.json is damaged; delete it and those after it" in line]
    assert told.usd["budget"] is None and not told.driver


ELSEWHERE = drivers.Process("far", "far-1", 7, "1")


def test_a_run_is_running_in_the_list_though_it_began_after_the_others_were_looked_for(
    run: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = list[drivers.DriverSession]()

    def later(files: Files) -> list[SessionRecord]:
        seen = [*open_sessions(files)]
        begun.append(start(run, None))
        return seen

    monkeypatch.setattr(status_room.storage, "open_sessions", later)
    (entry,) = entries(run.store)
    assert entry.status == status(run).status == "running"
    begun[0].end("done")


def test_a_damaged_record_of_a_driver_leaves_the_list_of_the_other_runs(run: RunStore) -> None:
    start(run, None).end("stopped")
    other = run.store.create_run("r2", record("summhay"), all_tables(SummHay))
    session = start(other, None)
    path = run.store.files.folder / "drivers" / f"{session.number:08d}.json"  # type: ignore[operator]
    path.write_bytes(path.read_bytes().replace(b'"run":"r2"', b'"run":"rz"'))
    assert {entry.run: entry.status for entry in entries(run.store)} == {"r1": "interrupted", "r2": "damaged"}


@pytest.mark.soak
def test_a_driver_elsewhere_that_is_slow_to_beat_is_not_dead_when_it_is_asked_to_stop(run: RunStore) -> None:
    session = begin_session(run.store.files, run.run_id, True, here=ELSEWHERE)
    keep_start(run, session.number, None)
    first = threading.Timer(0.2, session.beat)
    ends = threading.Timer(6.5, session.end, ["stopped"])
    first.start()
    ends.start()
    assert stop(run) == session.record.where
    first.join()
    ends.join()


def test_a_driver_that_dies_while_it_is_asked_to_stop_is_not_waited_for(run: RunStore) -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    here = replace(drivers.this_process(), pid=child.pid, started=drivers._started(child.pid))
    session = begin_session(run.store.files, run.run_id, True, here=here)
    keep_start(run, session.number, None)
    assert status(run).status == "running"
    killed = threading.Timer(0.3, child.kill)
    killed.start()
    try:
        with pytest.raises(UserError, match=f"pid {child.pid}.* gives no sign of life"):
            stop(run)
    finally:
        killed.join()
        child.wait()
    with pytest.raises(UserError, match="is not running"):
        stop(run)
