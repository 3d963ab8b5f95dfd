"""Short forms of the laws about lost nodes, kills near a budget and frozen workers; a law that is broken once is reported."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import far_stores
import lost_nodes
import pytest
import work_left
from laws import Found
from lost_nodes import calls_in_progress

LOST_NODES = Path(lost_nodes.__file__)


@pytest.mark.soak
@pytest.mark.ray
@pytest.mark.s3
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "words",
    [
        "nodes --trials 1 --items 60",
        "driver --trials 1",
        "kills --kills 1 --executor inline --worst-cases 300",
        "frozen --seconds 12 --freeze 30",
    ],
)
def test_a_short_form_holds(words: str) -> None:
    command = [sys.executable, str(LOST_NODES), *words.split()]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]


@pytest.mark.core
def test_a_law_that_is_broken_once_is_broken(capsys: pytest.CaptureFixture[str]) -> None:
    found = Found()
    found.add(trial=1, bill=0.25, exit=0)
    for held in (True, False, True):
        found.law("bill <= budget", held)
    found.law("all is done", True)
    assert found.print_found() == 1
    assert capsys.readouterr().out.splitlines() == [
        "trial  bill  exit",
        "    1  0.25     0",
        "BROKEN: bill <= budget",
        "held: all is done",
    ]


@pytest.mark.core
def test_calls_at_once_by_hand() -> None:
    # The second call has not ended yet.
    calls = [{"time": 1.0, "done": 2.0}, {"time": 1.5, "done": 0.0}]
    assert [calls_in_progress(calls, moment) for moment in (0.9, 1.0, 1.7, 2.0, 9.0)] == [0, 1, 2, 1, 1]


@pytest.mark.core
@pytest.mark.parametrize(
    ("script", "laws"),
    [
        (lost_nodes, ["nodes", "cluster", "driver", "kills", "frozen"]),
        (far_stores, ["puts", "far", "restart", "outage"]),
        (work_left, ["reported"]),
    ],
)
def test_every_law_has_sizes_of_its_own(script: Any, laws: list[str]) -> None:
    parser = script.commands().parser
    assert [parser.parse_args([law]).law for law in laws] == laws
