"""`summhay release` frees uncertain money when the user asks for it, and never while a driver is running."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from paid_runs import Office
from runs import start, summhay

from summhay_ray import api, cli

BUDGET = 3


@pytest.mark.timeout(600)
def test_money_in_doubt_is_freed_by_a_person_and_can_be_spent(
    desk: Office, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store, spec = tmp_path / "store", desk.spec()
    desk.provider.reset()
    process = start(spec, store, "--executor", "inline", "--budget", str(desk.usd))
    desk.wait(process, 4)
    run = api.runs(str(store))[0].run
    with desk.silent():
        with pytest.raises(SystemExit) as stop:
            cli.main(["release", run, "--store", str(store)])
        told = capsys.readouterr().err
        assert stop.value.code == 2 and f"pid {process.pid}" in told and told.count("\n") == 1
        process.kill()
        process.communicate()
    before = summhay("status", run, "--store", store)["usd"]
    assert before["uncertain"] > 0 == before["reserved"]
    # The rest of this budget is uncertain.
    budget = str(before["spent"] + before["uncertain"])
    stopped = summhay("run", spec, "--store", store, "--executor", "inline", "--budget", budget, code=BUDGET)
    assert stopped["calls"]["made"] == 0 and stopped["usd"]["uncertain"] == before["uncertain"]
    assert any(f"summhay release {run}" in warning for warning in stopped["warnings"])
    unattended = tmp_path / "unattended"
    shutil.copytree(store, unattended)
    line = ("run", spec, "--store", unattended, "--executor", "inline", "--budget", budget, "--release-uncertain")
    assert summhay(*line, "1h", code=BUDGET)["usd"] == stopped["usd"]
    released = summhay(*line, "0", code=BUDGET)
    assert released["calls"]["made"] > 0 == released["usd"]["uncertain"]
    freed = summhay("release", run, "--store", store)
    assert freed["run"] == run and freed["released"] == before["uncertain"]
    assert freed["usd"] == {**stopped["usd"], "uncertain": 0.0, "left": pytest.approx(before["uncertain"])}
    assert summhay("status", run, "--store", store)["usd"] == freed["usd"]
    again = summhay("run", spec, "--store", store, "--executor", "inline", "--budget", budget, code=BUDGET)
    assert again["calls"]["made"] > 0 == again["usd"]["uncertain"]
    assert before["spent"] < again["usd"]["spent"] <= float(budget)
    # Once for each kill, and nothing if nothing is uncertain.
    assert api.release(run, str(store)).released == 0
    with pytest.raises(SystemExit) as stop:
        cli.main(["release", run, "--store", str(store)])
    assert not stop.value.code and "nothing" in capsys.readouterr().out
