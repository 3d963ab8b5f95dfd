"""Tables that fit a terminal: nothing is cut, and a line names the columns that are left out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from summhay_ray.report import TextTable, fit_table, fold_text

pytestmark = pytest.mark.core

FRAME = 3
WIDE = TextTable("T", ("Name", "aaaa", "bbbb", "n"), (("one", "1 [0, 2]", "2 [1, 3]", "3"), ("three", "4 [3, 5]", "5", "6")))


def test_a_table_that_fits_stays_whole() -> None:
    # A border, then each column with FRAME: 1 + (5 + 3) + 2 * (8 + 3) + (1 + 3) = 35.
    found = fit_table(WIDE, 35)
    assert (found.grid, found.widths, found.left_out) == (WIDE, (5, 8, 8, 1), ())


def test_intervals_are_left_out_before_columns_and_the_first_figure_stays_whole() -> None:
    found = fit_table(WIDE, 34)
    assert found.grid.rows == (("one", "1 [0, 2]", "2", "3"), ("three", "4 [3, 5]", "5", "6"))
    assert found.left_out == ("intervals of bbbb",)
    found = fit_table(WIDE, 30)
    assert found.grid.columns == ("Name", "aaaa", "n") and found.left_out == ("bbbb",)
    found = fit_table(WIDE, 22)
    assert found.grid.rows == (("one", "1", "3"), ("three", "4", "6")) and found.left_out == ("intervals of aaaa", "bbbb")


def test_a_leaderboard_keeps_the_interval_of_its_second_figure_longer_than_further_columns() -> None:
    columns, row = ("system", "a", "b", "cccc", "dddd", "n"), ("one", "1 [0, 2]", "2 [1, 3]", "3", "4", "5")
    found = fit_table(TextTable("T", columns, (row,), columns_first=True), 36)
    assert found.grid.rows == (("one", "1 [0, 2]", "2 [1, 3]", "5"),) and found.left_out == ("cccc", "dddd")


def test_long_names_are_folded_before_figures() -> None:
    found = fit_table(TextTable("T", ("Name", "a", "b"), (("n" * 90, "100.0*", "308/308"),)), 60)
    assert found.widths[1:] == (6, 7) and found.widths[0] < 60 - 6 - 7 - 3 * FRAME and not found.left_out
    assert 1 + sum(width + FRAME for width in found.widths) <= 60


def test_wide_characters_take_two_places() -> None:
    assert fit_table(TextTable("T", ("名前", "x"), (("a", "1"),)), 80).widths == (4, 1)


TEXT = st.text(st.characters(categories=["L", "N"], max_codepoint=0x2FF), min_size=1, max_size=40)


@given(
    names=st.lists(TEXT, min_size=1, max_size=4),
    columns=st.lists(TEXT, min_size=1, max_size=12, unique=True),
    width=st.integers(min_value=30, max_value=250),
    columns_first=st.booleans(),
)
def test_no_table_is_wider_than_the_terminal_and_each_column_is_shown_or_named(
    names: list[str], columns: list[str], width: int, columns_first: bool
) -> None:
    cells = tuple(tuple(f"{row}.{place} [0, 1]" for place in range(len(columns))) for row in range(len(names)))
    rows = tuple((name, *row) for name, row in zip(names, cells, strict=True))
    found = fit_table(TextTable("T", ("Name", *columns), rows, columns_first=columns_first), width)
    assert 1 + sum(one + FRAME for one in found.widths) <= width
    shown = found.grid.columns[1:]
    assert found.grid.columns[0] == "Name" and [name for name in columns if name in shown] == [*shown]
    assert {*shown} | {one for one in found.left_out if one in columns} == {*columns}
    # Figures are never folded, only names of rows and columns.
    for row in found.grid.rows:
        for name, cell, one in zip(shown, row[1:], found.widths[1:], strict=True):
            assert len(cell) <= one and (" [" in cell or f"intervals of {name}" in found.left_out)


@pytest.mark.parametrize(
    ("text", "width", "lines"),
    [
        ("oracle_offline/support", 20, ["oracle_offline/", "support"]),
        ("full-release", 8, ["full-", "release"]),
        ("two words", 6, ["two", "words"]),
        ("faithfulness", 10, ["faithfulness"]),
        ("short", 10, ["short"]),
    ],
)
def test_names_break_at_their_signs(text: str, width: int, lines: list[str]) -> None:
    assert fold_text(text, width).split("\n") == lines
