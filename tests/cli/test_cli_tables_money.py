"""Planned and real costs, as printed tables."""

from __future__ import annotations

from typing import Any

import pytest

from summhay_ray.cli.record_tables import plan_table, usage_table

pytestmark = pytest.mark.core

STAGE = {"stage": "judge", "model": "openai/m", "calls": 7, "reused": 2, "input_tokens": 900, "output_tokens": 40}
STAGE |= {"usd": 0.12344, "usd_min": 0.1, "usd_max": 2.0, "minutes": 1.26}
REAL = {"calls": 6, "input_tokens": 800, "cached_tokens": 200, "output_tokens": 30, "usd": 0.1111}


def row(**fields: Any) -> dict[str, Any]:
    plain = {"stage": "judge", "model": "openai/m", "planned": STAGE, "real": REAL, "cached_share": 0.25, "saved_usd": 0.002}
    return {**plain, **fields}


def test_a_plan_has_a_row_for_each_stage_and_model() -> None:
    table = plan_table([STAGE, {**STAGE, "minutes": None}])
    assert table.rows[0] == ("judge", "openai/m", "7", "2", "0.1234", "2.0000", "0.1000", "1.3", "900", "40")
    assert table.rows[1][7] == "-"
    assert all(len(cells) == len(table.columns) for cells in table.rows) and table.heads == 2


def test_real_and_planned_use_are_in_one_table() -> None:
    table = usage_table([row()])
    assert table is not None
    assert table.rows == (
        ("judge", "openai/m", "6 / 7", "0.1111 / 0.1234", "2.0000", "800 / 900", "30 / 40", "25.0 %", "0.0020"),
    )
    assert len(table.columns) == len(table.rows[0])


def test_bounds_of_a_synthesis_are_shown_with_the_real_use() -> None:
    bounds = {"min_calls": 4, "max_calls": 4000, "min_input_tokens": 700, "max_input_tokens": 90_000}
    planned = {**STAGE, **bounds, "min_output_tokens": 20, "max_output_tokens": 8000}
    table = usage_table([row(planned=planned), row(planned=None, stage="")])
    assert table is not None and table.title == "Used, of what was planned at least / expected / at most"
    assert table.rows[0] == (
        *("judge", "openai/m", "6 of 4 / 7 / 4,000", "0.1111 of 0.1000 / 0.1234 / 2.0000"),
        *("800 of 700 / 900 / 90,000", "30 of 20 / 40 / 8,000", "25.0 %", "0.0020"),
    )
    assert table.rows[1][2] == "6" and all(len(cells) == len(table.columns) for cells in table.rows)


def test_what_was_not_planned_or_not_used_is_a_dash() -> None:
    table = usage_table([row(planned=None, cached_share=None, stage="", model="")])
    assert table is not None
    assert table.rows[0] == ("-", "-", "6", "0.1111", "-", "800", "30", "-", "0.0020")


def test_nothing_known_is_no_table() -> None:
    assert usage_table([]) is None
