"""Draw the chart of a section for papers: SVG, or PDF with embedded fonts.

The colours are those of Okabe and Ito, which colour-blind readers can distinguish. Series also differ in markers and lines.
"""

from __future__ import annotations

import contextlib
import functools
import io
import itertools
import logging
import math
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from summhay_ray.engine import Chart, Section
from summhay_ray.errors import UserError
from summhay_ray.report.sections import SHARES, is_finite, lacks, plain, with_unit

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FigureFormat = Literal["svg", "pdf"]
COLUMN_INCHES = 3.35
"""Width of a figure: one column of a paper."""
MOST_ROWS, MOST_SERIES, LONGEST, MOST_TITLE = 40, 16, 34, 200
"""Maximum names along an axis, coloured series, and characters of a name and of a title. The figure says if names are left
out."""
MOST_ZEROS, LEAST = 15, 0.0005
"""With more bars than MOST_ZEROS, bars shorter than LEAST are left out."""
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8A7A00", "#7F7F7F")
_GREY = "#9A9A9A"
_MARKERS = "osD^vPX*"

Row = Mapping[str, Any]


def drawable(section: Section) -> bool:
    """Whether the section has a chart with at least one point."""
    return section.chart is not None and bool(_rows(section))


def draw(section: Section) -> Figure:
    """The chart of a section as a matplotlib figure, COLUMN_INCHES wide. Raises UserError for a section without a chart or
    data."""
    from matplotlib import rc_context

    chart, rows = section.chart, _rows(section)
    if chart is None or not rows:
        raise UserError(f"section {section.slug!r} has no chart" + (" yet: no figure is there" if chart else ""))
    with rc_context(_STYLE):
        made = _figure_class()(figsize=(COLUMN_INCHES, _height(chart, rows)), layout="constrained")
        axes = made.add_subplot()
        _KINDS[chart.kind](axes, section, chart, rows)
        title = textwrap.wrap(_text(section.title, MOST_TITLE), int(COLUMN_INCHES * 17))
        lines = [*title, *filter(None, [made.get_suptitle()])]
        made.suptitle("\n".join(lines), fontsize="small", x=0.01, horizontalalignment="left")
        axes.spines[["top", "right"]].set_visible(False)
    return made


@functools.cache
def _figure_class() -> type[Figure]:
    """A figure that a notebook displays without pyplot. matplotlib is imported only when a figure is drawn."""
    from matplotlib.figure import Figure

    class ShownFigure(Figure):
        def _repr_png_(self) -> bytes:
            stream = io.BytesIO()
            self.savefig(stream, format="png", dpi=200, facecolor="white")
            return stream.getvalue()

    return ShownFigure


def figure_bytes(section: Section, kind: FigureFormat = "svg") -> bytes:
    """The chart as a file for a paper. Text is drawn as outlines (SVG) or embedded as TrueType (PDF)."""
    from matplotlib import rc_context

    stream = io.BytesIO()
    with rc_context({"pdf.fonttype": 42, "svg.fonttype": "path", "svg.hashsalt": "summhay"}), _quiet():
        metadata = {"Date": None} if kind == "svg" else {"CreationDate": None}
        draw(section).savefig(stream, format=kind, transparent=True, metadata=metadata)
    return stream.getvalue()


_STYLE: dict[Any, Any] = {
    "text.parse_math": False,
    "font.size": 7.0,
    "grid.color": "0.75",
    "font.family": ["DejaVu Sans"],
    "axes.grid": True,
    "grid.linewidth": 0.5,
    "axes.axisbelow": True,
    "axes.prop_cycle": "cycler('color', ['#0072B2'])",
    "legend.frameon": False,
    "lines.linewidth": 1.2,
    "lines.markersize": 4.5,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
}


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Suppresses matplotlib's warnings, such as one for every character that the font lacks."""
    import warnings

    log = logging.getLogger("matplotlib")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            yield
    finally:
        log.setLevel(level)


def _rows(section: Section) -> list[Row]:
    if section.chart is None or section.table is None:
        return []
    value = {"forest": section.chart.x, "matrix": section.chart.series}.get(section.chart.kind, section.chart.y)
    numeric = [value] if section.chart.kind != "scatter" else [section.chart.x, section.chart.y]
    return [row for row in section.table.iter_rows(named=True) if all(is_finite(row[name]) for name in numeric)]


def _height(chart: Chart, rows: Sequence[Row]) -> float:
    """In inches."""
    line = 0.17
    if chart.kind in ("bar", "forest"):
        named = len(_names(chart, rows)) if chart.kind == "bar" else len(rows)
        # Next to few rows, the legend is taller.
        series = len(_series(chart, rows)) if chart.kind == "bar" and chart.series else 0
        return max(1.4, 0.9 + line * min(named, MOST_ROWS), 0.3 + line * series)
    if chart.kind == "matrix":
        down, across = _fields(chart, rows)
        return 0.75 * COLUMN_INCHES + line * 4 if down is across else max(1.4, 0.9 + 2 * line * min(len(down), MOST_ROWS))
    return 0.62 * COLUMN_INCHES


def _scaled(section: Section, row: Row, name: str) -> float:
    return float(row[name]) * (100 if section.units.get(name) in SHARES else 1)


def _ends(section: Section, row: Row, name: str) -> tuple[float, float]:
    """The lengths of the interval below and above the figure, as drawn; (0, 0) without an interval."""
    low, high = row.get(f"{name}_low"), row.get(f"{name}_high")
    if not is_finite(low) or not is_finite(high):
        return 0.0, 0.0
    middle, scale = _scaled(section, row, name), 100 if section.units.get(name) in SHARES else 1
    assert low is not None and high is not None
    return max(0.0, middle - low * scale), max(0.0, high * scale - middle)


def _text(value: Any, longest: int = LONGEST) -> str:
    text = plain("None" if value is None else value)
    # System names differ at their ends more often than in the middle.
    return text if len(text) <= longest else f"{text[: longest // 2]}…{text[1 - longest // 2 :]}"


def _series(chart: Chart, rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Label -> rows of each series. Series beyond MOST_SERIES are joined into one, drawn in grey."""
    found: dict[Any, list[Row]] = {}
    for row in rows:
        found.setdefault(row[chart.series] if chart.series else "", []).append(row)
    own = _labelled(itertools.islice(found, MOST_SERIES))
    series = {label: found[name] for name, label in own.items()}
    if len(found) > MOST_SERIES:
        rest = [row for name, part in found.items() if name not in own for row in part]
        series[f"{len(found) - MOST_SERIES} more"] = rest
    return series


def _labelled(names: Iterable[Any]) -> dict[Any, str]:
    """Name -> its label in a figure. Labels that would be equal after shortening are numbered."""
    labels: dict[Any, str] = {}
    for name in names:
        text, place = _text(name), 1
        while text in labels.values():
            place += 1
            text = f"{_text(name)} ({place})"
        labels[name] = text
    return labels


def _look(place: int) -> dict[str, Any]:
    if place >= MOST_SERIES:
        return {"color": _GREY, "marker": "."}
    return {"color": _COLOURS[place % len(_COLOURS)], "marker": _MARKERS[(place + place // len(_COLOURS)) % len(_MARKERS)]}


def _legend(axes: Axes) -> None:
    if len(axes.get_legend_handles_labels()[1]) > 1:
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize="small", handletextpad=0.4)


def _names(chart: Chart, rows: Sequence[Row]) -> list[Any]:
    """The categories of a bar chart. If there are many, those with a value near 0 are left out."""
    names = list(dict.fromkeys(row[chart.x] for row in rows))
    if len(names) > MOST_ZEROS:
        worth = {row[chart.x] for row in rows if abs(row[chart.y]) >= LEAST}
        names = [name for name in names if name in worth] or names
    return names[:MOST_ROWS]


def _left_out(axes: Axes, n: int, drawn: int, what: str) -> None:
    """Add a note that the figure does not show everything."""
    if n > drawn:
        assert axes.figure is not None
        text = f"{drawn} of {n:,} shown{what}; the table has all"
        axes.figure.suptitle(text, fontsize="small", x=0.01, horizontalalignment="left")


def _bar(axes: Axes, section: Section, chart: Chart, rows: Sequence[Row]) -> None:
    """Categories from top to bottom: bars for a single series, points for several."""
    names = _labelled(_names(chart, rows))
    places = {name: len(names) - 1 - place for place, name in enumerate(names)}
    n = len({row[chart.x] for row in rows})
    _left_out(axes, n, len(names), ", all others are 0" if len(names) < min(n, MOST_ROWS) else "")
    series = _series(chart, [row for row in rows if row[chart.x] in places])
    for place, (label, own) in enumerate(series.items()):
        ys = [float(places[row[chart.x]]) for row in own]
        xs = [_scaled(section, row, chart.y) for row in own]
        if len(series) == 1:
            axes.barh(ys, xs, color=_COLOURS[0], height=0.65)
        else:
            axes.plot(xs, ys, linestyle="none", label=label, **_look(place))
        ends = [_ends(section, row, chart.y) for row in own]
        if len(series) == 1 and any(map(any, ends)):
            axes.errorbar(
                xs, ys, xerr=list(zip(*ends, strict=True)), fmt="none", ecolor=axes.xaxis.label.get_color(), elinewidth=0.8
            )
    axes.set_yticks(list(places.values()), list(names.values()))
    axes.set_ylim(-0.7, len(names) - 0.3)
    _from_zero(axes, "x")
    axes.set_xlabel(_text(with_unit(section, chart.y)))
    axes.grid(visible=False, axis="y") if len(series) == 1 else None
    _legend(axes)


def _line(axes: Axes, section: Section, chart: Chart, rows: Sequence[Row]) -> None:
    numeric = all(is_finite(row[chart.x]) for row in rows)
    names = _labelled(dict.fromkeys(row[chart.x] for row in rows))
    places = {name: place for place, name in enumerate(names)}
    for place, (label, own) in enumerate(_series(chart, rows).items()):
        grey = place >= MOST_SERIES
        for number, (_, part) in enumerate(itertools.groupby(own, key=lambda row: row[chart.series] if grey else "")):
            points = list(part)
            xs = [float(row[chart.x]) if numeric else places[row[chart.x]] for row in points]
            ys = [_scaled(section, row, chart.y) for row in points]
            ends = list(zip(*(_ends(section, row, chart.y) for row in points), strict=True))
            dashes = ("-", "--", ":", "-.")[place % 4]
            axes.errorbar(xs, ys, yerr=ends, label="" if number else label, linestyle=dashes, elinewidth=0.7, **_look(place))
    if not numeric:
        axes.set_xticks(range(len(names)), list(names.values()))
        axes.margins(x=0.08)
    _from_zero(axes, "y")
    axes.set_xlabel(_text(with_unit(section, chart.x)))
    axes.set_ylabel(_text(with_unit(section, chart.y)))
    _legend(axes)


def _scatter(axes: Axes, section: Section, chart: Chart, rows: Sequence[Row]) -> None:
    points = []
    for place, (label, own) in enumerate(_series(chart, rows).items()):
        xs, ys = ([_scaled(section, row, name) for row in own] for name in (chart.x, chart.y))
        # Missing answers may be the hardest.
        points += [point for row, *point in zip(own, xs, ys, strict=True) if not lacks(row)]
        axes.plot(xs, ys, linestyle="none", label=label, alpha=0.85, **_look(place))
    if chart.front:
        best, line = -math.inf, []
        for x, y in sorted(points, key=lambda point: (point[0], -point[1])):
            if y > best:
                best = y
                line.append((x, y))
        axes.plot(*zip(*line, strict=True), color=axes.xaxis.label.get_color(), linewidth=0.8, drawstyle="steps-post", zorder=1)
    _from_zero(axes, "x", "y")
    axes.set_xlabel(_text(with_unit(section, chart.x)))
    axes.set_ylabel(_text(with_unit(section, chart.y)))
    _legend(axes)


def _from_zero(axes: Axes, *names: Literal["x", "y"]) -> None:
    """Extend these axes to 0, with space at the other end: points at an edge would be cut."""
    for name in names:
        low, high = axes.get_xlim() if name == "x" else axes.get_ylim()
        if low > 0:
            axes.set(**{f"{name}lim": (0.0, high * 1.04)})


def _forest(axes: Axes, section: Section, chart: Chart, rows: Sequence[Row]) -> None:
    _left_out(axes, len(rows), len(rows[:MOST_ROWS]), "")
    rows = rows[:MOST_ROWS]
    for place, row in enumerate(reversed(rows)):
        below, above = _ends(section, row, chart.x)
        middle = _scaled(section, row, chart.x)
        low, high = row.get(f"{chart.x}_low"), row.get(f"{chart.x}_high")
        clear = low is not None and high is not None and (low > 0 or high < 0)
        look: dict[str, Any] = {"color": _COLOURS[1] if clear else _COLOURS[0], "marker": "D" if clear else "o"}
        axes.errorbar([middle], [place], xerr=[[below], [above]], markersize=4, elinewidth=1.0, **look)
    axes.axvline(0, color=axes.xaxis.label.get_color(), linewidth=0.8)
    axes.set_yticks(range(len(rows)), [_text(row[chart.y]) for row in reversed(rows)])
    axes.set_ylim(-0.7, len(rows) - 0.3)
    if section.units.get(chart.x) in SHARES:
        # Differences of shares lie within 100 points, even if an interval from few haystacks exceeds that.
        axes.set_xlim(max(-100.0, axes.get_xlim()[0]), min(100.0, axes.get_xlim()[1]))
    axes.set_xlabel(_text(with_unit(section, chart.x)))
    axes.grid(visible=False, axis="y")


def _fields(chart: Chart, rows: Sequence[Row]) -> tuple[list[Any], list[Any]]:
    """The rows and columns of a matrix; both are one list in the same order if each column is also a row."""
    down, across = (list(dict.fromkeys(row[name] for row in rows)) for name in (chart.y, chart.x))
    return (down, down) if set(across) <= set(down) else (down, across)


def _matrix(axes: Axes, section: Section, chart: Chart, rows: Sequence[Row]) -> None:
    every, across = _fields(chart, rows)
    _left_out(axes, len(every), len(every[:MOST_ROWS]), "")
    names, heads = _labelled(every[:MOST_ROWS]), _labelled(across[:MOST_ROWS])
    down, right = ({name: place for place, name in enumerate(labels)} for labels in (names, heads))
    values = np.full((len(names), len(heads)), np.nan)
    rows = [row for row in rows if row[chart.y] in down and row[chart.x] in right]
    for row in rows:
        values[down[row[chart.y]], right[row[chart.x]]] = _scaled(section, row, chart.series)
    most = float(np.nanmax(np.abs(values), initial=0.0)) or 1.0
    step = axes.pcolormesh(values, cmap="PuOr_r", vmin=-most, vmax=most)
    turned = 90 if max(map(len, heads.values())) > 3 else 0
    axes.set_xticks([place + 0.5 for place in range(len(heads))], list(heads.values()), rotation=turned, fontsize="x-small")
    axes.set_yticks([place + 0.5 for place in range(len(names))], list(names.values()), fontsize="x-small")
    if across is not every:
        axes.set_xlabel(_text(with_unit(section, chart.x)))
    axes.invert_yaxis()
    axes.grid(visible=False)
    assert axes.figure is not None
    bar = axes.figure.colorbar(step, ax=axes, shrink=0.6)
    bar.set_label(_text(with_unit(section, chart.series)))
    sure = [row for row in rows if chart.sure and is_finite(row[chart.sure]) and row[chart.sure] < 0.05]
    for row in sure:
        axes.plot(right[row[chart.x]] + 0.5, down[row[chart.y]] + 0.5, ".", color="black", markersize=2.5)


_KINDS = {"bar": _bar, "line": _line, "scatter": _scatter, "forest": _forest, "matrix": _matrix}
