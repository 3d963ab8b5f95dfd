"""Tables of `summhay compare`: systems, or two judges on one run. Part of the report room; prints nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from summhay_ray.report.tables import TextTable, percent

if TYPE_CHECKING:
    from summhay_ray.benchmarks.rejudge import CompareResult, Difference
    from summhay_ray.comparison import Standing, SystemComparison, SystemPair
from summhay_ray.comparison import OTHER_RANK, best_line, rank_interval, ranked
from summhay_ray.engine import RunResult
from summhay_ray.metrics import PairedDifference

_SHORT = {"FULL_COVERAGE": "full", "PARTIAL_COVERAGE": "partial", "NO_COVERAGE": "none"}
_TEXT_SHOWN = 90
_VERDICTS = 10
"""Pairs of a figure that have a line each."""
_BIAS = "Bias removed"
_PAIR = ("A", "B", "A - B (95 %)", "p", "p (all)", "d", "W/T/L", "Detectable", "Needed", _BIAS, "n")
_BIAS_TOLD = f" {_BIAS}: A - B without the judge's bias against people;"
_RAW_DIGITS = 3
"""Digits after the point of a figure that is no fraction."""


def compare_tables(result: CompareResult) -> list[TextTable]:
    """Four tables: agreement, confusion of labels, scores and ranks of the systems, and the largest differences."""
    first, second = result.judges
    agreement = result.agreement
    counts = (
        ("insights scored by both", f"{agreement.n} (of {result.n_scored[0]} and {result.n_scored[1]})"),
        ("correlation", _figure(agreement.correlation, 3)),
        ("same label (%)", percent(agreement.same_label)),
        ("Cohen's kappa", _figure(result.kappa, 3)),
        ("same bullet, where both name one (%)", f"{percent(agreement.same_bullet)} (n {agreement.n_linked})"),
        *(
            (f"ranking by {name}: Spearman, Kendall", f"{_figure(one.spearman, 3)}, {_figure(one.kendall, 3)} (n {one.n})")
            for name, one in result.ranking.items()
        ),
        ("input tokens for these", " / ".join(f"{tokens:,}" for tokens in result.input_tokens)),
        ("dollars for these", " / ".join(f"{usd:.4f}" for usd in result.usd)),
    )
    confusion = agreement.confusion
    confused = tuple((_SHORT[label], *(str(confusion[label][other]) for other in confusion)) for label in confusion)
    heads = (f"{first} \\ {second}", *map(_SHORT.__getitem__, confusion))
    return [
        TextTable(f"{first} and {second} on {result.run}", ("Figure", "Value"), counts),
        TextTable("Labels, insights", heads, confused),
        _systems(result),
        _differences(result),
    ]


def comparison_legend(result: SystemComparison) -> list[str]:
    """What the columns of `compared_systems_tables` mean."""
    clusters = f"{result.cluster}s"
    units = set(result.units.values())
    points = "points (hundredths)" if units == {"%"} else "points (hundredths) for fractions, else the figure's own scale"
    unbiased = any(pair.corrected is not None for pair in result.pairs)
    lines = [
        f"{points if '%' in units else 'on the scale of the figure'}, paired by query; p: Student's t of the pair alone; p (all) "
        "and the interval: for all pairs of the table together (max-T, family-wise error 5 %), so a pair differs where its "
        "interval excludes 0; d: mean over standard deviation; W/T/L: queries on which A is above, equal, below",
        "Detectable: the least true difference that so many queries show (80 %, among so many pairs); Needed: queries in all to "
        f"show the one seen so;{_BIAS_TOLD if unbiased else ''} n: queries / {clusters}",
    ]
    if any(len(standings) > 2 for standings in result.standings.values()):
        lines.append("Rank (95 %): all intervals hold the true ranks together; equal systems share the better rank")
    if any(standing.missing for standings in result.standings.values() for standing in standings):
        lines.append(
            "Common: on the queries that all ranked systems answered (one that answered fewer than half has no rank); Floor: "
            f"every missing answer as 0; {OTHER_RANK} in brackets another rank, by Floor"
        )
    return lines


def compared_systems_tables(result: SystemComparison) -> list[TextTable]:
    """For each figure, a table of pairs; with more than two systems or missing answers, also their ranking."""
    grids = []
    heads = tuple(name for name in _PAIR if name != _BIAS or any(pair.corrected is not None for pair in result.pairs))
    for figure, standings in result.standings.items():
        rows = tuple(tuple(_pair(pair, result)[name] for name in heads) for pair in result.of(figure))
        judged, about = result.judged(figure), result.about[figure]
        grids.append(TextTable(f"{judged}: differences, for {about}", heads, rows, heads=2))
        silent = any(standing.missing for standing in standings)
        if len(standings) > 2 or silent:
            order = [_standing(standing, result.units[figure], silent) for standing in standings]
            grids.append(TextTable(f"{judged}: order, for {about}", tuple(order[0]), tuple(tuple(row.values()) for row in order)))
    return grids


def verdict_lines(result: SystemComparison) -> list[str]:
    """What the comparison comes to: a line for each pair, and where there are many one for each figure."""
    lines = []
    for figure, standings in result.standings.items():
        pairs = result.of(figure)
        if len(pairs) <= _VERDICTS:
            for pair in pairs:
                a, b = _names(pair, result)
                lines.append(f"{result.judged(figure)}, {a} and {b}: {pair.paired.verdict(a, b, pair.unit, pair.cluster)}")
        else:
            differ = sum(pair.paired.differs for pair in pairs)
            counted = f"{differ:,} of {len(pairs):,} pairs differ (family-wise error 5 %)"
            lines.append(f"{result.judged(figure)}: {counted}; the others are not shown to differ")
        if len(standings) > 2:
            lines.append(best_line(result, figure))
    return lines


def _names(pair: SystemPair, result: SystemComparison) -> tuple[str, str]:
    a, b = (side.system if len(result.runs) == 1 else f"{side.run[:6]} {side.system}" for side in (pair.a, pair.b))
    return a, b


def _pair(pair: SystemPair, result: SystemComparison) -> dict[str, str]:
    """The cells of a pair by their heads."""
    paired, (a, b) = pair.paired, _names(pair, result)
    return {
        "A": a,
        "B": b,
        "A - B (95 %)": _apart(paired, pair.unit),
        "p": _figure(paired.p, 4),
        "p (all)": _figure(paired.p_adjusted, 4),
        "d": _figure(paired.effect, 2),
        "W/T/L": f"{paired.wins}/{paired.ties}/{paired.losses}",
        "Detectable": _of_unit(pair.detectable, pair.unit),
        "Needed": "-" if paired.queries_needed is None else f"{paired.queries_needed:,}",
        _BIAS: "-" if pair.corrected is None else _apart(pair.corrected, pair.unit),
        "n": f"{paired.n_queries} / {paired.n_haystacks}",
    }


def _of_unit(value: float | None, unit: str) -> str:
    return percent(value) if unit == "%" else _figure(value, _RAW_DIGITS)


def _apart(paired: PairedDifference, unit: str) -> str:
    factor, digits = (100, 1) if unit == "%" else (1, _RAW_DIGITS)
    ends = [f"{factor * end:+.{digits}f}" for end in (paired.low, paired.high) if end is not None]
    return f"{factor * paired.difference:+.{digits}f}" + (f" [{', '.join(ends)}]" if len(ends) == 2 else "")


def _standing(standing: Standing, unit: str, silent: bool) -> dict[str, str]:
    """The cells of a system by their heads. `silent`: some system lacks answers."""
    missing = {"Common": standing.common, "Floor": standing.floor} if silent else {}
    return {
        "System": standing.name,
        "Mean": _of_unit(standing.mean, unit) + "*" * (standing.missing > 0),
        **{head: _of_unit(value, unit) for head, value in missing.items()},
        **({"Missing (%)": percent(standing.missing)} if silent else {}),
        "Rank": ranked(standing),
        "(95 %)": rank_interval(standing),
        "n": f"{standing.n_queries}/{standing.n_expected}" if silent else str(standing.n_queries),
    }


def rejudge_table(result: RunResult) -> TextTable:
    """Means, failures and counts of each judge of a rejudge."""
    rows = []
    for one in result.judges:
        star = "*" if one.n_judged < one.n_expected else ""
        means = (percent(mean) + star for mean in (one.joint, one.coverage))
        rows.append((one.judge, *means, str(one.n_failed), f"{one.n_judged}/{one.n_expected}"))
    whole = all(one.n_judged == one.n_expected for one in result.judges)
    title = f"Means (%), raw, over {'all summaries' if whole else 'what is judged'} of {result.of}"
    return TextTable(title, ("Judge", "Joint", "Coverage", "Failures", "n"), tuple(rows))


def _systems(result: CompareResult) -> TextTable:
    first, second = result.judges
    rows = []
    for one in result.systems:
        pairs = [*zip(one.joint, one.joint_ranks, strict=True), *zip(one.coverage, one.coverage_ranks, strict=True)]
        rows.append((one.system, str(one.n), *(f"{percent(figure)} ({rank:g})" for figure, rank in pairs)))
    title = f"Systems by A, {first}, and by B, {second}: raw figure (%) and its rank"
    return TextTable(title, ("System", "n", "Joint A", "Joint B", "Coverage A", "Coverage B"), tuple(rows))


def _differences(result: CompareResult) -> TextTable:
    first, second = result.judges
    heads = ("Cell", "Insight", first, second, "Text")
    rows = tuple((one.cell_id, one.insight_id, _said(one, 0), _said(one, 1), _cut(one.insight)) for one in result.differences)
    return TextTable(f"Where they differ most ({len(rows)} shown)", heads, rows, heads=len(heads))


def _said(one: Difference, which: int) -> str:
    bullet = one.bullets[which]
    return f"{_SHORT[one.labels[which]]} {one.values[which]:.2f}" + (f", bullet {bullet}" if bullet else "")


def _cut(text: str) -> str:
    return text if len(text) <= _TEXT_SHOWN else text[: _TEXT_SHOWN - 1] + "…"


def _figure(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"
