"""Money is known without the log: real runs with a provider that bills; the log is deleted between two starts."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from paid_runs import Office, said
from runs import at_most, start, summhay
from s3_servers import running, set_credentials
from simulated_provider import until

from summhay_ray import api
from summhay_ray.store import Store

pytestmark = pytest.mark.timeout(600)

BUDGET = 3


def billed(desk: Office) -> int:
    """Micro-dollars."""
    return int(desk.provider.stats()["micros"])


def stopped_at(desk: Office, spec: Path, store: str | Path, dollars: float, code: int = BUDGET) -> dict[str, Any]:
    return summhay("run", spec, "--store", store, "--budget", str(dollars), code=code)


@pytest.fixture(params=["folder", pytest.param("s3", marks=[pytest.mark.s3, pytest.mark.soak])])
def place(
    request: pytest.FixtureRequest, desk: Office, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[str, Callable[[], None]]:
    """A store, and a function that deletes its log."""
    desk.provider.reset()
    if request.param == "folder":
        return str(tmp_path / "store"), lambda: shutil.rmtree(tmp_path / "store/answers")
    set_credentials(monkeypatch)
    server = running("moto")
    bucket = server.bucket()

    def delete() -> None:
        client = server.client()
        for page in client.get_paginator("list_objects_v2").paginate(Bucket=bucket):
            for one in page.get("Contents", ()):
                if "/answers/" in f"/{one['Key']}":
                    client.delete_object(Bucket=bucket, Key=one["Key"])

    return server.uri(bucket), delete


def test_a_budget_that_is_spent_is_not_spent_again_without_the_log(desk: Office, place: tuple[str, Callable[[], None]]) -> None:
    store, delete_log = place
    spec = desk.spec()
    first = stopped_at(desk, spec, store, budget := desk.usd * 0.4)
    spent, paid = first["usd"]["spent"], billed(desk)
    assert 0 < paid <= spent * 1e6 + 1e-6 and not first["warnings"]
    delete_log()
    told = summhay("status", first["run"], "--store", store)
    assert told["usd"]["spent"] == spent and told["cells"] == first["cells"]
    assert "dollars less than the run's money records" in told["warnings"][0]
    # The same budget buys nothing more; a larger one covers both starts.
    again = stopped_at(desk, spec, store, budget)
    assert billed(desk) <= budget * 1e6 and "dollars less than the run's money records" in again["warnings"][-1]
    more = stopped_at(desk, spec, store, 2 * budget)
    assert paid < billed(desk) <= more["usd"]["spent"] * 1e6 + 1 and more["usd"]["spent"] <= 2 * budget
    assert more["cells"]["done"] >= first["cells"]["done"]


def test_a_finished_run_without_its_log_is_read_back_and_asks_nothing(
    desk: Office, place: tuple[str, Callable[[], None]]
) -> None:
    store, delete_log = place
    spec = desk.spec()
    done = desk.again(spec, store)
    served = desk.served()
    delete_log()
    again = desk.again(spec, store)
    assert (again["calls"]["made"], desk.served()) == (0, served)
    assert again["usd"] == done["usd"] and "dollars less than the run's money records" in again["warnings"][-1]
    told = summhay("status", done["run"], "--store", store)
    assert told["usd"] == done["usd"] and told["status"] == "done" and told["tables"] == desk.tables


@pytest.mark.soak
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_a_run_that_was_ended_and_lost_its_log_keeps_to_its_budget(desk: Office, tmp_path: Path, how: signal.Signals) -> None:
    desk.provider.reset()
    store, spec = tmp_path / "store", desk.spec()
    budget = desk.usd * 0.7
    process = start(spec, store, "--budget", str(budget))
    desk.wait(process, 40)
    run = Store(str(store)).run(api.load(spec).run_id)
    process.send_signal(how)
    assert said(process)[0] != 0
    # Calls in flight at the kill end by themselves.
    assert until(lambda: not desk.provider.stats()["in_flight"])
    shutil.rmtree(store / "answers")
    known = at_most(summhay("status", run.run_id, "--store", store))
    # Every call was sent under a durable ceiling, so no amount is unknown.
    assert 0 < billed(desk) <= known * 1e6 + 1e-6
    again = stopped_at(desk, spec, store, budget)
    assert billed(desk) <= budget * 1e6
    assert "dollars less than the run's money records" in again["warnings"][-1]
