"""The live view of a run: every figure of a model with its limit, on a terminal and in a file, without control characters from
names."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from summhay_ray.cli.progress import ProgressDisplay, line, view
from summhay_ray.cli.show import remaining_lines
from summhay_ray.engine import ModelProgress, Progress
from summhay_ray.errors import UserError

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
    items_total=40,
    items_done=10,
    rows_total=200,
    rows=50,
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
    unit="cells",
    table="judgments",
)


def shown(progress: Progress, width: int = 120) -> str:
    out = io.StringIO()
    Console(file=out, width=width, force_terminal=True, color_system=None, highlight=False).print(view(progress, width))
    return out.getvalue()


def test_the_end_does_not_repeat_the_lines_of_the_start(capsys: pytest.CaptureFixture[str]) -> None:
    with ProgressDisplay() as display:
        display.note("warning: answers of another origin")
    display.note("warning: of a plan that came too late")
    display.warn(["answers of another origin", "a table is not written"])
    assert capsys.readouterr().err == "warning: answers of another origin\nwarning: a table is not written\n"


def test_money_and_traffic_in_one_line() -> None:
    assert line(AT) == (
        "r1  cells 10/40  judgments 50/200  failures 2  $0.5000 of $2  "
        "$0.2500 reserved, $1.2500 left, 12.0 calls/s, 3 times 429, 5 retries  1:01 elapsed, 1:02:05 to go"
    )
    assert "left, " not in line(replace(AT, budget_usd=None, left_usd=None))


def test_a_synthesis_shows_its_calls_and_the_expected_number() -> None:
    one = replace(AT, unit="topics", table="", items_total=1, items_done=0, calls=57, models=(), calls_left=227, usd_left=1.2)
    assert line(one).startswith("r1  topics 0/1  calls 57 of about 284  failures 2  $0.5000 of $2  ")
    assert line(one).endswith("1:01 elapsed, 227 calls, $1.2000, 1:02:05 to go")
    assert "  20%  topics 0/1  failures 2  $0.5000 of $2  12.0 calls/s  1:02:05 to go" in shown(one)
    assert "of about" not in line(replace(AT, calls_left=284)), "judgments tell how far it is"


def test_one_line_on_a_terminal_and_where_there_is_room_a_row_for_each_model_with_its_limits() -> None:
    (head,) = (text.rstrip() for text in shown(AT, 80).rstrip().split("\n"))
    # 10 of 40 cells, and 50 of 200 judgments: the bar fills the rest of the line.
    assert head == "━━────  25%  cells 10/40  failures 2  $0.5000 of $2  12.0 calls/s  1:02:05 to go"
    assert len(head) <= 80
    head, heads, row = (text.rstrip() for text in shown(AT).rstrip().split("\n"))
    assert head.startswith("━" * 8 + "─" * 22 + "  25%  cells 10/40")
    assert heads.split("  ")[0] == "" and "requests/min" in heads
    assert row.split() == ["openai/gpt-4o", "1234", "8.2", "495/500", "612.3k/800k", "31k", "17/32", "3", "4"]


@pytest.mark.parametrize("width", [40, 60, 80, 99])
def test_the_line_never_takes_two(width: int) -> None:
    for one in (AT, EARLY, replace(AT, items_total=1_000_000, items_done=999_999, spent_usd=123_456.0, budget_usd=1e6)):
        assert shown(one, width).count("\n") == 1


def test_a_line_names_what_hinders_as_the_table_does() -> None:
    paused, stopped = replace(MODEL, paused_s=12.4), replace(MODEL, model="openai/b", paused_s=1.0, stopped="quota_exhausted")
    said = line(replace(AT, models=(MODEL, paused, stopped)))
    assert "5 retries, openai/gpt-4o paused for 12 s, openai/b stopped: quota_exhausted  1:01 elapsed" in said
    assert "openai" not in line(AT)


EARLY = replace(AT, reserved_usd=0.0, left_usd=None, budget_usd=None, calls=0, limited=0, retries=0, models=(), seconds_left=None)


def test_before_the_first_call_there_is_one_line_that_says_what_it_does() -> None:
    doing = replace(EARLY, doing="starting Ray")
    assert shown(doing, 80).rstrip() == "━━━──────────  25%  cells 10/40  failures 2  $0.5000  1:01 elapsed, starting Ray"
    assert line(doing).endswith("1:01 elapsed, starting Ray")
    assert line(replace(doing, in_flight=1)).endswith("1:01 elapsed, ? to go")
    assert line(EARLY).endswith("1:01 elapsed, starting")
    for begun in (replace(EARLY, calls=1), replace(EARLY, in_flight=1)):
        assert line(begun).endswith("1:01 elapsed, ? to go")
    assert line(replace(EARLY, seconds_left=5.0)).endswith("1:01 elapsed, 0:05 to go")


def test_a_model_that_only_refuses_is_named_with_the_time_left() -> None:
    refusing = replace(AT, models=(replace(MODEL, refused_s=95.0, paused_s=12.0),))
    told = "nothing but 429 for 1:35, given up in 58:25"
    assert told in line(refusing)
    assert shown(refusing, 80).rstrip().split("\n")[1] == f"openai/gpt-4o: paused for 12 s, {told}"


def lines_of(capsys: pytest.CaptureFixture[str], *seen: Progress, every_s: float = 1000.0) -> list[str]:
    """The lines of a display that is not a terminal."""
    with ProgressDisplay(every_s) as display:
        for progress in seen:
            display(progress)
    said = capsys.readouterr()
    assert said.out == ""
    return said.err.splitlines()


def test_elsewhere_a_line_comes_at_once_and_one_at_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    done = replace(AT, items_done=40, seconds=99.0, seconds_left=0.0)
    assert lines_of(capsys, EARLY, AT, AT, done) == [line(EARLY), line(done, ended=True)]
    assert line(done, ended=True).endswith("  1:39 elapsed, ended")
    assert lines_of(capsys, EARLY, AT, every_s=0.0) == [line(EARLY), line(AT), line(AT, ended=True)]
    assert lines_of(capsys) == []


def test_a_line_comes_as_soon_as_a_model_is_given_up_or_the_run_stops(capsys: pytest.CaptureFixture[str]) -> None:
    lost = replace(AT, models=(replace(MODEL, stopped="quota_exhausted"),))
    stopping = replace(lost, stopping=True, in_flight=3)
    said = lines_of(capsys, AT, AT, lost, lost, stopping, stopping)
    assert said == [line(AT), line(lost), line(stopping), line(stopping, ended=True)]
    assert "openai/gpt-4o stopped: quota_exhausted" in said[1]
    assert said[2].endswith("1:01 elapsed, stopping: 3 calls in flight are waited for (a second signal stops at once)")


def test_the_last_line_comes_also_where_the_run_fails(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(OSError, match="full"), ProgressDisplay() as display:
        display(AT)
        raise OSError("full")
    assert capsys.readouterr().err.splitlines() == [line(AT), line(AT, ended=True)]


def test_ctrl_c_ends_with_its_own_line_and_code(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UserError, match="run r1, 3 of 4 cells") as ended, ProgressDisplay() as display:
        display(AT)
        raise KeyboardInterrupt("stopped: run r1, 3 of 4 cells")
    assert ended.value.exit_code == 130
    with pytest.raises(KeyboardInterrupt), ProgressDisplay():
        raise KeyboardInterrupt


@pytest.mark.parametrize("width", [60, 80, 100, 200])
def test_no_name_steers_the_terminal(width: int) -> None:
    hostile = "[red]x[/red]\x1b[31m\x07\u202e\nnext :skull:"
    model = replace(MODEL, model=hostile, stopped=hostile)
    text = shown(replace(AT, run=hostile, models=(model,)), width)
    assert not set(text) & set("\x1b\x07\u202e")
    assert line(replace(AT, run=hostile)).isprintable()


def test_what_is_left_at_a_budget_in_words() -> None:
    left = {"cells": 120, "calls": 1080, "usd": {"min": 1.2, "expected": 3.104, "max": 7.4}}
    go_on = ": summhay run spec.yaml --store shop --budget MORE"
    assert remaining_lines(left, "cells", go_on) == f"120 cells, 1,080 calls, about $3.10, at most $7.40; go on with{go_on}"
    small = {"cells": 2, "calls": 3, "usd": {"min": 0.0, "expected": 0.000104, "max": 0.0074}}
    assert "about $0.000104, at most $0.007400" in remaining_lines(small, "topics", go_on)
    assert remaining_lines({"cells": 2, "calls": None, "usd": None}, "topics", go_on) == f"2 topics; go on with{go_on}"
