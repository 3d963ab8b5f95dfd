"""Tables of `judge-bench`: the paper's Table 1 and Table 6."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from summhay_ray.report.terminal_tables import TextTable, percent

if TYPE_CHECKING:
    from summhay_ray.benchmarks.judge_bench import BenchRow

_AGREEMENT = ("Judge", "Correlation (95 %)", "of labels", "Linking % (95 %)", "Linked", "$/200", "n")
BENCH_LEGEND = (
    "Kappa: Cohen's, Alpha: Krippendorff's for ordinal data, of the judge's labels and people's: 0 is chance, 1 perfect",
    "$/200: dollars for 200 such summaries, ~ estimated: tokens of our own prompts at the prices of the paper's months, so that "
    "the paper's bills differ, ? nobody knows; n: insights judged of those expected, * fewer than expected; - nothing to measure",
    "Mean: over summarizers, as in Table 6; score takes off the mean over insights, which --out writes",
)


def bench_tables(rows: Sequence[BenchRow]) -> list[TextTable]:
    """Agreement with people and dollars (Table 1), and bias by summarizer and length (Table 6); one row per judge.

    Bias is the judge's coverage minus the human coverage, in points (hundredths). `-` means nothing to measure; `*` means fewer
    insights than expected.
    """
    agreement = tuple(
        (
            row.judge,
            _ranged(_figure(found.correlation) + _star(row), found.correlation_ci, _figure),
            _figure(found.correlation_labels) + _star(row),
            _ranged(percent(found.linking_accuracy) + _star(row), found.linking_ci, percent),
            str(found.linking_n),
            _dollars(row, row.usd_per_200),
            f"{found.n_scored}/{found.n_expected}",
        )
        for row in rows
        for found in [row.figures]
    )
    return [TextTable("Agreement with people", _AGREEMENT, agreement), *_beyond_chance(rows), *_panels(rows), _bias(rows)]


def _beyond_chance(rows: Sequence[BenchRow]) -> list[TextTable]:
    """Kappa and alpha of the labels; no table if neither is defined for any judge."""
    cells = tuple(
        (row.judge, *(_figure(one) + _star(row) for one in (row.figures.kappa, row.figures.alpha)), str(row.figures.n_scored))
        for row in rows
    )
    defined = any(one is not None for row in rows for one in (row.figures.kappa, row.figures.alpha))
    return [TextTable("Agreement of labels beyond chance", ("Judge", "Kappa", "Alpha", "n"), cells)] if defined else []


def _panels(rows: Sequence[BenchRow]) -> list[TextTable]:
    """How the members of each panel agree with each other; no table without panels."""
    cells = tuple(
        (row.judge, str(found.members), percent(found.unanimous / found.n), str(found.tied), _figure(found.alpha), str(found.n))
        for row in rows
        if (found := row.panel)
    )
    columns = ("Panel", "Members", "Unanimous %", "Tied", "Alpha of members", "n")
    return [TextTable("Members of a panel among each other", columns, cells)] if cells else []


def _bias(rows: Sequence[BenchRow]) -> TextTable:
    names = sorted({name for row in rows for name in row.figures.bias})
    cells = tuple(
        (
            row.judge,
            *(_points(row.figures.bias.get(name)) + _star(row) for name in names),
            _points(row.figures.bias_mean) + _star(row),
            _figure(row.figures.length_score_corr) + _star(row),
            _figure(row.figures.length_delta_corr) + _star(row),
            f"{row.figures.n_scored}/{row.figures.n_expected}",
        )
        for row in rows
    )
    columns = ("Judge", *names, "Mean", "Length~score", "Length~delta", "n")
    return TextTable("Bias: coverage above people's (points), by summarizer and by words a bullet", columns, cells)


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _ranged(figure: str, interval: tuple[float, float] | None, shown: Callable[[float], str]) -> str:
    """A figure with its interval, in one cell."""
    return figure if interval is None else f"{figure} ({'..'.join(map(shown, interval))})"


def _star(row: BenchRow) -> str:
    return "*" if row.figures.n_scored < row.figures.n_expected else ""


def _points(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:+.1f}"


def _dollars(row: BenchRow, value: float | None) -> str:
    if value is None:
        return "?"
    return f"~{value:.2f}" if row.usd_source == "estimated" else f"{value:.4f}" if value else "0"
