"""The inline executor gives the tables of a cluster, and loses or pays twice for nothing, however the process ends."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import time
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from inline_runs import SAMPLE, loaded
from paid_runs import Office, said, wait_for_session
from runs import PATIENCE_S, at_most, log_records, start, summhay
from simulated_provider import until

from summhay_ray import api
from summhay_ray.engine import Counted, Item, Queue
from summhay_ray.engine.run.execution import INLINE_WITHIN_S, Work, choose
from summhay_ray.engine.start import PLANNED_AFTER_S
from summhay_ray.errors import UserError
from summhay_ray.store import Store

N_CELLS = 8
INLINE, RAY = ("--executor", "inline"), ("--executor", "ray")


@pytest.fixture
def desk(desk: Office) -> Office:
    desk.provider.reset()
    return desk


def answers(store: Path) -> Counter[str]:
    """Key -> the number of its answers in the log."""
    return Counter(record["key"] for record in log_records(store))


def goes_on(desk: Office, spec: Path, store: Path, repeated: int = 0) -> None:
    """Finish the run. Its tables are those of an undisturbed run, and at most `repeated` calls were made twice."""
    done = summhay("run", spec, "--store", store, *INLINE)
    assert done["status"] == "done"
    assert desk.tables_of(done, store) == desk.tables
    assert len(answers(store)) == desk.calls and set(answers(store).values()) == {1}
    assert 0 <= desk.served() - desk.calls <= repeated
    billed = desk.provider.stats()["micros"] / 1e6
    assert done["usd"]["spent"] == pytest.approx(billed) if not repeated else at_most(done) >= billed - 1e-6
    served = desk.served()
    again = summhay("run", spec, "--store", store, *INLINE)
    assert (again["calls"]["made"], again["executor"], desk.served()) == (0, "", served)


def waiting_line(process: subprocess.Popen[bytes]) -> str:
    """The line of stderr that says that the run stops."""
    assert process.stderr is not None
    return next(line.decode().rstrip() for line in process.stderr if line.startswith(b"stopping, "))


@pytest.mark.soak
def test_the_second_sigterm_waits_for_nothing(desk: Office, tmp_path: Path) -> None:
    spec, store = desk.spec(), tmp_path / "store"
    process = start(spec, store, *INLINE)
    desk.wait(process, 24)
    with desk.silent():
        process.send_signal(signal.SIGTERM)
        waiting_line(process)
        began = time.monotonic()
        process.send_signal(signal.SIGTERM)
        ended, lines = said(process)
        assert ended == 143 and time.monotonic() - began < 10 and "run the same command again to resume" in lines[-1]
    assert until(lambda: desk.provider.stats()["in_flight"] == 0)
    goes_on(desk, spec, store, repeated=8)


@pytest.mark.soak
@pytest.mark.ray
@pytest.mark.timeout(600)
def test_the_tables_are_those_of_ray(desk: Office, tmp_path: Path) -> None:
    spec = desk.spec()
    done = summhay("run", spec, "--store", tmp_path / "store", *RAY)
    assert (done["status"], done["executor"], done["calls"]["made"]) == ("done", "ray", desk.calls)
    assert desk.tables_of(done, tmp_path / "store") == desk.tables
    assert summhay("run", spec, "--store", tmp_path / "store", *INLINE)["calls"]["made"] == 0 and desk.served() == desk.calls


ON_RAY = [pytest.mark.soak, pytest.mark.ray, pytest.mark.timeout(600)]


@pytest.mark.parametrize(
    ("number", "code", "executor"),
    [
        pytest.param(signal.SIGINT, 130, INLINE, marks=pytest.mark.soak),
        pytest.param(signal.SIGTERM, 143, INLINE, marks=pytest.mark.soak),
        pytest.param(signal.SIGINT, 130, RAY, marks=ON_RAY),
        pytest.param(signal.SIGTERM, 143, RAY, marks=ON_RAY),
    ],
    ids=["ctrl-c", "sigterm", "ctrl-c on ray", "sigterm on ray"],
)
def test_whoever_ends_it_waits_for_the_calls_in_flight_and_pays_nothing_twice(
    desk: Office, tmp_path: Path, number: signal.Signals, code: int, executor: tuple[str, ...]
) -> None:
    spec, store = desk.spec(), tmp_path / "store"
    process = start(spec, store, *executor)
    desk.wait(process, 24)
    with desk.silent():
        process.send_signal(number)
        # It says at once that it waits, and for how many calls.
        told = waiting_line(process)
    ended, lines = said(process)
    assert re.fullmatch(r"stopping, waiting for \d+ calls? in flight \(a second signal stops at once\)", told)
    # Ray's own processes may print before.
    assert (ended, len(lines) == 1 or executor is RAY) == (code, True) and "run the same command again to resume" in lines[-1]
    (run,) = Store(str(store)).run_ids()
    assert f": run {run}, " in lines[-1] and f" of {N_CELLS} cells, 0." in lines[-1]
    served = desk.served()
    assert desk.provider.stats()["in_flight"] == 0 and sum(answers(store).values()) == served < desk.calls
    time.sleep(1)
    assert desk.served() == served
    goes_on(desk, spec, store)


def test_a_run_that_is_stopped_then_killed_then_taken_over_loses_only_what_was_in_flight_at_the_kill(
    desk: Office, tmp_path: Path
) -> None:
    spec, store = desk.spec(), tmp_path / "store"
    process = start(spec, store, *INLINE)
    desk.wait(process, 16)
    (run,) = Store(str(store)).run_ids()
    stopped = summhay("stop", run[:6], "--store", store)
    assert f"pid {process.pid}" in stopped["stopped"]
    served = desk.served()
    assert desk.provider.stats()["in_flight"] == 0 and sum(answers(store).values()) == served < desk.calls
    ended, lines = said(process)
    assert (ended, len(lines)) == (143, 1) and "stopped by `summhay stop`" in lines[0]
    with pytest.raises(UserError, match=f"run {run} is not running"):
        api.stop(run, str(store))
    usd = summhay("status", run, "--store", store)["usd"]
    assert (usd["spent"], usd["uncertain"]) == (pytest.approx(desk.provider.stats()["micros"] / 1e6), 0)

    process = start(spec, store, *INLINE)
    desk.wait(process, served + 16)
    # It sends nothing more: the calls in flight now are in flight at the kill.
    os.kill(process.pid, signal.SIGSTOP)
    in_flight = desk.provider.stats()["in_flight"]
    known = sum(answers(store).values())
    process.kill()
    process.communicate()
    assert until(lambda: desk.provider.stats()["in_flight"] == 0)
    # Answers that came while it was stopped, or were not written yet, count as in flight.
    lost = max(in_flight, desk.served() - known)

    first = start(spec, store, *INLINE)
    desk.wait(first, desk.served() + 8)
    with desk.silent():
        second = start(spec, store, *INLINE)
        wait_for_session(second, store, 4)
    code, lines = said(first)
    assert (code, len(lines)) == (6, 1) and "took the run over" in lines[0] and f"pid {second.pid}" in lines[0]
    _, complaint = second.communicate(timeout=PATIENCE_S)
    assert second.returncode == 0
    assert f"is running (on {socket.gethostname()}, pid {first.pid}): this start takes it over" in complaint.decode()
    goes_on(desk, spec, store, repeated=lost)


def test_the_chosen_executor_is_printed_with_its_reason(tmp_path: Path) -> None:
    said: list[str] = []
    began = time.monotonic()
    result = api.run(SAMPLE, str(tmp_path / "store"), note=said.append)
    assert time.monotonic() - began < PLANNED_AFTER_S, "it waits for no plan, which free models do not need"
    [line] = said
    assert line.startswith("executor: inline, since 4 cells take about ") and "less than a cluster needs to start" in line
    assert result.executor == "inline"
    said.clear()
    again = api.run(SAMPLE, str(tmp_path / "store"), note=said.append)
    assert (again.executor, again.calls["made"], said) == ("", 0, [])


def work_of(*queues: Queue, cells: int = 4) -> Work:
    """A workload that is never run: as many items as requested."""
    workload = loaded()
    items = (list(workload.items()) * (cells // 4 + 1))[:cells]
    if queues:
        known: Any = SimpleNamespace(queues=lambda: {items[0].queue: queues[0]}, counted=workload.counted)
        return Work(known, None, {"": items})  # type: ignore[arg-type]
    return Work(workload, None, {"": items})  # type: ignore[arg-type]


@pytest.mark.core
def test_auto_takes_ray_where_a_cluster_is_asked_for_or_sooner_done() -> None:
    assert choose(work_of(), "auto", "auto") == ("ray", "executor: ray, since an address is given")
    many = int(INLINE_WITHIN_S / 0.05) + 1
    taken, why = choose(work_of(cells=many), "auto", None)
    assert (taken, why) == ("ray", f"executor: ray, since {many} cells take about 20 s of computing")
    # One item can be much work.
    known: Any = SimpleNamespace(queues=lambda: {"": Queue(computes=True)}, counted=Counted("folders"), spec=loaded().spec)
    large = Work(known, None, {"": [Item("docs", size=40_000)]})  # type: ignore[arg-type]
    assert choose(large, "auto", None) == ("ray", "executor: ray, since 1 folder takes about 160 s of computing")
    # The user's choice needs no reason.
    assert [choose(work_of(cells=many), name, None) for name in ("inline", "ray")] == [("inline", ""), ("ray", "")]


@pytest.mark.core
def test_inline_on_a_cluster_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="--executor inline runs in this process, and --address names a cluster"):
        api.run(SAMPLE, str(tmp_path / "store"), address="127.0.0.1:1", executor="inline")
    assert not (tmp_path / "store" / "log").exists()


COUNTING = """
import gc
from dataclasses import dataclass

import polars as pl

from summhay_ray.benchmark import Benchmark, Item, Spec, Table


@dataclass(frozen=True)
class Number:
    number: int


class CountingSpec(Spec):
    pass


class Counting(Benchmark[CountingSpec]):
    tables = (Table("numbers", Number, key=("number",)),)

    def items(self):
        for number in range(20):
            yield Item(str(number), data={"number": number}, source="counting")

    async def answer(self, item, ask):
        return {"numbers": [Number(item.data["number"])]}

    def score(self, tables):
        alive = sum(isinstance(one, Item) and one.source == "counting" for one in gc.get_objects())
        return {"memory": pl.DataFrame({"items": [tables["numbers"].height], "alive": [alive]})}
"""


@pytest.mark.parametrize("executor", ["inline", pytest.param("ray", marks=pytest.mark.ray)])
def test_the_items_are_not_in_memory_while_the_run_is_scored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, executor: str
) -> None:
    (tmp_path / "counting_items.py").write_text(COUNTING, encoding="utf-8")
    (tmp_path / "spec.yaml").write_text("kind: counting_items:Counting\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    done = summhay("run", tmp_path / "spec.yaml", "--store", tmp_path / "store", "--executor", executor)
    assert done["scores"]["memory"] == [{"items": 20, "alive": 0}]
