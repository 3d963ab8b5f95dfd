"""A section of a report, as data: the terminal and Markdown render it, and whatever comes later. Part of the engine room."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import polars as pl

from summhay_ray.errors import UserError


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart of a section's table: columns by their names."""

    kind: Literal["line", "bar", "scatter"]
    x: str
    y: str
    series: str = ""

    @classmethod
    def line(cls, x: str, y: str, series: str = "") -> Chart:
        """A line for each value of `series`."""
        return cls("line", x, y, series)

    @classmethod
    def bar(cls, x: str, y: str, series: str = "") -> Chart:
        """A bar for each row."""
        return cls("bar", x, y, series)

    @classmethod
    def scatter(cls, x: str, y: str, series: str = "") -> Chart:
        """A point for each row."""
        return cls("scatter", x, y, series)


@dataclass(frozen=True)
class Section:
    """Title, text, and a table of figures with their units; a figure without the n behind it is not shown."""

    title: str
    text: str = ""
    table: pl.DataFrame | None = None
    """Rows as they are to be shown. Its columns `n` and `n_expected` say how much stands behind the figures of a row, columns
    NAME_low and NAME_high are the interval of the figure NAME."""
    units: Mapping[str, str] = field(default_factory=dict)
    """Column -> its unit, such as % or s; fractions with the unit % are shown times 100."""
    chart: Chart | None = None
    notes: Sequence[str] = ()
    more: bool = False
    """Shown where everything is asked for."""

    def __post_init__(self) -> None:
        """Raises UserError for figures without an `n`, and for a column that a chart or a unit names and the table has not."""
        columns = [] if self.table is None else self.table.columns
        figures = [] if self.table is None else [name for name in columns if self.table.schema[name].is_float()]
        if figures and "n" not in columns:
            raise UserError(
                f"section {self.title!r}: {', '.join(figures)}: figures without a column `n`, which says how many answers stand "
                "behind each row"
            )
        named = {"units": [*self.units], "chart": [self.chart.x, self.chart.y, self.chart.series] if self.chart else []}
        for what, names in named.items():
            for name in names:
                if name and name not in columns:
                    told = ", ".join(columns) or "no table"
                    raise UserError(f"section {self.title!r}: {what} names a column {name!r} that it has not; it has: {told}")
