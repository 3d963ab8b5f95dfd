"""Tables for the terminal: scores, after Table 2 and Table 3 of the paper, and judges, after Table 1 and Table 6.

The sections of a report page are made by each benchmark: SummHay's in `benchmarks/summhay/results/paper_tables.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from summhay_ray import metrics
from summhay_ray.report.sections import TextTable

if TYPE_CHECKING:
    from summhay_ray.benchmarks.judge_bench import BenchRow
    from summhay_ray.benchmarks.rejudge import Rejudged
    from summhay_ray.benchmarks.summhay import ScoreResult

METRICS = (("joint", "Joint"), ("coverage", "Coverage"), ("citation", "Citation"))
CORRECTED = (("joint_corrected", "Joint"), ("coverage_corrected", "Coverage"))
LABELLED = (("joint_labelled", "Joint"), ("coverage_labelled", "Coverage"))
BULLETS = (("words_per_bullet", "W/bullet"),)
"""Figures of the bullets: field of `SystemScore` and head of its column, to the right of a raw figure."""
LEGEND = "* fewer insights scored than expected, see n; floor: every missing one as 0; - nothing to score"
TOO_FEW_LEGEND = f"{metrics.TOO_FEW}: a 95 % interval needs {metrics.FEWEST_UNITS} queries or more"


def score_lines(scores: ScoreResult, more: bool = True, ends: bool = True) -> list[str]:
    """The lines above the tables: how much was asked, the weighting, what intervals cover, each judge's bias, and people's
    labels. `more`: the release's table follows. `ends`: the tables have intervals."""
    over = "further haystacks" if metrics.over_haystacks(len(scores.haystacks)) else "further queries of these haystacks only"
    last = ", but in the last table, the release's" if more else ""
    intervals = f"; [low, high]: 95 % intervals, for {over}" if ends else ""
    about = f"{metrics.WEIGHTINGS['queries'].capitalize()}{last}{intervals}"
    lines = [*([scores.so_far] if scores.so_far else []), about, *bias_lines(scores.biases, scores.run)]
    if not scores.n_labels:
        return lines
    found = [
        f"{name} {percent(one.value)} [{percent(one.low)}, {percent(one.high)}]"
        for name in ("joint", "coverage")
        if (one := scores.labelled_mean.get(name)) is not None
    ]
    mean = f"; mean of all systems, corrected by {scores.n_labels} labels, pooled: {', '.join(found)}" if found else ""
    fewer = sum(one.labels is None for one in scores.by_query if one.judge == scores.judge)
    lacking = (
        f"{fewer} of the systems have fewer than {metrics.FEWEST} labels and are not corrected"
        if fewer
        else "all systems have enough"
    )
    return [*lines, f"Labels: {lacking}{mean}"]


def score_tables(scores: ScoreResult, more: bool = True, ends: bool = True) -> list[TextTable]:
    """The tables of a run's scores: those of `system_tables`, and with `more` those of document orders and of the release."""
    tables = system_tables(scores.by_query, more, ends)
    order = position_table(scores.position) if more else None
    return [*tables, *([order] if order else []), *([release_table(scores.systems)] if more else [])]


def system_tables(systems: Sequence[metrics.SystemScore], more: bool = True, ends: bool = True) -> list[TextTable]:
    """Joint, coverage and citation by summarizer and retriever (paper, Table 2): a table for each figure and judge, with judges
    in the order of the systems.

    If the judge's bias against people is known (`bias_lines`), two more tables give corrected joint and coverage; people's labels
    add another two. Without gold documents there are only the tables of coverage. Without `more`, only the first table is
    returned. `ends`: with 95 % intervals. `*` marks a figure with fewer insights scored than expected, `-` one without any scored
    insight. `n` is scored/expected insights of the row.
    """
    tables = []
    for judge in dict.fromkeys(system.judge for system in systems):
        own, by = [system for system in systems if system.judge == judge], f"judged by {judge}"
        # Without gold documents, only coverage is known.
        ungraded = any(system.n_scored for system in own) and all(system.joint is None for system in own)
        raw, of_bias, of_labels = (some[1:2] if ungraded else some for some in (METRICS, CORRECTED, LABELLED))
        bias = next((system.bias for system in own if system.bias is not None), None)
        about = "" if bias is None else f" (bias {100 * bias.mean:+.1f} ±{100 * metrics.Z_95 * bias.se:.1f} points)"
        found = [_grid(own, field, f"{name} (%), raw, {by}{about}", ends, BULLETS) for field, name in raw]
        if any(system.coverage_corrected is not None for system in own):
            found += [_grid(own, field, f"{name} (%), corrected for bias, {by}", ends) for field, name in of_bias]
        if n := sum(system.labels.n for system in own if system.labels is not None):
            how = f"corrected by {n} labels, each system by its own {metrics.FEWEST} or more"
            found += [_grid(own, field, f"{name} (%), {how}, {by}", ends) for field, name in of_labels]
        tables += found if more else found[:1]
    return tables


def _grid(
    systems: Sequence[metrics.SystemScore], field: str, title: str, ends: bool, extra: Sequence[tuple[str, str]] = ()
) -> TextTable:
    """A figure by summarizer and retriever. `ends`: with its interval. `extra`: fields of more columns, each the mean over
    the row's systems, and their heads."""
    columns = sorted({system.column for system in systems}, key=metrics.column_place)
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


def release_table(systems: Sequence[metrics.SystemScore]) -> TextTable:
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
    title = f"As the release computes it ({metrics.WEIGHTINGS['insights']}): per cent, raw, judged by {judges}"
    return TextTable(title, (*heads, *(name for _, name in METRICS), "n"), rows, len(heads))


def table_legends(tables: Sequence[TextTable]) -> list[str]:
    """The meaning of the marks that occur in tables of scores."""
    figures = " ".join(cell for table in tables for row in table.rows for cell in row[table.heads :])
    return [legend for mark, legend in (("*", LEGEND), (metrics.TOO_FEW, TOO_FEW_LEGEND)) if mark in figures]


def names_line(systems: Sequence[metrics.SystemScore]) -> str:
    """A line with the systems' names elsewhere, and the keys of systems without a retriever in their name; else empty."""
    whole = sorted((one for one in systems if one.retriever == "full"), key=lambda one: (one.model, one.ordering))
    keys = dict.fromkeys(f"{one.system} ({one.label})" for one in whole if one.model == whole[0].model)
    return (
        f"A system is called COLUMN + SUMMARIZER; its key, for --systems, is COLUMN_SUMMARIZER, or {', '.join(keys)}"
        if keys
        else ""
    )


def _n_of(systems: Sequence[metrics.SystemScore]) -> str:
    """scored/expected insights, summed over the systems."""
    return f"{sum(one.n_scored for one in systems)}/{sum(one.n_expected for one in systems)}"


def bias_lines(biases: Mapping[str, metrics.JudgeBias | None], run: str) -> list[str]:
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


def position_table(rows: Sequence[metrics.PositionSensitivity]) -> TextTable | None:
    """Joint scores by document order (paper, Table 3); None if no orderings were compared."""
    if not rows:
        return None
    judges = {row.judge for row in rows}
    cells = []
    for row in rows:
        joint = []
        for name, figure in (("top", row.top), ("bottom", row.bottom), ("baseline", row.baseline_joint)):
            scored, expected = row.n.get(name, (0, 0))
            joint.append(percent(figure) + ("*" if scored < expected else ""))
        sensitivity = percent(row.sensitivity) + ("*" if row.n_scored < row.n_expected and row.sensitivity is not None else "")
        names = (row.model, row.judge) if len(judges) > 1 else (row.model,)
        cells.append((*names, *joint, row.baseline or "-", sensitivity, f"{row.n_scored}/{row.n_expected}"))
    heads = ("Summarizer", "Judge") if len(judges) > 1 else ("Summarizer",)
    columns = (*heads, "Top", "Bottom", "Baseline", "(order)", "Sensitivity", "n")
    title = f"Joint (%), raw, by document order, judged by {', '.join(sorted(judges))}"
    return TextTable(title, columns, tuple(cells), len(heads))


def _figure(system: metrics.SystemScore | None, field: str, ends: bool) -> str:
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
    elif ends and system.ci_reasons.get(field, "").startswith(metrics.TOO_FEW):
        interval = f" [{metrics.TOO_FEW}]"
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
    insights than expected. There is no table of kappa and alpha if neither is defined, and none of panels without a panel.
    """
    summarizers = sorted({name for row in rows for name in row.figures.bias})
    agreement, beyond_chance, biases = list[tuple[str, ...]](), list[tuple[str, ...]](), list[tuple[str, ...]]()
    for row in rows:
        found = row.figures
        star = "*" if found.n_scored < found.n_expected else ""
        n = f"{found.n_scored}/{found.n_expected}"
        correlation, linking = _digits(found.correlation) + star, percent(found.linking_accuracy) + star
        if found.correlation_ci is not None:
            correlation += f" ({'..'.join(map(_digits, found.correlation_ci))})"
        if found.linking_ci is not None:
            linking += f" ({'..'.join(map(percent, found.linking_ci))})"
        if row.usd_per_200 is None:
            dollars = "?"
        elif row.usd_source == "estimated":
            dollars = f"~{row.usd_per_200:.2f}"
        else:
            dollars = f"{row.usd_per_200:.4f}" if row.usd_per_200 else "0"
        labels = _digits(found.correlation_labels) + star
        agreement.append((row.judge, correlation, labels, linking, str(found.linking_n), dollars, n))
        beyond_chance.append((row.judge, _digits(found.kappa) + star, _digits(found.alpha) + star, str(found.n_scored)))
        points = [None if one is None else f"{100 * one:+.1f}" for one in (*map(found.bias.get, summarizers), found.bias_mean)]
        lengths = (_digits(found.length_score_corr), _digits(found.length_delta_corr))
        biases.append((row.judge, *(f"{one or '-'}{star}" for one in (*points, *lengths)), n))
    panels = tuple(
        (row.judge, str(one.members), percent(one.unanimous / one.n), str(one.tied), _digits(one.alpha), str(one.n))
        for row in rows
        if (one := row.panel)
    )
    tables = [TextTable("Agreement with people", _AGREEMENT, tuple(agreement))]
    if any(row.figures.kappa is not None or row.figures.alpha is not None for row in rows):
        heads: tuple[str, ...] = ("Judge", "Kappa", "Alpha", "n")
        tables.append(TextTable("Agreement of labels beyond chance", heads, tuple(beyond_chance)))
    if panels:
        heads = ("Panel", "Members", "Unanimous %", "Tied", "Alpha of members", "n")
        tables.append(TextTable("Members of a panel among each other", heads, panels))
    heads = ("Judge", *summarizers, "Mean", "Length~score", "Length~delta", "n")
    title = "Bias: coverage above people's (points), by summarizer and by words a bullet"
    return [*tables, TextTable(title, heads, tuple(biases))]


def _digits(value: float | None) -> str:
    """A coefficient with three decimal places; a dash if there is none."""
    return "-" if value is None else f"{value:.3f}"
