"""A report's tables for papers and other tools: LaTeX, CSV, and one JSON document. Part of the report room."""

from __future__ import annotations

import csv
import importlib.metadata
import io
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from summhay_ray.engine import Section
from summhay_ray.report.cells import Grid, plain, wide_grid
from summhay_ray.report.sections import notes

if TYPE_CHECKING:
    from summhay_ray.report.make import ReportedRun

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
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
    # At the beginning of a row they would belong to the end of the one before.
    **{letter: f"{{{letter}}}" for letter in "[]*"},
}
_HEAD = r"""\documentclass{article}
\usepackage[T1]{fontenc}
\usepackage{booktabs,graphicx}
\begin{document}
"""


def csv_text(section: Section) -> str:
    """A section's table, all rows and columns, figures as they are (fractions). No cell is a formula for a spreadsheet."""
    assert section.table is not None
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(map(_safe, section.table.columns))
    for row in section.table.iter_rows():
        writer.writerow([_safe(value) for value in row])
    return stream.getvalue()


def _safe(value: Any) -> Any:
    if value is None or isinstance(value, int | float):
        return value
    text = plain(value)
    return f"'{text}" if text.startswith(_FORMULA) else text


def latex_document(title: str, sections: Sequence[Section]) -> str:
    """A document that pdflatex compiles, a table for each section that has one, made with booktabs."""
    body = "\n\n".join(latex_table(one) for one in sections if one.table is not None and one.table.height)
    return f"{_HEAD}\\section*{{{_escaped(title)}}}\n\n{body}\n\n\\end{{document}}\n"


def latex_table(section: Section) -> str:
    """A section's table as one float no wider than a page; the best figure of a column is bold."""
    found = wide_grid(section)
    lines = [
        r"\begin{table*}[p]\centering",
        f"\\caption{{{_escaped(section.title)}. {_escaped(' '.join([section.text, *notes(section)]).strip())}}}",
        f"\\label{{tab:{section.slug.replace('_', '-')}}}",
        r"\resizebox{\ifdim\width>\textwidth\textwidth\else\width\fi}{!}{%",
        f"\\begin{{tabular}}{{{_alignment(found)}}}",
        r"\toprule",
        *_group_lines(found),
        " & ".join(map(_escaped, found.heads)) + r" \\",
        r"\midrule",
    ]
    for row in found.rows:
        cells = [
            _escaped(cell.text) + (f" {{\\tiny {_escaped(cell.small)}}}" if cell.small and not found.groups else "")
            for cell in row
        ]
        bold = [f"\\textbf{{{text}}}" if "best" in cell.cls.split() else text for text, cell in zip(cells, row, strict=True)]
        lines.append(" & ".join(bold) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}}", r"\end{table*}"])


def _alignment(found: Grid) -> str:
    return "".join("l" if place < found.n_heads else "r" for place in range(len(found.heads)))


def _group_lines(found: Grid) -> list[str]:
    if not found.groups:
        return []
    cells = [f"\\multicolumn{{{one.span}}}{{c}}{{{_escaped(one.name)}}}" for one in found.groups]
    rules, place = [], 1
    for one in found.groups:
        if one.name:
            rules.append(f"\\cmidrule(lr){{{place}-{place + one.span - 1}}}")
        place += one.span
    return [" & ".join(cells) + r" \\", "".join(rules)]


def _escaped(text: str) -> str:
    """Text that LaTeX sets as it is; a letter that its usual fonts have not becomes a question mark."""
    return "".join(_SPECIAL.get(letter, letter if _is_set(letter) else "?") for letter in plain(text))


def _is_set(letter: str) -> bool:
    return letter.isascii() or (letter < "\u0100" and letter.isalpha())


def results_json(one: ReportedRun) -> dict[str, Any]:
    """A run's figures in the manner of lm-eval's results.json: task -> metric -> value, with what was run beside them."""
    record = one.run.record
    results: dict[str, dict[str, Any]] = {}
    counts: dict[str, dict[str, int]] = {}
    for section in one.sections:
        if section.pivot is not None and section.table is not None:
            for row in section.table.iter_rows(named=True):
                name = "/".join(str(row[key]) for key in ("model", section.pivot.columns) if row.get(key) not in (None, ""))
                task = results.setdefault(f"{section.slug}/{name}", {"alias": plain(name)})
                for figure in section.pivot.figures:
                    task[f"{figure},none"] = _finite(row[figure])
                    low, high = row.get(f"{figure}_low"), row.get(f"{figure}_high")
                    if low is not None and high is not None:
                        task[f"{figure}_stderr,none"] = _finite((high - low) / (2 * 1.959963984540054))
                        task[f"{figure}_ci95,none"] = [_finite(low), _finite(high)]
                n = {
                    what: row[name_]
                    for what, name_ in (("effective", "n"), ("original", "n_expected"))
                    if row.get(name_) is not None
                }
                counts[f"{section.slug}/{name}"] = n
    return {
        "run": one.run.run_id,
        "kind": record["kind"],
        "name": record.get("name", ""),
        "status": one.status,
        "results": results,
        "n-samples": counts,
        "config": record.get("spec", {}),
        "versions": {"summhay_ray": importlib.metadata.version("summhay-ray")},
        "sections": [_section(section) for section in one.sections],
    }


def _section(section: Section) -> dict[str, Any]:
    rows = (
        []
        if section.table is None
        else [{name: _finite(value) for name, value in row.items()} for row in section.table.to_dicts()]
    )
    return {
        "name": section.slug,
        "title": section.title,
        "text": section.text,
        "units": dict(section.units),
        "rows": rows,
        "notes": notes(section),
        **({"listing": section.listing} if section.listing else {}),
    }


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if isinstance(value, str | int | bool | list | None) else str(value)
