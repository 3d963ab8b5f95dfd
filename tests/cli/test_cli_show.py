"""Printed output: no text controls the terminal, no figure is cut off, and progress is one line."""

from __future__ import annotations

import io
import os
import pty
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from summhay_ray.cli import progress as progress_room
from summhay_ray.cli.progress import ProgressDisplay
from summhay_ray.cli.show import document, note, tables
from summhay_ray.engine import Progress
from summhay_ray.errors import printable
from summhay_ray.report import TextTable

pytestmark = pytest.mark.core

HOSTILE = "[red]x[/red]\x1b[31m\x07\u202e\nnext :skull:"
SHOWN = "[red]x[/red]\\x1b[31m\\x07\\u202e\\nnext :skull:"
AT = Progress(
    run="r1",
    items_total=40,
    items_done=10,
    rows_total=200,
    rows=50,
    failures=2,
    spent_usd=0.123456,
    budget_usd=1.5,
    seconds=61.4,
    seconds_left=3725.0,
    unit="cells",
    table="judgments",
)


@given(st.text())
def test_no_text_steers_a_terminal(text: str) -> None:
    assert printable(text).isprintable()
    assert all(letter in "\n\t" or letter.isprintable() for letter in printable(text, "\n\t"))


def test_tables_show_names_literally(capsys: pytest.CaptureFixture[str]) -> None:
    tables([TextTable(f"of {HOSTILE}", ("Name", HOSTILE), ((HOSTILE, "1.0"),))])
    out = capsys.readouterr().out
    assert out.splitlines()[0].rstrip() == f"of {SHOWN}"
    assert out.count(SHOWN) == 3
    assert out.isprintable() or set(out) - {"\n"} == {letter for letter in set(out) - {"\n"} if letter.isprintable()}


@contextmanager
def terminal(columns: int) -> Iterator[list[str]]:
    """stdout as a terminal of this many columns; its content when the block ends."""
    ours, theirs = pty.openpty()
    shown: list[str] = []
    real = sys.stdout
    sys.stdout = os.fdopen(theirs, "w", encoding="utf-8")
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("COLUMNS", str(columns))
            patch.setenv("TERM", "xterm")
            yield shown
        sys.stdout.close()
        said = b""
        with suppress(OSError):  # Linux raises this at the end of a closed terminal; one read may return only a part.
            while part := os.read(ours, 65536):
                said += part
        shown.extend(said.decode().replace("\r\n", "\n").split("\n"))
    finally:
        sys.stdout.close()
        sys.stdout = real
        os.close(ours)


@pytest.mark.parametrize("columns", [40, 80, 120, 200])
def test_no_figure_is_cut_at_any_width(columns: int) -> None:
    retrievers = ("none", "random", "bm25", "keywords", "released/dwzhu/e5-base-4k", "oracle", "full", "full bottom")
    names = ("gpt-4o", "together_ai/mistralai/Mixtral-8x22B-Instruct-v0.1")
    figures = [[f"{row}{place}.{place}*" for place in range(len(retrievers))] for row in (1, 2)]
    rows = tuple((name, *cells, "308/308") for name, cells in zip(names, figures, strict=True))
    with terminal(columns) as shown:
        tables([TextTable("Joint (%)", ("Summarizer", *retrievers, "n"), rows)])
    text = "\n".join(shown)
    assert "…" not in text
    left_out = " ".join(shown).partition("Left out at")[2]
    for cells in zip(retrievers, *figures, strict=True):
        assert all(f" {cell} " in text for cell in cells[1:]) or f"{cells[0]}," in left_out or f"{cells[0]};" in left_out
    assert " 308/308 " in text and ("--json has all" in " ".join(shown)) == bool(left_out) == (columns < 120)
    plain = [line.replace("\x1b[1m", "").replace("\x1b[0m", "").replace("\x1b[3m", "") for line in shown]
    assert max(map(len, plain)) <= columns


def test_a_pipe_gets_tables_of_100_columns_and_whole_texts(capsys: pytest.CaptureFixture[str]) -> None:
    long = "why " * 200 + "end"
    tables([TextTable("t", ("Name", *[f"column {place:03d}" for place in range(20)]), (("x", *["1.0"] * 20),))])
    tables([TextTable(long, ("Name", "Message"), (("x", long),), heads=2)])
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) == 100 and "column 019; --json has all" in " ".join(out.split())
    assert out.count("why") == 400


def test_a_document_is_one_line_of_ascii_on_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    document({"a": HOSTILE, "b": None})
    note(HOSTILE)
    said = capsys.readouterr()
    assert said.out == '{"a": "[red]x[/red]\\u001b[31m\\u0007\\u202e\\nnext :skull:", "b": null}\n'
    assert said.err == "[red]x[/red]\\x1b[31m\\x07\\u202e\nnext :skull:\n"
    with pytest.raises(ValueError, match="not JSON compliant"):
        document({"a": float("nan")})


def test_without_a_terminal_a_line_each_ten_seconds(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    clock = [100.0]
    monkeypatch.setattr(progress_room.time, "monotonic", lambda: clock[0])
    with ProgressDisplay() as display:
        for moment in (100.5, 110.4, 110.5, 119.9, 120.5, 131.0):
            clock[0] = moment
            display(replace(AT, seconds=moment - 100))
    said = capsys.readouterr()
    assert said.out == ""
    first, *told, last = [text.split("  ")[-1] for text in said.err.splitlines()]
    assert (first, last) == ("0:00 elapsed, 1:02:05 to go", "0:31 elapsed, ended")
    # Ten seconds after the line before.
    assert told == [f"{gone} elapsed, 1:02:05 to go" for gone in ("0:10", "0:20", "0:31")]


def test_on_a_terminal_a_line_that_is_rewritten(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    with ProgressDisplay() as display:
        display(AT)
        ends = time.monotonic() + 60
        while "cells 10/40" not in screen.getvalue() and time.monotonic() < ends:
            time.sleep(0.05)
        display(replace(AT, items_done=11))
    shown = screen.getvalue()
    assert "starting" in shown
    assert "25%  cells 10/40  failures 2  " in shown and "  1:02:05 to go" in shown
    assert "cells 11/40" in shown
    assert "\x1b[2K" in shown
