"""The content of a report, as data: sections, which the terminal, Markdown and HTML render, and the viewer's samples.

A part of a sample is a mapping with `kind` and `title`: text (text), facts (pairs of name and value), rows (columns, rows),
answer (key, of an answer on the shelf `answers`), or a benchmark's own kind that the page supports. Content that many samples
share is on a shelf, under an id.
"""

from __future__ import annotations

import html
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import polars as pl

from summhay_ray.errors import UserError


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart of a section's table; its fields name columns."""

    kind: Literal["line", "bar", "scatter", "forest", "matrix"]
    x: str
    y: str
    series: str = ""
    """The column that determines the lines or colours; in a matrix, the figure that colours a field."""
    sure: str = ""
    """For a matrix: the column of p-values; a field below 0.05 gets a dot."""
    front: bool = False
    """For points: draw the Pareto front, where no other point has both a smaller x and a larger y."""

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
        """The figure x of each row, labelled y, with its interval, and a line at zero difference."""
        return cls("forest", x, y)

    @classmethod
    def matrix(cls, x: str, y: str, figure: str, sure: str = "") -> Chart:
        """A field for each row, at x and y, coloured by a figure around 0."""
        return cls("matrix", x, y, figure, sure)


@dataclass(frozen=True, slots=True)
class Pivot:
    """A wide view of a section's table: a row for each value of `rows`, and for each figure a column per value of `columns`.

    For each column of `rest`, a row shows the mean of its numbers, or the first value that is not a number.
    """

    rows: str
    columns: str
    figures: tuple[str, ...]
    rest: tuple[str, ...] = ()
    reference: tuple[str, ...] = ()
    """Rows that are only shown for comparison, such as people's; they do not count when a column's best figure is marked."""


@dataclass(frozen=True)
class Section:
    """A titled text with a table of figures and their units. A table with figures must have a column `n`."""

    title: str
    text: str = ""
    table: pl.DataFrame | None = None
    """The rows in the order in which they are shown. Columns `n` and `n_expected` are the actual and expected number of values
    behind a row's figures; columns NAME_low and NAME_high are the interval of the figure NAME."""
    units: Mapping[str, str] = field(default_factory=dict)
    """Column -> its unit, such as % or s; fractions with the unit % or points are shown times 100."""
    chart: Chart | None = None
    pivot: Pivot | None = None
    """How the HTML page shows the table; the terminal, Markdown, CSV and JSON show its rows."""
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
    """Figures for which higher is better, as recorded in `results.json` for other tools."""

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


def html_of(pairs: Sequence[tuple[str, object]], frames: Iterable[pl.DataFrame] = ()) -> str:
    """A notebook's HTML for a result: a table of names and values, followed by frames. All texts are escaped."""
    rows = "".join(f"<tr><th>{html.escape(name)}</th><td>{html.escape(str(value))}</td></tr>" for name, value in pairs)
    return f"<table>{rows}</table>" + "".join(frame._repr_html_() for frame in frames)


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
    """The samples of a run, and their shared shelves. Everything is read lazily and only once."""

    facets: Sequence[Facet]
    samples: Iterable[SampleRecord]
    shelves: Mapping[str, Iterable[tuple[str, Any]]] = field(default_factory=dict)
    """Shelf -> its entries, (id, JSON content), sorted by id."""
    prompts: Mapping[str, str] = field(default_factory=dict)
    """Name -> text of a prompt, with placeholders that the page fills from a sample."""
