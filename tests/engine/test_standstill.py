"""Processes of a run are paused (SIGSTOP). The run ends right, and a process that continues after 20 seconds pays for nothing
twice."""

from __future__ import annotations

import json
import os
import signal
import time

import pytest
from paid_runs import Office
from runs import at_most, descendants, start

pytestmark = [pytest.mark.ray, pytest.mark.soak, pytest.mark.timeout(900)]

STILL_S = 20.0
SERVED = (10, 30, 50)
"""Calls that the provider has served when each of them stops."""


@pytest.mark.parametrize("titles", [("", "WorkerActor", "LedgerActor")])
def test_a_driver_a_worker_and_the_ledger_stand_still_one_after_the_other(
    desk: Office, tmp_path_factory: pytest.TempPathFactory, titles: tuple[str, ...]
) -> None:
    desk.provider.reset()
    store, budget = tmp_path_factory.mktemp("still") / "store", desk.usd * 1.5
    process = start(desk.spec(), store, "--budget", str(budget), "--executor", "ray")
    for served, title in zip(SERVED, titles, strict=True):
        desk.wait(process, served)
        pid = next(pid for pid, found in descendants(process.pid) if title in found) if title else process.pid
        os.kill(pid, signal.SIGSTOP)
        try:
            time.sleep(STILL_S)
        finally:
            os.kill(pid, signal.SIGCONT)
    output, complaint = process.communicate(timeout=400)
    assert process.returncode == 0, complaint.decode()[-2000:]
    done = json.loads(output)
    assert done["status"] == "done" and desk.tables_of(done, store) == desk.tables
    assert desk.served() == desk.calls and done["warnings"] == []
    assert desk.provider.stats()["micros"] <= round(at_most(done) * 1e6) <= budget * 1e6


def test_others_do_the_work_of_a_worker_that_stands_still_for_good(
    desk: Office, tmp_path_factory: pytest.TempPathFactory
) -> None:
    desk.provider.reset()
    store = tmp_path_factory.mktemp("hung") / "store"
    process = start(desk.spec(), store, "--executor", "ray")
    desk.wait(process, SERVED[0])
    pid = next(pid for pid, title in descendants(process.pid) if "WorkerActor" in title)
    os.kill(pid, signal.SIGSTOP)
    output, complaint = process.communicate(timeout=400)
    assert process.returncode == 0, complaint.decode()[-2000:]
    done = json.loads(output)
    assert done["status"] == "done" and desk.tables_of(done, store) == desk.tables
    # The worker's calls in flight are made again.
    assert desk.served() <= desk.calls + 2 * 4
