"""Tables of `summhay compare`: systems, or two judges on one run. Part of the report room; prints nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from summhay_ray.report.tables import TextTable, percent

if TYPE_CHECKING:
    from summhay_ray.benchmarks.rejudge import CompareResult, Difference, JudgeCounts, SystemMove
    from summhay_ray.benchmarks.summhay import SystemComparison, SystemPair
from summhay_ray.engine import RunResult
from summhay_ray.metrics import LEVEL, PairedDifference, Standing

_SHORT = {"FULL_COVERAGE": "full", "PARTIAL_COVERAGE": "partial", "NO_COVERAGE": "none"}
_TEXT_SHOWN = 90
_VERDICTS = 10
"""Pairs of a figure that have a line each."""
_PAIR = ("A", "B", "A - B (95 %)", "p", "Holm", "d", "W/T/L", "Detectable", "Needed", "Bias removed", "n")
COMPARED_LEGEND = (
    "points (hundredths), paired by query; p: sign-flip test, of fewer than six haystacks Student's t; Holm: corrected over the "
    "table; d: mean over standard deviation; W/T/L: queries on which A is above, equal, below",
    "Detectable: the least true difference that so many queries find (80 %, at 5 % after Holm); Needed: queries in all to find "
    "the one seen so; Bias removed: A - B without the judge's bias against people; n: queries / haystacks",
)


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
    )
    counts += (
        ("input tokens for these", " / ".join(f"{tokens:,}" for tokens in result.input_tokens)),
        ("dollars for these", " / ".join(f"{usd:.4f}" for usd in result.usd)),
    )
    confused = tuple(
        (_SHORT[label], *(str(agreement.confusion[label][other]) for other in agreement.confusion[label]))
        for label in agreement.confusion
    )
    heads = (f"{first} \\ {second}", *(_SHORT[label] for label in agreement.confusion))
    return [
        TextTable(f"{first} and {second} on {result.run}", ("Figure", "Value"), counts),
        TextTable("Labels, insights", heads, confused),
        _systems(result),
        _differences(result),
    ]


def compared_systems_tables(result: SystemComparison) -> list[TextTable]:
    """For each figure, a table of pairs; with more than two systems, also their ranking with its uncertainty."""
    grids = []
    for figure, standings in result.standings.items():
        pairs = [one for one in result.pairs if one.figure == figure]
        grids.append(TextTable(f"{figure}: differences", _PAIR, tuple(_pair(one, result) for one in pairs), heads=2))
        if len(standings) > 2:
            rows = tuple(map(_standing, standings))
            grids.append(TextTable(f"{figure}: order", ("System", "Mean", "Rank", "(95 %)", "First (%)", "n"), rows))
    return grids


def verdict_lines(result: SystemComparison) -> list[str]:
    """What the comparison comes to: a line for each pair, and where there are many one for each figure."""
    lines = []
    for figure in result.standings:
        pairs = [one for one in result.pairs if one.figure == figure]
        if len(pairs) <= _VERDICTS:
            told = ((_names(one, result), one) for one in pairs)
            lines += [f"{figure}, {a} and {b}: {one.found.verdict(a, b)}" for (a, b), one in told]
        else:
            differ = sum(one.found.p_holm is not None and one.found.p_holm <= LEVEL for one in pairs)
            counted = f"{differ:,} of {len(pairs):,} pairs differ (Holm at most 0.05)"
            lines.append(f"{figure}: {counted}; the others are not shown to differ")
    return lines


def _names(one: SystemPair, result: SystemComparison) -> tuple[str, str]:
    a, b = (side.name if len(result.runs) == 1 else f"{side.run[:6]} {side.name}" for side in (one.a, one.b))
    return a, b


def _pair(one: SystemPair, result: SystemComparison) -> tuple[str, ...]:
    found = one.found
    names = _names(one, result)
    return (
        *names,
        _points(found),
        *("-" if p is None else f"{p:.4f}" for p in (found.p, found.p_holm)),
        _figure(found.effect, 2),
        f"{found.wins}/{found.ties}/{found.losses}",
        percent(found.detectable),
        "-" if found.queries_needed is None else f"{found.queries_needed:,}",
        "-" if one.corrected is None else _points(one.corrected),
        f"{found.n_queries} / {found.n_haystacks}",
    )


def _points(found: PairedDifference) -> str:
    interval = "" if found.low is None or found.high is None else f" [{100 * found.low:+.1f}, {100 * found.high:+.1f}]"
    return f"{100 * found.difference:+.1f}{interval}"


def _standing(one: Standing) -> tuple[str, ...]:
    ranks = f"{one.rank_low:g}..{one.rank_high:g}"
    return (one.name, percent(one.mean), f"{one.rank:g}", ranks, percent(one.first), str(one.n_queries))


def rejudge_table(result: RunResult) -> TextTable:
    """Means, failures and counts of each judge of a rejudge."""
    rows = tuple((one.judge, *_means(one), str(one.n_failed), f"{one.n_judged}/{one.n_expected}") for one in result.judges)
    heads = ("Judge", "Joint", "Coverage", "Failures", "n")
    whole = all(one.n_judged == one.n_expected for one in result.judges)
    return TextTable(f"Means (%), raw, over {'all summaries' if whole else 'what is judged'} of {result.of}", heads, rows)


def _means(one: JudgeCounts) -> tuple[str, ...]:
    star = "*" if one.n_judged < one.n_expected else ""
    return tuple(percent(mean) + star for mean in (one.joint, one.coverage))


def _systems(result: CompareResult) -> TextTable:
    heads = ("System", "n", "Joint A", "Joint B", "Coverage A", "Coverage B")
    first, second = result.judges
    title = f"Systems by A, {first}, and by B, {second}: raw figure (%) and its rank"
    return TextTable(title, heads, tuple(map(_move, result.systems)))


def _move(one: SystemMove) -> tuple[str, ...]:
    pairs = [*zip(one.joint, one.joint_ranks, strict=True), *zip(one.coverage, one.coverage_ranks, strict=True)]
    return (one.system, str(one.n), *(f"{percent(figure)} ({rank:g})" for figure, rank in pairs))


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
