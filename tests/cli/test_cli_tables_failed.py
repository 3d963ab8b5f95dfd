"""Printed failures: the item, place, reason and cost, one line each or folded."""

from __future__ import annotations

from typing import Any

import pytest

from summhay_ray.cli.record_tables import failure_blocks

pytestmark = pytest.mark.core


def failure(**fields: Any) -> dict[str, Any]:
    """A topic without a haystack."""
    return {
        "cell_id": "c" * 32,
        "stage": "documents",
        "judge": "",
        "insight_id": "",
        "kind": "malformed",
        "error": "no_json",
        "message": "assign_subtopic: unreadable: the answer holds no JSON object",
        "key": "k" * 64,
        "attempts": 3,
        "usd_micros": 12_345,
        "system": "synth",
        "haystack": "ferry",
        "subtopic_id": "",
        **fields,
    }


JUDGED = failure(stage="judge", judge="openai/gpt-4o", insight_id="s1-i2", subtopic_id="s1", system="bm25_openai/gpt-4o")


def test_an_answer_that_fails_twice_is_paid_once() -> None:
    others = [failure(key="", usd_micros=5), failure(key="", usd_micros=5)]
    # 12,345 once, and 2 x 5 that belong to no answer.
    twice = [JUDGED, {**JUDGED, "insight_id": "s1-i3"}, *others]
    assert failure_blocks("r1", twice, 80)[0] == "4 failures of r1, 0.012355 dollars"
    assert failure_blocks("r1", [], 80) == ["0 failures of r1"]


def test_blocks_stand_in_80_columns_and_hold_all() -> None:
    lines = failure_blocks("r1", [JUDGED, failure(message="word " * 60)], 80)
    assert all(len(line) <= 80 for line in lines)
    assert lines[:7] == [
        "2 failures of r1, 0.012345 dollars",
        "",
        "bm25_openai/gpt-4o ferry s1 openai/gpt-4o s1-i2 judge malformed no_json",
        "  why   assign_subtopic: unreadable: the answer holds no JSON object",
        "  cost  3 attempts, 0.012345 dollars",
        f"  cell  {'c' * 32}",
        f"  key   {'k' * 64}",
    ]
    assert sum(line.count("word") for line in lines) == 60
