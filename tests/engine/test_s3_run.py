"""A run on S3 under network faults, signals, kills and other drivers, seen from outside."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest
from fault_proxy import Fault, FaultProxy, Kind
from paid_runs import (
    N_JUDGMENTS,
    N_SUMMARIES,
    Office,
    logged,
    said,
    wait_for_session,
)
from runs import at_most, start, summhay
from s3_servers import S3Server, running, set_credentials

pytestmark = [pytest.mark.s3, pytest.mark.timeout(600)]

RAY = ("--executor", "ray")
SETTLED_S = 2.5
AT_ONCE = 8 + N_SUMMARIES
"""Two judges may be asked four questions at once; the writer has no limit."""
KINDS: tuple[Kind, ...] = ("lose", "drop", "503")
MOST_READS = 60
"""A finished run of 96 calls, its summary and its bill."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, desk: Office, tmp_path: Path) -> S3Server:
    set_credentials(monkeypatch)
    desk.provider.reset()
    return running("moto")


@pytest.mark.ray
@pytest.mark.soak
def test_a_bad_network_changes_no_table_and_costs_no_call(desk: Office, server: S3Server, tmp_path: Path) -> None:
    with FaultProxy(server.url) as proxy:
        store, spec = server.uri(server.bucket(), url=proxy.url), desk.spec()
        # Some faults surely hit the log and the run; more occur by chance, anywhere.
        certain = [Fault(kind, times=2, method="PUT", key=key) for kind in KINDS for key in ("/answers/", "/runs/")]
        for fault in (*certain, Fault("503", 0.05), Fault("lose", 0.02, method="PUT"), Fault("drop", 0.02)):
            proxy.add(fault)
        done = desk.again(spec, store, "ray")
        assert [fault.struck for fault in certain] == [2] * len(certain)
        assert desk.tables_of(done, store) == desk.tables
        assert desk.served() == desk.calls == N_SUMMARIES + N_JUDGMENTS
        assert done["usd"]["spent"] == pytest.approx(desk.provider.stats()["micros"] / 1e6)
        proxy.clear()
        again = desk.again(spec, store)
        assert (again["calls"]["made"], desk.served()) == (0, desk.calls)
        assert again["systems"] == done["systems"]
        proxy.requests.clear()
        desk.tables_of(done, store)
        reads = proxy.count("GET") + proxy.count("HEAD")
        listed = [seen for seen in proxy.requests if "list-type" in seen.query]
        print(f"status of a finished run: {proxy.count('GET')} GET, {proxy.count('HEAD')} HEAD")
        # The run's own folder is listed once, for the time at which it began.
        assert reads <= MOST_READS and len(listed) <= 1 and proxy.count("PUT") == 0
    assert set(logged(server.uri(store.split("/")[2], url=server.url)).values()) == {1}


@pytest.mark.ray
@pytest.mark.soak
def test_one_run_pays_at_a_time_and_a_driver_that_is_told_to_end_loses_nothing(
    desk: Office, server: S3Server, tmp_path: Path
) -> None:
    store, spec = server.uri(server.bucket()), desk.spec()
    process = start(spec, store, *RAY)
    desk.wait(process, 12)
    with desk.silent():
        code, lines = said(start(desk.spec(retrievers=["full"]), store, *RAY))
    assert code == 2 and len(lines) == 1 and "another run" in lines[0] and f"pid {process.pid}" in lines[0]
    process.send_signal(signal.SIGTERM)
    began = time.monotonic()
    code, lines = said(process)
    assert (code, len(lines)) == (143, 1) and "SIGTERM" in lines[0] and time.monotonic() - began < 20
    served = desk.served()
    assert desk.provider.stats()["in_flight"] == 0
    assert sum(logged(store).values()) == served < desk.calls
    time.sleep(1)
    assert desk.served() == served
    done = desk.again(spec, store)
    assert desk.served() == desk.calls and desk.tables_of(done, store) == desk.tables
    assert done["usd"]["spent"] == pytest.approx(desk.provider.stats()["micros"] / 1e6)


@pytest.mark.soak
@pytest.mark.parametrize("executor", ["inline", pytest.param("ray", marks=pytest.mark.ray)])
def test_the_second_driver_takes_over_and_a_third_goes_on_where_it_was_killed(
    desk: Office, server: S3Server, tmp_path: Path, executor: str
) -> None:
    store, spec = server.uri(server.bucket()), desk.spec()
    first = start(spec, store, "--executor", executor)
    desk.wait(first, 12)
    with desk.silent():
        second = start(spec, store, "--executor", executor)
        wait_for_session(second, store, 2)
    code, lines = said(first)
    assert (code, len(lines)) == (6, 1) and "took the run over" in lines[0] and f"pid {second.pid}" in lines[0]
    # The first driver has finished its calls in flight and stored the answers.
    before = desk.served()
    assert sum(logged(store).values()) >= before - 8
    desk.wait(second, before + 12)
    second.kill()
    second.communicate()
    time.sleep(SETTLED_S)
    not_durable = desk.served() - sum(logged(store).values())
    done = desk.again(spec, store, executor)
    assert desk.tables_of(done, store) == desk.tables
    answers = logged(store)
    assert len(answers) == desk.calls and set(answers.values()) == {1}
    # Only calls that were sent and not durable at the kill are repeated: at most twice the concurrency.
    assert desk.served() - desk.calls <= not_durable <= 2 * AT_ONCE
    assert at_most(done) >= desk.provider.stats()["micros"] / 1e6 - 1e-6
    served = desk.served()
    assert summhay("run", spec, "--store", store)["calls"]["made"] == 0 and desk.served() == served
