"""Systems compared by their scores query by query: is a difference real, and which system is the best?

Any benchmark that says how its systems scored each query (`Workload.by_query`) is compared here, in `summhay compare` and in the
report, in three steps: the scores become a matrix of queries x systems (`RunScores`); draws from it give differences, ranks and
the best (`metrics.Paired`); a `SystemComparison` has what is shown. May be imported by `benchmark`, the benchmarks,
the report and the API.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import polars as pl
from polars import selectors

from summhay_ray.engine import ByQuery, Chart, Section
from summhay_ray.errors import UserError
from summhay_ray.metrics import LEVEL, JudgeBias, Over, Paired, PairedDifference

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

MOST_PAIRS = 10_000
"""More pairs of systems than this are refused."""
FOREST = 25
"""Systems shown in the forest plot and the matrix: the best ones."""
FEW = 6
"""With fewer clusters than this, only large differences can be shown to hold for other clusters."""
FEW_PAIRS = 10
"""So many pairs of a figure have a line each below the table."""
OTHER_RANK = "\N{DAGGER}"
"""Marks a rank that is another one with every missing answer as 0."""
_QUERY = ("cluster", "query")
_KEYS = ("system", *_QUERY)


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
        sides = {"a": asdict(self.a), "b": asdict(self.b), "differs": self.paired.differs, "paired": asdict(self.paired)}
        corrected = None if self.corrected is None else asdict(self.corrected)
        return {"figure": self.figure, "unit": self.unit, **sides, "verdict": self.verdict(), "corrected": corrected}


@dataclass(frozen=True, slots=True)
class Standing:
    """A system's place among others. Systems are ranked on the queries that all of them answered, by `common`.

    One that answered fewer than half of its queries has no rank, and the others are ranked on what they answered without it.
    """

    name: str
    mean: float | None
    """Mean over the queries that it answered, with equal weights."""
    common: float | None
    """Mean over the queries that all ranked systems answered."""
    floor: float
    """Mean with every missing answer as 0."""
    missing: float
    """Share of its queries without an answer."""
    n_queries: int
    """Queries that it answered."""
    n_expected: int
    n_common: int
    """Queries that all ranked systems answered."""
    rank: int | None = None
    """From 1; equal systems share the better rank."""
    rank_low: int | None = None
    """Simultaneous 95 % interval of its rank, from the comparison of all pairs."""
    rank_high: int | None = None
    rank_floor: int | None = None
    """Its rank by `floor` among the ranked systems."""
    rank_differs: bool = False
    """Whether missing answers decide its rank: `rank_floor` is another one."""
    from_best: float | None = None
    """`common` minus that of the best other system, with Hsu's simultaneous 95 % interval."""
    from_best_low: float | None = None
    from_best_high: float | None = None
    may_be_best: bool | None = None
    """Whether it cannot be told from the best (Hsu); in 95 % of cases the best system is among those of which this is said."""


@dataclass(frozen=True)
class SystemComparison:
    """Systems compared in pairs, and their ranking with its uncertainty."""

    runs: tuple[str, ...]
    pairs: Sequence[SystemPair]
    """Figure by figure. Intervals and p-values hold for all pairs of a figure together."""
    standings: Mapping[str, Sequence[Standing]]
    """Figure -> the compared systems, best first."""
    warnings: Sequence[str]
    units: Mapping[str, str]
    """Figure -> its unit: %, or empty for the figure's own scale."""
    about: Mapping[str, str]
    """Figure -> what its intervals, p-values and ranks hold for, such as `further queries of these 2 haystacks`."""
    cluster: str = "haystack"
    """What a cluster of queries is."""

    @property
    def judge(self) -> str:
        """The judge of the scores; `A and B` for two runs with a judge each; empty if the scores are nobody's judgments."""
        return " and ".join(dict.fromkeys(side.judge for pair in self.pairs for side in (pair.a, pair.b) if side.judge))

    def of(self, figure: str) -> list[SystemPair]:
        """The pairs of one figure."""
        return [pair for pair in self.pairs if pair.figure == figure]

    def best(self, figure: str) -> list[str]:
        """The systems that cannot be told from the best; among them is the best with a probability of 95 %."""
        return [standing.name for standing in self.standings[figure] if standing.may_be_best]

    @property
    def table(self) -> pl.DataFrame:
        """One row per pair and figure, with the fields of `PairedDifference` and the verdict; fractions, not points."""
        rows = []
        for pair in self.pairs:
            named = {"figure": pair.figure, "system_a": pair.a.system, "system_b": pair.b.system, "verdict": pair.verdict()}
            found = {"differs": pair.paired.differs, **asdict(pair.paired)}
            rows.append({**named, **found, "run_a": pair.a.run, "run_b": pair.b.run})
        return _frame(rows)

    def _repr_html_(self) -> str:
        """For a notebook."""
        return str(self.table._repr_html_())

    def to_json(self) -> dict[str, Any]:
        """The JSON document that `summhay compare` prints for systems."""
        return {
            "runs": list(self.runs),
            "judge": self.judge or None,
            "cluster": self.cluster,
            "about": dict(self.about),
            "pairs": [pair.to_json() for pair in self.pairs],
            "standings": {figure: [asdict(standing) for standing in order] for figure, order in self.standings.items()},
            "best": {
                figure: {"systems": self.best(figure), "error_rate": LEVEL, "method": "Hsu's multiple comparisons with the best"}
                for figure in self.standings
            },
            "warnings": list(self.warnings),
        }

    def name(self, side: Side) -> str:
        """A side's name in tables, as in `standings`."""
        return side.system if len(self.runs) == 1 else f"{side.run} {side.system}"

    def judged(self, figure: str) -> str:
        """A figure with the judge whose scores it is of."""
        return f"{figure}, judged by {self.judge}" if self.judge else figure

    def sections(self) -> Iterator[Section]:
        """What `summhay compare` shows: of each figure the pairs and, of more than two systems or with missing answers, their
        ranking. How to read them is told once."""
        for place, (figure, standings) in enumerate(self.standings.items()):
            pairs = _pairs_section(self, figure, self.of(figure), each_told=False)
            shown = {"differences": replace(pairs, notes=self._verdicts(figure))}
            if len(standings) > 2 or any(standing.missing for standing in standings):
                shown["order"] = _ranking(self, figure)
            for what, section in shown.items():
                title = f"{self.judged(figure)}: {what}, for {self.about[figure]}"
                yield replace(section, title=title, text="" if place else section.text, chart=None)

    def _verdicts(self, figure: str) -> list[str]:
        """A line for each of few pairs, one for many."""
        pairs = self.of(figure)
        if len(pairs) > FEW_PAIRS:
            differ = sum(pair.paired.differs for pair in pairs)
            return [
                f"{self.judged(figure)}: {differ:,} of {len(pairs):,} pairs differ (family-wise error 5 %); the others are not "
                "shown to differ"
            ]
        named = [(pair, self.name(pair.a), self.name(pair.b)) for pair in pairs]
        return [
            f"{self.judged(figure)}, {a} and {b}: {pair.paired.verdict(a, b, pair.unit, pair.cluster)}" for pair, a, b in named
        ]


@dataclass(frozen=True, slots=True)
class Unbiased:
    """How a judge's bias is taken off a system's scores: score * factor - shift."""

    bias: JudgeBias
    """The part of its uncertainty that two sides with one bias share cancels."""
    factor: float = 1.0
    shift: float = 0.0
    slope: float = 1.0
    """How much the score moves with the judge's bias."""


class RunScores:
    """One run's scores by query.

    `judge`: that of the scores; empty if they are nobody's judgments. By system, where a benchmark has them: its `models`, and
    `aliases` by which it may be called. `unbiased`: by figure and system, where a judge's bias is known and applies.
    """

    def __init__(
        self,
        run: str,
        by_query: ByQuery,
        judge: str = "",
        models: Mapping[str, str] = MappingProxyType({}),
        aliases: Mapping[str, str] = MappingProxyType({}),
        unbiased: Mapping[tuple[str, str], Unbiased] = MappingProxyType({}),
    ) -> None:
        self.run, self.judge, self.cluster = run, judge, by_query.cluster
        self.models, self.unbiased = models, unbiased
        self.units = {name: by_query.units.get(name, "") for name in by_query.scores.columns if name not in _KEYS}
        self.frame = _by_figure(by_query, [*self.units])
        self.systems = {name: aliases.get(name, name) for name in self.frame["system"].unique().sort()}
        """System -> another name by which it may be called."""

    def side(self, system: str) -> Side:
        """The system as a side of a pair."""
        return Side(self.run, system, self.models.get(system, ""), self.judge)


def _by_figure(by_query: ByQuery, figures: Sequence[str]) -> pl.DataFrame:
    """A row for each query, system and figure: its `value`; `least`, the value with what is missing as 0; and whether the query
    was `answered` and `asked`, null if the benchmark does not say."""
    own, keys = pl.col(figures), [*_KEYS, "figure"]
    scores = _keyed(by_query.scores).with_columns(own.cast(pl.Float64).fill_nan(None))
    scores = scores.filter(pl.any_horizontal(own.is_not_null()))
    expected = scores.select(_KEYS).clear() if by_query.expected is None else _keyed(by_query.expected)
    named = pl.concat([scores.select(_KEYS), expected.select(_KEYS)])
    every = pl.DataFrame({"figure": figures}, schema={"figure": pl.String})
    # An answer may lack a figure of `may_lack`: one of the others tells that there is one.
    others = [pl.col(name).is_not_null() for name in figures if name not in by_query.may_lack]
    answers = scores.with_columns(_others=pl.any_horizontal(pl.lit(False), *others))
    values = answers.unpivot(figures, index=[*_KEYS, "_others"], variable_name="figure", value_name="value")
    due = expected if "figure" in expected.columns else expected.join(every, how="cross")
    share = pl.col("scored") if "scored" in due.columns else pl.lit(1.0)
    asked = due.select(*keys, asked=pl.lit(True), share=share).unique(keys)
    grid = named.select("system").unique().join(named.select(_QUERY).unique(), how="cross").join(every, how="cross")
    may_lack = pl.col("_others").fill_null(False) & pl.col("figure").is_in([*by_query.may_lack])
    return (
        grid.join(values, on=keys, how="left")
        .join(asked, on=keys, how="left")
        .select(
            *keys,
            "value",
            least=(pl.col("value") * pl.col("share").fill_null(1.0)).fill_null(0.0),
            answered=pl.col("value").is_not_null() | may_lack,
            asked=pl.col("asked") if by_query.expected is None else pl.col("asked").fill_null(False),
        )
    )


def _keyed(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame with a cluster, and keys of types that can be joined."""
    whole = frame if "cluster" in frame.columns else frame.with_columns(cluster=pl.lit(""))
    numbers = selectors.by_name(*_QUERY) & selectors.integer()
    return whole.with_columns(numbers.cast(pl.Int64), (selectors.by_name(*_KEYS) - numbers).cast(pl.String))


Chosen = Sequence[tuple[tuple[int, str], tuple[int, str]]]
"""Pairs of systems, each as (index of the run, system)."""


def compare_runs(
    runs: Sequence[RunScores], systems: Sequence[str] = (), seed: int = 0, over: Over = "queries"
) -> SystemComparison:
    """Compare systems of one or two runs on the queries that both answered. Raises UserError if there is nothing to compare.

    `systems`: two names or patterns (`*` matches anything). In one run, systems that match the first are compared with those
    that match the second; by default, every pair. In two runs, the first applies to the first run and the second to the
    second; by default, systems of the same name are compared. `over`: whether the results generalize to further queries of
    these clusters, or to other clusters.
    """
    _shared_figures(runs)
    comparison = compare_pairs(runs, _pairs(runs, systems), seed, over=over)
    if comparison is None:
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


def every_pair(run: RunScores, figures: Sequence[str] = ()) -> SystemComparison | None:
    """Every pair of a run's systems; None for fewer than two systems, too many pairs, or none on the same queries."""
    return compare_pairs([run], list(itertools.combinations([(0, name) for name in run.systems], 2)), figures=figures)


def compare_pairs(
    runs: Sequence[RunScores], chosen: Chosen, seed: int = 0, figures: Sequence[str] = (), over: Over = "queries"
) -> SystemComparison | None:
    """Compare the chosen pairs in each figure (by default, in all), together. None without pairs, with too many, or if none has
    a scored query in common.

    Raises UserError without a common figure, or a common query that is scored.
    """
    import numpy as np

    if not 1 <= len(chosen) <= MOST_PAIRS:
        return None
    sides = sorted(set(itertools.chain.from_iterable(chosen)))
    columns = [(sides.index(a), sides.index(b)) for a, b in chosen]
    frames = [run.frame.with_columns(run=pl.lit(index, pl.Int64)) for index, run in enumerate(runs)]
    queries = functools.reduce(lambda frame, other: frame.join(other, on=_QUERY, how="semi"), frames)
    if queries.is_empty():
        raise UserError(f"{_named(runs)} have no query in common that is scored in both")
    compared = pl.DataFrame(sides, schema={"run": pl.Int64, "system": pl.String}, orient="row")
    scores = pl.concat(frames).join(compared, on=["run", "system"], how="semi").join(queries, on=_QUERY, how="semi")
    scores = scores.sort(*_QUERY, "run", "system")
    pairs: list[SystemPair] = []
    standings, about, cluster = {}, {}, runs[0].cluster
    names = [system if len(runs) == 1 else f"{runs[index].run} {system}" for index, system in sides]
    warnings: dict[str, None] = {}
    for figure in figures or _shared_figures(runs):
        own, unit = scores.filter(pl.col("figure") == figure), runs[0].units[figure]
        values = _matrix(own, "value", len(sides))
        there = ~np.isnan(values).all(axis=1)
        values, clusters = values[there], own["cluster"].gather_every(len(sides)).filter(there).to_list()
        paired, most = Paired(clusters, seed, over=over), 1.0 if unit == "%" else math.inf
        differences = paired.differences(values, columns, most=most)
        if not any(differences):
            continue
        unbiased = [runs[index].unbiased.get((figure, system)) for index, system in sides]
        corrected = _corrected(paired, values, columns, unbiased, most)
        for (a, b), difference, without in zip(columns, differences, corrected, strict=True):
            if difference is not None:
                one, other = (runs[index].side(system) for index, system in (sides[a], sides[b]))
                pairs.append(SystemPair(figure, one, other, difference, without, unit, cluster))
        standings[figure] = _standings(own, names, seed, over)
        n = len(set(clusters))
        these = f"this {cluster}" if n == 1 else f"these {n} {cluster}s"
        about[figure] = f"further queries of {these}" if paired.over == "queries" else f"other {cluster}s than these {n}"
        if over == "haystacks" and n == 1:
            warnings[f"one {cluster} says nothing of others: the figures are about further queries of it"] = None
        elif over == "haystacks" and n < FEW:
            warnings[f"{n} {cluster}s are few: only large differences can be shown to hold for others"] = None
    if not pairs:
        return None
    if len({run.judge for run in runs}) > 1:
        warnings["the runs are judged by different judges: a difference may be theirs"] = None
    units = {figure: runs[0].units[figure] for figure in standings}
    return SystemComparison(tuple(run.run for run in runs), pairs, standings, list(warnings), units, about, cluster)


def _corrected(
    paired: Paired, values: Floats, pairs: Sequence[tuple[int, int]], unbiased: Sequence[Unbiased | None], most: float
) -> Sequence[PairedDifference | None]:
    """The differences without the judges' bias, whose uncertainty is added; None for pairs of which it is unknown."""
    import numpy as np

    scaled, extra = values.copy(), {}
    for column, one in enumerate(unbiased):
        if one is not None:
            scaled[:, column] = values[:, column] * one.factor - one.shift
    for pair in pairs:
        one, other = (unbiased[side] for side in pair)
        if one is not None and other is not None:
            ends = one.slope * one.bias.se, other.slope * other.bias.se
            extra[pair] = abs(ends[0] - ends[1]) if one.bias == other.bias else math.hypot(*ends)
    found = paired.differences(scaled, list(extra), np.array(list(extra.values())), most) if extra else []
    known = dict(zip(extra, found, strict=True))
    return [known.get(pair) for pair in pairs]


def _matrix(scores: pl.DataFrame, column: str, systems: int) -> NDArray[Any]:
    """A column as (queries, systems)."""
    return scores[column].to_numpy().reshape(-1, systems)


def _standings(scores: pl.DataFrame, names: Sequence[str], seed: int, over: Over) -> list[Standing]:
    """The systems, ranked first, then those without a rank. `scores`: as of `_by_figure`, of one figure; of each query, a row
    for each of the systems `names`."""
    import numpy as np
    from scipy import stats

    # Where a benchmark does not say what was asked: all that was answered by one of them.
    by_one = pl.col("answered").any().over(_QUERY)
    scores = scores.with_columns(asked=pl.coalesce("asked", by_one) | pl.col("answered"))
    values, least, answered, asked = (_matrix(scores, name, len(names)) for name in ("value", "least", "answered", "asked"))
    # An answer without the figure is not missing; its mean is over the others.
    counted = asked & ~(answered & np.isnan(values))
    n, expected = answered.sum(axis=0), asked.sum(axis=0)
    ranked = (2 * n >= expected) & (n > 0)
    common = answered[:, ranked].all(axis=1) & ranked.any()
    ranked &= ~np.isnan(values[common]).all(axis=0)
    floors = np.where(counted, least, 0.0).sum(axis=0) / np.maximum(1, counted.sum(axis=0))
    places = np.flatnonzero(ranked)
    more: dict[int, dict[str, Any]] = {}
    if len(places):
        kept = values[np.ix_(common, places)]
        means = np.array([np.nanmean(column) for column in kept.T])
        ranks, by_floor = (stats.rankdata(-np.round(of, 9), method="min").astype(int).tolist() for of in (means, floors[places]))
        columns = {"common": means.tolist(), "rank": ranks, "rank_floor": by_floor}
        if len(places) * (len(places) - 1) // 2 <= MOST_PAIRS:
            clusters = scores["cluster"].gather_every(len(names)).filter(common)
            columns |= Paired(clusters.to_list(), seed, over=over).ranks(kept)
        for place, *row in zip(places.tolist(), *columns.values(), strict=True):
            own = dict(zip(columns, row, strict=True))
            more[place] = {**own, "rank_differs": own["rank"] != own["rank_floor"]}
    standings = [
        Standing(
            name=name,
            mean=None if np.isnan(values[:, place]).all() else float(np.nanmean(values[:, place])),
            floor=float(floors[place]),
            missing=1 - float(n[place] / expected[place]),
            n_queries=int(n[place]),
            n_expected=int(expected[place]),
            n_common=int(common.sum()),
            **more.get(place, {"common": None}),
        )
        for place, name in enumerate(names)
        if counted[:, place].any()
    ]
    return sorted(standings, key=lambda one: (one.rank is None, one.rank or 0, -one.floor, one.name))


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


# --- what is shown -------------------------------------------------------------------------------------------------------


def comparison_sections(comparison: SystemComparison) -> Iterator[Section]:
    """The report's sections: for the first figure the ranking, the comparison with the best and every pair; for each further
    figure the comparison with its best."""
    first, *others = comparison.standings
    ranking = _ranking(comparison, first)
    yield replace(ranking, notes=[*ranking.notes, *comparison.warnings])
    yield from _with_best(comparison, first, first=True)
    both_ways = (way for pair in comparison.of(first) for way in (pair, pair.reversed()))
    pairs = {(pair.a.system, pair.b.system): pair for pair in both_ways}
    top = itertools.permutations((standing.name for standing in comparison.standings[first][:FOREST]), 2)
    if shown := [pairs[names] for names in top if names in pairs]:
        yield _pairs_section(comparison, first, shown, each_told=True)
    for figure in others:
        yield from _with_best(comparison, figure, first=False)


def _ranking(comparison: SystemComparison, figure: str) -> Section:
    """The ranking of systems with its uncertainty, and what missing answers could change."""
    standings, unit = comparison.standings[figure], comparison.units[figure]
    text = (
        f"Systems by their mean {figure} over queries. Rank interval: all of them hold the true ranks together in 95 % of cases, "
        f"for {comparison.about[figure]}. Equal systems share the better rank."
    )
    silent = any(standing.missing for standing in standings)
    means = {figure: "mean"}
    if silent:
        means = {f"{figure}, common queries": "common", f"{figure}, answered queries": "mean", f"{figure}, missing as 0": "floor"}
        text += (
            f" They are ranked on the {standings[0].n_common} queries that all of them answered; one that answered fewer than "
            f"half has no rank. {OTHER_RANK}: in brackets another rank, with every missing answer as 0."
        )
    order = [
        {
            "system": standing.name,
            "rank": _rank(standing),
            "rank interval": "-" if standing.rank_low is None else f"{standing.rank_low} to {standing.rank_high}",
            **{name: getattr(standing, field) for name, field in means.items()},
            **({"missing": standing.missing, "asked": standing.n_expected} if silent else {}),
            "n": standing.n_queries,
        }
        for standing in standings
    ]
    units = (dict.fromkeys(means, unit) if unit else {}) | ({"missing": "%"} if silent else {})
    best = _best_line(comparison, figure)
    return Section("Which system is the best?", text, _frame(order, *means), units, name="ranking", notes=[best])


def _rank(standing: Standing) -> str:
    """A rank, with the rank by `floor` where that is another one."""
    if standing.rank is None:
        return "-"
    return f"{standing.rank}{OTHER_RANK} ({standing.rank_floor})" if standing.rank_differs else f"{standing.rank}"


def _best_line(comparison: SystemComparison, figure: str, most: int = 12) -> str:
    """The systems that cannot be told from the best, in a sentence with its judge and error rate."""
    best, n = comparison.best(figure), sum(standing.rank is not None for standing in comparison.standings[figure])
    names = ", ".join(best[:most]) + (f" and {len(best) - most} more" if len(best) > most else "")
    error = f"(Hsu's comparison with the best, error rate 5 %, for {comparison.about[figure]})"
    if not n:
        known = "no query was answered by all of these systems: none is ranked"
    elif not best:
        known = f"{n} systems are too many to be compared with the best"
    elif len(best) == 1:
        known = f"{best[0]} is the best {error}"
    else:
        known = f"{len(best)} of {n} systems cannot be told from the best: {names} {error}"
    return f"{comparison.judged(figure)}: {known}"


def _with_best(comparison: SystemComparison, figure: str, first: bool) -> Iterator[Section]:
    """Hsu's comparison of each ranked system with the best of the others."""
    known = [standing for standing in comparison.standings[figure] if standing.from_best is not None]
    if len(known) < 2:
        return
    points = comparison.units[figure] == "%"
    rest = f" The first {FOREST} of {len(known)} systems are shown." if len(known) > FOREST else ""
    apart = "from the best other"
    ends = (apart, f"{apart}_low", f"{apart}_high")
    forest = [
        {
            "system": standing.name,
            **dict(zip(ends, (standing.from_best, standing.from_best_low, standing.from_best_high), strict=True)),
            "may be the best": "yes" if standing.may_be_best else "no",
            "n": standing.n_common,
        }
        for standing in known[:FOREST]
    ]
    yield Section(
        f"Is it real? {_titled(figure)}, compared with the best",
        f"The mean {figure} of each system minus that of the best other system{', in points' * points}, on the queries that all "
        "answered, with Hsu's multiple comparisons with the best: all intervals hold the truth together in 95 % of cases, for "
        f"{comparison.about[figure]}. Where one ends at 0 (orange), the system is not the best or, above 0, it is.{rest}",
        _frame(forest, *ends),
        {apart: "points"} if points else {},
        Chart.forest(apart, "system"),
        name="forest" if first else f"forest {figure}",
        more=not first,
    )


def _pairs_section(comparison: SystemComparison, figure: str, pairs: Sequence[SystemPair], each_told: bool) -> Section:
    """These pairs of a figure, with simultaneous intervals. `each_told`: with a verdict in each row."""
    points, n_pairs = comparison.units[figure] == "%", len(comparison.of(figure))
    rows = [
        {
            "system": comparison.name(pair.a),
            "compared with": comparison.name(pair.b),
            **_interval("difference", pair.paired),
            "p": pair.paired.p,
            "p (all pairs)": pair.paired.p_adjusted,
            "d": pair.paired.effect,
            "win/tie/loss": f"{pair.paired.wins}/{pair.paired.ties}/{pair.paired.losses}",
            "least detectable": pair.detectable,
            "queries needed": None if pair.paired.queries_needed is None else float(pair.paired.queries_needed),
            **_interval("bias removed", pair.corrected),
            f"{comparison.cluster}s": pair.paired.n_haystacks,
            "n": pair.paired.n_queries,
            "verdict": pair.verdict() if each_told else None,
        }
        for pair in pairs
    ]
    table = _frame(rows)
    table = table.select(name for name in table.columns if table[name].null_count() < table.height)
    removed = " Bias removed: the difference without the judge's bias against people." if "bias removed" in table.columns else ""
    return Section(
        "Is it real? Every pair",
        f"{_titled(figure)} of the row's system minus that of the one that it is compared with{', in points' * points}, on the "
        "queries that both answered. p: Student's t of the pair alone. Intervals and p (all pairs) hold for all "
        f"pairs together ({n_pairs:,}; single-step max-T, family-wise error 5 %), for {comparison.about[figure]}: a pair differs "
        "where its interval excludes 0, which a dot marks in the figure. d: the mean difference over its standard deviation. "
        "Win/tie/loss: queries. Least detectable: the smallest difference that these queries show in 80 % of cases; queries "
        f"needed: how many would show the one seen so.{removed}",
        table,
        {name: "points" for name in ("difference", "least detectable", "bias removed") if points and name in table.columns},
        Chart.matrix("compared with", "system", "difference", sure="p (all pairs)"),
        name="pairs",
        more=True,
    )


def _interval(name: str, paired: PairedDifference | None) -> dict[str, float | None]:
    """A difference and its ends as columns of a table."""
    known = (None, None, None) if paired is None else (paired.difference, paired.low, paired.high)
    return dict(zip((name, f"{name}_low", f"{name}_high"), known, strict=True))


def _titled(figure: str) -> str:
    """A figure's name at the beginning of a sentence; nDCG and ROUGE-1 stay as they are."""
    return figure.capitalize() if figure.islower() else figure


def _frame(rows: Sequence[Mapping[str, Any]], *floats: str) -> pl.DataFrame:
    """`floats`: columns that are of floats also where all values are missing."""
    return pl.DataFrame(rows, infer_schema_length=None, schema_overrides=dict.fromkeys(floats, pl.Float64))
