"""The table of a section as cells, for a page or a paper."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from summhay_ray.engine import Section
from summhay_ray.metrics import TOO_FEW, of_column
from summhay_ray.report.sections import HIDDEN, SHARES, four_digits, is_figure, is_too_few, lacks, plain, with_unit

MOST_ROWS = 2000
"""Maximum rows shown on a page; CSV and JSON have all rows."""
MOST_PAPER_ROWS, MOST_COLUMNS = 400, 16
"""Maximum rows and columns of a table for a paper."""
WORDY = 60
"""Texts longer than this many letters get a wider column on a page."""
LONG = 30
"""A table with more rows is folded on a page."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of a table."""

    text: str
    value: str = ""
    """The sort key: a number or a text; empty sorts as missing."""
    small: str = ""
    """Text in small print: the figure's interval."""
    href: str = ""
    """Address of the samples behind the cell."""
    cls: str = ""
    """CSS classes."""


@dataclass(frozen=True, slots=True)
class Links:
    """How a table's figures link to the samples behind them."""

    facets: Mapping[str, Collection[str]]
    """Text columns that filter samples -> their values."""
    run: str = ""
    """The table's run, if a report has several."""


@dataclass(frozen=True, slots=True)
class Group:
    """A heading above several columns: the figure that they show."""

    name: str
    span: int


@dataclass(frozen=True)
class Grid:
    """A table of cells. Every row has as many cells as there are column headings."""

    heads: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    n_heads: int
    """Number of columns, from the left, that identify the row."""
    groups: Sequence[Group] = ()
    """Headings above the column headings, in a pivot."""
    cut: int = 0
    """Total number of rows if some are left out, else 0."""

    def figures(self, column: int) -> bool:
        """Whether a column shows numbers, which are right-aligned."""
        return any("figure" in row[column].cls for row in self.rows[:1])

    @property
    def long(self) -> bool:
        """Whether the table is folded on a page."""
        return len(self.rows) > LONG


def grids_of(section: Section, links: Links | None = None, most: int = MOST_ROWS) -> list[Grid]:
    """The table of a section for a page. With a pivot, one grid per figure.

    `links`: how figures link to their samples; None for no links. `most`: maximum rows to show.
    """
    if section.table is None or not section.table.columns:
        return []
    if section.pivot is not None and section.table.height:
        return [_wide(section, links, (figure,)) for figure in section.pivot.figures]
    columns = [name for name in section.table.columns if not name.endswith(HIDDEN)]
    columns = [name for name in columns if name != "n"] + [name for name in columns if name == "n"]
    figures = [is_figure(section, name) for name in columns]
    rows = [
        [_cell(section, row, name, figure, links) for name, figure in zip(columns, figures, strict=True)]
        for row in section.table.head(most).iter_rows(named=True)
    ]
    heads = [plain(with_unit(section, name)) for name in columns]
    n_heads = next((place for place, figure in enumerate(figures) if figure), len(columns))
    return [Grid(heads, rows, max(1, n_heads), cut=section.table.height if section.table.height > most else 0)]


def paper_grids(section: Section) -> list[Grid]:
    """The table of a section for a paper. With a pivot, all figures are next to each other if the table is not too wide."""
    if section.pivot is None or section.table is None or not section.table.height:
        return grids_of(section, most=MOST_PAPER_ROWS)
    whole = _wide(section, None, section.pivot.figures)
    return [whole] if len(whole.heads) <= MOST_COLUMNS else grids_of(section)


def _wide(section: Section, links: Links | None, figures: Sequence[str]) -> Grid:
    """The pivoted table: a row for each value of `pivot.rows`; for each figure, a column for each value of `pivot.columns`."""
    assert section.table is not None and section.pivot is not None
    pivot = section.pivot
    rows = list(section.table.iter_rows(named=True))
    across = list(dict.fromkeys(row[pivot.columns] for row in rows))
    found = {(row[pivot.rows], row[pivot.columns]): row for row in rows}
    # Figures with missing answers, possibly the hardest ones, are never marked as a column's best.
    may_win = {key for key, row in found.items() if key[0] not in pivot.reference and not lacks(row)}
    best = {
        (figure, column): max(
            (row[figure] for key, row in found.items() if key in may_win and key[1] == column and row[figure] is not None),
            default=None,
        )
        for figure in figures
        for column in across
    }
    made = []
    for name in dict.fromkeys(row[pivot.rows] for row in rows):
        line = [Cell(plain(name), plain(name))]
        for figure in figures:
            for column in across:
                row = found.get((name, column))
                cell = Cell("", cls="figure") if row is None else _cell(section, row, figure, True, links)
                top = row is not None and row[figure] == best[figure, column] is not None and (name, column) in may_win
                line.append(Cell(cell.text, cell.value, cell.small, cell.href, f"{cell.cls} best" if top else cell.cls))
        own = [row for row in rows if row[pivot.rows] == name]
        for rest in pivot.rest:
            # The mean across columns, or their common value.
            known = [row[rest] for row in own if row[rest] is not None]
            floats = bool(known) and all(isinstance(value, float) for value in known)
            value = sum(known) / len(known) if floats else next(iter(known), None)
            line.append(_cell(section, {rest: value}, rest, True, None))
        n, expected = ([row[key] for row in own if row.get(key) is not None] for key in ("n", "n_expected"))
        total = f"{sum(n):,}/{sum(expected):,}" if expected else f"{sum(n):,}"
        made.append([*line, Cell(total, str(sum(n)), cls="figure") if n else Cell("-", cls="figure")])
    named = [Group(plain(with_unit(section, figure)), len(across)) for figure in figures]
    groups = [Group("", 1), *named, Group("", len(pivot.rest) + 1)]
    shared = [plain(with_unit(section, name)) for name in pivot.rest]
    heads = [pivot.rows, *(plain(column) for _ in figures for column in across), *shared, "n"]
    return Grid(heads, made, 1, groups)


def _cell(section: Section, row: Mapping[str, Any], name: str, figure: bool, links: Links | None) -> Cell:
    value = row[name]
    if name == "n":
        expected = row.get("n_expected")
        text = "-" if value is None else f"{value:,}" if expected is None else f"{value:,}/{expected:,}"
        return Cell(text, "" if value is None else str(value), href=_samples(row, links), cls="figure")
    if not figure and isinstance(value, int | float) and not isinstance(value, bool):
        whole = f"{value:,}" if abs(value) >= 10_000 else str(value)
        return Cell(four_digits(value) if isinstance(value, float) else whole, repr(value), cls="figure")
    if not figure:
        return Cell(plain(value), plain(value), cls="text-cell" if len(plain(value)) <= WORDY else "text-cell wordy")
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return Cell("-", cls="figure")
    if not isinstance(value, int | float) or isinstance(value, bool):
        return Cell(plain(value), plain(value), cls="text-cell")
    text = figure_text(section, name, value) + ("*" if lacks(row) and isinstance(value, float) else "")
    ends = [row.get(f"{name}_low"), row.get(f"{name}_high")]
    known = [end for end in ends if isinstance(end, int | float) and math.isfinite(end)]
    small = f"[{', '.join(figure_text(section, name, end) for end in known)}]" if len(known) == 2 else ""
    small = f"[{TOO_FEW}]" if is_too_few(row, name) else small
    if lacks(row) and (floor := row.get(f"{name}_floor")) is not None:
        small = f"{small} floor {figure_text(section, name, floor)}".strip()
    return Cell(text, repr(value), small, _samples(row, links), "figure")


def figure_text(section: Section, name: str, value: float) -> str:
    """A figure as text in its unit: percentages and points with one decimal, other numbers with four digits."""
    if section.units.get(name) in SHARES:
        return f"{100 * value:z.1f}"
    return four_digits(value) if isinstance(value, float) else f"{value:,}"


def _samples(row: Mapping[str, Any], links: Links | None) -> str:
    """The address of a row's samples in the viewer, filtered by every column that is also a facet; empty without samples."""
    if links is None or not row.get("n"):
        return ""
    chosen = {name: value for name, value in row.items() if name in links.facets and isinstance(value, str) and value}
    if "retriever" in chosen and "ordering" in links.facets and "ordering" not in row:
        # The table shows retriever and ordering in one column.
        chosen["retriever"], chosen["ordering"] = of_column(chosen["retriever"])
    if not chosen or any(value not in links.facets[name] for name, value in chosen.items()):
        return ""
    return f"#samples?{urlencode({'run': links.run, **chosen} if links.run else chosen)}"
