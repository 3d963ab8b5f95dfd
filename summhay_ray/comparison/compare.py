"""Compare systems in pairs: the scores become a matrix of queries x systems, and `metrics.Paired` decides which pairs differ.

The ranks, the candidates for the best system, and the decision follow from these pairs.
"""

import functools
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
import polars as pl

from summhay_ray.comparison.decision import Evidence, decide
from summhay_ray.comparison.leaderboard import STANDING, SystemComparison
from summhay_ray.comparison.run_scores import QUERY, RunScores
from summhay_ray.errors import UserError
from summhay_ray.metrics import FEWEST_UNITS, FRACTION, LEVEL, LITTLE, Observed, Over, Paired, unit_means

MOST_PAIRS = 10_000
"""Maximum number of pairs of systems in a comparison."""
_MATRICES = ("value", "least", "most", "n", "n_expected")
Chosen = Sequence[tuple[tuple[int, str], tuple[int, str]]]
"""Pairs of systems, each as (index of the run, system)."""
_SIDE = {"run": pl.Int64, "system": pl.String, "name": pl.String}


def compare_runs(runs: Sequence[RunScores], systems: Sequence[str] = (), over: Over | None = None) -> SystemComparison:
    """Compare systems of one or two runs on the queries that both systems of a pair answered. Raises UserError if there is
    nothing to compare.

    `systems`: two names or patterns (`*` matches anything). In one run, systems that match the first are compared with those
    that match the second; by default, every pair. In two runs, the first applies to the first run and the second to the second;
    by default, systems of the same name are compared. `over`: whether the results generalize to further queries of these
    clusters, or to other clusters; by default, to other clusters if there are at least six.
    """
    _shared_figures(runs)
    pairs: Chosen
    if len(runs) == 2 and not systems:
        pairs = [((0, name), (1, name)) for name in runs[0].systems if name in runs[1].systems]
        if not pairs:
            known = "; ".join(f"{run.run}: {', '.join(run.systems)}" for run in runs)
            raise UserError(f"no system has the same name in both runs ({known}); name a system of each with --systems A B")
    else:
        sides = zip((0, len(runs) - 1), systems or ("*", "*"), strict=True)
        first, second = ([(index, name) for name in _matching(runs[index], pattern)] for index, pattern in sides)
        seen = dict.fromkeys((a, b) for a in first for b in second if a != b)
        pairs = [(a, b) for a, b in seen if (b, a) not in seen or a < b]
        if not pairs:
            mend = "give a second run, or two of its judges with --judges A B"
            raise UserError(f"{runs[0].run} has no two systems to compare among {', '.join(runs[0].systems)}; {mend}")
    if len(pairs) > MOST_PAIRS:
        raise UserError(f"{len(pairs):,} pairs of systems are more than {MOST_PAIRS:,}; name fewer with --systems A B")
    comparison = compare_pairs(runs, pairs, over=over)
    if comparison is None:
        raise UserError(f"{_run_names(runs)}: no two of these systems have a scored query in common")
    return comparison


def _run_names(runs: Sequence[RunScores]) -> str:
    return " and ".join(dict.fromkeys(run.run for run in runs))


def _shared_figures(runs: Sequence[RunScores]) -> list[str]:
    shared = [figure for figure in runs[0].units if all(figure in run.units for run in runs)]
    if not shared:
        scored = "; ".join(f"{run.run}: {', '.join(run.units)}" for run in runs)
        raise UserError(
            f"{_run_names(runs)} have no figure in common ({scored}); summhay report RUN_A RUN_B puts them side by side"
        )
    return shared


def every_pair(run: RunScores, figures: Sequence[str] = (), over: Over | None = None) -> SystemComparison | None:
    """Compare every pair of a run's systems. None for fewer than two systems, too many pairs, or no common queries."""
    return compare_pairs([run], list(itertools.combinations([(0, name) for name in run.systems], 2)), figures, over)


def compare_pairs(
    runs: Sequence[RunScores], chosen: Chosen, figures: Sequence[str] = (), over: Over | None = None
) -> SystemComparison | None:
    """Compare the chosen pairs in each figure (by default, in all figures), as one family. None without pairs, with too many
    pairs, or if no pair has a common scored query.

    Raises UserError without a common figure or a common scored query.
    """
    if not 1 <= len(chosen) <= MOST_PAIRS:
        return None
    sides = sorted(set(itertools.chain.from_iterable(chosen)))
    place = {side: index for index, side in enumerate(sides)}
    frames = [run.frame.with_columns(run=pl.lit(index, pl.Int64)) for index, run in enumerate(runs)]
    queries = functools.reduce(lambda frame, other: frame.join(other, on=QUERY, how="semi"), frames)
    if queries.is_empty():
        raise UserError(f"{_run_names(runs)} have no query in common that is scored in both")
    # With two runs, each name begins with the run's id.
    keys = [f"{runs[index].run} {system}" if len(runs) > 1 else system for index, system in sides]
    family = _Asked(runs, sides, keys, [(place[a], place[b]) for a, b in chosen], over)
    named = pl.DataFrame([(*side, key) for side, key in zip(sides, keys, strict=True)], schema=_SIDE, orient="row")
    wanted = figures or _shared_figures(runs)
    comparisons, means = list[SystemComparison](), list[pl.DataFrame]()
    # The rows of all figures together would take several times the memory.
    for figure in dict.fromkeys([*wanted, *(figure for run in runs for figure in run.units)]):
        rows = pl.concat([frame.filter(figure=figure) for frame in frames]).join(named, on=["run", "system"])
        rows = rows.join(queries, on=QUERY, how="semi").sort(*QUERY, "run", "system")
        means.append(rows.group_by("name", "figure").agg(pl.col("value").mean()))
        if figure in wanted and (one := _compare(family, figure, rows)) is not None:
            comparisons.append(one)
    if not comparisons:
        return None
    warnings = list(dict.fromkeys(warning for one in comparisons for warning in one.warnings))
    if len({run.judge for run in runs}) > 1:
        warnings.append("the runs are judged by different judges: a difference may be theirs")
    return replace(
        comparisons[0],
        means=pl.concat(means).sort("name", "figure").pivot("figure", index="name", values="value"),
        scales=runs[0].units,
        parts={
            name: {part: text for part, text in runs[index].names.get(system, {}).items() if part != "label"}
            for name, (index, system) in zip(keys, sides, strict=True)
        },
        corrections={
            way: {
                name: known[comparisons[0].decision.figure]
                for name, (index, system) in zip(keys, sides, strict=True)
                if comparisons[0].decision.figure in (known := runs[index].corrections.get(way, {}).get(system, {}))
            }
            for way in dict.fromkeys(way for run in runs for way in run.corrections)
        },
        pairs=pl.concat([one.pairs for one in comparisons]),
        standings={figure: order for one in comparisons for figure, order in one.standings.items()},
        about={figure: about for one in comparisons for figure, about in one.about.items()},
        units={figure: unit for one in comparisons for figure, unit in one.units.items()},
        warnings=warnings,
    )


@dataclass(frozen=True)
class _Asked:
    """The input of a comparison. `sides`: (index of the run, system), with their `names`. `pairs`: pairs of indices of sides."""

    runs: Sequence[RunScores]
    sides: Sequence[tuple[int, str]]
    names: Sequence[str]
    pairs: Sequence[tuple[int, int]]
    over: Over | None


def _compare(asked: _Asked, figure: str, scores: pl.DataFrame) -> SystemComparison | None:
    """Compare the pairs in one figure. None if no pair has a common scored query.

    `scores`: the sides' rows of `_by_figure` in this figure, sorted by query and side.
    """
    runs, sides, n_systems = asked.runs, asked.sides, len(asked.sides)
    unit, cluster, counted = runs[0].units[figure], runs[0].cluster, runs[0].counted
    own = scores.filter((pl.col("n_expected") > 0).any().over(QUERY))
    value, least, best, n, due = (own[name].to_numpy().reshape(-1, n_systems) for name in _MATRICES)
    n, due = n.sum(axis=0), due.sum(axis=0)
    if not n.any():
        return None
    observed = Observed(value, least, best, np.where(due > 0, 1 - n / np.maximum(1, due), 0.0))
    clusters = own["cluster"].gather_every(n_systems).to_list()
    paired, most = Paired(clusters, asked.over), 1.0 if unit == "%" else math.inf
    fits = paired.differences(observed, asked.pairs, most=most)
    known = ~np.isnan(observed.values)
    sums, counts, strata = np.where(known, observed.values, 0.0), known.astype(np.float64), [*clusters]
    if paired.over == "haystacks":
        _, of = np.unique(clusters, return_inverse=True)
        sums, counts = (np.array([np.bincount(of, column) for column in part.T]).T for part in (sums, counts))
    means = unit_means(sums, counts, None if paired.over == "haystacks" else strata, FRACTION if unit == "%" else None)
    ends = pl.Series(means.low, nan_to_null=True), pl.Series(means.high, nan_to_null=True)
    systems = _systems(asked, n, due, observed.missing).with_columns(low=ends[0], high=ends[1])
    standings = _standings(systems, observed, fits, asked.pairs)
    lacking = [
        f"{runs[index].label(system)} lacks {of - n_own:,} of {of:,} {counted}" if missing > LITTLE else ""
        for (index, system), n_own, of, missing in zip(sides, n, due, observed.missing, strict=True)
    ]
    judge = " and ".join(dict.fromkeys(run.judge for run in runs if run.judge))
    verdicts = [
        _verdict(
            row, [runs[sides[x][0]].label(sides[x][1]) for x in pair], unit, cluster, [lacking[x] for x in pair if lacking[x]]
        )
        + (f"; judged by {judge}" if judge else "")
        for row, pair in zip(fits.iter_rows(named=True), asked.pairs, strict=True)
    ]
    # The result is unknown if the bias of any judge is unknown.
    ways = [[getattr(runs[index], way).get((figure, name)) for index, name in sides] for way in ("unbiased", "labelled")]
    corrected, by_labels = (
        _corrected(paired, observed, asked.pairs, known, most) if all(known) else fits.to_struct().clear(len(fits))
        for known in ways
    )
    a, b = ([runs[sides[x][0]].side(sides[x][1]) for x in side] for side in zip(*asked.pairs, strict=True))
    given = {"figure": figure, "unit": unit, "a": a, "b": b, "differs": fits["p_adjusted"] < LEVEL, "paired": fits.to_struct()}
    frame = pl.DataFrame({**given, "verdict": verdicts, "corrected": corrected, "labelled": by_labels})
    frame = frame.filter((fits["n_queries"] > 0) | fits["worst_low"].is_not_null())
    if frame.is_empty():
        return None
    names = systems["name"]
    rows = [
        {"a": names[x], "b": names[y], "differs": row["p_adjusted"] < LEVEL, **row}
        for (x, y), row in zip(asked.pairs, fits.drop("a", "b").iter_rows(named=True), strict=True)
    ]
    limits, caveats = (tuple(dict.fromkeys(one for run in runs for one in getattr(run, name))) for name in ("limits", "caveats"))
    n_clusters = len(set(clusters))
    evidence = Evidence(
        figure, unit, counted, cluster, len(clusters), n_clusters, paired.over, judge, any(ways[1]), limits, caveats
    )
    about, warnings = _reach(cluster, n_clusters, paired.over, asked.over)
    return SystemComparison(
        runs=tuple(run.run for run in runs),
        pairs=frame,
        standings={figure: standings},
        decision=decide(standings.to_dicts(), rows, evidence),
        warnings=warnings,
        about={figure: about},
        units={figure: unit},
        judge=judge,
        cluster=cluster,
        counted=counted,
    )


def _systems(asked: _Asked, n: Any, due: Any, missing: Any) -> pl.DataFrame:
    """Return the compared systems, with their data before any comparison, such as `n` of `due` answers and the share
    `missing`."""
    runs, sides = asked.runs, asked.sides
    own = [runs[index].side(system) for index, system in sides]
    systems = {
        "name": asked.names,
        "label": [f"{one['run']} {one['label']}" if len(runs) > 1 else one["label"] for one in own],
        **{name: [one[name] for one in own] for name in ("run", "model", "retriever", "ordering")},
        "usd": [runs[index].costs.get(system) for index, system in sides],
        "ceiling": [system in runs[index].ceilings for index, system in sides],
        "n": n,
        "n_expected": due,
        "missing": missing,
    }
    return pl.DataFrame(systems, schema_overrides={"usd": pl.Float64})


def _reach(cluster: str, n_clusters: int, over: Over, asked: Over | None) -> tuple[str, list[str]]:
    """Return the population to which the figures generalize, and warnings about it. `asked`: the user's choice."""
    these = f"this {cluster}" if n_clusters == 1 else f"these {n_clusters} {cluster}s"
    if over == "queries":
        few = f"the figures are for {these} only: fewer than {FEWEST_UNITS} {cluster}s say little about others"
        return f"further queries of {these}", [few] if asked != "queries" else []
    few = f"{n_clusters} {cluster}s are few: only large differences can be shown to hold for others"
    return f"other {cluster}s than these {n_clusters}", [few] if n_clusters < FEWEST_UNITS else []


def _corrected(
    paired: Paired, observed: Observed, pairs: Sequence[tuple[int, int]], biases: Sequence[Any], most: float
) -> pl.Series:
    """Return the differences without the judges' bias, with its uncertainty added. `biases`: the `Unbiased` of each system."""
    ends = [one.slope * one.bias.se for one in biases]
    extra = [abs(ends[a] - ends[b]) if biases[a].bias == biases[b].bias else math.hypot(ends[a], ends[b]) for a, b in pairs]
    factor, shift = (np.array([getattr(one, name) for one in biases]) for name in ("factor", "shift"))
    values, least, best = (of * factor - shift for of in (observed.values, observed.least, observed.most))
    return paired.differences(Observed(values, least, best, observed.missing), pairs, np.array(extra), most).to_struct()


def _standings(systems: pl.DataFrame, observed: Observed, found: pl.DataFrame, pairs: Sequence[tuple[int, int]]) -> pl.DataFrame:
    """Return the ranked systems, best first, then those without a rank. Systems without expected answers are left out. Ranks
    and candidates for the best follow from the `pairs` of complete systems. `found`: the result of
    `metrics.Paired.differences`."""
    due = systems["n_expected"].to_numpy() > 0
    ranked = due & ~observed.incomplete
    means, floors = (
        np.array([math.fsum(known) / len(known) if len(known := one[~np.isnan(one)]) else np.nan for one in of.T])
        for of in (observed.values, observed.least)
    )
    above, below = np.zeros((2, len(due)), dtype=np.int64)
    for (a, b), p, difference in zip(pairs, found["p_adjusted"], found["difference"], strict=True):
        if p < LEVEL and ranked[a] and ranked[b]:
            above[b if difference > 0 else a] += 1
            below[a if difference > 0 else b] += 1
    # Rank on the queries that all systems answered. If there are none, rank with missing values as 0.
    whole = (~np.isnan(observed.values) & (observed.most - observed.least < 1e-9))[:, ranked].all(axis=1)
    by = observed.values[whole].mean(axis=0) if whole.any() else floors
    # Systems that differ only by rounding are equal.
    places = np.searchsorted(np.sort(-np.round(by[ranked], 9)), -np.round(by, 9)) + 1
    lowest, highest = 1 + above, ranked.sum() - below
    ranks = {
        "rank": np.clip(places, lowest, highest),
        "rank_low": lowest,
        "rank_high": highest,
        "may_be_best": above == 0,
    }
    standing = (
        systems.with_row_index("place")
        .with_columns(mean=means, floor=floors, **ranks)
        .with_columns(pl.col("mean").fill_nan(None))
    )
    standing = standing.with_columns(pl.when(pl.lit(pl.Series(ranked))).then(pl.col(*ranks))).filter(due)
    standing = standing.sort("rank", "floor", "name", descending=[False, True, False], nulls_last=True)
    first, ends = standing["place"][0], found.select("difference", "low", "high")
    from_first = {a: row for (a, b), row in zip(pairs, ends.iter_rows(), strict=True) if b == first}
    turned = ends.select(-pl.col("difference"), -pl.col("high"), -pl.col("low"))
    from_first |= {b: row for (a, b), row in zip(pairs, turned.iter_rows(), strict=True) if a == first}
    rows = [(place, *from_first.get(place, (None,) * 3)) for place in standing["place"]]
    names = {"place": pl.UInt32, **dict.fromkeys(("from_best", "from_best_low", "from_best_high"), pl.Float64)}
    standing = standing.join(pl.DataFrame(rows, schema=names, orient="row"), on="place", maintain_order="left")
    return standing.select(STANDING.names()).cast(STANDING)


def _matching(run: RunScores, pattern: str) -> Iterable[str]:
    """Return the systems that match a name or pattern, by key or by label."""
    exact = [system for system in run.systems if pattern in (system, run.label(system))]
    found = exact or [one for one in run.systems if fnmatchcase(one, pattern) or fnmatchcase(run.label(one), pattern)]
    if not found:
        raise UserError(f"{run.run} has no scored system {pattern!r}; it has {', '.join(run.systems)}")
    return found


def _verdict(found: Mapping[str, Any], labels: Sequence[str], unit: str, cluster: str, lacking: Sequence[str]) -> str:
    """Describe the result of a pair in one sentence. `labels`: the names of its systems. `lacking`: their missing answers, if
    not negligible."""
    n, needed, missing = found["n_queries"], found["queries_needed"], " and ".join(lacking)
    if (p := found["p_adjusted"]) < LEVEL:
        higher, by = labels[found["difference"] < 0], _points(abs(found["difference"]), unit)
        corrected = f" for {found['n_pairs']:,} pairs" if found["n_pairs"] > 1 else ""
        differs = f"differs: {higher} is higher by {by} ({f'p {p:.4f}' if p >= 0.0001 else 'p < 0.0001'}{corrected})"
        return f"{differs}, also with what is missing at its worst: {missing}" if missing else differs
    if missing and found["worst_low"] is not None:
        ends = " and ".join(_points(found[name], unit) for name in ("worst_low", "worst_high"))
        return f"not shown to differ: {missing}; with these at their worst, the difference is between {ends}"
    if found["se"] is None:
        equal = f"not known: equal on {n:,} quer{'ies' if n > 1 else 'y'}"
        return equal if found["ties"] == n else f"not known: too few queries or {cluster}s to tell"
    if needed is None:
        return "not shown to differ; no number of queries would show so small a difference"
    if needed <= n:
        return "not shown to differ; a few more queries may show it"
    haystacks = math.ceil((needed - n) * found["n_haystacks"] / n)
    where = f", in {haystacks:,} further {cluster}{'s'[: haystacks > 1]}," if found["over"] == "haystacks" else ""
    return f"not shown to differ; about {needed - n:,} more quer{'ies' if needed - n > 1 else 'y'}{where} would be needed"


def _points(value: float, unit: str) -> str:
    return f"{100 * value:z.1f} points" if unit == "%" else f"{value:z.3g}"
