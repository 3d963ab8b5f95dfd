"""The content of a report as data: sections, which are rendered in the terminal, Markdown and HTML, and the viewer's samples.

A part of a sample is a mapping with `kind`, `title` and the fields of its kind. The kinds are text (`text`), facts (`pairs` of
name and value), rows (`columns`, `rows`), answer (`key` of an answer on the shelf `answers`), and kinds of single benchmarks that
the page supports. Content that many samples share is on a shelf, under an id.
"""

from __future__ import annotations

import html
import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import polars as pl

from summhay_ray.errors import UserError, printable

ENDS = ("_low", "_high", "_floor")
HIDDEN = (*ENDS, "_reason", "n_expected")
"""Suffixes of columns that are shown in the cells of another column. The interval (or the reason why there is none) and the floor
are shown with their figure, and the expected number with `n`."""
MOST_HTML_ROWS = 20
"""Maximum number of rows of a table in a notebook."""
SHARES = ("%", "points")
"""Units of fractions that are shown multiplied by 100."""
_TOO_FEW = "too few"
"""The same as `metrics.TOO_FEW`, with which the reason for a missing interval may begin. This module cannot import `metrics`."""


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart of a section's table; its fields name columns."""

    kind: Literal["line", "bar", "scatter", "forest", "matrix"]
    x: str
    y: str
    series: str = ""
    """The column that determines the lines or colours; in a matrix, the column with the figure that colours a field."""
    sure: str = ""
    """For a matrix: the column with p-values. A field with a p-value below 0.05 gets a dot."""
    front: bool = False
    """For points: whether to draw the Pareto front. For a point on it, no other point has both a smaller x and a larger y."""

    @classmethod
    def line(cls, x: str, y: str, series: str = "") -> Chart:
        return cls("line", x, y, series)

    @classmethod
    def bar(cls, x: str, y: str, series: str = "") -> Chart:
        return cls("bar", x, y, series)

    @classmethod
    def scatter(cls, x: str, y: str, series: str = "", front: bool = False) -> Chart:
        return cls("scatter", x, y, series, front=front)

    @classmethod
    def forest(cls, x: str, y: str) -> Chart:
        """Return a chart of each row's figure x with its interval, labelled y, and a line at zero."""
        return cls("forest", x, y)

    @classmethod
    def matrix(cls, x: str, y: str, figure: str, sure: str = "") -> Chart:
        """Return a chart with a field for each row, at x and y, coloured by a figure around 0."""
        return cls("matrix", x, y, figure, sure)


@dataclass(frozen=True, slots=True)
class Pivot:
    """A wide view of a section's table. It has a row for each value of `rows` and, for each figure, a column for each value of
    `columns`.

    For each column in `rest`, a row shows the mean of its numbers, or the first value if they are not numbers.
    """

    rows: str
    columns: str
    figures: tuple[str, ...]
    rest: tuple[str, ...] = ()
    reference: tuple[str, ...] = ()
    """Rows that are shown only for comparison, such as people's labels. They do not count when a column's best figure is
    marked."""


@dataclass(frozen=True)
class Section:
    """A titled text with a table of figures and their units. A table with figures must have a column `n`."""

    title: str
    text: str = ""
    table: pl.DataFrame | None = None
    """The rows in the order in which they are shown. The columns `n` and `n_expected` are the actual and the expected number of
    values behind a row's figures. The columns NAME_low and NAME_high are the interval of the figure NAME."""
    units: Mapping[str, str] = field(default_factory=dict)
    """Column -> its unit, such as % or s. Fractions with the unit % or points are shown multiplied by 100."""
    chart: Chart | None = None
    pivot: Pivot | None = None
    """The form of the table in the HTML page. The terminal, Markdown, CSV and JSON show its rows."""
    name: str = ""
    """The section's name for `result.figure(...)` and links; by default its title."""
    listing: str = ""
    """A preformatted text, such as a spec."""
    notes: Sequence[str] = ()
    more: bool = False
    """Whether the section is shown only if everything is requested."""
    tab: Literal["leaderboard", "compare", "failures", "judge", "method"] = "leaderboard"
    """The tab of the report page that shows it."""
    higher_is_better: Collection[str] = ()
    """Figures for which higher is better. `results.json` records them for other tools."""
    parts: Collection[str] = ()
    """Columns whose content another column repeats, such as the parts of a system's name. Only the page uses them, as filters."""

    def _repr_html_(self) -> str:
        """Render title, text, the first rows of the table and notes in a notebook. All texts are escaped."""
        columns, table, notes = shown_columns(self), self.table, list(self.notes)
        parts = [f"<h4>{html.escape(plain(self.title))}</h4>", f"<p>{html.escape(plain(self.text))}</p>" * bool(self.text)]
        if table is not None and columns:
            lines = ["".join(f"<th>{html.escape(plain(with_unit(self, name)))}</th>" for name in columns)]
            for row in table.head(MOST_HTML_ROWS).iter_rows(named=True):
                lines.append("".join(f"<td>{html.escape(cell(self, row, name))}</td>" for name in columns))
            parts.append(f"<table><tr>{'</tr><tr>'.join(lines)}</tr></table>")
            notes += [f"The first {MOST_HTML_ROWS} of {table.height:,} rows"] * (table.height > MOST_HTML_ROWS)
        return "".join([*parts, *(f"<p><small>{html.escape(plain(note))}</small></p>" for note in notes)])

    @property
    def slug(self) -> str:
        """The section's name in lower-case letters, digits and `_`."""
        return re.sub(r"[^a-z0-9]+", "_", (self.name or self.title).lower()).strip("_") or "section"

    def __post_init__(self) -> None:
        """Raises UserError for figures without a column `n`, and if a chart, pivot or unit names a column that does not exist."""
        columns = [] if self.table is None else self.table.columns
        figures = [] if self.table is None else [name for name in columns if self.table.schema[name].is_float()]
        if figures and "n" not in columns:
            raise UserError(
                f"section {self.title!r}: {', '.join(figures)}: figures without a column `n`, which says how many answers stand "
                "behind each row"
            )
        pivot = [self.pivot.rows, self.pivot.columns, *self.pivot.figures, *self.pivot.rest] if self.pivot else []
        chart = [self.chart.x, self.chart.y, self.chart.series, self.chart.sure] if self.chart else []
        named = {"units": [*self.units], "chart": chart, "pivot": pivot, "higher_is_better": [*self.higher_is_better]}
        for what, names in named.items():
            for name in names:
                if name and name not in columns:
                    known = ", ".join(columns) or "no table"
                    raise UserError(f"section {self.title!r}: {what} names a column {name!r} that it has not; it has: {known}")


def html_of(pairs: Sequence[tuple[str, object]], shown: Iterable[Any] = ()) -> str:
    """Return HTML of a result for a notebook: a table of names and values, followed by sections, frames and other objects that
    notebooks display. All texts are escaped."""
    rows = "".join(f"<tr><th>{html.escape(name)}</th><td>{html.escape(str(value))}</td></tr>" for name, value in pairs)
    return f"<table>{rows}</table>" * bool(rows) + "".join(one._repr_html_() for one in shown)


def shown_columns(section: Section) -> list[str]:
    """Return the columns of a section's table that are shown. `n` is the last one."""
    columns = (
        []
        if section.table is None
        else [name for name in section.table.columns if not name.endswith(HIDDEN) and name not in section.parts]
    )
    return [name for name in columns if name != "n"] + [name for name in columns if name == "n"]


def with_unit(section: Section, name: str) -> str:
    """Return the name of a column, with its unit if it has one."""
    return f"{name} ({section.units[name]})" if name in section.units else name


def is_figure(section: Section, name: str) -> bool:
    """Return whether a column contains figures and not names of rows."""
    assert section.table is not None
    kind = section.table.schema[name]
    measured = name in section.units or name == "n" or f"{name}_low" in section.table.columns
    drawn = section.chart is not None and name in (section.chart.x, section.chart.series)
    return measured or (kind.is_float() and not drawn)


def is_too_few(row: Mapping[str, Any], name: str) -> bool:
    """Return whether a figure has no interval because it covers too few queries."""
    return row[name] is not None and str(row.get(f"{name}_reason") or "").startswith(_TOO_FEW)


def cell(section: Section, row: Mapping[str, Any], name: str) -> str:
    """Return a cell as text: a figure with its interval, and with its floor if answers are missing."""
    text, interval, floor = cell_parts(section, row, name)
    return f"{text}{' ' * bool(interval)}{interval}{', ' * bool(floor)}{floor}"


def cell_parts(section: Section, row: Mapping[str, Any], name: str) -> tuple[str, str, str]:
    """Return a cell's text, its interval, and its floor if answers are missing. Each is empty if there is none."""
    if name == "n":
        n, expected = row.get("n"), row.get("n_expected")
        return "-" if n is None else f"{n}" if expected is None else f"{n}/{expected}", "", ""
    if not is_figure(section, name):
        return "" if row[name] is None else _value(row[name], 1, False), "", ""
    value, percent = row[name], section.units.get(name) in SHARES
    text = "-"
    if value is not None and not (isinstance(value, float) and not math.isfinite(value)):
        # A star marks a figure with fewer answers than expected.
        text = _value(value, 100 if percent else 1, percent) + ("*" if isinstance(value, float) and has_missing(row) else "")
    low, high, floor = (
        _value(end, 100 if percent else 1, percent) if is_finite(end) else "" for end in (row.get(f"{name}{one}") for one in ENDS)
    )
    interval = f"[{low}, {high}]" if low and high else f"[{_TOO_FEW}]" if is_too_few(row, name) else ""
    return text, interval, f"floor {floor}" if floor and has_missing(row) and text != "-" else ""


def _value(value: Any, scale: int, percent: bool) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return plain(str(value))
    if percent:
        return f"{value * scale:z.1f}"
    return (f"{value:,.0f}" if 1000 <= abs(value) < math.inf else f"{value:z.4g}") if isinstance(value, float) else f"{value}"


def has_missing(row: Mapping[str, Any]) -> bool:
    """Return whether fewer answers were scored for a row than expected."""
    n, expected = row.get("n"), row.get("n_expected")
    return n is not None and expected is not None and n < expected


def is_finite(value: Any) -> bool:
    """Return whether a value is a finite number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def plain(value: Any) -> str:
    """Return a value as one line of printable text."""
    if value is None:
        return ""
    return " ".join(printable(f"{value:g}" if isinstance(value, float) else str(value), instead=" ").split())


@dataclass(frozen=True, slots=True)
class Facet:
    """A column of the viewer's list, for sorting and filtering samples."""

    name: str
    kind: Literal["text", "number", "flag"] = "text"
    unit: str = ""


@dataclass(frozen=True, slots=True)
class SampleRecord:
    """One sample: its facets and its parts."""

    id: str
    facets: Mapping[str, Any]
    parts: Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Samples:
    """The samples of a run, and the shelves that they share. Everything is read lazily and only once."""

    facets: Sequence[Facet]
    samples: Iterable[SampleRecord]
    shelves: Mapping[str, Iterable[tuple[str, Any]]] = field(default_factory=dict)
    """Shelf -> its entries, (id, JSON content), sorted by id."""
    prompts: Mapping[str, str] = field(default_factory=dict)
    """Name -> text of a prompt, with placeholders that the page fills from a sample."""
