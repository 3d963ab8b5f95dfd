"""A section of a report, as data: the terminal and Markdown render it, and whatever comes later. Part of the engine room."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import polars as pl

from summhay_ray.errors import UserError


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart of a section's table: columns by their names."""

    kind: Literal["line", "bar", "scatter", "forest", "matrix"]
    x: str
    y: str
    series: str = ""
    """What lines, colours or, in a matrix, the fields' colours tell apart."""
    sure: str = ""
    """Of a matrix: the column of p-values; a field with less than 0.05 has a dot."""
    front: bool = False
    """Of points: the line of those that no other beats, with less of x and more of y."""

    @classmethod
    def line(cls, x: str, y: str, series: str = "") -> Chart:
        """A line for each value of `series`."""
        return cls("line", x, y, series)

    @classmethod
    def bar(cls, x: str, y: str, series: str = "") -> Chart:
        """A bar for each row."""
        return cls("bar", x, y, series)

    @classmethod
    def scatter(cls, x: str, y: str, series: str = "", front: bool = False) -> Chart:
        """A point for each row."""
        return cls("scatter", x, y, series, front=front)

    @classmethod
    def forest(cls, x: str, y: str) -> Chart:
        """The figure x of each row, named y, with its interval beside the line of no difference."""
        return cls("forest", x, y)

    @classmethod
    def matrix(cls, x: str, y: str, figure: str, sure: str = "") -> Chart:
        """A field for each row, at x and y, coloured by a figure around 0."""
        return cls("matrix", x, y, figure, sure)


@dataclass(frozen=True, slots=True)
class Pivot:
    """A wide view of a section's table: a row for each value of `rows`, under each figure a column for each of `columns`.

    Of the columns `rest` a row has the first value that is there.
    """

    rows: str
    columns: str
    figures: tuple[str, ...]
    rest: tuple[str, ...] = ()
    reference: tuple[str, ...] = ()
    """Rows to hold the others against, such as people's: they take no part in which figure is the best of its column."""


@dataclass(frozen=True)
class Section:
    """Title, text, and a table of figures with their units; a figure without the n behind it is not shown."""

    title: str
    text: str = ""
    table: pl.DataFrame | None = None
    """Rows as they are to be shown. Its columns `n` and `n_expected` say how much stands behind the figures of a row, columns
    NAME_low and NAME_high are the interval of the figure NAME."""
    units: Mapping[str, str] = field(default_factory=dict)
    """Column -> its unit, such as % or s; fractions with the unit % or points are shown times 100."""
    chart: Chart | None = None
    pivot: Pivot | None = None
    """How a page shows the table; the terminal, Markdown, CSV and JSON show its rows."""
    name: str = ""
    """What `result.figure(...)` and links call it; the title's words where it says nothing."""
    listing: str = ""
    """A text that stands as it is, such as a spec."""
    notes: Sequence[str] = ()
    more: bool = False
    """Shown where everything is asked for."""

    @property
    def slug(self) -> str:
        """The section's name in small letters, digits and `_`."""
        return re.sub(r"[^a-z0-9]+", "_", (self.name or self.title).lower()).strip("_") or "section"

    def __post_init__(self) -> None:
        """Raises UserError for figures without an `n`, and for a column that a chart or a unit names and the table has not."""
        columns = [] if self.table is None else self.table.columns
        figures = [] if self.table is None else [name for name in columns if self.table.schema[name].is_float()]
        if figures and "n" not in columns:
            raise UserError(
                f"section {self.title!r}: {', '.join(figures)}: figures without a column `n`, which says how many answers stand "
                "behind each row"
            )
        pivot = [self.pivot.rows, self.pivot.columns, *self.pivot.figures, *self.pivot.rest] if self.pivot else []
        chart = [self.chart.x, self.chart.y, self.chart.series, self.chart.sure] if self.chart else []
        named = {"units": [*self.units], "chart": chart, "pivot": pivot}
        for what, names in named.items():
            for name in names:
                if name and name not in columns:
                    told = ", ".join(columns) or "no table"
                    raise UserError(f"section {self.title!r}: {what} names a column {name!r} that it has not; it has: {told}")
