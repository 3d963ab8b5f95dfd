"""Kills cost what was in flight, never what was in the log; a finished run costs nothing again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from twice import Kill, Result, measure


@pytest.mark.soak
@pytest.mark.core
@pytest.mark.timeout(180)
def test_three_hundred_calls_and_two_kills(tmp_path: Path) -> None:
    found = measure(300, 2, tmp_path)
    assert found.wrongs() == []
    assert len(found.kills) == 2 and len(found.kills[-1].answered) > len(found.kills[0].answered)
    assert found.in_flight > 0


@pytest.mark.soak
def test_five_thousand_calls_and_twenty_kills(tmp_path: Path) -> None:
    found = measure(5000, 20, tmp_path)
    assert found.wrongs() == [] and len(found.kills) == 20


FINE = Result(
    calls=10,
    kills=(Kill(4, frozenset({"k"}), unanswered=1, unwritten=1), Kill(9, frozenset({"k"}), unanswered=1, unwritten=0)),
    tally={"served": 13, "prompts": 10, "micros": 130},
    asked_again=0,
    again={"ends": {"answer": 10}, "reused": 10},
    again_served=0,
    again_s=0.5,
    charged=150,
)


@pytest.mark.core
@pytest.mark.parametrize(
    "change",
    [
        {"tally": {"served": 14, "prompts": 10, "micros": 130}},
        {"tally": {"served": 12, "prompts": 9, "micros": 130}},
        {"tally": {"served": 13, "prompts": 10, "micros": 151}},
        {"asked_again": 1},
        {"kills": (Kill(4, frozenset({"k"}), unanswered=65, unwritten=0),)},
        {"again": {"ends": {"answer": 9, "timeout": 1}, "reused": 10}},
        {"again": {"ends": {"answer": 10}, "reused": 9}},
        {"again_served": 1},
    ],
)
def test_what_is_wrong_is_seen(change: dict[str, Any]) -> None:
    # 13 served less 10 distinct are the 2 + 1 in flight at the kills.
    assert FINE.repeated == FINE.in_flight == 3 and FINE.wrongs() == []
    assert len(replace(FINE, **change).wrongs()) == 1
