"""The paper's Tables 2 and 3 as text, and tables that fit a terminal."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from summhay_ray.metrics import PositionSensitivity, SystemScore
from summhay_ray.report import TextTable, fitted, folded, table_legends
from summhay_ray.report.terminal_tables import LEGEND, position_table, system_tables

pytestmark = pytest.mark.core

FRAME = 3


def system(retriever: str, model: str = "gpt-4o", ordering: str = "given", judge: str = "j", **fields: object) -> SystemScore:
    plain = SystemScore(
        system=f"{retriever}_{model}",
        retriever=retriever,
        ordering=ordering,
        model=model,
        judge=judge,
        coverage=0.5,
        citation=0.25,
        citation_precision=0.2,
        citation_recall=0.3,
        joint=0.125,
        n_expected=10,
        n_scored=10,
        n_covered=5,
        words_per_bullet=30.0,
    )
    return replace(plain, **fields)


def test_one_table_a_metric_summarizers_down_and_retrievers_across() -> None:
    # GPT-4o's row of Table 2, as far as Rand and Orac go.
    systems = [
        system("random", coverage=0.540, citation=0.219, joint=0.126, words_per_bullet=36.0),
        system("oracle", coverage=0.766, citation=0.546, joint=0.434, words_per_bullet=37.0),
        system("random", "command-r", coverage=0.470, citation=0.177, joint=0.089, words_per_bullet=33.1),
    ]
    joint, coverage, citation = system_tables(systems)
    assert [table.title for table in (joint, coverage, citation)] == [
        "Joint (%), raw, judged by j",
        "Coverage (%), raw, judged by j",
        "Citation (%), raw, judged by j",
    ]
    assert system_tables(systems, more=False) == [joint]
    assert coverage.columns == citation.columns == joint.columns == ("Summarizer", "random", "oracle", "W/bullet", "n")
    assert coverage.rows == (("command-r", "47.0", "", "33.1", "10/10"), ("gpt-4o", "54.0", "76.6", "36.5", "20/20"))
    assert citation.rows[1] == ("gpt-4o", "21.9", "54.6", "36.5", "20/20")
    assert joint.rows[1] == ("gpt-4o", "12.6", "43.4", "36.5", "20/20")


def test_columns_go_from_the_lowest_to_the_highest_bound() -> None:
    names = ["full", "oracle", "vector", "random", "bm25", "none", "released/oracle"]
    systems = [system(name) for name in names] + [system("full", ordering=order) for order in ("top", "bottom")]
    head = system_tables(systems)[0].columns
    bounds = ("oracle", "released/oracle", "full", "full bottom", "full top")
    assert head == ("Summarizer", "none", "random", "bm25", "vector", *bounds, "W/bullet", "n")


def test_what_lacks_scores_is_marked() -> None:
    systems = [
        system("bm25", n_scored=7),
        system("random", citation=None, n_covered=0),
        system("oracle", coverage=None, citation=None, joint=None, n_scored=0, n_covered=0, words_per_bullet=None),
    ]
    _, coverage, citation = system_tables(systems)
    assert coverage.columns[1:4] == ("random", "bm25", "oracle")
    nothing = "-* (floor 0.0, 100.0 % missing)"
    assert coverage.rows == (("gpt-4o", "50.0", "50.0* (floor 35.0, 30.0 % missing)", nothing, "30.0", "17/30"),)
    # A missing insight may be a covered one without a right citation.
    [(_, _, silent, *_)] = citation.rows
    n_covered = systems[0].n_covered
    assert silent == f"25.0* (floor {25 * n_covered / (n_covered + 3):.1f}, 30.0 % missing)"
    assert table_legends([coverage]) == [LEGEND] and table_legends(system_tables([system("bm25")])[:1]) == []


def test_a_figure_of_too_few_queries_says_so_instead_of_an_interval() -> None:
    few, enough = {"ci_reasons": {"joint": "too few queries: 5, an interval needs 6"}}, {"ci": {"joint": (0.1, 0.2)}}
    joint, *_ = system_tables([system("bm25", **few), system("random", **enough)])
    assert joint.rows[0][1:3] == ("12.5 [10.0, 20.0]", "12.5 [too few]")
    assert table_legends([joint]) == ["too few: a 95 % interval needs 6 queries or more"]


def test_each_judge_has_its_own_tables() -> None:
    found = system_tables([system("bm25", judge="b"), system("bm25", judge="a", joint=0.75)])
    assert [table.title for table in found[::3]] == ["Joint (%), raw, judged by b", "Joint (%), raw, judged by a"]
    assert [table.rows[0][1] for table in found[::3]] == ["12.5", "75.0"]
    assert len(found) == 6


def test_no_systems_no_tables() -> None:
    assert system_tables([]) == []


def test_position_sensitivity_as_in_the_papers_table_3() -> None:
    rows = [
        PositionSensitivity(
            "GPT-4o", "j", "given", 0.114, 0.138, 0.241, 0.127, dict.fromkeys(("top", "bottom", "baseline"), (9, 9))
        ),
        PositionSensitivity("Claude3 Opus", "j", "", None, 0.204, None, None, {"top": (7, 9)}),
    ]
    table = position_table(rows)
    assert table is not None
    assert table.title == "Joint (%), raw, by document order, judged by j"
    assert table.columns == ("Summarizer", "Top", "Bottom", "Baseline", "(order)", "Sensitivity", "n")
    assert table.rows == (
        ("GPT-4o", "13.8", "24.1", "11.4", "given", "12.7", "27/27"),
        ("Claude3 Opus", "20.4*", "-", "-", "-", "-", "7/9"),
    )
    assert position_table([]) is None


def test_position_sensitivity_of_several_judges_says_whose() -> None:
    table = position_table([PositionSensitivity("m", judge, "given", 0.1, 0.1, 0.1, 0.0) for judge in ("a", "b")])
    assert table is not None
    assert (table.title, table.heads) == ("Joint (%), raw, by document order, judged by a, b", 2)
    assert [row[:3] for row in table.rows] == [("m", "a", "10.0"), ("m", "b", "10.0")]


WIDE = TextTable("T", ("Name", "aaaa", "bbbb", "cccc"), (("one", "1", "2", "3"), ("three", "4", "5", "6")))


def test_a_table_that_fits_stays_whole() -> None:
    # A border, then each column with FRAME: 1 + (5 + 3) + 3 * (4 + 3) = 30.
    assert [part.grid for part in fitted(WIDE, 30)] == [WIDE]
    assert fitted(WIDE, 30)[0].widths == (5, 4, 4, 4)


def test_a_wider_table_is_parted_and_every_part_names_its_rows() -> None:
    first, second = fitted(WIDE, 29)
    assert first.grid == TextTable("T (1/2)", ("Name", "aaaa", "bbbb"), (("one", "1", "2"), ("three", "4", "5")))
    assert second.grid == TextTable("T (2/2)", ("Name", "cccc"), (("one", "3"), ("three", "6")))
    assert (first.widths, second.widths) == ((5, 4, 4), (5, 4))


def test_long_names_are_folded_before_figures() -> None:
    grid = TextTable("T", ("Name", "a", "b"), (("n" * 90, "100.0*", "308/308"),))
    (part,) = fitted(grid, 60)
    assert part.widths[1:] == (6, 7)
    assert part.widths[0] < 60 - 6 - 7 - 3 * FRAME
    assert 1 + sum(width + FRAME for width in part.widths) <= 60


def test_two_columns_may_name_a_row() -> None:
    grid = TextTable("T", ("Stage", "Model", "a" * 30, "b" * 30), (("judge", "m", "1", "2"),), heads=2)
    first, second = fitted(grid, 60)
    assert first.grid.columns == ("Stage", "Model", "a" * 30)
    assert second.grid.columns == ("Stage", "Model", "b" * 30)


def test_wide_characters_take_two_places() -> None:
    assert fitted(TextTable("T", ("名前", "x"), (("a", "1"),)), 80)[0].widths == (4, 1)


TEXT = st.text(st.characters(categories=["L", "N"], max_codepoint=0x2FF), min_size=1, max_size=40)


@given(
    names=st.lists(TEXT, min_size=1, max_size=4),
    columns=st.lists(TEXT, min_size=1, max_size=12),
    width=st.integers(min_value=30, max_value=250),
)
def test_every_cell_stands_in_one_part_and_no_part_is_wider_than_the_terminal(
    names: list[str], columns: list[str], width: int
) -> None:
    cells = tuple(tuple(f"{row}.{place}" for place in range(len(columns))) for row in range(len(names)))
    grid = TextTable("T", ("Name", *columns), tuple((name, *row) for name, row in zip(names, cells, strict=True)))
    parts = fitted(grid, width)
    for part in parts:
        assert 1 + sum(one + FRAME for one in part.widths) <= width
        assert part.grid.columns[0] == "Name"
        # Figures are never folded: only names of rows and columns are.
        assert all(len(cell) <= one for row in part.grid.rows for cell, one in zip(row[1:], part.widths[1:], strict=True))
    assert tuple(column for part in parts for column in part.grid.columns[1:]) == tuple(columns)
    for index, row in enumerate(cells):
        assert tuple(cell for part in parts for cell in part.grid.rows[index][1:]) == row


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
    assert folded(text, width).split("\n") == lines
