"""Tables of scores for the terminal, after Table 2 and Table 3 of the paper.

The sections of a report page are made by each benchmark: SummHay's in `benchmarks/summhay/results/paper_tables.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from summhay_ray.benchmarks.rejudge import Rejudged
from summhay_ray.metrics import (
    FEWEST,
    FEWEST_UNITS,
    TOO_FEW,
    WEIGHTINGS,
    Z_95,
    JudgeBias,
    PositionSensitivity,
    SystemScore,
    column_place,
    over_haystacks,
)

METRICS = (("joint", "Joint"), ("coverage", "Coverage"), ("citation", "Citation"))
CORRECTED = (("joint_corrected", "Joint"), ("coverage_corrected", "Coverage"))
LABELLED = (("joint_labelled", "Joint"), ("coverage_labelled", "Coverage"))
BULLETS = (("words_per_bullet", "W/bullet"),)
"""Figures of the bullets: field of `SystemScore` and head of its column, to the right of a raw figure."""
LEGEND = "* fewer insights scored than expected, see n; floor: every missing one as 0; - nothing to score"
TOO_FEW_LEGEND = f"{TOO_FEW}: a 95 % interval needs {FEWEST_UNITS} queries or more"


@dataclass(frozen=True, slots=True)
class TextTable:
    """A table of text: title, column heads and rows. Figures are in per cent with one decimal, as in the paper."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    heads: int = 1
    """Number of columns, from the left, that identify the row."""

    @property
    def figures(self) -> str:
        """All cells except those that identify the rows."""
        return " ".join(cell for row in self.rows for cell in row[self.heads :])


def score_lines(scores: Any, more: bool = True, ends: bool = True) -> list[str]:
    """The lines above the tables of a `ScoreResult`: how much was asked, the weighting, what intervals cover, and each judge's
    bias. `more`: the release's table follows. `ends`: the tables have intervals."""
    over = "further haystacks" if over_haystacks(len(scores.haystacks)) else "further queries of these haystacks only"
    last = ", but in the last table, the release's" if more else ""
    intervals = f"; [low, high]: 95 % intervals, for {over}" if ends else ""
    about = f"{WEIGHTINGS['queries'].capitalize()}{last}{intervals}"
    return [*([scores.so_far] if scores.so_far else []), about, *bias_lines(scores.biases, scores.run)]


def score_tables(systems: Sequence[SystemScore], more: bool = True, ends: bool = True) -> list[TextTable]:
    """Joint, coverage and citation by summarizer and retriever (paper, Table 2): a table for each figure and judge, with judges
    in the order of the systems.

    If the judge's bias against people is known (`bias_lines`), two more tables give corrected joint and coverage; people's labels
    add another two. Without gold documents there are only the tables of coverage. Without `more`, only the first table is
    returned. `ends`: with 95 % intervals. `*` marks a figure with fewer insights scored than expected, `-` one without any scored
    insight. `n` is scored/expected insights of the row.
    """
    judges = dict.fromkeys(system.judge for system in systems)
    found = [_of_judge([one for one in systems if one.judge == judge], judge, ends) for judge in judges]
    return [table for tables in found for table in (tables if more else tables[:1])]


def _of_judge(systems: Sequence[SystemScore], judge: str, ends: bool) -> list[TextTable]:
    by = f"judged by {judge}"
    # Without gold documents, only coverage is known.
    ungraded = any(system.n_scored for system in systems) and all(system.joint is None for system in systems)
    metrics, of_bias, of_labels = (some[1:2] if ungraded else some for some in (METRICS, CORRECTED, LABELLED))
    bias = next((system.bias for system in systems if system.bias is not None), None)
    of = "" if bias is None else f" (bias {100 * bias.mean:+.1f} ±{100 * Z_95 * bias.se:.1f} points)"
    tables = [_grid(systems, field, f"{name} (%), raw, {by}{of}", ends, BULLETS) for field, name in metrics]
    if any(system.coverage_corrected is not None for system in systems):
        tables += [_grid(systems, field, f"{name} (%), corrected for bias, {by}", ends) for field, name in of_bias]
    if n := sum(system.labels.n for system in systems if system.labels is not None):
        how = f"corrected by {n} labels, each system by its own {FEWEST} or more"
        tables += [_grid(systems, field, f"{name} (%), {how}, {by}", ends) for field, name in of_labels]
    return tables


def _grid(systems: Sequence[SystemScore], field: str, title: str, ends: bool, extra: Sequence[tuple[str, str]] = ()) -> TextTable:
    """A figure by summarizer and retriever. `ends`: with its interval. `extra`: fields of more columns, each the mean over
    the row's systems, and their heads."""
    columns = sorted({system.column for system in systems}, key=column_place)
    found = {(system.model, system.column): system for system in systems}
    rows = []
    for model in sorted({system.model for system in systems}):
        mine = [found[model, column] for column in columns if (model, column) in found]
        figures = [_figure(found.get((model, column)), field, ends) for column in columns]
        for name, _ in extra:
            known = [value for system in mine if (value := getattr(system, name)) is not None]
            figures.append(f"{sum(known) / len(known):.1f}" if known else "-")
        rows.append((model, *figures, _n_of(mine)))
    return TextTable(title, ("Summarizer", *columns, *(head for _, head in extra), "n"), tuple(rows))


def release_table(systems: Sequence[SystemScore]) -> TextTable:
    """The release's own table: a row for each system, with equal weight for each insight."""
    judges = ", ".join(dict.fromkeys(system.judge for system in systems))
    several = len({system.judge for system in systems}) > 1
    rows = tuple(
        (
            system.label,
            *([system.judge] if several else []),
            *(percent(getattr(system, field)) + ("*" if system.missing else "") for field, _ in METRICS),
            _n_of([system]),
        )
        for system in systems
    )
    heads = ("System", "Judge") if several else ("System",)
    title = f"As the release computes it ({WEIGHTINGS['insights']}): per cent, raw, judged by {judges}"
    return TextTable(title, (*heads, *(name for _, name in METRICS), "n"), rows, len(heads))


def label_lines(scores: Any) -> list[str]:
    """A summary of people's labels for a whole `ScoreResult`."""
    if not scores.n_labels:
        return []
    found = [
        f"{name} {percent(one.value)} [{percent(one.low)}, {percent(one.high)}]"
        for name in ("joint", "coverage")
        if (one := scores.labelled_mean.get(name)) is not None
    ]
    mean = f"; mean of all systems, corrected by {scores.n_labels} labels, pooled: {', '.join(found)}" if found else ""
    fewer = sum(one.labels is None for one in scores.by_query if one.judge == scores.judge)
    lacking = (
        f"{fewer} of the systems have fewer than {FEWEST} labels and are not corrected" if fewer else "all systems have enough"
    )
    return [f"Labels: {lacking}{mean}"]


def table_legends(tables: Sequence[TextTable]) -> list[str]:
    """The meaning of the marks that occur in tables of scores."""
    figures = " ".join(table.figures for table in tables)
    return [legend for mark, legend in (("*", LEGEND), (TOO_FEW, TOO_FEW_LEGEND)) if mark in figures]


def names_line(systems: Sequence[SystemScore]) -> str:
    """A line with the systems' names elsewhere, and the keys of systems without a retriever in their name; else empty."""
    whole = sorted((one for one in systems if one.retriever == "full"), key=lambda one: (one.model, one.ordering))
    keys = dict.fromkeys(f"{one.system} ({one.label})" for one in whole if one.model == whole[0].model)
    return (
        f"A system is called COLUMN + SUMMARIZER; its key, for --systems, is COLUMN_SUMMARIZER, or {', '.join(keys)}"
        if keys
        else ""
    )


def _n_of(systems: Sequence[SystemScore]) -> str:
    """scored/expected insights, summed over the systems."""
    return f"{sum(one.n_scored for one in systems)}/{sum(one.n_expected for one in systems)}"


def bias_lines(biases: Mapping[str, JudgeBias | None], run: str) -> list[str]:
    """A line for each judge with the subtracted bias, and a last line that names the judges of unknown bias."""
    lines = []
    for judge, bias in biases.items():
        if bias is not None:
            name = "" if bias.judge == judge else f" as {bias.judge}"
            measured = f"measured{name}{f' on {bias.source}' if bias.source else ''}"
            taken = f"{100 * bias.mean:.1f} ±{196 * bias.se:.1f} points"
            lines.append(
                f"{judge}: a bias of {taken} (mean over insights, 95 % CI) is subtracted in corrected coverage, {measured}"
            )
    if unknown := [judge for judge, bias in biases.items() if bias is None]:
        lines.append(
            f"{', '.join(unknown)}: no bias against people is known, so nothing is corrected; to measure it: summhay judge-bench "
            f"ANNOTATIONS.json --judge NAME --out FILE, then summhay score {run} --bias FILE"
        )
    return lines


def position_table(rows: Sequence[PositionSensitivity]) -> TextTable | None:
    """Joint scores by document order (paper, Table 3); None if no orderings were compared."""
    if not rows:
        return None
    judges = {row.judge for row in rows}
    cells = tuple(
        (
            row.model,
            *((row.judge,) if len(judges) > 1 else ()),
            *(_placed(row, name) for name in ("top", "bottom", "baseline")),
            row.baseline or "-",
            percent(row.sensitivity) + ("*" if row.n_scored < row.n_expected and row.sensitivity is not None else ""),
            f"{row.n_scored}/{row.n_expected}",
        )
        for row in rows
    )
    heads = ("Summarizer", "Judge") if len(judges) > 1 else ("Summarizer",)
    columns = (*heads, "Top", "Bottom", "Baseline", "(order)", "Sensitivity", "n")
    return TextTable(f"Joint (%), raw, by document order, judged by {', '.join(sorted(judges))}", columns, cells, len(heads))


def _placed(row: PositionSensitivity, name: str) -> str:
    """The joint score of top, bottom or the baseline; `*` marks missing insights."""
    scored, expected = row.n.get(name, (0, 0))
    figure = row.baseline_joint if name == "baseline" else row.top if name == "top" else row.bottom
    return percent(figure) + ("*" if scored < expected else "")


def _figure(system: SystemScore | None, field: str, ends: bool) -> str:
    """A figure, with its interval if `ends`; if insights are missing, also with its floor and the missing share."""
    if system is None:
        return ""
    value = getattr(system, field)
    star, floor = "", ""
    if system.n_scored < system.n_expected:
        star, floor = "*", f" (floor {percent(system.floor(field))}, {percent(system.missing)} % missing)"
    if value is None:
        return f"-{star}{floor}"
    interval = ""
    if ends and field in system.ci:
        low, high = system.ci[field]
        interval = f" [{percent(low)}, {percent(high)}]"
    elif ends and system.ci_reasons.get(field, "").startswith(TOO_FEW):
        interval = f" [{TOO_FEW}]"
    return f"{percent(value)}{star}{interval}{floor}"


def percent(value: float | None) -> str:
    """A fraction as a percentage with one decimal place; a dash if there is none."""
    return "-" if value is None else f"{100 * value:.1f}"


def rejudge_table(scores: Rejudged) -> TextTable:
    """Means, failures and counts of each judge of a rejudge."""
    rows = []
    for one in scores.judges:
        star = "*" if one.n_judged < one.n_expected else ""
        means = (percent(mean) + star for mean in (one.joint, one.coverage))
        rows.append((one.judge, *means, str(one.n_failed), f"{one.n_judged}/{one.n_expected}"))
    whole = all(one.n_judged == one.n_expected for one in scores.judges)
    title = f"Means (%), raw, over {'all summaries' if whole else 'what is judged'} of {scores.of}"
    return TextTable(title, ("Judge", "Joint", "Coverage", "Failures", "n"), tuple(rows))


def runs_table(runs: Sequence[Mapping[str, Any]]) -> TextTable:
    """A store's runs, from the `runs` of `summhay runs --json`."""
    rows = tuple(
        (
            one["run"],
            one["status"],
            "-" if cells is None else f"{cells['done']}/{cells['total']}{f', {failed} failed' if failed else ''}",
            *("-" if one["usd"] is None else f"{one['usd'][name]:.4f}" for name in ("spent", "reserved", "uncertain")),
            one["name"][:24],
            one["kind"],
            one["created"][:16].replace("T", " "),
            f"{one['bytes'] / 2**20:,.1f}",
        )
        for one in runs
        for cells, failed in [(one["cells"], (one["cells"] or {}).get("failed"))]
    )
    return TextTable(
        "", ("Run", "Status", "Done", "$ spent", "$ reserved", "$ uncertain", "Name", "Kind", "Created (UTC)", "MiB"), rows
    )
