"""Tables of a report for papers and other tools: LaTeX, CSV and JSON."""

from __future__ import annotations

import csv
import io
import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from summhay_ray.engine import Section
from summhay_ray.metrics import Z_95
from summhay_ray.report.cells import Cell, Grid, paper_grids
from summhay_ray.report.run_sections import ReportedRun, hashes, versions
from summhay_ray.report.sections import HIDDEN, is_figure, notes, plain
from summhay_ray.text import quoted

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
_HEAD = r"""\documentclass{article}
\usepackage[T1]{fontenc}
\IfFileExists{lmodern.sty}{\usepackage{lmodern}}{}
\usepackage[margin=1in]{geometry}
\usepackage{array,booktabs,graphicx}
\begin{document}
"""
_LINES_A_FLOAT, _FOLDED = 40, 25
"""Lines on a page, and characters per line of a folded text."""
_LONG_HEAD, _LONG_TEXT = 9, 45
"""Longer column heads of figures are rotated, and longer texts are folded (in characters)."""
_WORD = re.compile(r"\S{1,20}(?!\S)|\S{20}|\s+")
"""The parts between which a folded text may break: words, spaces, and parts of words longer than a line."""


def csv_text(section: Section) -> str:
    """The table of a section with all rows and columns; figures are fractions. Spreadsheet formulas are neutralized."""
    assert section.table is not None
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    for row in (section.table.columns, *section.table.iter_rows()):
        writer.writerow([value if value is None or isinstance(value, int | float) else quoted(plain(value)) for value in row])
    return stream.getvalue()


def latex_document(title: str, sections: Mapping[str, Section]) -> str:
    """A document for pdflatex with a booktabs table for each section that has one. `sections`: label -> section."""
    tables = [
        latex_table(section, name) for name, section in sections.items() if section.table is not None and section.table.height
    ]
    body = "\n\n".join(tables)
    return f"{_HEAD}\\section*{{{_escaped(title)}}}\n\n{body}\n\n\\end{{document}}\n"


def latex_table(section: Section, name: str) -> str:
    """The table of a section as floats that fit a page, labelled tab:NAME. The best figure of a column is bold."""
    grids = paper_grids(section)
    remarks = notes(section)
    if cut := grids[0].cut:
        remarks.append(f"The first {len(grids[0].rows):,} of {cut:,} rows; --format csv writes all.")
    parts = _parts([(grid, row) for grid in grids for row in grid.rows])
    floats = []
    for place, rows in enumerate(parts):
        which = f" ({place + 1} of {len(parts)})" if len(parts) > 1 else ""
        text = "" if place else _escaped(" ".join([section.text, *remarks]).strip())
        label = f"tab:{name.replace('_', '-')}{f'-{place + 1}' if place else ''}"
        floats.append(
            "\n".join(
                [
                    r"\begin{table*}[htbp]\centering\footnotesize",
                    *([r"\addtocounter{table}{-1}"] if place else []),
                    f"\\caption{{{_escaped(section.title)}{which}. {text}}}",
                    f"\\label{{{label}}}",
                    r"\resizebox{\ifdim\width>\textwidth\textwidth\else\width\fi}{!}{%",
                    *_tabular(rows),
                    r"\end{table*}",
                ]
            )
        )
    return "\n".join([*floats, *([r"\clearpage"] if len(floats) > 1 else [])])


Line = tuple[Grid, Sequence[Cell]]


def _parts(rows: Sequence[Line]) -> list[list[Line]]:
    """The rows of all grids, in parts that fit a page."""
    parts: list[list[Line]] = [[]]
    used = 0
    for row in rows:
        height = max(
            [
                2 if row[0].groups and any(cell.small for cell in row[1]) else 1,
                *(len(cell.text) // _FOLDED + 1 for cell in row[1] if len(cell.text) > _LONG_TEXT),
            ]
        )
        if used + height > _LINES_A_FLOAT and parts[-1]:
            parts.append([])
            used = 0
        parts[-1].append(row)
        used += height
    return parts


def _tabular(rows: Sequence[Line]) -> list[str]:
    """The grids, one below the other, under one line of headings. With several grids, each is preceded by its group's name."""
    first = rows[0][0]
    kinds = ["l" if place < first.n_heads else "r" for place in range(len(first.heads))]
    for place in range(len(kinds)):
        if max(len(row[place].text) for _, row in rows) > _LONG_TEXT:
            kinds[place] = r">{\raggedright\arraybackslash}p{5cm}"
    lines = [f"\\begin{{tabular}}{{{''.join(kinds)}}}", r"\toprule"]
    side_by_side = bool(first.groups) and all(grid is first for grid, _ in rows)
    if side_by_side:
        groups = [f"\\multicolumn{{{group.span}}}{{c}}{{{_escaped(group.name)}}}" for group in first.groups]
        starts = itertools.accumulate((group.span for group in first.groups), initial=1)
        rules = [
            f"\\cmidrule(lr){{{start}-{start + group.span - 1}}}"
            for start, group in zip(starts, first.groups, strict=False)
            if group.name
        ]
        lines += [" & ".join(groups) + r" \\", "".join(rules)]
    upright = any(len(head) > _LONG_HEAD for head in first.heads[first.n_heads :]) and len(first.heads) > 8
    heads = [
        f"\\rotatebox{{90}}{{{_escaped(head)}}}" if upright and place >= first.n_heads else _escaped(head)
        for place, head in enumerate(first.heads)
    ]
    lines.append(" & ".join(heads) + r" \\")
    before = None
    for grid, row in rows:
        if grid is not before:
            lines.append(r"\midrule")
            if grid.groups and not side_by_side:
                name = f"\\emph{{{_escaped(grid.groups[1].name)}}}"
                lines += [f"\\multicolumn{{{len(grid.heads)}}}{{c}}{{{name}}} \\\\", r"\midrule"]
            before = grid
        lines.append(" & ".join(_set(cell, bool(grid.groups)) for cell in row) + r" \\")
    return [*lines, r"\bottomrule", r"\end{tabular}}"]


def _set(cell: Cell, wide: bool) -> str:
    folded = _WORD.findall(cell.text) if len(cell.text) > _LONG_TEXT else [cell.text]
    text = r"\allowbreak{}".join(map(_escaped, folded))
    text = f"\\textbf{{{text}}}" if cell.is_best else text
    if not cell.small:
        return text
    small = f"{{\\tiny {_escaped(cell.small)}}}"
    # In a table with many columns, the interval is below its figure.
    return f"\\shortstack[r]{{{text} \\\\ {small}}}" if wide else f"{text} {small}"


def _escaped(text: str) -> str:
    """Text escaped for LaTeX. Characters missing from common fonts become question marks."""
    return "".join(
        _SPECIAL.get(letter, letter if letter.isascii() or (letter < "\u0100" and letter.isalpha()) else "?")
        for letter in plain(text)
    )


def results_json(reported: ReportedRun) -> dict[str, Any]:
    """A run's figures in the form of lm-eval's results.json (task -> metric -> value), with spec, versions, hashes and sections.

    A task is a row of a section that counts what was expected: SECTION/NAMES OF THE ROW.
    """
    record = reported.run.record
    results: dict[str, dict[str, Any]] = {}
    counts: dict[str, dict[str, int]] = {}
    better: dict[str, dict[str, bool]] = {}
    # Rows are tasks in sections with a pivot or, for a benchmark without one, in those that count what was expected.
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
    """The columns that identify a row, and its figures."""
    assert section.table is not None
    if section.pivot is not None:
        return [section.pivot.rows, section.pivot.columns], [*section.pivot.figures]
    columns = [name for name in section.table.columns if not name.endswith(HIDDEN) and name != "n"]
    figures = [name for name in columns if is_figure(section, name)]
    first = columns.index(figures[0]) if figures else len(columns)
    return [name for name in columns[:first] if not name.startswith(("n of ", "n_"))], figures


def _metric(row: Mapping[str, Any], figure: str) -> Iterator[tuple[str, Any]]:
    """A figure's fields: its value, and its standard error and interval if known."""
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
