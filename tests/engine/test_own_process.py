"""Work in a process of its own: it gives and raises what it would here, and ends with the process that started it."""

from __future__ import annotations

import operator
import os
import pickle
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from inline_runs import answered

from summhay_ray.benchmarks.summhay import SummHay
from summhay_ray.engine import run as engine_run
from summhay_ray.own_process import ProcessEnded, in_own_process
from summhay_ray.store import rows

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


def test_the_process_ends_with_the_one_that_started_it(tmp_path: Path) -> None:
    asked = pickle.dumps((subprocess.run, (["sleep", "60"],), {})).hex()
    command = [sys.executable, "-c", "from summhay_ray.own_process import main; main()", asked]
    # Its stdin has ended, as it does where its parent was killed.
    assert subprocess.run(command, stdin=subprocess.DEVNULL, check=False, timeout=30).returncode == 1


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
    monkeypatch.setattr(engine_run, "_publish_and_score", lambda *_: None)
    assert answered(tmp_path / "two")[0].results.details == read.results.details
    assert computed == [run.run_id] * 2
