"""Draw the chart of a section for papers: SVG, or PDF with embedded fonts. The points are those of the page's chart.

The colours are those of Okabe and Ito, which colour-blind readers can distinguish. Series also differ in markers and lines.
"""

from __future__ import annotations

import functools
import io
import itertools
import logging
import math
import textwrap
import warnings
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from summhay_ray.engine import Section
from summhay_ray.errors import UserError
from summhay_ray.report.face import chart_data
from summhay_ray.sections import plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FigureFormat = Literal["svg", "pdf"]
COLUMN_INCHES = 3.35
"""Width of a figure: one column of a paper."""
MOST_ROWS = 40
"""Maximum names along an axis. The figure says how many names are left out."""
MOST_SERIES = 16
"""Maximum coloured series."""
LONGEST, MOST_TITLE = 34, 200
"""Maximum characters of a name, and of a title."""
MOST_ZEROS = 15
"""With more bars than this, bars shorter than a 2000th of the longest are left out."""
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8A7A00", "#7F7F7F")
_GREY = "#9A9A9A"
_MARKERS = "osD^vPX*"
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
Drawn = dict[str, Any]
"""The data of a chart; see `chart_data`."""


def draw(section: Section) -> Figure:
    """Return the chart of a section as a matplotlib figure, COLUMN_INCHES wide. Raises UserError for a section without a
    chart or data."""
    from matplotlib import rc_context

    drawn = chart_data(section, most=None)
    if drawn is None:
        raise UserError(f"section {section.slug!r} has no chart" + (" yet: no figure is there" if section.chart else ""))
    with rc_context(_STYLE):
        made = _figure_class()(figsize=(COLUMN_INCHES, _height(drawn)), layout="constrained")
        axes = made.add_subplot()
        _KINDS[drawn["kind"]](axes, drawn)
        for axis, low, high in (("x", *axes.get_xlim()), ("y", *axes.get_ylim())):
            if axis in _FROM_ZERO[drawn["kind"]] and low > 0:
                axes.set(**{f"{axis}lim": (0.0, high * 1.04)})
        if len(axes.get_legend_handles_labels()[1]) > 1:
            axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize="small", handletextpad=0.4)
        title = textwrap.wrap(_text(section.title, MOST_TITLE), int(COLUMN_INCHES * 17))
        lines = [*title, *filter(None, [made.get_suptitle()])]
        made.suptitle("\n".join(lines), fontsize="small", x=0.01, horizontalalignment="left")
        axes.spines[["top", "right"]].set_visible(False)
    return made


@functools.cache
def _figure_class() -> type[Figure]:
    """Return the class of a figure that a notebook displays without pyplot. matplotlib is imported only when a figure is
    drawn."""
    from matplotlib.figure import Figure

    class ShownFigure(Figure):
        def _repr_png_(self) -> bytes:
            stream = io.BytesIO()
            self.savefig(stream, format="png", dpi=200, facecolor="white")
            return stream.getvalue()

    return ShownFigure


def figure_bytes(section: Section, kind: FigureFormat = "svg") -> bytes:
    """Return the chart as a file for a paper. Text is drawn as outlines (SVG) or embedded as TrueType (PDF)."""
    from matplotlib import rc_context

    stream, log = io.BytesIO(), logging.getLogger("matplotlib")
    level = log.level
    with rc_context({"pdf.fonttype": 42, "svg.fonttype": "path", "svg.hashsalt": "summhay"}), warnings.catch_warnings():
        # matplotlib warns of every character that the font lacks.
        warnings.simplefilter("ignore", UserWarning)
        log.setLevel(logging.ERROR)
        try:
            metadata = {"Date": None} if kind == "svg" else {"CreationDate": None}
            draw(section).savefig(stream, format=kind, transparent=True, metadata=metadata)
        finally:
            log.setLevel(level)
    return stream.getvalue()


def _height(drawn: Drawn) -> float:
    """Return the height in inches."""
    points, kind = drawn["points"], drawn["kind"]
    names = min(MOST_ROWS, len({point["x" if kind == "bar" else "y"] for point in points}))
    if kind == "matrix":
        down, across = _fields(points)
        return 0.75 * COLUMN_INCHES + 0.68 if down is across else max(1.4, 0.9 + 0.34 * names)
    # The legend is taller than a chart with few rows.
    tall = max(1.4, 0.9 + 0.17 * names, 0.3 + 0.17 * min(MOST_SERIES, len({point["s"] for point in points})))
    return tall if kind in ("bar", "forest") else 0.62 * COLUMN_INCHES


def _text(value: Any, longest: int = LONGEST) -> str:
    text = plain("None" if value is None else value)
    # System names differ at their ends more often than in the middle.
    return text if len(text) <= longest else f"{text[: longest // 2]}…{text[1 - longest // 2 :]}"


def _labels(names: Iterable[Any]) -> list[str]:
    """Return the labels of names in a figure. Labels that would be equal after shortening are numbered."""
    labels: list[str] = []
    for name in names:
        numbered = (f"{_text(name)} ({place})" if place > 1 else _text(name) for place in itertools.count(1))
        labels.append(next(text for text in numbered if text not in labels))
    return labels


def _series(points: Sequence[Drawn]) -> list[tuple[str, list[Drawn], dict[str, Any]]]:
    """Return label, points and style of each series. Series beyond MOST_SERIES are joined into one, drawn in grey."""
    found: dict[Any, list[Drawn]] = {}
    for point in points:
        found.setdefault(point["s"], []).append(point)
    names = [*found][:MOST_SERIES]
    series = []
    for place, (name, label) in enumerate(zip(names, _labels(names), strict=True)):
        marker = _MARKERS[(place + place // len(_COLOURS)) % len(_MARKERS)]
        series.append((label, found[name], {"color": _COLOURS[place % len(_COLOURS)], "marker": marker}))
    if rest := [point for name in [*found][MOST_SERIES:] for point in found[name]]:
        series.append((f"{len(found) - MOST_SERIES} more", rest, {"color": _GREY, "marker": "."}))
    return series


def _ends(points: Sequence[Drawn], value: str) -> list[tuple[float, ...]]:
    """Return the lengths of the intervals below and above the figures; 0 without an interval."""
    ends = [
        (max(0.0, point[value] - point["low"]), max(0.0, point["high"] - point[value]))
        if None not in (point["low"], point["high"])
        else (0.0, 0.0)
        for point in points
    ]
    return [*zip(*ends, strict=True)]


def _first(axes: Axes, names: Sequence[Any], worth: Sequence[Any] = (), what: str = "") -> Sequence[Any]:
    """Return the names to show, at most MOST_ROWS, and a note with their total number. `worth`: the names with a value.
    `what`: a note about the rest."""
    shown = [*(worth or names)][:MOST_ROWS]
    if len(names) > len(shown):
        assert axes.figure is not None
        others = what if len(shown) < min(len(names), MOST_ROWS) else ""
        text = f"{len(shown)} of {len(names):,} shown{others}; the table has all"
        axes.figure.suptitle(text, fontsize="small", x=0.01, horizontalalignment="left")
    return shown


def _bar(axes: Axes, drawn: Drawn) -> None:
    """Draw categories from top to bottom: bars for a single series, points for several."""
    names = [*dict.fromkeys(point["x"] for point in drawn["points"])]
    least = max(abs(point["y"]) for point in drawn["points"]) / 2000
    worth = dict.fromkeys(point["x"] for point in drawn["points"] if abs(point["y"]) >= least)
    shown = _first(axes, names, [*worth] if len(names) > MOST_ZEROS else (), ", all others are 0")
    places = {name: -float(place) for place, name in enumerate(shown)}
    series = _series([point for point in drawn["points"] if point["x"] in places])
    for label, own, look in series:
        xs, ys = [point["y"] for point in own], [places[point["x"]] for point in own]
        if len(series) > 1:
            axes.plot(xs, ys, linestyle="none", label=label, **look)
        else:
            axes.barh(ys, xs, color=_COLOURS[0], height=0.65, xerr=_ends(own, "y"), error_kw={"elinewidth": 0.8})
    axes.set_yticks([*places.values()], _labels(shown))
    axes.set_ylim(0.7 - len(shown), 0.7)
    axes.set_xlabel(_text(drawn["y_title"]))
    if len(series) == 1:
        axes.grid(visible=False, axis="y")


def _line(axes: Axes, drawn: Drawn) -> None:
    names = [*dict.fromkeys(point["x"] for point in drawn["points"])]
    numeric = all(isinstance(name, int | float) for name in names)
    for place, (label, own, look) in enumerate(_series(drawn["points"])):
        # Joined series, in grey, still get a line each.
        for number, (_, part) in enumerate(itertools.groupby(own, key=lambda point: point["s"])):
            points = list(part)
            xs, ys = [point["x"] if numeric else names.index(point["x"]) for point in points], [point["y"] for point in points]
            axes.errorbar(
                xs,
                ys,
                yerr=_ends(points, "y"),
                label="" if number else label,
                linestyle=("-", "--", ":", "-.")[place % 4],
                elinewidth=0.7,
                **look,
            )
    if not numeric:
        axes.set_xticks(range(len(names)), _labels(names))
        axes.margins(x=0.08)
    axes.set(xlabel=_text(drawn["x_title"]), ylabel=_text(drawn["y_title"]))


def _scatter(axes: Axes, drawn: Drawn) -> None:
    for label, own, look in _series(drawn["points"]):
        axes.plot([point["x"] for point in own], [point["y"] for point in own], linestyle="none", label=label, alpha=0.85, **look)
    if drawn["front"]:
        best, line = -math.inf, []
        # The missing answers may be the hardest ones, so mark the figure.
        whole = [point for point in drawn["points"] if not point["lacks"]]
        for point in sorted(whole, key=lambda point: (point["x"], -point["y"])):
            if point["y"] > best:
                best = point["y"]
                line.append((point["x"], best))
        axes.plot(*zip(*line, strict=True), color=axes.xaxis.label.get_color(), linewidth=0.8, drawstyle="steps-post", zorder=1)
    axes.set(xlabel=_text(drawn["x_title"]), ylabel=_text(drawn["y_title"]))


def _forest(axes: Axes, drawn: Drawn) -> None:
    points = _first(axes, drawn["points"])
    for place, point in enumerate(points):
        clear = None not in (point["low"], point["high"]) and (point["low"] > 0 or point["high"] < 0)
        look: dict[str, Any] = {"color": _COLOURS[1] if clear else _COLOURS[0], "marker": "D" if clear else "o"}
        axes.errorbar([point["x"]], [-place], xerr=_ends([point], "x"), markersize=4, elinewidth=1.0, **look)
    axes.axvline(0, color=axes.xaxis.label.get_color(), linewidth=0.8)
    axes.set_yticks(range(0, -len(points), -1), [_text(point["y"]) for point in points])
    axes.set_ylim(0.7 - len(points), 0.7)
    if drawn["x_title"].endswith(("(%)", "(points)")):
        # Limit the axis to 100 points. No difference of shares is larger, but an interval from few haystacks may be.
        axes.set_xlim(max(-100.0, axes.get_xlim()[0]), min(100.0, axes.get_xlim()[1]))
    axes.set_xlabel(_text(drawn["x_title"]))
    axes.grid(visible=False, axis="y")


def _fields(points: Sequence[Drawn]) -> tuple[list[Any], list[Any]]:
    """Return the rows and columns of a matrix. If each column is also a row, both are the same list in the same order."""
    down, across = (list(dict.fromkeys(point[name] for point in points)) for name in ("y", "x"))
    return (down, down) if set(across) <= set(down) else (down, across)


def _matrix(axes: Axes, drawn: Drawn) -> None:
    every, across = _fields(drawn["points"])
    names, heads = _first(axes, every), across[:MOST_ROWS]
    down, right = ({name: place for place, name in enumerate(some)} for some in (names, heads))
    values = np.full((len(names), len(heads)), np.nan)
    points = [point for point in drawn["points"] if point["y"] in down and point["x"] in right]
    for point in points:
        values[down[point["y"]], right[point["x"]]] = point["s"]
    most = float(np.nanmax(np.abs(values), initial=0.0)) or 1.0
    step = axes.pcolormesh(values, cmap="PuOr_r", vmin=-most, vmax=most)
    labels = _labels(heads)
    turned = 90 if max(map(len, labels)) > 3 else 0
    axes.set_xticks([place + 0.5 for place in range(len(heads))], labels, rotation=turned, fontsize="x-small")
    axes.set_yticks([place + 0.5 for place in range(len(names))], _labels(names), fontsize="x-small")
    if across is not every:
        axes.set_xlabel(_text(drawn["x_title"]))
    axes.invert_yaxis()
    axes.grid(visible=False)
    assert axes.figure is not None
    axes.figure.colorbar(step, ax=axes, shrink=0.6).set_label(_text(drawn["s_title"]))
    for point in points:
        if point.get("sure"):
            axes.plot(right[point["x"]] + 0.5, down[point["y"]] + 0.5, ".", color="black", markersize=2.5)


_KINDS = {"bar": _bar, "line": _line, "scatter": _scatter, "forest": _forest, "matrix": _matrix}
_FROM_ZERO = {"bar": "x", "line": "y", "scatter": "xy", "forest": "", "matrix": ""}
"""Kind -> the axes that are extended to 0, with space at the other end, because points at an edge would be cut."""
