"""Sections as tables for the terminal and as Markdown, and tables fitted to the width of the terminal."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from rich.cells import cell_len

from summhay_ray.engine import Section
from summhay_ray.errors import printable
from summhay_ray.metrics import FEWEST_UNITS, TOO_FEW
from summhay_ray.sections import cell, has_missing, is_figure, is_too_few, plain, shown_columns, with_unit

FLOORS = "floor: with every missing answer as 0"
FEWER = "* fewer answers scored than expected, see n (scored/expected)"
INTERVALS = "95 % intervals: [low, high]"
NO_INTERVAL = f"{TOO_FEW}: an interval needs {FEWEST_UNITS} queries, documents or whatever else is independent"
_MEANS = re.compile(r"[\\`*|<]|~(?=~)|!(?=\[)|\](?=[(\[:])|:(?=//)|(?<=www)\.|&(?=[#\w])|(?<!\w)_|_(?!\w)")
"""Characters to escape, since Markdown would interpret them in this context."""
_BEGINS = re.compile(r"^(?=[#>+-])|(?<=^\d)(?=[.)])|(?<=^\d\d)(?=[.)])")
"""Beginnings that would turn a paragraph into a heading, a quotation or a list."""
FRAME = 3
"""Width of a column in addition to its text: a border, and a space on either side."""
_NARROW = 16
"""Texts are folded down to this width, in characters, before columns or intervals are left out."""
_PIECE = re.compile(r"[^\s/_-]*[\s/_-]|[^\s/_-]+")
"""A piece of text that is never broken across lines."""
_EXTRA = re.compile(r"(?<=[\d*-])(?: \[[^\]]*\]|, floor [-\d.,]+)+$")
"""The text after a figure in its cell: its interval and floor."""
_FIGURE = re.compile(r"[-+~$]?\d|[-?]?\*?$")
"""The beginning of a cell that holds a figure, or a missing one."""


@dataclass(frozen=True, slots=True)
class TextTable:
    """A table of text: title, column heads and rows. Figures are in per cent with one decimal, as in the paper."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    heads: int = 1
    """Number of columns, from the left, that identify the row."""
    columns_first: bool = False
    """On a narrow terminal, drop the columns after the second figure before any interval."""


def section_table(section: Section, most: int | None = None) -> TextTable | None:
    """Return the table of a section: figures in their units with intervals, and `n`, the number of answers behind a row.

    It has no title, because the section's title is above its text. `most`: maximum number of systems of a leaderboard (default:
    all).
    """
    if section.table is None or not (columns := shown_columns(section)):
        return None
    is_board, height = section.name == "board", section.table.height
    n_heads = next((place for place, name in enumerate(columns) if is_figure(section, name)), len(columns))
    table = section.table.head(most if is_board and most is not None else height)
    rows = tuple(tuple(cell(section, row, name) for name in columns) for row in table.iter_rows(named=True))
    title = f"The first {len(rows)} of {height} systems" if len(rows) < height else "" if rows else "nothing yet"
    return TextTable(title, tuple(with_unit(section, name) for name in columns), rows, max(1, n_heads), is_board)


def notes(section: Section) -> list[str]:
    """Return the notes below the table, the section's own notes first."""
    lines = list(section.notes)
    if section.table is None:
        return lines
    if section.table.height and any(f"{name}_low" in section.table.columns for name in section.table.columns):
        lines.append(INTERVALS)
    if any(is_too_few(row, name) for row in section.table.iter_rows(named=True) for name in section.table.columns):
        lines.append(NO_INTERVAL)
    if any(has_missing(row) for row in section.table.iter_rows(named=True)):
        lines.append(FEWER)
        if any(name.endswith("_floor") for name in section.table.columns):
            lines.append(FLOORS)
    return lines


def names(sections: Iterable[Section]) -> list[str]:
    """Return the names of the sections in links and files. Sections of the same name are numbered."""
    seen: Counter[str] = Counter()
    found = []
    for one in sections:
        seen[one.slug] += 1
        found.append(one.slug if seen[one.slug] == 1 else f"{one.slug}_{seen[one.slug]}")
    return found


def markdown(sections: Sequence[Section], title: str = "") -> str:
    """Return the sections as Markdown: tables as tables, charts and listings as preformatted text."""
    parts = [f"# {_escaped(title)}"] if title else []
    for one in sections:
        parts += [f"## {_escaped(one.title)}", *([_paragraph(one.text)] if one.text else [])]
        if (table := section_table(one)) is not None:
            parts += [_paragraph(table.title)] if table.title else []
            rule = ["---" if place < table.heads else "---:" for place in range(len(table.columns))]
            lines = [[*map(_escaped, table.columns)], rule, *([*map(_escaped, row)] for row in table.rows)]
            parts.append("\n".join("| " + " | ".join(line) + " |" for line in lines))
        parts += [_paragraph(note) for note in notes(one)]
        if one.listing:
            # A preformatted block. It is indented, not fenced, so that no text of a document can end it.
            parts.append("\n".join(f"    {printable(line, instead=' ')}".rstrip() for line in one.listing.split("\n")))
    return "\n\n".join(parts) + "\n"


def _paragraph(text: str) -> str:
    return "\n\n".join(_BEGINS.sub(r"\\", _escaped(part)) for part in text.split("\n\n"))


def _escaped(text: str) -> str:
    """Escape text for Markdown, so that text from a model or document cannot become a link, a picture or a tag."""
    return _MEANS.sub(r"\\\g<0>", plain(text))


@dataclass(frozen=True, slots=True)
class Fitted:
    """A table for a terminal, with the width of each column in characters. Longer cells are folded."""

    grid: TextTable
    widths: tuple[int, ...]
    left_out: tuple[str, ...] = ()
    """Columns that are left out, and `intervals of NAME` for columns whose intervals are left out."""


def fit_table(grid: TextTable, width: int) -> Fitted:
    """Fit the table into `width` characters.

    Names and column heads are folded first. Then, from the right, intervals are left out and columns dropped, except `n`. The
    first figure stays whole as long as possible.
    """
    columns, left_out = [list(column) for column in zip(grid.columns, *grid.rows, strict=True)], list[str]()
    widths = _widths(columns, grid.heads, width)
    while 1 + sum(one + FRAME for one in widths) > width:
        figures = range(len(columns) - 1, grid.heads - 1, -1)
        short = [place for place in figures if any(map(_EXTRA.search, columns[place][1:]))]
        spare = [place for place in figures if place > grid.heads and columns[place][0] != "n"]
        if spare and (not short or short[0] == grid.heads or (grid.columns_first and spare[0] > grid.heads + 1)):
            name = columns.pop(spare[0])[0]
            left_out = [*(one for one in left_out if one != f"intervals of {name}"), name]
        elif short:
            name, *cells = columns[short[0]]
            columns[short[0]] = [name, *(_EXTRA.sub("", cell) for cell in cells)]
            left_out.append(f"intervals of {name}")
        else:
            while 1 + sum(one + FRAME for one in widths) > width and max(widths) > 1:
                widths[widths.index(max(widths))] -= 1
            break
        widths = _widths(columns, grid.heads, width)
    names, *rows = zip(*columns, strict=True)
    return Fitted(replace(grid, columns=names, rows=tuple(rows)), tuple(widths), tuple(reversed(left_out)))


def _widths(columns: Sequence[Sequence[str]], n_heads: int, width: int) -> list[int]:
    """Return the widths of the columns. If they are wider than `width` together, texts and heads are folded."""
    widths = [max(map(cell_len, column)) for column in columns]
    if 1 + sum(one + FRAME for one in widths) <= width:
        return widths
    least = list[int]()
    for place, (head, *cells) in enumerate(columns):
        is_text = place < n_heads or not all(map(_FIGURE.match, cells))
        if not is_text:
            widths[place] = max(map(cell_len, (*cells, *(piece.rstrip() for piece in _PIECE.findall(head)))))
        least.append(min(widths[place], _NARROW if is_text else widths[place]))
    while 1 + sum(one + FRAME for one in widths) > width and widths != least:
        widest = max((place for place in range(len(widths)) if widths[place] > least[place]), key=widths.__getitem__)
        widths[widest] -= 1
    return widths


def fold_text(text: str, width: int) -> str:
    """Break text after a blank, a slash, a dash or an underscore if it is wider than the column. Wider pieces stay whole."""
    if cell_len(text) <= width:
        return text
    lines = [""]
    for piece in _PIECE.findall(text):
        if lines[-1] and cell_len((lines[-1] + piece).rstrip()) > width:
            lines.append("")
        lines[-1] += piece
    return "\n".join(line.rstrip() for line in lines)


def dollars_line(usd: Mapping[str, float | None], digits: int = 6) -> str:
    """Return a run's dollars as text: spent, reserved and uncertain (if any), and left of the budget."""
    said = [f"{usd['spent'] or 0:.{digits}f} spent"]
    said += [f"{usd[name]:.{digits}f} {name}" for name in ("reserved", "uncertain") if usd[name]]
    if usd["budget"] is not None:
        said.append(f"{usd['left'] or 0:.{digits}f} left of {usd['budget']:g}")
    return ", ".join(said)
