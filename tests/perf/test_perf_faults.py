"""The fault matrix: after any kill, the tables are those of an undisturbed run, and nothing is paid in vain."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import faults
import pytest

FAULTS = Path(faults.__file__)


def play(*options: str, timeout_s: float) -> dict[str, Any]:
    """Return the command's report, after checking that it contains no violation."""
    command = [sys.executable, str(FAULTS), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    report: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    print(json.dumps(report))
    assert wrongs(report) == [] and not any(map(wrongs, report["steps"].values())), report
    return report


def wrongs(report: dict[str, Any]) -> list[str]:
    """The violations in a report."""
    rules = {
        "tables differ": report["equal"] and not report["unequal"],
        "cells are missing": report["cells"]["done"] == report["cells"]["total"] and not report["cells"]["failed"],
        "more was served twice than was open at the kills": 0 <= report["served_twice"] <= report["open_at_kills"],
        "the finished run costs again": report["again_calls"] == 0,
        "less is charged than billed": report["spent_micros"] >= report["billed_micros"],
    }
    return [rule for rule, holds in rules.items() if not holds]


@pytest.mark.soak
@pytest.mark.timeout(950)
def test_a_driver_and_two_workers_on_disk() -> None:
    report = play("--store", "disk", "--drivers", "1", "--workers", "2", "--judges", "2", timeout_s=900)
    assert (report["killed"]["drivers"], report["killed"]["workers"]) == (1, 2)


@pytest.mark.soak
@pytest.mark.ray
@pytest.mark.s3
@pytest.mark.timeout(950)
def test_a_driver_two_workers_and_a_node_on_s3() -> None:
    options = ("--drivers", "1", "--workers", "2", "--nodes", "1", "--judges", "3")
    report = play("--store", "s3", *options, timeout_s=900)
    assert (report["killed"]["drivers"], report["killed"]["workers"], report["killed"]["nodes"]) == (1, 2, 1)


@pytest.mark.soak
@pytest.mark.parametrize("store", ["disk", "s3"])
def test_the_whole_matrix(store: str) -> None:
    nodes = ("--nodes", "10", "--steps", "2") if store == "s3" else ()
    options = ("--drivers", "100", "--workers", "50", "--judges", "24", *nodes)
    report = play("--store", store, *options, timeout_s=6 * 3600)
    assert report["killed"]["workers"] >= 50 and report["killed"]["drivers"] >= 100


FINE = {
    "equal": True,
    "unequal": [],
    "cells": {"total": 4, "done": 4, "failed": 0},
    "served_twice": 66,
    "open_at_kills": 66,
    "again_calls": 0,
    "spent_micros": 10,
    "billed_micros": 10,
}


@pytest.mark.core
@pytest.mark.parametrize(
    "change",
    [
        {"equal": False},
        {"unequal": ["judgments"]},
        {"cells": {"total": 4, "done": 3, "failed": 0}},
        {"cells": {"total": 4, "done": 4, "failed": 1}},
        {"served_twice": 67},
        {"served_twice": -1},
        {"again_calls": 1},
        {"billed_micros": 11},
    ],
)
def test_what_is_wrong_is_seen(change: dict[str, Any]) -> None:
    assert wrongs(FINE) == [] and len(wrongs({**FINE, **change})) == 1
