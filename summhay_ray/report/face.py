"""The first screen of a report: the decision, four tiles, the leaderboard, and charts, as data for the page.

It is the same for every benchmark: it reads the sections `decision` and `board`, and the run's status.
"""

from __future__ import annotations

import itertools
import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

from summhay_ray.comparison import ENDS, SystemComparison, compare_pairs, leaderboard_section
from summhay_ray.engine import Chart, Section
from summhay_ray.errors import UserError
from summhay_ray.report.run_sections import ReportedRun
from summhay_ray.report.sections import section_table
from summhay_ray.sections import SHARES, has_missing, is_finite, plain, shown_columns, with_unit

if TYPE_CHECKING:
    from jinja2 import Template

ENOUGH = 0.95
"""If the share of scored answers is below this, their tile is red."""
APART = ("incomplete", "ceiling")
"""Verdicts of systems that cannot be the best."""
MOST_ROWS = 2000
"""Maximum rows of a table on a page. CSV and JSON have all rows."""
MOST_POINTS = 500
"""Maximum points of a chart on a page."""
Tile = dict[str, Any]
MOST_FOREST = 25
"""Maximum number of systems in the forest plot of the first screen."""
MOST_CARD = 5
"""Maximum number of systems on a card."""


def shared_comparison(runs: Sequence[ReportedRun]) -> SystemComparison | None:
    """Compare all systems of the runs. None unless they answered the same queries, with scores of the same kind."""
    if len(runs) == 1:
        return runs[0].comparison
    scores = [one.scores for one in runs if one.scores is not None]
    tasks = {(str(one.run.record["kind"]) if not one.haystacks else "", one.haystacks) for one in runs}
    if len(scores) < len(runs) or len(tasks) > 1 or len({tuple(one.units) for one in scores}) > 1:
        return None
    sides = [(place, system) for place, one in enumerate(scores) for system in one.systems]
    return compare_pairs(scores, list(itertools.combinations(sides, 2)), over=runs[0].options.over)


def tiles(runs: Sequence[ReportedRun], comparison: SystemComparison | None, ids: Mapping[str, str]) -> list[Tile]:
    """Return the figures of the first screen: leader, certainty, dollars and answers. Each links to its evidence.

    `ids`: section -> its id on the page.
    """
    found = [] if comparison is None else _standing(comparison)
    spent = sum(one.now.usd["spent"] or 0 for one in runs)
    done, failed, total = (sum(one.now.cells[name] for one in runs) for name in ("done", "failed", "total"))
    finished, unit = done + failed, runs[0].now.unit
    each = f"{_dollars(spent / finished)} for each of {finished:,} {unit}" if finished and spent else "nothing was paid"
    imported = all(one.status == "imported" for one in runs)
    money = _tile(
        "Cost", "not known" if imported else _dollars(spent), "made elsewhere" if imported else each, f"#{ids['money']}"
    )
    # An item with a failed judgment is finished, so show the share of scored values instead.
    shares = [
        (row["n"], row["n_expected"])
        for row in ([] if comparison is None else next(iter(comparison.standings.values())).to_dicts())
    ]
    n, expected = (sum(column) for column in zip(*shares, strict=True)) if shares else (done, total)
    share = n / expected if expected else 0.0
    what = comparison.counted if comparison is not None else unit
    failures = sum(one.n_failures for one in runs)
    said = f"{n:,} of {expected:,} {what}; {f'{failures:,} failures' if failures else 'no failures'}"
    return [*found, money, _tile("Answered", _percent(share), said, f"#{ids['failures']}", share < ENOUGH)]


def banner(runs: Sequence[ReportedRun], comparison: SystemComparison | None) -> list[str]:
    """Return what limits every figure: unfinished runs, and missing answers."""
    lines = [
        f"{one.title} is {one.status}: {one.now.cells['done'] + one.now.cells['failed']:,} of "
        f"{one.now.cells['total']:,} {one.now.unit} are finished"
        for one in runs
        if one.now.cells["done"] + one.now.cells["failed"] < one.now.cells["total"]
    ]
    if comparison is not None:
        standings = next(iter(comparison.standings.values()))
        n, expected = int(standings["n"].sum()), int(standings["n_expected"].sum())
        if expected and n < expected:
            lines.append(
                f"every figure rests on {_percent(min(n / expected, 0.999))} of {comparison.counted}: {n:,} of {expected:,}"
            )
    if not lines and any(one.n_failures for one in runs):
        lines.append(f"{sum(one.n_failures for one in runs):,} answers failed and are not scored")
    return lines


def _tile(title: str, value: str, detail: str, href: str, is_bad: bool = False) -> Tile:
    return {"title": title, "value": plain(value), "detail": plain(detail), "href": href, "is_bad": is_bad}


def _standing(comparison: SystemComparison) -> list[Tile]:
    """Return the tiles that show which system leads, and how certain its lead is."""
    figure = comparison.decision.figure
    rows = leaderboard_section(comparison).table
    assert rows is not None
    real = [row for row in rows.to_dicts() if row["verdict"] not in APART]
    if not real:
        return [_tile("Leader", "none", f"every system lacks more than a tenth of its {comparison.counted}", "#board")]
    first, n_tied = real[0], sum(row["verdict"] == "tied" for row in real)
    percent = comparison.units[figure] == "%"
    value = f"{100 * first[figure]:.1f} %" if percent else f"{first[figure]:.3g}"
    # A system with the verdict `below` may still be tied with the leader, so use its difference from the leader.
    below = next((row for row in real[1:] if is_finite(row["from best_high"]) and row["from best_high"] < 0), None)
    margin = "no system is shown to be worse than it"
    if below is not None:
        gap, low, high = (-below[name] for name in ("from best", "from best_high", "from best_low"))
        ends = f"{100 * gap:.1f} points [{100 * low:.1f}, {100 * high:.1f}]" if percent else f"{gap:.3g} [{low:.3g}, {high:.3g}]"
        margin = f"{ends} above {below['system']}, the next that is shown to be worse"
    n_queries = int(comparison.of(figure)["paired"].struct.field("n_queries").max() or 0)  # type: ignore[arg-type]
    labels = "no labels by people" if comparison.decision.labels else "checked by labels" if comparison.judge else "no judge"
    alone = "undecided" if first["verdict"] == "undecided" else f"1 of {len(real)} leads"
    sure = f"{n_tied} of {len(real)} tied" if n_tied else alone
    return [
        _tile(
            "Leader" if comparison.decision.use is not None else "Highest, not decided",
            first["system"],
            f"{figure} {value}; {margin}",
            "#board",
        ),
        _tile("How sure", sure, f"{n_queries:,} queries; {labels}", "#compare"),
    ]


def board_data(comparison: SystemComparison, facets: Mapping[str, Any]) -> dict[str, Any]:
    """Return the leaderboard for the page's script: figures, corrections of the first figure, and rows of plain values.
    `facets`: see `table_data`."""
    section = leaderboard_section(comparison)
    assert section.table is not None
    figure, columns = comparison.decision.figure, section.table.columns
    others = [name for name in comparison.scales if name in columns and name != figure]
    return {
        "figure": figure,
        "judge": comparison.judge,
        "text": section.text,
        "counted": comparison.counted,
        "names": [*section.parts, *(name for name in ("run",) if name in columns)],
        "others": others,
        "ways": [way for way in comparison.corrections if way in columns],
        "percent": {name: section.units.get(name) == "%" for name in (figure, *others)},
        "dollars": "dollars a query" in columns,
        "rows": [
            {
                **{name: _plain_value(value) for name, value in row.items()},
                "link": _filters(
                    {**row, "system": row["system"].removeprefix(f"{row.get('run', '')} ")}, facets, row.get("run", "")
                ),
            }
            for row in section.table.iter_rows(named=True)
        ],
    }


def table_data(section: Section, facets: Mapping[str, Any], run: str) -> dict[str, Any] | None:
    """Return the table of a section for the page's script: heads, cells as text, sort values, and the filters for a row's
    samples. `facets`: text columns of the samples -> their values. `run`: the run of the table, if there are several."""
    columns, grid = shown_columns(section), section_table(section)
    if grid is None or section.table is None or not columns:
        return None
    rows = section.table.head(MOST_ROWS)
    values = [
        [_plain_value(row[name]) if not isinstance(row[name], str) else None for name in columns]
        for row in rows.iter_rows(named=True)
    ]
    return {
        "heads": [plain(head) for head in grid.columns],
        "n_heads": grid.heads,
        "rows": grid.rows[:MOST_ROWS],
        "values": values,
        "links": [_filters(row, facets, run) for row in rows.iter_rows(named=True)],
        "cut": section.table.height if section.table.height > MOST_ROWS else 0,
    }


def chart_data(section: Section, most: int | None = MOST_POINTS) -> dict[str, Any] | None:
    """Return the chart of a section as data, with its points (at most `most`) in the units that are shown. None without
    points."""
    chart, table = section.chart, section.table
    if chart is None or table is None:
        return None
    value = {"forest": chart.x, "matrix": chart.series}.get(chart.kind, chart.y)
    names = [value, chart.x] if chart.kind == "scatter" else [value]
    scales = {name: 100 if section.units.get(name) in SHARES else 1 for name in table.columns}
    points = []
    for row in table.iter_rows(named=True):
        if not all(is_finite(row[name]) for name in names):
            continue
        scaled = {
            name: scales[name] * row[name] if is_finite(row[name]) else plain(row[name])
            for name in {chart.x, chart.y, chart.series} - {""}
        }
        ends = [scales[value] * end if is_finite(end := row.get(f"{value}{of}", math.nan)) else None for of in ("_low", "_high")]
        label = " · ".join(plain(row[name]) for name in table.columns if table.schema[name] == pl.String and row[name])[:200]
        points.append(
            {
                "x": scaled[chart.x],
                "y": scaled[chart.y],
                "s": scaled.get(chart.series, ""),
                "low": ends[0],
                "high": ends[1],
                "n": row.get("n"),
                "lacks": has_missing(row),
                "label": label,
                **({"sure": is_finite(row[chart.sure]) and row[chart.sure] < 0.05} if chart.sure else {}),
            }
        )
    axes = {"x_title": chart.x, "y_title": chart.y, "s_title": chart.series}
    titles = {name: plain(with_unit(section, column)) for name, column in axes.items() if column}
    drawn = {"kind": chart.kind, "front": chart.front, **titles, "points": points[:most], "n": len(points)}
    return drawn if points else None


def front_charts(runs: Sequence[ReportedRun], comparison: SystemComparison) -> list[dict[str, Any]]:
    """Return the charts of the first screen: the forest plot of differences, and cost against the figure."""
    whole, figure = leaderboard_section(comparison), comparison.decision.figure
    assert whole.table is not None
    ranked = whole.table.drop_nulls("rank")
    apart = ranked.select("system", "n", *(f"from best{end}" for end in ENDS)).drop_nulls("from best").head(MOST_FOREST)
    forest = Section(
        "Difference from the best", table=apart, units=_units_of(whole, apart), chart=Chart.forest("from best", "system")
    )
    costs = [one for run in runs for one in run.sections if one.chart is not None and one.chart.front]
    if "dollars a query" in ranked.columns and (ranked["dollars a query"] > 0).any():
        series = [*whole.parts][:1]
        points = ranked.select("system", *series, "dollars a query", figure, "n")
        chart = Chart.scatter("dollars a query", figure, series="".join(series), front=True)
        costs = [Section("Cost and quality", table=points, units=_units_of(whole, points), chart=chart)]
    cost = chart_data(costs[0]) if costs else None
    # A run that paid nothing has no costs to compare.
    paid = cost is not None and any(point["x"] for point in cost["points"])
    charts = [(forest.title, chart_data(forest)), ("Cost and quality", cost if paid else None)]
    return [{**drawn, "title": plain(title)} for title, drawn in charts if drawn is not None]


def card_svg(title: str, runs: Sequence[ReportedRun]) -> str:
    """Return a picture for a README: the decision, and the leading systems with their intervals. Raises UserError without
    scores."""
    comparison = shared_comparison(runs)
    if comparison is None or (table := leaderboard_section(comparison).table) is None:
        raise UserError("a card needs scores by query, of one run or of runs of the same queries")
    figure, scale = comparison.decision.figure, 100 if comparison.units[comparison.decision.figure] == "%" else 1
    found = table.filter(~pl.col("verdict").is_in(APART)).drop_nulls(figure).head(MOST_CARD).to_dicts()
    most = max((row[name] for row in found for name in (figure, f"{figure}_high") if row[name] is not None), default=0) or 1
    rows = [
        {
            "system": plain(row["system"]),
            "verdict": row["verdict"],
            "value": f"{scale * row[figure]:.{1 if scale == 100 else 3}f}",
            **{
                name: None if row[f"{figure}{end}"] is None else round(300 + 260 * row[f"{figure}{end}"] / most, 1)
                for name, end in (("low", "_low"), ("at", ""), ("high", "_high"))
            },
        }
        for row in found
    ]
    lines = textwrap.wrap(plain(comparison.decision.text), 105)[:4]
    top = 62 + 18 * len(lines)
    card = {"title": plain(title), "lines": lines, "rows": rows, "figure": figure}
    return page_template("card.svg.j2").render(card, top=top, height=top + 24 * len(rows) + 6) + "\n"


def page_template(name: str, **marks: str) -> Template:
    """Return a template of the folder `page`. Values are escaped for HTML, unless `marks` gives the delimiters of another
    language."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    loader = PackageLoader("summhay_ray.report", "page")
    options: Any = {"undefined": StrictUndefined, "trim_blocks": True, "lstrip_blocks": True, **marks}
    return Environment(loader=loader, autoescape=not marks, **options).get_template(name)


def _units_of(section: Section, table: pl.DataFrame) -> dict[str, str]:
    return {name: unit for name, unit in section.units.items() if name in table.columns}


def _filters(row: Mapping[str, Any], facets: Mapping[str, Any], run: str) -> str:
    """Return the address of a row's samples, filtered by every column that is also a facet. Empty without samples."""
    from urllib.parse import urlencode

    from summhay_ray.metrics import of_column

    if not row.get("n"):
        return ""
    chosen = {name: value for name, value in row.items() if name in facets and isinstance(value, str) and value}
    if "retriever" in chosen and "ordering" in facets and "ordering" not in row:
        # The table shows retriever and ordering in one column.
        chosen["retriever"], chosen["ordering"] = of_column(chosen["retriever"])
    if not chosen or any(value not in facets[name] for name, value in chosen.items()):
        return ""
    return f"#samples?{urlencode({'run': run, **chosen} if run else chosen)}"


def _plain_value(value: Any) -> Any:
    """Return a value for JSON: only finite numbers, and text in one line."""
    if isinstance(value, bool) or value is None or is_finite(value):
        return value
    return None if isinstance(value, float) else plain(value)


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %".replace("100.0 %", "100 %")


def _dollars(usd: float) -> str:
    return f"${usd:,.2f}" if usd >= 0.1 or not usd else f"${usd:.2g}"
