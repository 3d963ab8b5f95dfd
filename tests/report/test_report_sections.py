"""A benchmark's sections: tables, charts and Markdown, with the numbers of answers behind every figure."""

from __future__ import annotations

import re

import polars as pl
import pytest

from summhay_ray.engine import Chart, Section
from summhay_ray.errors import UserError
from summhay_ray.report import notes, section_table
from summhay_ray.report.formats import paper_grids
from summhay_ray.report.sections import markdown

pytestmark = pytest.mark.core

ROWS = [
    {"model": "a", "depth": 0.0, "found": 0.25, "found_low": 0.1, "found_high": 0.5, "n": 8, "n_expected": 8},
    {"model": "a", "depth": 0.5, "found": 1.0, "found_low": 0.6, "found_high": 1.0, "n": 7, "n_expected": 8},
    {"model": "b", "depth": 0.0, "found": None, "found_low": None, "found_high": None, "n": 0, "n_expected": 8},
]
FOUND = Section(
    "Found", "By depth.", pl.DataFrame(ROWS), {"found": "%"}, Chart.line("depth", "found", "model"), notes=("Of one seed.",)
)


def test_figures_stand_with_their_intervals_and_their_n() -> None:
    table, said = section_table(FOUND), notes(FOUND)
    assert table is not None and (table.columns, table.heads) == (("model", "depth", "found (%)", "n"), 2)
    assert table.rows == (
        ("a", "0", "25.0 [10.0, 50.0]", "8/8"),
        ("a", "0.5", "100.0* [60.0, 100.0]", "7/8"),
        ("b", "0", "-", "0/8"),
    )
    assert said[0] == "Of one seed." and said[1].startswith("95 %") and said[2].startswith("* fewer answers")


def test_no_figure_is_less_than_zero_by_its_sign_alone() -> None:
    table = pl.DataFrame({"model": ["a"], "d": [-0.0], "d_low": [-0.0004], "d_high": [0.0], "e": [-0.0], "n": [2]})
    section = Section("Difference", table=table, units={"d": "%"})
    shown = section_table(section)
    assert shown is not None and shown.rows == (("a", "0.0 [0.0, 0.0]", "0", "2"),)
    [[row]] = (grid.rows for grid in paper_grids(section))
    assert [(cell.text, cell.small) for cell in row[1:3]] == [("0.0", "[0.0, 0.0]"), ("0", "")]


def test_markdown_holds_the_same_and_takes_nothing_that_a_model_says_for_more_than_text() -> None:
    text = markdown([FOUND])
    assert "| model | depth | found (%) | n |\n| --- | --- | ---: | ---: |\n| a | 0 | 25.0 [10.0, 50.0] | 8/8 |\n" in text
    said = "[click](http://x) www.x.de <img> | `x` *y* \x1b[31m\n# no"
    evil = Section(said, said, pl.DataFrame({"said": [said], "n": [1]}), chart=Chart.bar("said", "n"), listing=f"seed: 7\n{said}")
    lines = markdown([evil], said).splitlines()
    escaped = r"[click\](http\://x) www\.x.de \<img> \| \`x\` \*y\* [31m # no"
    assert lines[0] == f"# {escaped}" and lines[2] == f"#{lines[0]}" and lines[4] == escaped and f"| {escaped} | 1 |" in lines
    # A listing is indented: it is shown unchanged, and no part of it begins a line.
    assert all(line.startswith("    ") for line in lines[lines.index("    seed: 7") :]) and "\x1b" not in "".join(lines)


def test_a_section_without_rows_says_so() -> None:
    empty = section_table(Section("Found", table=pl.DataFrame(ROWS).clear(), units={"found": "%"}, chart=FOUND.chart))
    assert empty is not None and (empty.title, empty.rows) == ("nothing yet", ())


def test_a_notebook_shows_the_same_and_nothing_of_a_text_is_markup() -> None:
    shown = FOUND._repr_html_()
    assert "<th>found (%)</th>" in shown and "<td>100.0* [60.0, 100.0]</td>" in shown and "Of one seed." in shown
    table = pl.DataFrame({"<b>x": ["<script>alert(1)</script>"], "n": [1]})
    evil = Section("<img src=x>", "<i>", table, notes=("</table>",))._repr_html_()
    assert not re.search(r"<(?!/?(?:h4|p|table|tr|th|td|small)>)", evil)


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"table": pl.DataFrame({"share": [0.5]})}, "section 'S': share: figures without a column `n`"),
        (
            {"table": pl.DataFrame({"n": [1]}), "units": {"m": "%"}},
            "units names a column 'm' that it has not; it has: n",
        ),
        ({"table": pl.DataFrame({"n": [1]}), "chart": Chart.bar("x", "n")}, "section 'S': chart names a column 'x'"),
        ({"chart": Chart.bar("x", "n")}, "chart names a column 'x' that it has not; it has: no table"),
    ],
)
def test_what_cannot_be_shown_is_refused_in_a_line(fields: dict[str, object], told: str) -> None:
    with pytest.raises(UserError, match=told.replace("(", r"\(")):
        Section("S", **fields)  # type: ignore[arg-type]
