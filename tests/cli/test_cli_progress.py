"""The live view of a run: every figure of a model beside its limit, on a terminal and in a file, and nothing that steers it."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from summhay_ray.cli.app import _left
from summhay_ray.cli.progress import line, view
from summhay_ray.grid import ModelProgress, Progress

pytestmark = pytest.mark.core

MODEL = ModelProgress(
    model="openai/gpt-4o",
    calls=1234,
    calls_a_second=8.25,
    requests=495,
    rpm=500,
    input_tokens=612_345,
    input_tpm=800_000,
    output_tokens=31_000,
    in_flight=17,
    cap=32,
    limited=3,
    retries=4,
)
AT = Progress(
    run="r1",
    cells_total=40,
    cells_done=10,
    judgments_total=200,
    judgments=50,
    failures=2,
    spent_usd=0.5,
    budget_usd=2.0,
    seconds=61.4,
    seconds_left=3725.0,
    reserved_usd=0.25,
    left_usd=1.25,
    calls=1500,
    calls_a_second=12.04,
    limited=3,
    retries=5,
    models=(MODEL,),
)


def shown(progress: Progress, width: int = 120) -> str:
    out = io.StringIO()
    Console(file=out, width=width, force_terminal=True, color_system=None, highlight=False).print(view(progress))
    return out.getvalue()


def test_money_and_traffic_in_one_line() -> None:
    assert line(AT) == (
        "r1  cells 10/40  judgments 50/200  failures 2  $0.5000 of $2  "
        "$0.2500 reserved, $1.2500 left, 12.0 calls/s, 3 times 429, 5 retries  1:01 gone, 1:02:05 left"
    )
    assert "left, " not in line(replace(AT, budget_usd=None, left_usd=None))


def test_a_row_for_each_model_with_its_limits() -> None:
    head, money, heads, row = (text.rstrip() for text in shown(AT).rstrip().split("\n"))
    assert head == "r1  cells 10/40  judgments 50/200  failures 2  $0.5000 of $2  1:01 gone, 1:02:05 left"
    assert money == "$0.2500 reserved, $1.2500 left, 12.0 calls/s, 3 times 429, 5 retries"
    assert heads.split("  ")[0] == "" and "requests/min" in heads
    assert row.split() == ["openai/gpt-4o", "1234", "8.2", "495/500", "612.3k/800k", "31k", "17/32", "3", "4"]


def test_what_hinders_a_model_is_said() -> None:
    assert shown(replace(AT, models=(replace(MODEL, paused_s=12.4),))).rstrip().endswith("paused for 12 s")
    stopped = replace(MODEL, paused_s=12.4, stopped="quota_exhausted")
    assert shown(replace(AT, models=(stopped,)), 160).rstrip().endswith("stopped: quota_exhausted")


def test_before_the_first_call_there_is_one_line() -> None:
    early = replace(AT, reserved_usd=0.0, left_usd=None, budget_usd=None, calls=0, limited=0, retries=0, models=())
    assert shown(early).count("\n") == 1


@pytest.mark.parametrize("width", [60, 80, 100, 200])
def test_no_name_steers_the_terminal(width: int) -> None:
    hostile = "[red]x[/red]\x1b[31m\x07\u202e\nnext :skull:"
    model = replace(MODEL, model=hostile, stopped=hostile)
    text = shown(replace(AT, run=hostile, models=(model,)), width)
    assert not set(text) & set("\x1b\x07\u202e")
    assert line(replace(AT, run=hostile)).isprintable()


@pytest.mark.parametrize(
    ("number", "expected"), [(0, "0"), (950, "950"), (9999, "9999"), (12_500, "12.5k"), (999_999, "1000k"), (1_250_000, "1.25M")]
)
def test_numbers_are_short(number: int, expected: str) -> None:
    assert f" {expected}  " in shown(replace(AT, models=(replace(MODEL, output_tokens=number),)), 200)


def test_what_is_left_at_a_budget_in_words() -> None:
    left = {"cells": 120, "calls": 1080, "usd": {"min": 1.2, "expected": 3.104, "max": 7.4}}
    words = "120 cells, 1,080 calls, about $3.10, at most $7.40; go on with: summhay run spec.yaml --store shop --budget MORE"
    assert _left(left, "spec.yaml", "shop") == words
    small = {"cells": 2, "calls": 3, "usd": {"min": 0.0, "expected": 0.000104, "max": 0.0074}}
    assert "about $0.000104, at most $0.007400" in _left(small, "s", "shop")
    unknown = _left({"cells": 2, "calls": None, "usd": None}, "s", "shop")
    assert unknown == "2 cells; go on with: summhay run s --store shop --budget MORE"
