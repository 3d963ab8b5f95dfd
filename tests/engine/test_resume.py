"""Kills: whatever is killed, resuming gives the tables of an undisturbed run, and asks nothing twice."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from runs import kill, kill_worker, log_records, open_to_others, process_tree, start, summhay, wait_for_answers, write_spec

pytestmark = pytest.mark.timeout(600)
RAY = ("--executor", "ray")

N_SYSTEMS = 4
N_CELLS = 9 * N_SYSTEMS


@pytest.fixture(scope="module")
def news1(summhay_data: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The undisturbed run of the main job on a released haystack, without Ray."""
    folder = tmp_path_factory.mktemp("news1")
    fields = {
        "haystacks": [str(summhay_data / "topic_news1.json")],
        "retrievers": ["random", "keywords", "oracle", "full"],
        "orderings": ["top"],
        "summarizers": ["offline/support"],
        "judges": [{"model": "offline/judge", "strategy": "per_insight"}],
        "seed": 7,
    }
    spec = write_spec(folder, fields)
    result = summhay("run", spec, "--store", folder / "store", "--executor", "inline")
    tables = summhay("status", result["run"], "--store", folder / "store")["tables"]
    return {"spec": spec, "store": folder / "store", "result": result, "tables": tables}


def test_the_main_job_is_done(news1: dict[str, Any]) -> None:
    result = news1["result"]
    assert (result["status"], result["cells"]) == ("done", {"total": N_CELLS, "done": N_CELLS, "failed": 0})
    assert result["calls"]["failed"] == 0
    records = log_records(news1["store"])
    assert len(records) == len({record["key"] for record in records}) == result["calls"]["made"]
    assert result["calls"]["made"] + result["calls"]["reused"] == N_CELLS + N_SYSTEMS * 65


def test_offline_support_is_a_real_baseline(news1: dict[str, Any]) -> None:
    [full] = [system for system in news1["result"]["systems"] if system["retriever"] == "full"]
    assert full["citation"] >= 0.45 and full["joint"] >= 0.15
    assert full["n_scored"] == full["n_expected"] == 65
    by_retriever = {system["retriever"]: system["joint"] for system in news1["result"]["systems"]}
    assert by_retriever["random"] < by_retriever["keywords"] < by_retriever["oracle"]


def test_a_second_run_makes_no_call(news1: dict[str, Any]) -> None:
    again = summhay("run", news1["spec"], "--store", news1["store"])
    assert again["calls"] == {"made": 0, "reused": N_CELLS + N_SYSTEMS * 65, "failed": 0}
    assert again["systems"] == news1["result"]["systems"]


@pytest.mark.soak
@pytest.mark.ray
def test_a_killed_worker_and_a_killed_driver_change_nothing(news1: dict[str, Any], tmp_path: Path) -> None:
    store = tmp_path / "store"
    process = start(news1["spec"], store, *RAY)
    assert wait_for_answers(process, store, 10)
    assert open_to_others(process_tree(process.pid)) == []
    assert kill_worker(process.pid)
    assert wait_for_answers(process, store, 75)
    kill(process)
    before = len(log_records(store))
    assert 75 <= before < news1["result"]["calls"]["made"]
    result = summhay("run", news1["spec"], "--store", store, *RAY)
    records = log_records(store)
    assert len(records) == len({record["key"] for record in records}), "an answered call was repeated"
    assert result["executor"] == "ray" and result["calls"]["made"] == len(records) - before
    assert summhay("status", result["run"], "--store", store)["tables"] == news1["tables"]
    assert result["systems"] == news1["result"]["systems"]


@pytest.mark.soak
@pytest.mark.ray
def test_two_kills_of_the_driver_change_nothing(news1: dict[str, Any], tmp_path: Path) -> None:
    draw = random.Random(11)
    store, killed = tmp_path / "store", 0
    for _ in range(2):
        process = start(news1["spec"], store, *RAY)
        if wait_for_answers(process, store, len(log_records(store)) + draw.randint(1, 30)):
            killed += 1
        kill(process)
    # The answers that workers gave before they noticed the first kill may have been the rest.
    assert killed
    before = len(log_records(store))
    result = summhay("run", news1["spec"], "--store", store, *RAY)
    records = log_records(store)
    assert len(records) == len({record["key"] for record in records}), "an answered call was repeated"
    assert result["calls"]["made"] == len(records) - before
    assert summhay("status", result["run"], "--store", store)["tables"] == news1["tables"]
    assert result["systems"] == news1["result"]["systems"]


@pytest.mark.soak
@pytest.mark.ray
def test_killed_workers_are_replaced(news1: dict[str, Any], tmp_path: Path) -> None:
    store = tmp_path / "store"
    process = start(news1["spec"], store, *RAY)
    for n in (10, 75):
        assert wait_for_answers(process, store, n)
        assert kill_worker(process.pid)
    output, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors.decode()[-2000:]
    # Ray reports the dead workers on stderr, not among the results.
    assert json.loads(output)["cells"]["done"] == N_CELLS
    records = log_records(store)
    assert len(records) == len({record["key"] for record in records})
    run = news1["result"]["run"]
    assert summhay("status", run, "--store", store)["tables"] == news1["tables"]


@pytest.mark.soak
@pytest.mark.ray
def test_two_drivers_at_once_and_another_number_of_workers_give_the_same_tables(news1: dict[str, Any], tmp_path: Path) -> None:
    store = tmp_path / "store"
    other = start(news1["spec"], store, *RAY)
    assert wait_for_answers(other, store, 1)
    result = summhay("run", news1["spec"], "--store", store, *RAY, "--set", "workers=1")
    _, complaint = other.communicate(timeout=300)
    # The first driver had finished before the second one came, or gave way to it.
    assert other.returncode == 0 or "took the run over" in complaint.decode().splitlines()[-1]
    records = log_records(store)
    assert len(records) == len({record["key"] for record in records})
    assert summhay("status", result["run"], "--store", store)["tables"] == news1["tables"]
