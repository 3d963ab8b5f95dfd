"""The sections that show a comparison, on a screen and in a report."""

from collections.abc import Iterator
from dataclasses import replace

import polars as pl

from summhay_ray.comparison.leaderboard import ENDS, SystemComparison, decision_section, leaderboard_section
from summhay_ray.engine import Chart, Section

SHOWN = 25
"""Number of systems in the forest plot and the matrix. The best ones are shown."""
ROWS = 10
"""Maximum number of systems on one screen, and of pairs in a table there."""
FEW_PAIRS = 3
"""Up to this number, each pair of a figure gets a sentence."""


def screen_sections(comparison: SystemComparison, everything: bool = False) -> Iterator[Section]:
    """Yield the sections of `summhay compare`: the decision and the verdicts, then tables of the first figure on one screen.

    `everything`: show all figures, systems and pairs.
    """
    verdicts = [line for figure in comparison.standings for line in _verdicts(comparison, figure)]
    yield replace(decision_section(comparison), notes=[*comparison.warnings, *verdicts])
    for place, (figure, standings) in enumerate(comparison.standings.items()):
        shown = [] if place else [leaderboard_section(comparison)]
        if everything and (standings.height > 2 or (standings["missing"] > 0).any()):
            shown.append(_ranking(comparison, figure))
        if everything or (not place and comparison.of(figure).height <= ROWS):
            shown.append(_pairs_section(comparison, figure, comparison.of(figure)))
        for section in shown:
            rest = [] if everything or section is not shown[-1] else _left_out(comparison, figure)
            text = "" if standings.height > ROWS and not everything else section.text
            yield replace(section, text=text, chart=None, notes=rest, more=False)


def _left_out(comparison: SystemComparison, figure: str) -> list[str]:
    """Return a line about the parts that do not fit on one screen; none if everything fits."""
    systems, figures = comparison.standings[figure].height - ROWS, len(comparison.standings) - 1
    parts = [f"{systems} more systems"] * (systems > 0) + ["every pair"] * (comparison.of(figure).height > ROWS)
    parts += [f"{figures} more figure{'s'[: figures > 1]}"] * (figures > 0)
    return [f"--all shows {', '.join(parts)}"] if parts else []


def _verdicts(comparison: SystemComparison, figure: str) -> list[str]:
    """Return a line for each pair if there are few, else one line for all pairs."""
    pairs, standings = comparison.of(figure), comparison.standings[figure]
    if pairs.height <= FEW_PAIRS:
        rows = pairs.select(_labels_of(comparison, "a"), _labels_of(comparison, "b"), "verdict").iter_rows()
        return [f"{figure}, {a} and {b}: {verdict}" for a, b, verdict in rows]
    best, n = standings.filter("may_be_best")["label"].to_list(), standings["rank"].count()
    differ = f"{pairs['differs'].sum():,} of {pairs.height:,} pairs differ, the others are not shown to"
    named = ", ".join(best[:FEW_PAIRS]) + (f" and {len(best) - FEW_PAIRS} more" if len(best) > FEW_PAIRS else "")
    may = f"{len(best)} of {n} systems may be the best: {named}" if len(best) > 1 else f"{named} is the best" if n else ""
    return [f"{comparison.figure_title(figure)}: {'; '.join(filter(None, (differ, may)))}"]


def comparison_sections(comparison: SystemComparison) -> Iterator[Section]:
    """Yield the report's sections: the decision and the leaderboard, then the figures. The first figure gets the ranking, the
    comparison with the best system, and every pair. Each further figure gets the comparison with its best system."""
    first, *others = comparison.standings
    yield decision_section(comparison)
    yield leaderboard_section(comparison)
    yield _ranking(comparison, first)
    yield from _with_best(comparison, first)
    top, pairs = comparison.standings[first]["name"].head(SHOWN), comparison.of(first)
    turned = (_swap_sides(name).alias(name) for name in ("paired", "corrected", "labelled"))
    both_ways = pl.concat([pairs, pairs.with_columns(*turned, a="b", b="a")])
    a, b = (pl.col(side).struct.field("system") for side in "ab")
    best_pairs = both_ways.filter(a.is_in(top.implode()) & b.is_in(top.implode()))
    if best_pairs.height:
        ordered = best_pairs.sort(*(side.replace_strict(top, range(len(top))) for side in (a, b)))
        yield _pairs_section(comparison, first, ordered, verdicts=True)
    for figure in others:
        yield from _with_best(comparison, figure, f"forest {figure}")


def _swap_sides(paired: str) -> pl.Expr:
    """Return the differences with A and B swapped."""
    of = pl.col(paired).struct.field
    names = {"difference": "difference", "low": "high", "high": "low", "effect": "effect"}
    turned = {name: -of(other) for name, other in (names | {"worst_low": "worst_high", "worst_high": "worst_low"}).items()}
    return pl.col(paired).struct.with_fields(wins=of("losses"), losses=of("wins"), **turned)


def _ranking(comparison: SystemComparison, figure: str) -> Section:
    """Return the ranking of systems with its uncertainty."""
    standings, unit = comparison.standings[figure], comparison.units[figure]
    text = (
        f"Mean {figure}, each query counting once; n: {comparison.counted}. In brackets: the possible ranks, from 1 if no pair "
        "shows a better system. In 95 % of cases all true ranks are among them."
    )
    if (standings["missing"] > 0).any():
        text += (
            " Systems are ranked on the queries on which none of them lacks anything; if there are none, missing values count as "
            f"0 (floor). A system that lacks more than a tenth of {comparison.counted} is incomplete: it has no rank, and does "
            "not affect the others."
        )
    may = (
        pl.when("may_be_best")
        .then(pl.lit("yes"))
        .when(pl.col("rank").is_null())
        .then(pl.lit("incomplete"))
        .otherwise(pl.lit("no"))
    )
    means = {figure: pl.col("mean"), f"{figure}_floor": pl.col("floor")}
    table = standings.select("rank", "rank_low", "rank_high", "n", "n_expected", system="label", best=may, **means)
    table = table.select("system", pl.col("best").alias("may be the best"), pl.exclude("system", "best"))
    title = comparison.figure_title(f"{_title(figure)}: ranking, for {comparison.about[figure]}")
    return Section(title, text, table, {figure: unit} if unit else {}, name="ranking", tab="compare")


def _with_best(comparison: SystemComparison, figure: str, name: str = "forest") -> Iterator[Section]:
    """Yield a section with each system's difference from the best system by score; nothing if no difference is known."""
    standings, points = comparison.standings[figure], comparison.units[figure] == "%"
    known, apart = standings.drop_nulls("from_best"), f"from {standings['label'][0]}"
    if known.is_empty():
        return
    rest = f" The first {SHOWN} of {known.height} systems are shown." if known.height > SHOWN else ""
    columns = {"system": "label", **{f"{apart}{end}": f"from_best{end}" for end in ("", "_low", "_high")}}
    yield Section(
        comparison.figure_title(f"Is it real? {_title(figure)}, compared with the best by score"),
        f"The mean {figure} of each system minus that of the first{', in points' * points}, with the interval of their pair, for "
        f"{comparison.about[figure]}: the pair differs where it excludes 0 (orange).{rest}",
        known.head(SHOWN).select(**{new: pl.col(old) for new, old in (columns | {"n": "n", "n_expected": "n_expected"}).items()}),
        {apart: "points"} if points else {},
        Chart.forest(apart, "system"),
        name=name,
        more=name != "forest",
        tab="compare",
    )


def _labels_of(comparison: SystemComparison, side: str) -> pl.Expr:
    """Return the labels of a side's systems in tables, as in `standings`."""
    of = pl.col(side).struct.field
    return (of("label") if len(comparison.runs) == 1 else pl.format("{} {}", of("run"), of("label"))).alias(side)


def _pairs_section(comparison: SystemComparison, figure: str, pairs: pl.DataFrame, verdicts: bool = False) -> Section:
    """Return these pairs of a figure. `verdicts`: add a verdict to each row."""
    points, n_pairs = comparison.units[figure] == "%", comparison.of(figure).height
    paired, corrected, labelled = (pl.col(name).struct.field for name in ("paired", "corrected", "labelled"))
    least = paired("detectable")
    columns = {
        "system": _labels_of(comparison, "a"),
        "compared with": _labels_of(comparison, "b"),
        **{f"difference{end}": paired(name) for end, name in ENDS.items()},
        "p": paired("p"),
        "p (all pairs)": paired("p_adjusted"),
        "d": paired("effect"),
        "win/tie/loss": pl.format("{}/{}/{}", paired("wins"), paired("ties"), paired("losses")),
        # Differences of fractions cannot be larger.
        "least detectable": pl.when(least <= 1).then(least) if points else least,
        "queries needed": paired("queries_needed").cast(pl.Float64),
        **{f"bias removed{end}": corrected(name) for end, name in ENDS.items()},
        **{f"by labels{end}": labelled(name) for end, name in ENDS.items()},
        f"{comparison.cluster}s": paired("n_haystacks"),
        "n": paired("n_queries"),
        **({"verdict": pl.col("verdict")} if verdicts else {}),
    }
    table = pairs.select(**columns)
    table = table.select(name for name in table.columns if name == "difference" or table[name].null_count() < table.height)
    removed = " Bias removed: the difference without the judge's bias against people." if "bias removed" in table.columns else ""
    removed += " By labels: the difference corrected by people's labels." if "by labels" in table.columns else ""
    of_pairs = f"all {n_pairs:,} pairs" if n_pairs > 1 else "the one pair"
    in_points = ("difference", "least detectable", "bias removed", "by labels") if points else ()
    return Section(
        comparison.figure_title(f"Is it real? {_title(figure)}, pair by pair"),
        f"{_title(figure)} of the row's system minus that of the one that it is compared with{', in points' * points}, on the "
        f"queries that both answered. p: Student's t of the pair alone; p (all pairs): with Holm's correction for {of_pairs}. A "
        "pair differs where this is below 0.05 (a dot in the figure), exactly where its interval excludes 0. Least detectable: "
        "what these queries show in 80 % of cases; queries needed: how many would show the difference so."
        f"{removed}",
        table,
        {name: "points" for name in in_points if name in table.columns},
        Chart.matrix("compared with", "system", "difference", sure="p (all pairs)"),
        name="pairs",
        more=True,
        tab="compare",
    )


def _title(figure: str) -> str:
    """Return a figure's name for the beginning of a sentence. Names such as nDCG and ROUGE-1 are unchanged."""
    return figure.capitalize() if figure.islower() else figure
