"""Systems compared in pairs, by their scores query by query: is a difference real?

Any benchmark that says how its systems scored each query (`Workload.by_query`) is compared here, in `summhay compare` and in the
report. May be imported by `benchmark`, the benchmarks, the report and the API.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import polars as pl

from summhay_ray.engine import ByQuery, Chart, Section
from summhay_ray.errors import UserError
from summhay_ray.metrics import SURE, Over, PairedDifference, Resampling, Standing, with_holm

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MOST_PAIRS = 10_000
"""More pairs of systems than this are refused."""
FOREST = 25
"""Systems shown in the forest plot and the matrix: the best ones."""
_MAY_BE_EMPTY = ("least detectable", "queries needed", "bias removed")
"""Columns of the forest that are left out where no system has a value."""
_KEYS = ("system", "cluster", "query")
Query = tuple[str, str]
"""A query with its cluster: (cluster, query)."""


@dataclass(frozen=True, slots=True)
class Side:
    """One system of a pair, with its run and the judge that scored it."""

    run: str
    system: str
    model: str = ""
    """Empty if the benchmark does not tell models apart from systems."""
    judge: str = ""
    """Empty if the scores are nobody's judgments."""


@dataclass(frozen=True, slots=True)
class SystemPair:
    """The difference of two systems in one figure."""

    figure: str
    a: Side
    b: Side
    paired: PairedDifference
    corrected: PairedDifference | None
    """The difference after subtracting each judge's bias relative to people; None if a bias is unknown or does not apply."""
    unit: str = "%"
    """The figure's unit: %, or empty for the figure's own scale."""
    cluster: str = "haystack"
    """What a cluster of queries is."""

    @property
    def detectable(self) -> float | None:
        """The least true difference that these queries show; None also where no fractions can be so far apart."""
        least = self.paired.detectable
        return None if least is None or (self.unit == "%" and least > 1) else least

    def verdict(self) -> str:
        """The result in one sentence, which names its judge."""
        judges = " and ".join(dict.fromkeys(side.judge for side in (self.a, self.b) if side.judge))
        found = self.paired.verdict(self.a.system, self.b.system, self.unit, self.cluster)
        return f"{found}; judged by {judges}" if judges else found

    def reversed(self) -> SystemPair:
        """The same pair, as the difference of the second system from the first."""
        corrected = None if self.corrected is None else self.corrected.reversed()
        return replace(self, a=self.b, b=self.a, paired=self.paired.reversed(), corrected=corrected)

    def to_json(self) -> dict[str, Any]:
        """The pair as a JSON object."""
        return {
            "figure": self.figure,
            "unit": self.unit,
            "a": asdict(self.a),
            "b": asdict(self.b),
            "paired": asdict(self.paired),
            "verdict": self.verdict(),
            "corrected": None if self.corrected is None else asdict(self.corrected),
        }


@dataclass(frozen=True)
class SystemComparison:
    """Systems compared in pairs, and their ranking with its uncertainty."""

    runs: tuple[str, ...]
    pairs: Sequence[SystemPair]
    """Figure by figure. p-values are corrected over all pairs of a figure."""
    standings: Mapping[str, Sequence[Standing]]
    """Figure -> the compared systems, best first."""
    warnings: Sequence[str]
    units: Mapping[str, str]
    """Figure -> its unit: %, or empty for the figure's own scale."""
    cluster: str = "haystack"
    """What a cluster of queries is."""

    @property
    def judge(self) -> str:
        """The judge of the scores; `A and B` for two runs with a judge each; empty if the scores are nobody's judgments."""
        return " and ".join(dict.fromkeys(side.judge for pair in self.pairs for side in (pair.a, pair.b) if side.judge))

    def of(self, figure: str) -> list[SystemPair]:
        """The pairs of one figure."""
        return [pair for pair in self.pairs if pair.figure == figure]

    @property
    def table(self) -> pl.DataFrame:
        """One row per pair and figure, with the fields of `PairedDifference` and the verdict; fractions, not points."""
        return _frame(
            [
                {
                    "figure": pair.figure,
                    "system_a": pair.a.system,
                    "system_b": pair.b.system,
                    "verdict": pair.verdict(),
                    **asdict(pair.paired),
                    "run_a": pair.a.run,
                    "run_b": pair.b.run,
                }
                for pair in self.pairs
            ]
        )

    def _repr_html_(self) -> str:
        """For a notebook."""
        return str(self.table._repr_html_())

    def to_json(self) -> dict[str, Any]:
        """The JSON document that `summhay compare` prints for systems."""
        return {
            "runs": list(self.runs),
            "judge": self.judge or None,
            "cluster": self.cluster,
            "pairs": [pair.to_json() for pair in self.pairs],
            "standings": {figure: [asdict(standing) for standing in order] for figure, order in self.standings.items()},
            "warnings": list(self.warnings),
        }


class RunScores:
    """One run's scores by query. A benchmark with judges, whose scores may be biased, has a subclass."""

    def __init__(self, run: str, by_query: ByQuery) -> None:
        scores = by_query.scores
        self.run, self.judge = run, ""
        self.cluster = by_query.cluster
        self.units = {name: by_query.units.get(name, "") for name in scores.columns if name not in _KEYS}
        if "cluster" not in scores.columns:
            scores = scores.with_columns(pl.lit("").alias("cluster"))
        scores = scores.with_columns(pl.col(name).fill_nan(None) for name in self.units)
        known = scores.filter(pl.any_horizontal(pl.col(name).is_not_null() for name in self.units))
        self._rows = {str(key[0]): rows for key, rows in known.group_by("system", maintain_order=True)}

    @property
    def systems(self) -> Mapping[str, str]:
        """System -> another name by which it may be called."""
        return {name: name for name in sorted(self._rows)}

    def queries(self) -> set[Query]:
        """Every query that at least one system answered."""
        return {row for rows in self._rows.values() for row in rows.select("cluster", "query").iter_rows()}

    def of(self, system: str, figure: str, queries: Mapping[Query, int]) -> NDArray[np.float64]:
        """A system's figure for each query, of shape (queries,); NaN where it has none. `queries`: query -> index."""
        import numpy as np

        values = np.full(len(queries), np.nan)
        for cluster, query, value in self._rows[system].select("cluster", "query", figure).iter_rows():
            if value is not None and (cluster, query) in queries:
                values[queries[cluster, query]] = value
        return values

    def side(self, system: str) -> Side:
        """The system as a side of a pair."""
        return Side(self.run, system)

    def corrected(
        self, figure: str, system: str, other: RunScores, other_system: str, values: Values, resampling: Resampling
    ) -> PairedDifference | None:
        """The difference of two systems without their judges' bias; None if there is none to take off."""
        return None


Values = tuple["NDArray[np.float64]", "NDArray[np.float64]"]
Chosen = Sequence[tuple[tuple[int, str], tuple[int, str]]]
"""Pairs of systems, each as (index of the run, system)."""


def compare_runs(
    runs: Sequence[RunScores], systems: Sequence[str] = (), seed: int = 0, over: Over = "haystacks"
) -> SystemComparison:
    """Compare systems of one or two runs on the queries that both answered. Raises UserError if there is nothing to compare.

    `systems`: two names or patterns (`*` matches anything). In one run, systems that match the first are compared with those
    that match the second; by default, every pair. In two runs, the first applies to the first run and the second to the
    second; by default, systems of the same name are compared. `over`: whether the results generalize to other clusters of
    queries, or only to further queries of these.
    """
    _shared_figures(runs)
    comparison = compare_pairs(runs, _pairs(runs, systems), seed, over=over)
    if not comparison.pairs:
        raise UserError(f"{_named(runs)}: no two of these systems have a scored query in common")
    return comparison


def _named(runs: Sequence[RunScores]) -> str:
    return " and ".join(dict.fromkeys(run.run for run in runs))


def _shared_figures(runs: Sequence[RunScores]) -> list[str]:
    shared = [figure for figure in runs[0].units if all(figure in run.units for run in runs)]
    if not shared:
        scored = "; ".join(f"{run.run}: {', '.join(run.units)}" for run in runs)
        raise UserError(f"{_named(runs)} have no figure in common ({scored}); summhay report RUN_A RUN_B puts them side by side")
    return shared


def every_pair(run: RunScores, seed: int = 0, figures: Sequence[str] = ()) -> SystemComparison | None:
    """Every pair of a run's systems; None for fewer than two systems, too many pairs, or none on the same queries."""
    names = sorted(run.systems)
    if not 2 <= len(names) <= math.isqrt(2 * MOST_PAIRS):
        return None
    comparison = compare_pairs([run], [((0, a), (0, b)) for a, b in itertools.combinations(names, 2)], seed, figures)
    return comparison if comparison.pairs else None


def compare_pairs(
    runs: Sequence[RunScores], chosen: Chosen, seed: int, figures: Sequence[str] = (), over: Over = "haystacks"
) -> SystemComparison:
    """Compare the chosen pairs in each figure (by default, in all), with the same resamples for figures of the same queries.

    Raises UserError without a common figure, or a common query that is scored.
    """
    import numpy as np

    queries = {query: index for index, query in enumerate(sorted(set.intersection(*(run.queries() for run in runs))))}
    if not queries:
        raise UserError(f"{_named(runs)} have no query in common that is scored in both")
    sides = list(dict.fromkeys(itertools.chain.from_iterable(chosen)))
    labels = [system if len(runs) == 1 else f"{runs[index].run} {system}" for index, system in sides]
    pairs: list[SystemPair] = []
    standings = {}
    resampling, resampled = None, b""
    warned: dict[str, list[str]] = {}
    for figure in figures or _shared_figures(runs):
        values = {side: runs[side[0]].of(side[1], figure, queries) for side in sides}
        whole = np.stack([values[side] for side in sides], axis=1)
        there: NDArray[np.bool_] = np.logical_not(np.isnan(whole).all(axis=1))
        if not there.any():
            continue
        clusters = [cluster for (cluster, _), is_scored in zip(queries, there.tolist(), strict=True) if is_scored]
        if resampling is None or resampled != there.tobytes():
            resampling, resampled = Resampling(clusters, seed, over=over), there.tobytes()
        scored = {side: scores[there] for side, scores in values.items()}
        if figure_pairs := _pairs_of_figure(figure, runs, chosen, scored, resampling):
            pairs += figure_pairs
            standings[figure] = resampling.standings(labels, whole[there])
            warned[figure] = list(_warnings(resampling, len(set(clusters)), runs[0].cluster, figure_pairs))
    units = {figure: runs[0].units[figure] for figure in standings}
    warnings = _by_figure(warned)
    if len({run.judge for run in runs}) > 1:
        warnings.append("the runs are judged by different judges: a difference may be theirs")
    return SystemComparison(tuple(run.run for run in runs), pairs, standings, warnings, units, runs[0].cluster)


def _pairs_of_figure(
    figure: str, runs: Sequence[RunScores], chosen: Chosen, values: Mapping[Any, NDArray[np.float64]], resampling: Resampling
) -> list[SystemPair]:
    pairs = []
    for a, b in chosen:
        run_a, run_b = runs[a[0]], runs[b[0]]
        difference = resampling.difference(values[a], values[b])
        if difference is not None:
            corrected = run_a.corrected(figure, a[1], run_b, b[1], (values[a], values[b]), resampling)
            sides = run_a.side(a[1]), run_b.side(b[1])
            pairs.append(SystemPair(figure, *sides, difference, corrected, run_a.units[figure], run_a.cluster))
    raw = with_holm([pair.paired for pair in pairs])
    unbiased = iter(with_holm([pair.corrected for pair in pairs if pair.corrected is not None]))
    return [
        replace(pair, paired=difference, corrected=None if pair.corrected is None else next(unbiased))
        for pair, difference in zip(pairs, raw, strict=True)
    ]


# --- which pairs ---------------------------------------------------------------------------------------------------------


def _pairs(runs: Sequence[RunScores], wanted: Sequence[str]) -> Chosen:
    names = [list(run.systems) for run in runs]
    pairs: Chosen
    if len(runs) == 1:
        first, second = (list(_matching(runs[0], pattern)) for pattern in (wanted or ("*", "*")))
        seen = dict.fromkeys((a, b) for a in first for b in second if a != b)
        pairs = [((0, a), (0, b)) for a, b in seen if (b, a) not in seen or a < b]
        if not pairs:
            raise UserError(f"{runs[0].run} has no two systems to compare among {', '.join(names[0])}")
    elif wanted:
        first, second = (list(_matching(run, pattern)) for run, pattern in zip(runs, wanted, strict=True))
        pairs = [((0, a), (1, b)) for a in first for b in second]
    else:
        pairs = [((0, name), (1, name)) for name in names[0] if name in names[1]]
        if not pairs:
            known = "; ".join(f"{run.run}: {', '.join(systems)}" for run, systems in zip(runs, names, strict=True))
            raise UserError(f"no system has the same name in both runs ({known}); name a system of each with --systems A B")
    if len(pairs) > MOST_PAIRS:
        raise UserError(f"{len(pairs):,} pairs of systems are more than {MOST_PAIRS:,}; name fewer with --systems A B")
    return pairs


def _matching(run: RunScores, pattern: str) -> Iterable[str]:
    """The systems that match a name or pattern, by either of their names."""
    exact = [system for system, alias in run.systems.items() if pattern in (system, alias)]
    names = exact or [name for name, alias in run.systems.items() if fnmatchcase(name, pattern) or fnmatchcase(alias, pattern)]
    if not names:
        raise UserError(f"{run.run} has no scored system {pattern!r}; it has {', '.join(run.systems.values())}")
    return names


# --- warnings ------------------------------------------------------------------------------------------------------------


def _warnings(resampling: Resampling, n: int, cluster: str, pairs: Sequence[SystemPair]) -> Iterator[str]:
    if resampling.over == "queries":
        these = f"this {cluster}" if n == 1 else f"these {n} {cluster}s"
        yield f"intervals and p-values are about further queries of {these}, and say nothing of others"
    elif resampling.test == "t":
        yield (
            f"{n} {cluster}s are few: intervals and p-values are Student's t over {cluster}s, which shows large differences "
            f"only (summhay compare --over queries asks about these {cluster}s alone); ranks are about these {cluster}s"
        )
    elif n < SURE:
        yield f"{n} {cluster}s are fewer than {SURE}: a 95 % interval may cover somewhat less than it says"
    if lost := [pair.paired for pair in pairs if pair.paired.out_of_reach]:
        worst = max(lost, key=lambda paired: paired.p_least)
        over = "queries" if worst.over == "queries" else f"{cluster}s"
        yield (
            f"no difference can be shown among {worst.n_pairs:,} pairs: the least p of {worst.clusters} {over} is "
            f"{worst.p_least:.2g}, which Holm makes {min(1, worst.p_least * worst.n_pairs):.2g}; compare fewer with --systems A B"
        )


def _by_figure(warned: Mapping[str, Sequence[str]]) -> list[str]:
    """The warnings of all figures, each once; one that is not about all figures begins with those that it is about."""
    lines = dict.fromkeys(itertools.chain.from_iterable(warned.values()))
    about = {line: [figure for figure, warnings in warned.items() if line in warnings] for line in lines}
    return [line if len(figures) == len(warned) else f"{', '.join(figures)}: {line}" for line, figures in about.items()]


# --- sections of a report ------------------------------------------------------------------------------------------------


def comparison_sections(comparison: SystemComparison) -> Iterator[Section]:
    """The report's sections: for the first figure the ranking, the differences from the best system and every pair; for each
    further figure the differences from its best system."""
    for place, figure in enumerate(comparison.standings):
        if not place:
            yield _ranking(comparison, figure)
        yield from _differences(comparison, figure, first=not place)


def _ranking(comparison: SystemComparison, figure: str) -> Section:
    """The ranking of systems with its uncertainty."""
    order = [
        {
            "system": standing.name,
            figure: standing.mean,
            "first": standing.first,
            "rank": standing.rank,
            "rank interval": f"{standing.rank_low:g} to {standing.rank_high:g}",
            "n": standing.n_queries,
        }
        for standing in comparison.standings[figure]
    ]
    unit = comparison.units[figure]
    return Section(
        "Which system is the best?",
        f"Systems in the order of their mean {figure} over queries. First: the share of 10,000 resamples of the queries in which "
        "the system is the best, an estimate of the probability that it is. Rank interval: 95 %. Equal systems share ranks.",
        _frame(order),
        {"first": "%"} | ({figure: unit} if unit else {}),
        Chart.bar("system", "first"),
        name="ranking",
        notes=comparison.warnings,
    )


def _differences(comparison: SystemComparison, figure: str, first: bool) -> Iterator[Section]:
    """The differences of the best systems, with intervals and tests: from the best one, and, for the first figure, every pair."""
    figure_pairs = comparison.of(figure)
    both_ways = (way for pair in figure_pairs for way in (pair, pair.reversed()))
    pairs = {(pair.a.system, pair.b.system): pair for pair in both_ways}
    standings = comparison.standings[figure]
    top = [standing.name for standing in standings[:FOREST]]
    forest = [_of_forest(pairs[system, top[0]]) for system in top[1:] if (system, top[0]) in pairs]
    if not forest:
        return
    points = comparison.units[figure] == "%"
    empty = {name for name in _MAY_BE_EMPTY if all(row[name] is None for row in forest)}
    forest = [{name: value for name, value in row.items() if name not in empty} for row in forest]
    rest = f" The first {FOREST} of {len(standings)} systems are shown." if len(standings) > FOREST else ""
    yield Section(
        f"Is it real? {_titled(figure)}, compared with {top[0]}",
        f"The difference from the best system, {top[0]}: its mean over queries that both answered{', in points' * points}, with "
        "its 95 % interval (orange: it does not hold 0). Where it holds 0, the system may be as good as the best. p (Holm): "
        f"p corrected for all {len(figure_pairs):,} pairs. d: the mean difference over its standard deviation. Least detectable: "
        "the smallest difference that these queries find in 80 % of cases; queries needed: how many would find the one seen so."
        f"{rest}",
        _frame(forest),
        {name: "points" for name in ("difference", "least detectable", "bias removed") if points and name in forest[0]},
        Chart.forest("difference", "system"),
        name="forest" if first else f"forest {figure}",
        notes=comparison.warnings if first else (),
        more=not first,
    )
    if not first:
        return
    matrix = [
        {
            "system": a,
            "compared with": b,
            "difference": pairs[a, b].paired.difference,
            "p (Holm)": pairs[a, b].paired.p_holm,
            "n": pairs[a, b].paired.n_queries,
        }
        for a, b in itertools.permutations(top, 2)
        if (a, b) in pairs
    ]
    yield Section(
        "Every pair",
        f"{_titled(figure)} of the row's system minus that of the column's{', in points' * points}. "
        "A dot marks a difference with p below 5 % after Holm's correction.",
        _frame(matrix),
        {"difference": "points"} if points else {},
        Chart.matrix("compared with", "system", "difference", sure="p (Holm)"),
        name="pairs",
        more=True,
    )


def _of_forest(pair: SystemPair) -> dict[str, Any]:
    """The row of a system's difference from the best one."""
    paired = pair.paired
    return {
        "system": pair.a.system,
        "difference": paired.difference,
        "difference_low": paired.low,
        "difference_high": paired.high,
        "p": paired.p,
        "p (Holm)": paired.p_holm,
        "d": paired.effect,
        "win/tie/loss": f"{paired.wins}/{paired.ties}/{paired.losses}",
        "least detectable": pair.detectable,
        "queries needed": None if paired.queries_needed is None else float(paired.queries_needed),
        "bias removed": None if pair.corrected is None else pair.corrected.difference,
        "n": paired.n_queries,
        "verdict": pair.verdict(),
    }


def _titled(figure: str) -> str:
    """A figure's name at the beginning of a sentence; nDCG and ROUGE-1 stay as they are."""
    return figure.capitalize() if figure.islower() else figure


def _frame(rows: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    return pl.DataFrame(rows, infer_schema_length=None)
