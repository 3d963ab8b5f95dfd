"""Sections as tables and charts for the terminal, and as Markdown; and tables fitted to the width of the terminal."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rich.cells import cell_len

from summhay_ray.engine import Section
from summhay_ray.errors import printable
from summhay_ray.metrics import FEWEST_UNITS, TOO_FEW

ENDS = ("_low", "_high", "_floor")
HIDDEN = (*ENDS, "_reason", "n_expected")
"""Suffixes of columns shown in another column's cell: interval (or the reason for its absence) and floor with their figure,
the expected number with `n`."""
FLOORS = "floor: with every missing answer as 0"
FEWER = "* fewer answers scored than expected, see n (scored/expected)"
INTERVALS = "95 % intervals: [low, high]"
NO_INTERVAL = f"{TOO_FEW}: an interval needs {FEWEST_UNITS} queries, documents or whatever else is independent"
MARKDOWN_WIDTH = 80
SHARES = ("%", "points")
"""Units of fractions, which are shown multiplied by 100."""
_NARROWEST, _LONGEST = 10, 60
_MEANS = re.compile(r"[\\`*|<]|~(?=~)|!(?=\[)|\](?=[(\[:])|:(?=//)|(?<=www)\.|&(?=[#\w])|(?<!\w)_|_(?!\w)")
"""Characters that Markdown would interpret in their context, and that must be escaped."""
_BEGINS = re.compile(r"^(?=[#>+-])|(?<=^\d)(?=[.)])|(?<=^\d\d)(?=[.)])")
"""Where the start of a paragraph would make it a heading, a quotation or a list."""
_BLOCKS = " ▏▎▍▌▋▊▉█"
FRAME = 3
"""Width of a column in addition to its text: a border, and a space on either side."""
_NARROWEST_COLUMN = 4
_BOARD_HEADS = ("rank", "verdict", "run", "system")
"""Columns that lead the leaderboard on a terminal."""
_PIECE = re.compile(r"[^\s/_-]*[\s/_-]|[^\s/_-]+")
"""Text that stays on one line."""


@dataclass(frozen=True, slots=True)
class TextTable:
    """A table of text: title, column heads and rows. Figures are in per cent with one decimal, as in the paper."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    heads: int = 1
    """Number of columns, from the left, that identify the row."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A section laid out for a terminal."""

    title: str
    text: str
    table: TextTable | None
    chart: tuple[str, ...]
    notes: tuple[str, ...]


def shown(sections: Iterable[Section], width: int, more: bool = False) -> list[Shown]:
    """The sections laid out for a terminal. Those marked `more` are included only if `more` is set. Chart lines fit `width`
    characters."""
    return [
        Shown(one.title, one.text, section_table(one), tuple(chart_lines(one, width)), tuple(notes(one)))
        for one in sections
        if more or not one.more
    ]


def section_table(section: Section) -> TextTable | None:
    """The table of a section: figures in their units with intervals, and `n`, the number of answers behind a row.

    It has no title, because the section's title is above its text.
    """
    if section.table is None:
        return None
    columns = section_columns(section)
    n_heads = next((place for place, name in enumerate(columns) if is_figure(section, name)), len(columns))
    heads = tuple(with_unit(section, name) for name in columns)
    rows = tuple(tuple(cell(section, row, name) for name in columns) for row in section.table.iter_rows(named=True))
    return TextTable("" if rows else "nothing yet", heads, rows, max(1, n_heads)) if columns else None


BOARD_ROWS = 10
"""Systems of the leaderboard on one screen."""


def board_table(section: Section, width: int) -> TextTable:
    """The leaderboard on one screen: the first BOARD_ROWS systems, and the columns that fit `width` characters.

    What is wanted least is left out first: parts of the system's name, then n, dollars and the other figures.
    """
    table = section_table(section)
    assert table is not None
    columns = list(zip(table.columns, *table.rows[:BOARD_ROWS], strict=True))
    kept = [column for column in columns if column[0] not in ("model", "retriever", "ordering")]
    # The verdict comes first.
    kept.sort(key=lambda column: ("rank", "verdict", "run", "system").index(column[0]) if column[0] in _BOARD_HEADS else 9)
    while sum(max(map(cell_len, column)) + FRAME for column in kept) >= width and len(kept) > len(_BOARD_HEADS):
        kept.pop()
    more = len(table.rows) - BOARD_ROWS
    title = section.title + (f"; {more} more systems with --all" if more > 0 else "")
    heads = sum(column[0] in _BOARD_HEADS for column in kept)
    return TextTable(title, tuple(column[0] for column in kept), tuple(zip(*(column[1:] for column in kept), strict=True)), heads)


def section_columns(section: Section) -> list[str]:
    """The columns of a section's table that are shown: those that identify a row first, `n` last."""
    columns = [] if section.table is None else [name for name in section.table.columns if not name.endswith(HIDDEN)]
    return [name for name in columns if name != "n"] + [name for name in columns if name == "n"]


def notes(section: Section) -> list[str]:
    """The notes below the table, the section's own notes first."""
    found = list(section.notes)
    if section.table is None:
        return found
    if section.table.height and any(f"{name}_low" in section.table.columns for name in section.table.columns):
        found.append(INTERVALS)
    if any(is_too_few(row, name) for row in section.table.iter_rows(named=True) for name in section.table.columns):
        found.append(NO_INTERVAL)
    if any(lacks(row) for row in section.table.iter_rows(named=True)):
        found.append(FEWER)
        if any(name.endswith("_floor") for name in section.table.columns):
            found.append(FLOORS)
    return found


def names(sections: Iterable[Section]) -> list[str]:
    """The names of the sections in links and files. Sections of the same name are numbered."""
    seen: Counter[str] = Counter()
    found = []
    for one in sections:
        seen[one.slug] += 1
        found.append(one.slug if seen[one.slug] == 1 else f"{one.slug}_{seen[one.slug]}")
    return found


def chart_lines(section: Section, width: int) -> list[str]:
    """The chart of a section as text: a bar for each row, grouped by series.

    All bars share one scale, which starts at 0 or at the smallest negative value.
    """
    chart, table = section.chart, section.table
    if chart is None or table is None or not table.height:
        return []
    rows = list(table.iter_rows(named=True))
    values = [float(row[chart.y]) for row in rows if is_finite(row[chart.y])]
    if not values:
        return []
    percent = section.units.get(chart.y) in SHARES
    low, high = min(0.0, *values), max(1.0 if percent else 0.0, *values)
    labels = [_value(row[chart.x], 1, False) for row in rows]
    figures = [f"{_figure(section, row, chart.y)}{'  n ' + _n(row) if 'n' in row else ''}" for row in rows]
    wide, wide_figure = max(map(cell_len, labels)), max(map(len, figures))
    room = min(_LONGEST, max(_NARROWEST, width - wide - wide_figure - 4))
    lines = [f"{with_unit(section, chart.y)}, by {chart.x}"]
    series = list(dict.fromkeys(row[chart.series] for row in rows)) if chart.series else [None]
    for one in series:
        if one is not None:
            lines += ["", _value(one, 1, False)]
        for row, label, text in zip(rows, labels, figures, strict=True):
            if one is None or row[chart.series] == one:
                bar = _bar(row[chart.y], low, high, room)
                lines.append(f"{' ' * (wide - cell_len(label))}{label} │{bar} {text}".rstrip())
    return lines


def markdown(sections: Sequence[Section], title: str = "") -> str:
    """The sections as Markdown: tables as tables, charts and listings as preformatted text."""
    parts = [f"# {_escaped(title)}"] if title else []
    for one in sections:
        parts += [f"## {_escaped(one.title)}", *([_paragraph(one.text)] if one.text else [])]
        if (table := section_table(one)) is not None:
            parts += [_paragraph(table.title)] if table.title else []
            rule = ["---" if place < table.heads else "---:" for place in range(len(table.columns))]
            lines = [[*map(_escaped, table.columns)], rule, *([*map(_escaped, row)] for row in table.rows)]
            parts.append("\n".join("| " + " | ".join(line) + " |" for line in lines))
        parts += [_paragraph(note) for note in notes(one)]
        if chart := chart_lines(one, MARKDOWN_WIDTH):
            parts.append(_as_it_stands(chart))
        if one.listing:
            parts.append(_as_it_stands(one.listing.split("\n")))
    return "\n\n".join(parts) + "\n"


def _as_it_stands(lines: Iterable[str]) -> str:
    """Lines as a preformatted block. It is indented, not fenced, so that no text of a document can end it."""
    return "\n".join(f"    {printable(line, instead=' ')}".rstrip() for line in lines)


def with_unit(section: Section, name: str) -> str:
    """The name of a column, with its unit if it has one."""
    return f"{name} ({section.units[name]})" if name in section.units else name


def is_figure(section: Section, name: str) -> bool:
    """Whether a column holds figures rather than names of rows."""
    assert section.table is not None
    kind = section.table.schema[name]
    measured = name in section.units or name == "n" or f"{name}_low" in section.table.columns
    drawn = section.chart is not None and name in (section.chart.x, section.chart.series)
    return measured or (kind.is_float() and not drawn)


def is_too_few(row: Mapping[str, Any], name: str) -> bool:
    """Whether a figure has no interval because it covers too few queries."""
    return row[name] is not None and str(row.get(f"{name}_reason") or "").startswith(TOO_FEW)


def cell(section: Section, row: Mapping[str, Any], name: str) -> str:
    """A cell as text: a figure with its interval, and with its floor if answers are missing."""
    text, interval, floor = cell_parts(section, row, name)
    return f"{text}{' ' * bool(interval)}{interval}{', ' * bool(floor)}{floor}"


def cell_parts(section: Section, row: Mapping[str, Any], name: str) -> tuple[str, str, str]:
    """A cell's text, its interval, and its floor if answers are missing; empty if there is none."""
    if name == "n":
        return _n(row), "", ""
    if not is_figure(section, name):
        return "" if row[name] is None else _value(row[name], 1, False), "", ""
    text, percent = _figure(section, row, name), section.units.get(name) in SHARES
    low, high, floor = (
        _value(end, 100 if percent else 1, percent) if is_finite(end) else "" for end in (row.get(f"{name}{one}") for one in ENDS)
    )
    interval = f"[{low}, {high}]" if low and high else f"[{TOO_FEW}]" if is_too_few(row, name) else ""
    return text, interval, f"floor {floor}" if floor and lacks(row) and text != "-" else ""


def _figure(section: Section, row: Mapping[str, Any], name: str) -> str:
    """The figure without its interval; a star marks one with fewer answers than expected."""
    value, percent = row[name], section.units.get(name) in SHARES
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return "-"
    return _value(value, 100 if percent else 1, percent) + ("*" if isinstance(value, float) and lacks(row) else "")


def _value(value: Any, scale: int, percent: bool) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return plain(str(value))
    if percent:
        return f"{value * scale:z.1f}"
    return four_digits(value) if isinstance(value, float) else f"{value}"


def four_digits(value: float) -> str:
    """A number with four significant digits, and with all digits before the point. -0.0 becomes 0."""
    return f"{value:,.0f}" if 1000 <= abs(value) < math.inf else f"{value:z.4g}"


def _n(row: Mapping[str, Any]) -> str:
    n, expected = row.get("n"), row.get("n_expected")
    return "-" if n is None else f"{n}" if expected is None else f"{n}/{expected}"


def lacks(row: Mapping[str, Any]) -> bool:
    """Whether fewer answers were scored for a row than expected."""
    n, expected = row.get("n"), row.get("n_expected")
    return n is not None and expected is not None and n < expected


def is_finite(value: Any) -> bool:
    """Whether a value is a finite number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _bar(value: Any, low: float, high: float, room: int) -> str:
    """A bar from 0 to the value, with a resolution of an eighth of a character."""
    if not is_finite(value) or high <= low:
        return " " * room
    ends = sorted((0.0, float(value)))
    begin, end = (round(8 * room * (one - low) / (high - low)) for one in ends)
    return "".join(_BLOCKS[max(0, min(8, end - 8 * place))] if 8 * place + 8 > begin else " " for place in range(room))


def _paragraph(text: str) -> str:
    return "\n\n".join(_BEGINS.sub(r"\\", _escaped(part)) for part in text.split("\n\n"))


def _escaped(text: str) -> str:
    """Text escaped for Markdown, so that text from a model or document cannot become a link, a picture or a tag."""
    return _MEANS.sub(r"\\\g<0>", plain(text))


def plain(value: Any) -> str:
    """A value as one line of printable text."""
    if value is None:
        return ""
    return " ".join(printable(f"{value:g}" if isinstance(value, float) else str(value), instead=" ").split())


@dataclass(frozen=True, slots=True)
class Fitted:
    """A table or a part of one, with the width of each column in characters. Longer cells are folded."""

    grid: TextTable
    widths: tuple[int, ...]


def fitted(grid: TextTable, width: int) -> list[Fitted]:
    """The table split into parts that fit `width` characters. Every part repeats the columns that identify the rows.

    Columns that identify rows are folded if they exceed both two fifths of the width and the space that the others leave. Columns
    of figures are folded only if one alone exceeds the space next to the names.
    """
    available = width - 1
    natural = [max(map(cell_len, column)) for column in zip(grid.columns, *grid.rows, strict=True)]
    heads = natural[: grid.heads]
    for_heads = max(available * 2 // 5, available - sum(one + FRAME for one in natural[grid.heads :]))
    while sum(heads) + FRAME * len(heads) > for_heads and max(heads) > _NARROWEST_COLUMN:
        heads[heads.index(max(heads))] -= 1
    most = max(available - sum(heads) - FRAME * (len(heads) + 1), _NARROWEST_COLUMN)
    rest = [min(one, most) for one in natural[grid.heads :]]
    room = available - sum(one + FRAME for one in heads)
    parts: list[list[int]] = [[]]
    used = 0
    for place, one in enumerate(rest):
        if parts[-1] and used + one + FRAME > room:
            parts.append([])
            used = 0
        parts[-1].append(place)
        used += one + FRAME
    found = []
    for index, part in enumerate(parts, start=1):
        places = [*range(grid.heads), *(grid.heads + place for place in part)]
        columns, *rows = (tuple(row[place] for place in places) for row in (grid.columns, *grid.rows))
        title = grid.title + (f" ({index}/{len(parts)})" if len(parts) > 1 else "")
        own = replace(grid, title=title, columns=columns, rows=tuple(rows))
        found.append(Fitted(own, (*heads, *(rest[place] for place in part))))
    return found


def folded(text: str, width: int) -> str:
    """The text with line breaks after a blank, a slash, a dash or an underscore if it is wider than the column; wider pieces
    stay whole."""
    if cell_len(text) <= width:
        return text
    lines = [""]
    for piece in _PIECE.findall(text):
        if lines[-1] and cell_len((lines[-1] + piece).rstrip()) > width:
            lines.append("")
        lines[-1] += piece
    return "\n".join(line.rstrip() for line in lines)
