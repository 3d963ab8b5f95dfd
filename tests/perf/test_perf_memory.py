"""The list of all haystacks of a grid holds none of their documents; and the measuring tool finds what it measures."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from big_haystacks import write_haystacks
from made_up import commit_all
from memory import MIB, Peaks, growth, kind_of, measure_parts, measure_run, own_bytes, sample, shared_bytes, spec_of

from summhay_ray import api, engine
from summhay_ray.benchmarks.summhay import import_released, score_run
from summhay_ray.benchmarks.summhay.haystacks.imports import FILES_A_BLOCK
from summhay_ray.engine import open_run
from summhay_ray.store import Store

LARGE = {"documents": 20, "words": 400, "subtopics": 2, "insights": 2}
TINY = {"documents": 4, "words": 30, "subtopics": 2, "insights": 2}


def most(work: Callable[[], Any]) -> int:
    """The peak of Python's memory during `work`, above the level before it."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.soak
def test_more_haystacks_take_no_more_room_than_their_metadata(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Counts of tokens have their own bound, which this small grid would not reach.
    monkeypatch.setattr("summhay_ray.text.tokens._KEPT_LETTERS", 100_000)
    few, many = 2 * FILES_A_BLOCK, 4 * FILES_A_BLOCK
    paths = write_haystacks(tmp_path, many, **LARGE)
    one = paths[0].stat().st_size

    def fresh() -> Store:
        return Store(tempfile.mkdtemp(dir=tmp_path))

    def parts(number: int) -> dict[str, Callable[[], Any]]:
        spec = spec_of(paths[:number], ["oracle"])
        workload, store = api.load(spec), Store(str(tmp_path / f"store-{number}"))
        run = open_run(workload, store)
        commit_all(workload, run)
        return {
            "load": lambda: api.load(spec),
            "plan": lambda: engine.plan(workload, store),
            "score": lambda: score_run(run),
            "open": lambda: open_run(api.load(spec), fresh()),
            "import": lambda: import_released(list(map(str, paths[:number])), fresh()),
        }

    lesser, greater = parts(few), parts(many)
    # Caches with their own bound, such as prompts and counts of tokens, are full then.
    for name in lesser:
        lesser[name]()
        greater[name]()
    grown = {name: most(greater[name]) - most(lesser[name]) for name in lesser}
    # All further haystacks at once would take 32 times `one`, and their rows as much again.
    assert {name: size // one for name, size in grown.items() if size > 6 * one} == {}


@pytest.mark.core
def test_peaks_are_of_the_sum_and_of_each_kind() -> None:
    peaks = Peaks()
    peaks.see(Counter({"driver": 3 * MIB, "WorkerActor": 5 * MIB}), 1.0)
    peaks.see(Counter({"driver": 4 * MIB, "WorkerActor": MIB}), 2.0)
    assert peaks.to_json() == {"peak_mib": {"total": 8, "driver": 4, "WorkerActor": 5}, "at_s": 1.0, "cpu_s": {}}


@pytest.mark.soak
@pytest.mark.core
def test_what_a_process_and_its_children_hold_is_seen() -> None:
    child = subprocess.Popen([sys.executable, "-c", "held = b'x' * (64 << 20); import time; time.sleep(60)", "WorkerActor"])
    try:
        end = time.monotonic() + 30
        while own_bytes(child.pid) < 64 * MIB and time.monotonic() < end:
            time.sleep(0.05)
        assert 64 * MIB < own_bytes(child.pid) < 128 * MIB
        assert kind_of(psutil.Process(child.pid)) == "WorkerActor" and kind_of(psutil.Process()) == "other"
        seen = sample(psutil.Process().pid, shared_bytes())
        assert seen["WorkerActor"] > 64 * MIB and seen["driver"] > 0
    finally:
        child.kill()
        child.wait()
    assert own_bytes(child.pid) == 0


@pytest.mark.soak
@pytest.mark.core
def test_growth_is_what_came_and_what_stayed() -> None:
    found: dict[str, Any] = {}
    with growth(found, "gone"):
        held = b"x" * (80 * MIB)
        time.sleep(0.1)
        del held
    with growth(found, "stays"):
        stays = b"x" * (80 * MIB)
        time.sleep(0.1)
    assert len(stays) == 80 * MIB
    assert found["gone"]["peak_mib"] >= 70 and found["gone"]["kept_mib"] < 40
    assert found["stays"]["peak_mib"] >= 70 and found["stays"]["kept_mib"] >= 70


@pytest.mark.soak
def test_the_parts_of_a_small_grid(tmp_path: Path) -> None:
    found = measure_parts(tmp_path, spec_of(write_haystacks(tmp_path, 3, **TINY), ["oracle"]))
    # Three haystacks, with two queries of two insights each.
    assert (found["cells"], found["judgments"]) == (6, 12)
    assert {"load", "open", "state", "plan", "score", "status"} < set(found)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_a_thousand_haystacks_within_four_gibibytes(tmp_path: Path) -> None:
    found = measure_run(tmp_path, spec_of(write_haystacks(tmp_path / "haystacks", 1000), ["oracle"]))
    assert found["exit"] == 0 and found["cells"]["done"] == 9000
    assert found["peak_mib"]["total"] < 4096
