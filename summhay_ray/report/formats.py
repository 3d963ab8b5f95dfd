"""Tables of a report for papers and other tools: LaTeX, CSV and JSON."""

import csv
import io
import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from summhay_ray.engine import Section
from summhay_ray.metrics import Z_95
from summhay_ray.report.face import page_template
from summhay_ray.report.run_sections import ReportedRun, hashes, versions
from summhay_ray.report.sections import notes, section_table
from summhay_ray.sections import HIDDEN, cell_parts, has_missing, is_figure, plain, shown_columns, with_unit
from summhay_ray.text import quoted

MOST_ROWS, MOST_COLUMNS = 400, 16
"""Maximum rows and columns of a table for a paper."""
_SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "·": r"\textperiodcentered{}",
    "±": r"\textpm{}",
    "…": r"\ldots{}",
    "\u2013": "--",
    "\u2014": "---",
    "\u2018": "`",
    "\u2019": "'",
    "\u201c": "``",
    "\u201d": "''",
    **{letter: f"\\{letter}" for letter in "&%$#_{}"},
    # At the start of a row, LaTeX would read these as arguments of the preceding `\\`.
    **{letter: f"{{{letter}}}" for letter in "[]*"},
    # LaTeX joins two of these into one dash or quotation mark.
    **{letter: f"{letter}{{}}" for letter in "-`',"},
}
_LINES_A_FLOAT, _FOLDED = 40, 25
"""Lines on a page, and characters per line of a folded text."""
_LONG_HEAD, _LONG_TEXT = 9, 45
"""Limits in characters: longer column heads of figures are rotated, and longer texts are folded."""
_WORD = re.compile(r"\S{1,20}(?!\S)|\S{20}|\s+")
"""The parts between which a folded text may break: words, spaces, and parts of words longer than a line."""


class Cell(NamedTuple):
    """One cell of a paper's table."""

    text: str
    small: str = ""
    """Text in small print: the figure's interval."""
    is_best: bool = False
    """Whether the figure is the best in its column."""


@dataclass(frozen=True)
class Grid:
    """A table of cells. Every row has as many cells as there are column headings."""

    heads: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    n_heads: int
    """Number of columns, from the left, that identify the row."""
    groups: Sequence[tuple[str, int]] = ()
    """The top row of headings in a pivot: (the figure that its columns show, the number of these columns)."""
    cut: int = 0
    """Total number of rows if some are left out, else 0."""


def csv_text(section: Section) -> str:
    """Return the table of a section with all rows and columns. Figures are fractions. Spreadsheet formulas are neutralized."""
    assert section.table is not None
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    for row in (section.table.columns, *section.table.iter_rows()):
        writer.writerow([value if value is None or isinstance(value, int | float) else quoted(plain(value)) for value in row])
    return stream.getvalue()


def paper_grids(section: Section) -> list[Grid]:
    """Return the table of a section. With a pivot, all figures are side by side, or in one grid per figure if that is too
    wide."""
    table, pivot = section_table(section), section.pivot
    if table is None or section.table is None:
        return []
    if pivot is not None and section.table.height:
        whole = _wide(section, pivot.figures)
        return [whole] if len(whole.heads) <= MOST_COLUMNS else [_wide(section, (figure,)) for figure in pivot.figures]
    columns, height = shown_columns(section), section.table.height
    rows = [[_cell(section, row, name) for name in columns] for row in section.table.head(MOST_ROWS).iter_rows(named=True)]
    return [Grid([plain(head) for head in table.columns], rows, table.heads, cut=height if height > MOST_ROWS else 0)]


def _wide(section: Section, figures: Sequence[str]) -> Grid:
    """Return the pivoted table: a row for each value of `pivot.rows` and, for each figure, a column for each value of
    `pivot.columns`."""
    assert section.table is not None and section.pivot is not None
    pivot = section.pivot
    rows = list(section.table.iter_rows(named=True))
    across = list(dict.fromkeys(row[pivot.columns] for row in rows))
    found = {(row[pivot.rows], row[pivot.columns]): row for row in rows}
    # Never mark a figure with missing answers as the best in its column, since these may be the hardest ones.
    may_win = {key for key, row in found.items() if key[0] not in pivot.reference and not has_missing(row)}
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
        for figure, column in itertools.product(figures, across):
            row = found.get((name, column))
            shown = Cell("") if row is None else _cell(section, row, figure)
            top = row is not None and row[figure] == best[figure, column] is not None and (name, column) in may_win
            line.append(shown._replace(is_best=top))
        own = [row for row in rows if row[pivot.rows] == name]
        for rest in pivot.rest:
            # The mean across columns for numbers, else the first value.
            known = [row[rest] for row in own if row[rest] is not None]
            floats = bool(known) and all(isinstance(value, float) for value in known)
            line.append(_cell(section, {rest: sum(known) / len(known) if floats else next(iter(known), None)}, rest))
        n, expected = ([row[key] for row in own if row.get(key) is not None] for key in ("n", "n_expected"))
        total = f"{sum(n):,}/{sum(expected):,}" if expected else f"{sum(n):,}"
        made.append([*line, Cell(total if n else "-")])
    groups = [("", 1), *((plain(with_unit(section, figure)), len(across)) for figure in figures), ("", len(pivot.rest) + 1)]
    shared = [plain(with_unit(section, name)) for name in pivot.rest]
    return Grid([pivot.rows, *(plain(column) for _ in figures for column in across), *shared, "n"], made, 1, groups)


def _cell(section: Section, row: Mapping[str, Any], name: str) -> Cell:
    text, interval, floor = cell_parts(section, row, name)
    return Cell(text, f"{interval} {floor}".strip())


def latex_document(title: str, sections: Mapping[str, Section]) -> str:
    """Return a document for pdflatex with a booktabs table for each section that has a table. `sections`: label -> section."""
    marks = {"variable_start_string": "<<", "variable_end_string": ">>", "block_start_string": "<%", "block_end_string": "%>"}
    known = {name: section for name, section in sections.items() if section.table is not None and section.table.height}
    floats = [one for name, section in known.items() for one in _floats(section, name)]
    # All texts are escaped for LaTeX before they reach the template.
    return page_template("report.tex.j2", **marks).render(title=_escaped(title), floats=floats) + "\n"


def _floats(section: Section, name: str) -> Iterator[dict[str, Any]]:
    """Yield the table of a section as floats that fit a page, labelled tab:NAME."""
    grids, remarks = paper_grids(section), notes(section)
    if cut := grids[0].cut:
        remarks.append(f"The first {len(grids[0].rows):,} of {cut:,} rows; --format csv writes all.")
    parts: list[list[tuple[Grid, Sequence[Cell]]]] = [[]]
    used = 0
    for grid, row in [(one, row) for one in grids for row in one.rows]:
        folded = (len(cell.text) // _FOLDED + 1 for cell in row if len(cell.text) > _LONG_TEXT)
        height = max(2 if grid.groups and any(cell.small for cell in row) else 1, *folded, 1)
        if used + height > _LINES_A_FLOAT and parts[-1]:
            parts.append([])
            used = 0
        parts[-1].append((grid, row))
        used += height
    first = grids[0]
    for place, rows in enumerate(parts):
        long = [max(len(row[column].text) for _, row in rows) > _LONG_TEXT for column in range(len(first.heads))]
        kinds = [
            r">{\raggedright\arraybackslash}p{5cm}" if is_long else "l" if column < first.n_heads else "r"
            for column, is_long in enumerate(long)
        ]
        yield {
            "place": place,
            "n": len(parts),
            "title": _escaped(section.title),
            "text": "" if place else _escaped(" ".join([section.text, *remarks]).strip()),
            "label": f"tab:{name.replace('_', '-')}{f'-{place + 1}' if place else ''}",
            "kinds": "".join(kinds),
            "lines": "\n".join(_lines(rows)),
        }


def _lines(rows: Sequence[tuple[Grid, Sequence[Cell]]]) -> Iterator[str]:
    """Yield the lines of the grids, one below the other, under a single line of headings. If there are several, the name of
    its group precedes each grid."""
    first, before = rows[0][0], None
    side_by_side = bool(first.groups) and all(grid is first for grid, _ in rows)
    if side_by_side:
        yield " & ".join(f"\\multicolumn{{{span}}}{{c}}{{{_escaped(name)}}}" for name, span in first.groups) + r" \\"
        starts = itertools.accumulate((span for _, span in first.groups), initial=1)
        spans = [(start, span) for start, (name, span) in zip(starts, first.groups, strict=False) if name]
        yield "".join(f"\\cmidrule(lr){{{start}-{start + span - 1}}}" for start, span in spans)
    upright = any(len(head) > _LONG_HEAD for head in first.heads[first.n_heads :]) and len(first.heads) > 8
    heads = [
        f"\\rotatebox{{90}}{{{_escaped(head)}}}" if upright and place >= first.n_heads else _escaped(head)
        for place, head in enumerate(first.heads)
    ]
    yield " & ".join(heads) + r" \\"
    for grid, row in rows:
        if grid is not before:
            yield r"\midrule"
            if grid.groups and not side_by_side:
                yield f"\\multicolumn{{{len(grid.heads)}}}{{c}}{{\\emph{{{_escaped(grid.groups[1][0])}}}}} \\\\"
                yield r"\midrule"
            before = grid
        yield " & ".join(_set(cell, bool(grid.groups)) for cell in row) + r" \\"


def _set(cell: Cell, wide: bool) -> str:
    folded = _WORD.findall(cell.text) if len(cell.text) > _LONG_TEXT else [cell.text]
    text = r"\allowbreak{}".join(map(_escaped, folded))
    text = f"\\textbf{{{text}}}" if cell.is_best else text
    small = f"{{\\tiny {_escaped(cell.small)}}}"
    # In a table with many columns, the interval is below its figure.
    return text if not cell.small else f"\\shortstack[r]{{{text} \\\\ {small}}}" if wide else f"{text} {small}"


def _escaped(text: str) -> str:
    """Escape text for LaTeX. Characters missing from common fonts become question marks."""
    return "".join(
        _SPECIAL.get(letter, letter if letter.isascii() or (letter < "\u0100" and letter.isalpha()) else "?")
        for letter in plain(text)
    )


def results_json(reported: ReportedRun) -> dict[str, Any]:
    """Return a run's figures in the form of lm-eval's results.json (task -> metric -> value), with spec, versions, hashes and
    sections.

    A task is a row of a section that counts expected answers: SECTION/NAMES OF THE ROW.
    """
    record = reported.run.record
    results: dict[str, dict[str, Any]] = {}
    counts: dict[str, dict[str, int]] = {}
    better: dict[str, dict[str, bool]] = {}
    # Tasks are the rows of sections with a pivot. If there is no such section, they are the rows of sections with `n_expected`.
    known = [section for section in reported.sections if section.table is not None and section.table.height]
    wide = [section for section in known if section.pivot is not None]
    for section in wide or [one for one in known if one.table is not None and "n_expected" in one.table.columns]:
        assert section.table is not None
        names, figures = names_and_figures(section)
        for row in section.table.iter_rows(named=True):
            name = "/".join(str(row[key]) for key in names if row[key] not in (None, ""))
            task = f"{section.slug}/{name}"
            results[task] = {"alias": plain(name), **{key: value for figure in figures for key, value in _metric(row, figure)}}
            n = {"effective": row.get("n"), "original": row.get("n_expected")}
            counts[task] = {what: count for what, count in n.items() if count is not None}
            better[task] = {figure: True for figure in figures if figure in section.higher_is_better}
    return {
        "run": reported.run.run_id,
        "kind": record["kind"],
        "name": record.get("name", ""),
        "status": reported.status,
        **({"judge": reported.judge} if reported.judge else {}),
        "results": results,
        "n-samples": counts,
        "higher_is_better": better,
        "config": record.get("spec", {}),
        "versions": versions(),
        "hashes": hashes(record),
        "sections": [
            {
                "name": one.slug,
                "title": one.title,
                "text": one.text,
                "units": dict(one.units),
                "rows": [] if one.table is None else [{key: _finite(row[key]) for key in row} for row in one.table.to_dicts()],
                "notes": notes(one),
                **({"listing": one.listing} if one.listing else {}),
            }
            for one in reported.sections
        ],
    }


def names_and_figures(section: Section) -> tuple[list[str], list[str]]:
    """Return the columns that identify a row, and the columns of its figures."""
    assert section.table is not None
    if section.pivot is not None:
        return [section.pivot.rows, section.pivot.columns], [*section.pivot.figures]
    columns = [name for name in section.table.columns if not name.endswith(HIDDEN) and name != "n"]
    figures = [name for name in columns if is_figure(section, name)]
    first = columns.index(figures[0]) if figures else len(columns)
    return [name for name in columns[:first] if not name.startswith(("n of ", "n_"))], figures


def _metric(row: Mapping[str, Any], figure: str) -> Iterator[tuple[str, Any]]:
    """Yield a figure's fields: its value, and its standard error and interval if known."""
    yield f"{figure},none", _finite(row[figure])
    if (reason := row.get(f"{figure}_reason")) and row[figure] is not None:
        yield f"{figure}_ci95,none", None
        yield f"{figure}_ci95_reason,none", reason
    low, high = (_finite(row.get(f"{figure}_{end}")) for end in ("low", "high"))
    if low is not None and high is not None:
        yield f"{figure}_stderr,none", (high - low) / (2 * Z_95)
        yield f"{figure}_ci95,none", [low, high]
    if (floor := _finite(row.get(f"{figure}_floor"))) is not None:
        yield f"{figure}_floor,none", floor


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if isinstance(value, str | int | bool | list | None) else str(value)
