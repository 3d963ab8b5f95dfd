"""Systems compared by their scores query by query: is a difference real, and which system is the best?

Any benchmark that says how its systems scored each query (`Workload.by_query`) is compared here, in `summhay compare` and in the
report, in three steps: the scores become a matrix of queries x systems (`RunScores`); draws from it give differences, ranks and
the best (`metrics.Paired`); a `SystemComparison` has what is shown. May be imported by `benchmark`, the benchmarks,
the report and the API.
"""

from __future__ import annotations

import copy
import functools
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import polars as pl
from polars import selectors

from summhay_ray.engine import ByQuery, Chart, Section
from summhay_ray.errors import UserError
from summhay_ray.metrics import LEVEL, JudgeBias, Over, Paired

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
NAMED = 12
"""Systems named in the line on the best."""
ENDS = {"": "difference", "_low": "low", "_high": "high"}
"""End of a column's name -> what it has of a difference."""
_QUERY = ("cluster", "query")
_KEYS = ("system", *_QUERY)
STANDING = pl.Schema(
    {
        "name": pl.String,  # the system's key, after that of its run if there are two
        "label": pl.String,  # likewise, for people
        "mean": pl.Float64,  # over the queries that it answered, with equal weights
        "common": pl.Float64,  # mean over the queries that all ranked systems answered: by it they are ranked
        "floor": pl.Float64,  # mean with every missing answer as 0
        "missing": pl.Float64,  # share of its queries without an answer
        "n_queries": pl.Int64,  # that it answered
        "n_expected": pl.Int64,
        "n_common": pl.Int64,  # that all ranked systems answered
        "rank": pl.Int64,  # from 1; equal systems share the better rank; null if it answered fewer than half of its queries
        "rank_low": pl.Int64,  # this and the following as of `metrics.Paired.ranks`
        "rank_high": pl.Int64,
        "rank_floor": pl.Int64,  # its rank by `floor` among the ranked systems
        "rank_differs": pl.Boolean,  # missing answers decide its rank: `rank_floor` is another one
        "from_best": pl.Float64,
        "from_best_low": pl.Float64,
        "from_best_high": pl.Float64,
        "may_be_best": pl.Boolean,
    }
)
"""A system's place among others."""


@dataclass(frozen=True)
class SystemComparison:
    """Systems compared in pairs, and their ranking with its uncertainty."""

    runs: tuple[str, ...]
    pairs: pl.DataFrame
    """A row per figure and pair: `figure`, its `unit`, `a` and `b` (each with `run`, `system`, `label`, `model`, `retriever`,
    `ordering`, `judge`), `differs`, `paired` (fields of `metrics.Paired.differences`, for all pairs of the figure together),
    `verdict`, `corrected` (likewise, without each judge's bias relative to people; null if one is unknown or does not apply),
    `labelled` (likewise, corrected by people's labels)."""
    standings: Mapping[str, pl.DataFrame]
    """Figure -> the compared systems, best first, with the columns of STANDING."""
    warnings: Sequence[str]
    about: Mapping[str, str]
    """Figure -> what its intervals, p-values and ranks hold for, such as `further queries of these 2 haystacks`."""
    units: Mapping[str, str]
    """Figure -> its unit: %, or empty for the figure's own scale."""
    judge: str = ""
    """The judge of the scores; `A and B` for two runs with a judge each; empty if the scores are nobody's judgments."""
    cluster: str = "haystack"
    """What a cluster of queries is."""

    def of(self, figure: str) -> pl.DataFrame:
        """The pairs of one figure."""
        return self.pairs.filter(pl.col("figure") == figure)

    def best(self, figure: str) -> list[str]:
        """The keys of the systems that cannot be told from the best; among them is the best with a probability of 95 %."""
        return self.standings[figure].filter("may_be_best")["name"].to_list()

    @property
    def table(self) -> pl.DataFrame:
        """One row per pair and figure, with the fields of `paired` and the verdict; fractions, not points."""
        a, b = (pl.col(side).struct.field for side in "ab")
        named = ("figure", a("system").alias("system_a"), b("system").alias("system_b"), "verdict", "differs", "paired")
        return self.pairs.select(*named, a("run").alias("run_a"), b("run").alias("run_b")).unnest("paired")

    def _repr_html_(self) -> str:
        """For a notebook."""
        return str(self.table._repr_html_())

    def to_json(self) -> dict[str, Any]:
        """The JSON document that `summhay compare` prints for systems."""
        told = {"error_rate": LEVEL, "method": "Hsu's multiple comparisons with the best"}
        return {
            "runs": list(self.runs),
            "judge": self.judge or None,
            "cluster": self.cluster,
            "about": dict(self.about),
            "pairs": self.pairs.to_dicts(),
            "standings": {figure: order.to_dicts() for figure, order in self.standings.items()},
            "best": {figure: {"systems": self.best(figure), **told} for figure in self.standings},
            "warnings": list(self.warnings),
        }

    def judged(self, figure: str) -> str:
        """A figure with the judge whose scores it is of."""
        return f"{figure}, judged by {self.judge}" if self.judge else figure

    def sections(self) -> Iterator[Section]:
        """What `summhay compare` shows: of each figure the pairs and, of more than two systems or with missing answers, their
        ranking. How to read them is told once."""
        for place, (figure, standings) in enumerate(self.standings.items()):
            shown = {"differences": replace(_pairs_section(self, figure, self.of(figure)), notes=self._verdicts(figure))}
            if standings.height > 2 or (standings["missing"] > 0).any():
                shown["order"] = _ranking(self, figure)
            for what, section in shown.items():
                title = f"{self.judged(figure)}: {what}, for {self.about[figure]}"
                yield replace(section, title=title, text="" if place else section.text, chart=None)

    def _verdicts(self, figure: str) -> list[str]:
        """A line for each of few pairs, one for many."""
        pairs, judged = self.of(figure), self.judged(figure)
        if pairs.height > FEW_PAIRS:
            differ = f"{pairs['differs'].sum():,} of {pairs.height:,} pairs differ (family-wise error 5 %)"
            return [f"{judged}: {differ}; the others are not shown to differ"]
        shown, unit = pairs.select(_named(self, "a"), _named(self, "b"), "paired"), self.units[figure]
        return [f"{judged}, {a} and {b}: {_verdict(found, a, b, unit, self.cluster)}" for a, b, found in shown.iter_rows()]


def _verdict(found: Mapping[str, Any], a: str, b: str, unit: str, cluster: str) -> str:
    """The result of a pair in one sentence. `a` and `b`: the systems' labels."""
    n, n_haystacks, needed = found["n_queries"], found["n_haystacks"], found["queries_needed"]
    if found["se"] is None:
        equal = f"not known: equal on {n:,} quer{'ies' if n > 1 else 'y'}"
        return equal if found["ties"] == n else f"not known: too few queries or {cluster}s to tell"
    if found["p_adjusted"] < LEVEL:
        higher, by = (a if found["difference"] > 0 else b), abs(found["difference"])
        corrected = f" for {found['n_pairs']:,} pairs" if found["n_pairs"] > 1 else ""
        apart = f"{100 * by:.1f} points" if unit == "%" else f"{by:.3g}"
        return f"differs: {higher} is higher by {apart} (p {found['p_adjusted']:.4f}{corrected})"
    if needed is None:
        return "not shown to differ; no number of queries would show so small a difference"
    if needed <= n:
        return "not shown to differ; a few more queries may show it"
    haystacks = math.ceil((needed - n) * n_haystacks / n)
    where = f", in {haystacks:,} further {cluster}{'s'[: haystacks > 1]}," if found["over"] == "haystacks" else ""
    return f"not shown to differ; about {needed - n:,} more quer{'ies' if needed - n > 1 else 'y'}{where} would be needed"


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

    `judge`: that of the scores; empty if they are nobody's judgments. `names`: of a system whose key is no name for people,
    by key: its `label`, `model`, `retriever` and `ordering`. `unbiased`: by figure and system, where a judge's bias is known and
    applies; `labelled`: by people's labels.
    """

    def __init__(
        self,
        run: str,
        by_query: ByQuery,
        judge: str = "",
        names: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
        unbiased: Mapping[tuple[str, str], Unbiased] = MappingProxyType({}),
        labelled: Mapping[tuple[str, str], Unbiased] = MappingProxyType({}),
    ) -> None:
        self.run, self.judge, self.cluster = run, judge, by_query.cluster
        self.unbiased, self.labelled = unbiased, labelled
        self.names = {name: {"label": label} for name, label in by_query.labels.items()} | dict(names)
        self.units = {name: by_query.units.get(name, "") for name in by_query.scores.columns if name not in _KEYS}
        self.frame = _by_figure(by_query, [*self.units])
        self.systems = [*self.frame["system"].unique().sort()]
        """The systems' keys."""

    def label(self, system: str) -> str:
        """The system's name for people."""
        return self.names[system]["label"] if system in self.names else system

    def side(self, system: str) -> dict[str, str]:
        """The system as a side of a pair."""
        names = dict.fromkeys(("model", "retriever", "ordering"), "") | dict(self.names.get(system, {}))
        return {"run": self.run, "system": system, "label": self.label(system), **names, "judge": self.judge}


def by_factor(run: RunScores, factors: Mapping[str, tuple[str, str]]) -> RunScores:
    """The scores of each value of a factor instead of each system's: on each query, the mean over the other factor's values.

    `factors`: system -> (value of the factor, value of the other). All values are averaged over the same others: those that each
    value has been combined with. What one of them lacks, the mean lacks. Raises UserError if there are none.
    """
    others: dict[str, set[str]] = {}
    for value, other in factors.values():
        others.setdefault(value, set()).add(other)
    shared = set.intersection(*others.values()) if others else set[str]()
    if len(others) < 2 or not shared:
        why = "no value of the other factor is combined with all of them" if len(others) > 1 else "there is only one"
        raise UserError(f"{run.run}: {', '.join(sorted(others))[:200]}: {why}; compare systems with --systems A B")
    kept = [(name, value) for name, (value, other) in factors.items() if other in shared]
    named = pl.DataFrame(kept, schema={"system": pl.String, "value_of": pl.String}, orient="row")
    whole = pl.col("value").is_not_null().all()
    frame = (
        run.frame.join(named, on="system", how="inner")
        .with_columns(system=pl.col("value_of"))
        .group_by(*_KEYS, "figure", maintain_order=True)
        .agg(
            pl.when(whole).then(pl.col("value").mean()).alias("value"),
            pl.col("least").mean(),
            pl.col("answered").all(),
            pl.col("asked").any(),
        )
    )
    made = copy.copy(run)
    made.frame, made.systems, made.names, made.unbiased = frame, sorted(others), {}, {}
    return made


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
        raise UserError(f"{_named_runs(runs)}: no two of these systems have a scored query in common")
    return comparison


def _named_runs(runs: Sequence[RunScores]) -> str:
    return " and ".join(dict.fromkeys(run.run for run in runs))


def _shared_figures(runs: Sequence[RunScores]) -> list[str]:
    shared = [figure for figure in runs[0].units if all(figure in run.units for run in runs)]
    if not shared:
        scored = "; ".join(f"{run.run}: {', '.join(run.units)}" for run in runs)
        raise UserError(
            f"{_named_runs(runs)} have no figure in common ({scored}); summhay report RUN_A RUN_B puts them side by side"
        )
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
        raise UserError(f"{_named_runs(runs)} have no query in common that is scored in both")
    compared = pl.DataFrame(sides, schema={"run": pl.Int64, "system": pl.String}, orient="row")
    scores = pl.concat(frames).join(compared, on=["run", "system"], how="semi").join(queries, on=_QUERY, how="semi")
    scores = scores.sort(*_QUERY, "run", "system")
    cluster, judge = runs[0].cluster, " and ".join(dict.fromkeys(run.judge for run in runs if run.judge))
    by_judge = f"; judged by {judge}" if judge else ""
    names, labels = (
        [name if len(runs) == 1 else f"{runs[index].run} {name}" for (index, _), name in zip(sides, of, strict=True)]
        for of in ([system for _, system in sides], [runs[index].label(system) for index, system in sides])
    )
    pairs, standings, about = list[pl.DataFrame](), {}, {}
    warnings: dict[str, None] = {}
    for figure in figures or _shared_figures(runs):
        own, unit = scores.filter(pl.col("figure") == figure), runs[0].units[figure]
        values = _matrix(own, "value", len(sides))
        there = ~np.isnan(values).all(axis=1)
        values, clusters = values[there], own["cluster"].gather_every(len(sides)).filter(there).to_list()
        paired, most = Paired(clusters, seed, over=over), 1.0 if unit == "%" else math.inf
        found = paired.differences(values, columns, most=most)
        if not (found["n_queries"] > 0).any():
            continue
        removed = [runs[index].unbiased.get((figure, system)) for index, system in sides]
        labelled = [runs[index].labelled.get((figure, system)) for index, system in sides]
        a, b = ([runs[index].side(system) for index, system in side] for side in zip(*chosen, strict=True))
        sides_told = zip(found.iter_rows(named=True), a, b, strict=True)
        told = [_verdict(row, one["label"], other["label"], unit, cluster) + by_judge for row, one, other in sides_told]
        fields = found.to_struct()
        # Without every judge's bias, nothing is known.
        corrected, by_labels = (
            _corrected(paired, values, columns, known, most) if len(known) == len(sides) else fields.clear(len(fields))
            for known in ([one for one in ways if one] for ways in (removed, labelled))
        )
        given = {"figure": figure, "unit": unit, "a": a, "b": b, "differs": found["p_adjusted"] < LEVEL}
        frame = pl.DataFrame({**given, "paired": fields, "verdict": told, "corrected": corrected, "labelled": by_labels})
        pairs.append(frame.filter(found["n_queries"] > 0))
        standings[figure] = _standings(own, names, labels, seed, over)
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
    return SystemComparison(
        tuple(run.run for run in runs), pl.concat(pairs), standings, list(warnings), about, units, judge, cluster
    )


def _corrected(
    paired: Paired, values: Floats, pairs: Sequence[tuple[int, int]], biases: Sequence[Unbiased], most: float
) -> pl.Series:
    """The differences without the judges' bias, whose uncertainty is added. `biases`: that of each system."""
    import numpy as np

    ends = [one.slope * one.bias.se for one in biases]
    extra = [abs(ends[a] - ends[b]) if biases[a].bias == biases[b].bias else math.hypot(ends[a], ends[b]) for a, b in pairs]
    scaled = values * np.array([one.factor for one in biases]) - np.array([one.shift for one in biases])
    return paired.differences(scaled, pairs, np.array(extra), most).to_struct()


def _matrix(scores: pl.DataFrame, column: str, systems: int) -> NDArray[Any]:
    """A column as (queries, systems)."""
    return scores[column].to_numpy().reshape(-1, systems)


def _ranks(values: NDArray[Any]) -> NDArray[Any]:
    """Each value's rank from 1 for the least; ties get the lowest of theirs."""
    import numpy as np

    return np.searchsorted(np.sort(values), values) + 1.0


def _standings(scores: pl.DataFrame, names: Sequence[str], labels: Sequence[str], seed: int, over: Over) -> pl.DataFrame:
    """The systems, ranked first, then those without a rank. `scores`: as of `_by_figure`, of one figure; of each query, a row
    for each of the systems `names`."""
    import numpy as np

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
    every = {
        "name": names,
        "label": labels,
        "mean": [_mean(column) for column in values.T],
        "floor": floors,
        "missing": 1 - n / np.maximum(1, expected),
        "n_queries": n,
        "n_expected": expected,
        "n_common": [int(common.sum())] * len(names),
    }
    found = pl.DataFrame(every).with_row_index("place")
    if ranked.any():
        kept, own = values[np.ix_(common, ranked)], found.filter(ranked)
        means = np.array([_mean(column) for column in kept.T])
        ranks, by_floor = (_ranks(-np.round(of, 9)) for of in (means, floors[ranked]))
        more = pl.DataFrame(
            {"place": own["place"], "common": means, "rank": ranks, "rank_floor": by_floor, "rank_differs": ranks != by_floor}
        )
        if math.comb(len(means), 2) <= MOST_PAIRS:
            clusters = scores["cluster"].gather_every(len(names)).filter(common)
            more = more.hstack(Paired(clusters.to_list(), seed, over=over).ranks(kept))
        found = found.join(more, on="place", how="left")
    found = pl.concat([pl.DataFrame(schema=STANDING), found.filter(counted.any(axis=0)).drop("place")], how="diagonal_relaxed")
    found = found.cast(STANDING).with_columns(pl.col("rank_differs").fill_null(False))
    return found.sort("rank", "floor", "name", descending=[False, True, False], nulls_last=True)


def _mean(values: Floats) -> float | None:
    """The mean of those that are known."""
    import numpy as np

    return None if np.isnan(values).all() else float(np.nanmean(values))


# --- which pairs ---------------------------------------------------------------------------------------------------------


def _pairs(runs: Sequence[RunScores], wanted: Sequence[str]) -> Chosen:
    pairs: Chosen
    if len(runs) == 2 and not wanted:
        pairs = [((0, name), (1, name)) for name in runs[0].systems if name in runs[1].systems]
        if not pairs:
            known = "; ".join(f"{run.run}: {', '.join(run.systems)}" for run in runs)
            raise UserError(f"no system has the same name in both runs ({known}); name a system of each with --systems A B")
    else:
        sides = zip((0, len(runs) - 1), wanted or ("*", "*"), strict=True)
        first, second = ([(index, name) for name in _matching(runs[index], pattern)] for index, pattern in sides)
        seen = dict.fromkeys((a, b) for a in first for b in second if a != b)
        pairs = [(a, b) for a, b in seen if (b, a) not in seen or a < b]
        if not pairs:
            raise UserError(f"{runs[0].run} has no two systems to compare among {', '.join(runs[0].systems)}")
    if len(pairs) > MOST_PAIRS:
        raise UserError(f"{len(pairs):,} pairs of systems are more than {MOST_PAIRS:,}; name fewer with --systems A B")
    return pairs


def _matching(run: RunScores, pattern: str) -> Iterable[str]:
    """The systems that match a name or pattern, by key or by label."""
    exact = [system for system in run.systems if pattern in (system, run.label(system))]
    found = exact or [one for one in run.systems if fnmatchcase(one, pattern) or fnmatchcase(run.label(one), pattern)]
    if not found:
        raise UserError(f"{run.run} has no scored system {pattern!r}; it has {', '.join(run.systems)}")
    return found


# --- what is shown -------------------------------------------------------------------------------------------------------


def comparison_sections(comparison: SystemComparison) -> Iterator[Section]:
    """The report's sections: for the first figure the ranking, the comparison with the best and every pair; for each further
    figure the comparison with its best."""
    first, *others = comparison.standings
    ranking = _ranking(comparison, first)
    yield replace(ranking, notes=[*ranking.notes, *comparison.warnings])
    yield from _with_best(comparison, first)
    top, pairs = comparison.standings[first]["name"].head(FOREST), comparison.of(first)
    both_ways = pl.concat(
        [
            pairs,
            pairs.with_columns(
                a="b", b="a", paired=_turned("paired"), corrected=_turned("corrected"), labelled=_turned("labelled")
            ),
        ]
    )
    a, b = (pl.col(side).struct.field("system") for side in "ab")
    shown = both_ways.filter(a.is_in(top.implode()) & b.is_in(top.implode()))
    if shown.height:
        ordered = shown.sort(*(side.replace_strict(top, range(len(top))) for side in (a, b)))
        yield _pairs_section(comparison, first, ordered, each_told=True)
    for figure in others:
        yield from _with_best(comparison, figure, f"forest {figure}")


def _turned(paired: str) -> pl.Expr:
    """The differences of A from B as those of B from A."""
    of = pl.col(paired).struct.field
    turned = {"difference": -of("difference"), "low": -of("high"), "high": -of("low"), "effect": -of("effect")}
    return pl.col(paired).struct.with_fields(wins=of("losses"), losses=of("wins"), **turned)


def _ranking(comparison: SystemComparison, figure: str) -> Section:
    """The ranking of systems with its uncertainty, and what missing answers could change."""
    standings, unit = comparison.standings[figure], comparison.units[figure]
    text = (
        f"Systems by their mean {figure} over queries. Rank interval: all of them hold the true ranks together in 95 % of cases, "
        f"for {comparison.about[figure]}. Equal systems share the better rank."
    )
    means, more, units = {figure: "mean"}, {}, {}
    if (standings["missing"] > 0).any():
        means = {f"{figure}, common queries": "common", f"{figure}, answered queries": "mean", f"{figure}, missing as 0": "floor"}
        more, units = {"missing": "missing", "asked": "n_expected"}, {"missing": "%"}
        text += (
            f" They are ranked on the {standings['n_common'][0]} queries that all of them answered; one that answered fewer than "
            f"half has no rank. {OTHER_RANK}: in brackets another rank, with every missing answer as 0."
        )
    other = pl.when("rank_differs").then(pl.format(f"{OTHER_RANK} ({{}})", "rank_floor")).otherwise(pl.lit(""))
    columns = {
        "system": pl.col("label"),
        "rank": pl.format("{}{}", "rank", other).fill_null("-"),
        "rank interval": pl.format("{} to {}", "rank_low", "rank_high").fill_null("-"),
        **{name: pl.col(column) for name, column in {**means, **more, "n": "n_queries"}.items()},
    }
    best, n = standings.filter("may_be_best")["label"].to_list(), standings["rank"].count()
    named = ", ".join(best[:NAMED]) + (f" and {len(best) - NAMED} more" if len(best) > NAMED else "")
    error = f"(Hsu's comparison with the best, error rate 5 %, for {comparison.about[figure]})"
    if not n:
        told = "no query was answered by all of these systems: none is ranked"
    elif not best:
        told = f"{n} systems are too many to be compared with the best"
    elif len(best) == 1:
        told = f"{best[0]} is the best {error}"
    else:
        told = f"{len(best)} of {n} systems cannot be told from the best: {named} {error}"
    units = {**(dict.fromkeys(means, unit) if unit else {}), **units}
    note = f"{comparison.judged(figure)}: {told}"
    return Section("Which system is the best?", text, standings.select(**columns), units, name="ranking", notes=[note])


def _with_best(comparison: SystemComparison, figure: str, name: str = "forest") -> Iterator[Section]:
    """Hsu's comparison of each ranked system with the best of the others."""
    known = comparison.standings[figure].drop_nulls("from_best")
    if known.height < 2:
        return
    points = comparison.units[figure] == "%"
    rest = f" The first {FOREST} of {known.height} systems are shown." if known.height > FOREST else ""
    apart = "from the best other"
    columns = {
        "system": pl.col("label"),
        **{apart + end: pl.col("from_best" + end) for end in ("", "_low", "_high")},
        "may be the best": pl.when("may_be_best").then(pl.lit("yes")).otherwise(pl.lit("no")),
        "n": pl.col("n_common"),
    }
    yield Section(
        f"Is it real? {_titled(figure)}, compared with the best",
        f"The mean {figure} of each system minus that of the best other system{', in points' * points}, on the queries that all "
        "answered, with Hsu's multiple comparisons with the best: all intervals hold the truth together in 95 % of cases, for "
        f"{comparison.about[figure]}. Where one ends at 0 (orange), the system is not the best or, above 0, it is.{rest}",
        known.head(FOREST).select(**columns),
        {apart: "points"} if points else {},
        Chart.forest(apart, "system"),
        name=name,
        more=name != "forest",
    )


def _named(comparison: SystemComparison, side: str) -> pl.Expr:
    """The labels of a side's systems in tables, as in `standings`."""
    of = pl.col(side).struct.field
    return (of("label") if len(comparison.runs) == 1 else pl.format("{} {}", of("run"), of("label"))).alias(side)


def _pairs_section(comparison: SystemComparison, figure: str, pairs: pl.DataFrame, each_told: bool = False) -> Section:
    """These pairs of a figure, with simultaneous intervals. `each_told`: with a verdict in each row."""
    points, n_pairs = comparison.units[figure] == "%", comparison.of(figure).height
    paired, corrected, labelled = (pl.col(name).struct.field for name in ("paired", "corrected", "labelled"))
    least = paired("detectable")
    columns = {
        "system": _named(comparison, "a"),
        "compared with": _named(comparison, "b"),
        **{f"difference{end}": paired(name) for end, name in ENDS.items()},
        "p": paired("p"),
        "p (all pairs)": paired("p_adjusted"),
        "d": paired("effect"),
        "win/tie/loss": pl.format("{}/{}/{}", paired("wins"), paired("ties"), paired("losses")),
        # No fractions can be further apart.
        "least detectable": pl.when(least <= 1).then(least) if points else least,
        "queries needed": paired("queries_needed").cast(pl.Float64),
        **{f"bias removed{end}": corrected(name) for end, name in ENDS.items()},
        **{f"by labels{end}": labelled(name) for end, name in ENDS.items()},
        f"{comparison.cluster}s": paired("n_haystacks"),
        "n": paired("n_queries"),
        **({"verdict": pl.col("verdict")} if each_told else {}),
    }
    table = pairs.select(**columns)
    table = table.select(name for name in table.columns if table[name].null_count() < table.height)
    removed = " Bias removed: the difference without the judge's bias against people." if "bias removed" in table.columns else ""
    removed += " By labels: the difference corrected by people's labels." if "by labels" in table.columns else ""
    return Section(
        "Is it real? Every pair",
        f"{_titled(figure)} of the row's system minus that of the one that it is compared with{', in points' * points}, on the "
        "queries that both answered. p: Student's t of the pair alone. Intervals and p (all pairs) hold for all "
        f"pairs together ({n_pairs:,}; single-step max-T, family-wise error 5 %), for {comparison.about[figure]}: a pair differs "
        "where its interval excludes 0, which a dot marks in the figure. d: the mean difference over its standard deviation. "
        "Win/tie/loss: queries. Least detectable: the smallest difference that these queries show in 80 % of cases; queries "
        f"needed: how many would show the one seen so.{removed}",
        table,
        {
            name: "points"
            for name in ("difference", "least detectable", "bias removed", "by labels")
            if points and name in table.columns
        },
        Chart.matrix("compared with", "system", "difference", sure="p (all pairs)"),
        name="pairs",
        more=True,
    )


def _titled(figure: str) -> str:
    """A figure's name at the beginning of a sentence; nDCG and ROUGE-1 stay as they are."""
    return figure.capitalize() if figure.islower() else figure
