"""The table of a section as cells of a paper's table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from summhay_ray.engine import Section
from summhay_ray.report.sections import cell_parts, lacks, plain, section_columns, section_table, with_unit

MOST_ROWS, MOST_COLUMNS = 400, 16
"""Maximum rows and columns of a table for a paper."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of a table."""

    text: str
    small: str = ""
    """Text in small print: the figure's interval."""
    is_best: bool = False
    """Whether the figure is the best of its column."""


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


def paper_grids(section: Section) -> list[Grid]:
    """The table of a section. With a pivot, all figures are next to each other, or one grid per figure if that is too wide."""
    table, pivot = section_table(section), section.pivot
    if table is None or section.table is None:
        return []
    if pivot is not None and section.table.height:
        whole = _wide(section, pivot.figures)
        return [whole] if len(whole.heads) <= MOST_COLUMNS else [_wide(section, (figure,)) for figure in pivot.figures]
    columns, height = section_columns(section), section.table.height
    rows = [[_cell(section, row, name) for name in columns] for row in section.table.head(MOST_ROWS).iter_rows(named=True)]
    return [Grid([plain(head) for head in table.columns], rows, table.heads, cut=height if height > MOST_ROWS else 0)]


def _wide(section: Section, figures: Sequence[str]) -> Grid:
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
            (found[key][figure] for key in may_win if key[1] == column and found[key][figure] is not None), default=None
        )
        for figure in figures
        for column in across
    }
    made = []
    for name in dict.fromkeys(row[pivot.rows] for row in rows):
        line = [Cell(plain(name))]
        for figure in figures:
            for column in across:
                row = found.get((name, column))
                shown = Cell("") if row is None else _cell(section, row, figure)
                top = row is not None and row[figure] == best[figure, column] is not None and (name, column) in may_win
                line.append(replace(shown, is_best=top))
        own = [row for row in rows if row[pivot.rows] == name]
        for rest in pivot.rest:
            # The mean across columns, or their common value.
            known = [row[rest] for row in own if row[rest] is not None]
            floats = bool(known) and all(isinstance(value, float) for value in known)
            line.append(_cell(section, {rest: sum(known) / len(known) if floats else next(iter(known), None)}, rest))
        n, expected = ([row[key] for row in own if row.get(key) is not None] for key in ("n", "n_expected"))
        total = f"{sum(n):,}/{sum(expected):,}" if expected else f"{sum(n):,}"
        made.append([*line, Cell(total if n else "-")])
    named = [Group(plain(with_unit(section, figure)), len(across)) for figure in figures]
    groups = [Group("", 1), *named, Group("", len(pivot.rest) + 1)]
    shared = [plain(with_unit(section, name)) for name in pivot.rest]
    return Grid([pivot.rows, *(plain(column) for _ in figures for column in across), *shared, "n"], made, 1, groups)


def _cell(section: Section, row: Mapping[str, Any], name: str) -> Cell:
    text, interval, floor = cell_parts(section, row, name)
    return Cell(text, f"{interval} {floor}".strip())
