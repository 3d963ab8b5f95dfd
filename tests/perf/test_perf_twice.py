"""Kills cost at most the calls that were sent and not yet durable; a finished run costs nothing again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from twice import Kill, Result, measure


@pytest.mark.soak
@pytest.mark.core
@pytest.mark.timeout(180)
def test_three_hundred_calls_and_two_kills() -> None:
    found = measure(300, 2)
    assert found.violations() == []
    assert len(found.kills) == 2 and found.kills[-1].arrived > found.kills[0].arrived


@pytest.mark.soak
def test_five_thousand_calls_and_ten_kills() -> None:
    found = measure(5000, 10)
    assert found.violations() == [] and len(found.kills) == 10


FINE = Result(
    calls=1000,
    kills=(Kill(400, frozenset({"p"}), unanswered=1), Kill(900, frozenset({"p"}), unanswered=1)),
    tally={"served": 1256, "prompts": 1000, "micros": 130},
    asked_again=0,
    again={"cells": "1000/1000", "bill": 0.13, "books": 0.15},
    again_served=0,
    again_s=0.5,
)


@pytest.mark.core
@pytest.mark.parametrize(
    "change",
    [
        {"tally": {"served": 1257, "prompts": 1000, "micros": 130}},
        {"tally": {"served": 1256, "prompts": 999, "micros": 130}, "kills": (*FINE.kills, FINE.kills[0])},
        {"asked_again": 1},
        {"kills": (Kill(400, frozenset(), unanswered=65), FINE.kills[1])},
        {"again": {"cells": "999/1000", "bill": 0.13, "books": 0.15}},
        {"again": {"cells": "1000/1000", "bill": 0.16, "books": 0.15}},
        {"again_served": 1},
    ],
)
def test_what_is_wrong_is_seen(change: dict[str, Any]) -> None:
    # 256 calls were served twice: 2 kills, each with 64 calls at the provider and 64 not yet on disk.
    assert FINE.repeated == FINE.at_most == 256 and FINE.violations() == []
    assert len(replace(FINE, **change).violations()) == 1
