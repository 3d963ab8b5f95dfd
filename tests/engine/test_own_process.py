"""Work in a process of its own: it gives and raises what it would here, and ends with the process that started it."""

from __future__ import annotations

import operator
import os
import pickle
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from inline_runs import N_INSIGHTS, N_QUERIES, answered, loaded

from summhay_ray.benchmarks.summhay import SummHay
from summhay_ray.engine import RunOptions, Start, Stopped, plan
from summhay_ray.engine import run as engine_run
from summhay_ray.engine.execution import Work
from summhay_ray.engine.run import _Planning
from summhay_ray.engine.state import RunSnapshot
from summhay_ray.own_process import ProcessEnded, in_own_process, in_own_process_unless
from summhay_ray.store import Store, rows

pytestmark = pytest.mark.core


def test_what_the_work_gives_and_raises_comes_back(capfd: pytest.CaptureFixture[str]) -> None:
    assert in_own_process(os.getpid) != os.getpid()
    assert in_own_process(operator.concat, [1], ["ä"]) == [1, "ä"]
    assert in_own_process(print, "not a part of the answer", flush=True) is None
    with pytest.raises(ValueError, match="invalid literal for int"):
        in_own_process(int, "x")
    with pytest.raises(FileNotFoundError) as told:
        in_own_process(os.listdir, "/no/such/folder")
    assert told.value.filename == "/no/such/folder"
    assert capfd.readouterr() == ("", "")


def test_a_process_that_ends_without_an_answer_says_how() -> None:
    with pytest.raises(ProcessEnded, match="was ended by signal 9"):
        in_own_process(signal.raise_signal, signal.SIGKILL)
    with pytest.raises(ProcessEnded, match="ended with 1: TypeError: cannot pickle"):
        in_own_process(threading.Lock)
    with pytest.raises(ProcessEnded, match="ended with 7$"):
        in_own_process(sys.exit, 7)


class OddError(Exception):
    """An error that is not made of what it says."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(f"{first} and {second}")


def fail_oddly() -> None:
    """Raise one."""
    raise OddError("one", "two")


def test_an_error_that_cannot_be_passed_on_is_named() -> None:
    with pytest.raises(ProcessEnded, match="^OddError: one and two$"):
        in_own_process(fail_oddly)
    with pytest.raises(ZeroDivisionError) as whole:
        in_own_process(divmod, 1, 0)
    assert "own_process.py" in whole.value.__notes__[0], "where it was raised"


def test_the_process_ends_with_the_one_that_started_it() -> None:
    asked = pickle.dumps((time.sleep, (60,), {}))
    command = [sys.executable, "-c", "from summhay_ray.own_process import main; main()"]
    # Its stdin ends after what it is to do, as it does where its parent is killed.
    done = subprocess.run(command, input=asked, capture_output=True, check=False, timeout=30)
    assert (done.returncode, done.stderr) == (1, b""), "not by an error"


def test_the_results_of_a_large_run_are_those_that_this_process_computes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "LARGE_BYTES", 0)
    here, computed = SummHay.results, list[str]()

    def counted(workload: Any, run: Any, compat: Any) -> Any:
        computed.append(run.run_id)
        return here(workload, run, compat)

    monkeypatch.setattr(SummHay, "results", counted)
    apart, _ = answered(tmp_path / "one")
    assert computed == []
    read, run = answered(tmp_path / "one")
    assert computed == [run.run_id], "a finished run is read where it is asked for"
    assert apart.results.details == read.results.details
    assert apart.table.equals(read.table) and apart.queries.equals(read.queries)
    assert [*map(str, apart.sections)] == [*map(str, read.sections)]
    # As of a benchmark that no other process can import.
    monkeypatch.setattr(engine_run, "in_own_process", lambda *_: "unknown")
    assert answered(tmp_path / "two")[0].results.details == read.results.details
    assert computed == [run.run_id] * 2


def test_a_run_that_is_stopped_while_another_process_scores_it_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*_: Any) -> None:
        raise Stopped("stopped by SIGTERM")

    monkeypatch.setattr(rows, "LARGE_BYTES", 0)
    monkeypatch.setattr(engine_run, "in_own_process", stopped)
    monkeypatch.setattr(SummHay, "results", lambda *_: pytest.fail("it went on"))
    with pytest.raises(Stopped):
        answered(tmp_path)


def test_work_that_is_not_wanted_any_more_is_ended() -> None:
    began, asked = time.monotonic(), list[int]()
    with pytest.raises(ProcessEnded, match="not wanted any more"):
        in_own_process_unless(lambda: bool(asked.append(1) or len(asked) > 2), time.sleep, 60)
    assert time.monotonic() - began < 60 and len(asked) == 3


def test_it_hears_no_ctrl_c_and_has_the_niceness_of_the_thread_that_plans() -> None:
    assert in_own_process(os.getpgrp) != os.getpgrp()
    with _Planning(lambda unwanted: in_own_process_unless(unwanted, os.getpriority, os.PRIO_PROCESS, 0)) as planning:  # type: ignore[arg-type, return-value]
        assert planning.result() == max(engine_run.PLANNING_NICENESS, os.getpriority(os.PRIO_PROCESS, 0))


def test_a_process_that_does_not_read_its_work_says_how_it_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", shutil.which("false"))
    for size in (1, 1_000_000):
        with pytest.raises(ProcessEnded, match="ended with 1$"):
            in_own_process(len, "x" * size)


def test_the_plan_of_a_large_run_is_that_which_this_process_makes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, workload = Store(str(tmp_path)), loaded()
    start = Start.of(workload, workload.open(store), RunOptions(budget_usd=0.5), 0.0)
    here, work = plan(workload, store, 0.5), Work(workload, start.run, start.state.left())
    assert [stage.calls for stage in here.stages] == [N_QUERIES, N_INSIGHTS]
    monkeypatch.setattr(engine_run, "PLANNED_HERE", 0)
    with monkeypatch.context() as patched:
        patched.setattr(engine_run, "plan", lambda *_, **__: pytest.fail("it was planned here"))
        assert start._plan(work, True, lambda: False) == here
        with pytest.raises(ProcessEnded):
            start._plan(work, True, lambda: True)
    monkeypatch.setattr(engine_run, "in_own_process_unless", lambda *_: pytest.fail("it was planned by another process"))
    assert start._plan(work, False, lambda: False) == here


def test_repeats_do_not_make_a_run_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, workload = Store(str(tmp_path)), loaded(repeats=3)
    start = Start.of(workload, workload.open(store), RunOptions(), 0.0)
    assert start.state.total == 3 * N_QUERIES
    work = Work(workload, start.run, start.state.left())
    monkeypatch.setattr(engine_run, "in_own_process_unless", lambda *_: "another process")
    for most, planned in ((N_QUERIES, plan(workload, store)), (N_QUERIES - 1, "another process")):
        monkeypatch.setattr(engine_run, "PLANNED_HERE", most)
        assert start._plan(work, True, lambda: False) == planned


def test_answers_of_the_start_that_is_planned_do_not_count_as_known(tmp_path: Path) -> None:
    _, run = answered(tmp_path)
    workload, before = loaded(seed=1), RunSnapshot(run)
    again = workload.open(run.store)
    record = Work(workload, again, {}).record
    known, unknown = (engine_run._plan_stored(str(tmp_path), again.run_id, record, None, session) for session in (1, 0))
    assert [stage.calls for stage in unknown.stages] == [N_QUERIES, N_INSIGHTS] and len(before.log().answers) > N_INSIGHTS
    assert [stage.reused for stage in known.stages] == [N_QUERIES, N_INSIGHTS]
