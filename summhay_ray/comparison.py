"""Systems compared by their scores query by query: is a difference real, and which system is the best?

Any benchmark that says how its systems scored each query (`Workload.by_query`) is compared here, in `summhay compare` and in the
report: the scores become a matrix of queries x systems (`RunScores`), `metrics.Paired` says which pairs differ, and ranks, the
systems that may be the best and the decision follow from these pairs. May be imported by `benchmark`, the benchmarks, the report
and the API.
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

from summhay_ray.decision import Decision, Evidence, decide
from summhay_ray.engine import ByQuery, Chart, Section
from summhay_ray.errors import UserError
from summhay_ray.metrics import FEWEST_UNITS, LEVEL, LITTLE, JudgeBias, Observed, Over, Paired

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

MOST_PAIRS = 10_000
"""More pairs of systems than this are refused."""
SHOWN = 25
"""Systems in the forest plot and the matrix: the best ones."""
ROWS = 10
"""Rows of a table on one screen, and pairs that have a table there."""
FEW_PAIRS = 3
"""So many pairs of a figure have a sentence each."""
ENDS = {"": "difference", "_low": "low", "_high": "high"}
"""End of a column's name -> what it has of a difference."""
_QUERY = ("cluster", "query")
_KEYS = ("system", *_QUERY)
_MATRICES = ("value", "least", "most", "n", "n_expected")
STANDING = pl.Schema(
    {
        "name": pl.String,  # the system's key, after that of its run if there are two
        "label": pl.String,  # likewise, for people
        "mean": pl.Float64,  # over the queries that it answered, with equal weights
        "floor": pl.Float64,  # mean with all that is missing as 0
        "n": pl.Int64,  # its answers or judgments
        "n_expected": pl.Int64,
        "missing": pl.Float64,  # share of these that it lacks
        "rank": pl.Int64,  # from 1, equal systems share the better rank; null if it lacks more than metrics.INCOMPLETE
        "rank_low": pl.Int64,  # 1 + the number of ranked systems that a pair shows to be better
        "rank_high": pl.Int64,  # the number of ranked systems - those that a pair shows to be worse
        "may_be_best": pl.Boolean,  # no pair shows a better system
        "from_best": pl.Float64,  # difference from the first system, with its interval, as of their pair
        "from_best_low": pl.Float64,
        "from_best_high": pl.Float64,
        "usd": pl.Float64,  # dollars a query; null if unknown
        "ceiling": pl.Boolean,  # it sees the gold
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
    """Figure -> the compared systems, best first, then those that lack too much; with the columns of STANDING."""
    decision: Decision
    """By the first figure."""
    warnings: Sequence[str]
    about: Mapping[str, str]
    """Figure -> what its intervals, p-values and ranks hold for, such as `further queries of these 2 haystacks`."""
    units: Mapping[str, str]
    """Figure -> its unit: %, or empty for the figure's own scale."""
    judge: str = ""
    """The judge of the scores; `A and B` for two runs with a judge each; empty if the scores are nobody's judgments."""
    cluster: str = "haystack"
    """What a cluster of queries is."""
    counted: str = "answers"
    """What `n` of the standings counts."""

    def of(self, figure: str) -> pl.DataFrame:
        """The pairs of one figure."""
        return self.pairs.filter(pl.col("figure") == figure)

    def best(self, figure: str) -> list[str]:
        """The keys of the systems that may be the best: no pair shows a better one."""
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
        return {
            "runs": list(self.runs),
            "judge": self.judge or None,
            "cluster": self.cluster,
            "about": dict(self.about),
            "decision": self.decision.to_json(),
            "pairs": self.pairs.to_dicts(),
            "standings": {figure: order.to_dicts() for figure, order in self.standings.items()},
            "best": {
                figure: {"systems": self.best(figure), "error_rate": LEVEL, "method": "Holm's correction for all pairs"}
                for figure in self.standings
            },
            "warnings": list(self.warnings),
        }

    def judged(self, figure: str) -> str:
        """A figure with the judge whose scores it is of."""
        return f"{figure}, judged by {self.judge}" if self.judge else figure

    def sections(self, everything: bool = False) -> Iterator[Section]:
        """What `summhay compare` shows: the decision and the verdicts, then tables of the first figure on one screen.
        `everything`: all figures, systems and pairs."""
        verdicts = [line for figure in self.standings for line in self._verdicts(figure)]
        yield replace(_decided(self), notes=[*verdicts, *self.warnings])
        for figure, standings in [*self.standings.items()][: None if everything else 1]:
            pairs = self.of(figure)
            shown = []
            if standings.height > 2 or (standings["missing"] > 0).any():
                shown.append(_ranking(self, figure, ROWS if not everything else None))
            if everything or pairs.height <= ROWS:
                shown.append(_pairs_section(self, figure, pairs))
            for section in shown:
                rest = [] if everything or section is not shown[-1] else self._left_out(figure)
                yield replace(
                    section, text="" if standings.height > ROWS and not everything else section.text, chart=None, notes=rest
                )

    def _left_out(self, figure: str) -> list[str]:
        """A line on what one screen leaves out; none if that is nothing."""
        systems, figures = self.standings[figure].height - ROWS, len(self.standings) - 1
        parts = [f"{systems} more systems"] * (systems > 0) + ["every pair"] * (self.of(figure).height > ROWS)
        parts += [f"{figures} more figure{'s'[: figures > 1]}"] * (figures > 0)
        return [f"--all shows {', '.join(parts)}"] if parts else []

    def _verdicts(self, figure: str) -> list[str]:
        """A line for each of few pairs, one for many."""
        pairs, standings = self.of(figure), self.standings[figure]
        if pairs.height <= FEW_PAIRS:
            told = pairs.select(_named(self, "a"), _named(self, "b"), "verdict").iter_rows()
            return [f"{figure}, {a} and {b}: {verdict}" for a, b, verdict in told]
        best, n = standings.filter("may_be_best")["label"].to_list(), standings["rank"].count()
        differ = f"{pairs['differs'].sum():,} of {pairs.height:,} pairs differ, the others are not shown to"
        named = ", ".join(best[:FEW_PAIRS]) + (f" and {len(best) - FEW_PAIRS} more" if len(best) > FEW_PAIRS else "")
        may = f"{len(best)} of {n} systems may be the best: {named}" if len(best) > 1 else f"{named} is the best" if n else ""
        return [f"{self.judged(figure)}: {'; '.join(filter(None, (differ, may)))}"]


def _verdict(found: Mapping[str, Any], labels: Sequence[str], unit: str, cluster: str, lacking: Sequence[str]) -> str:
    """The result of a pair in one sentence. `labels`: of its systems. `lacking`: what they lack, if it is more than a little."""
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
    applies; `labelled`: by people's labels. `costs`: system -> dollars a query, where known. `limits`: reasons why no system is
    recommended, whatever the scores, each a clause such as `nobody has looked at the haystack`.
    """

    def __init__(
        self,
        run: str,
        by_query: ByQuery,
        judge: str = "",
        names: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
        unbiased: Mapping[tuple[str, str], Unbiased] = MappingProxyType({}),
        labelled: Mapping[tuple[str, str], Unbiased] = MappingProxyType({}),
        costs: Mapping[str, float] = MappingProxyType({}),
        limits: Sequence[str] = (),
    ) -> None:
        self.run, self.judge, self.cluster, self.counted = run, judge, by_query.cluster, by_query.counted
        self.unbiased, self.labelled, self.costs, self.limits = unbiased, labelled, costs, limits
        self.ceilings = frozenset(by_query.ceilings)
        self.names = {name: {"label": label} for name, label in by_query.labels.items()} | dict(names)
        self.units = {name: by_query.units.get(name, "") for name in by_query.scores.columns if name not in _KEYS}
        self.frame = _by_figure(by_query, self.units)
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
    kept = {name: value for name, (value, other) in factors.items() if other in shared}
    whole = pl.col("value").is_not_null().all()
    frame = (
        run.frame.filter(pl.col("system").is_in([*kept]))
        .with_columns(pl.col("system").replace_strict(kept))
        .group_by(*_KEYS, "figure", maintain_order=True)
        .agg(
            pl.when(whole).then(pl.col("value").mean()).alias("value"),
            pl.col("least", "most").mean(),
            pl.col("n", "n_expected").sum(),
        )
    )
    made = copy.copy(run)
    of = {value: [name for name in kept if kept[name] == value] for value in others}
    made.costs = {
        value: math.fsum(run.costs[name] for name in names) / len(names)
        for value, names in of.items()
        if all(name in run.costs for name in names)
    }
    made.ceilings = frozenset(value for value, names in of.items() if run.ceilings.issuperset(names))
    made.frame, made.systems, made.names, made.unbiased = frame, sorted(others), {}, {}
    return made


def _by_figure(by_query: ByQuery, units: Mapping[str, str]) -> pl.DataFrame:
    """A row for each query, system and figure: its `value`; `least` and `most`, the value with what is missing as 0 and as the
    best that there is; and `n` of `n_expected` answers or judgments."""
    figures, keys = [*units], [*_KEYS, "figure"]
    own, value = pl.col(figures), pl.col("value")
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
    counts = [pl.col(name) if name in due.columns else pl.lit(1).alias(name) for name in ("n", "n_expected")]
    grid = named.select("system").unique().join(named.select(_QUERY).unique(), how="cross").join(every, how="cross")
    rows = grid.join(values, on=keys, how="left").join(due.select(*keys, *counts).unique(keys), on=keys, how="left")
    without = pl.col("_others").fill_null(False) & pl.col("figure").is_in([*by_query.may_lack]) & value.is_null()
    # Without `expected`, every system was asked what one of them answered.
    asked = value.is_not_null().any().over(*_QUERY, "figure").cast(pl.Int64) if by_query.expected is None else pl.lit(0)
    due_here = pl.when(without).then(0).otherwise(pl.max_horizontal(pl.coalesce("n_expected", asked), value.is_not_null()))
    rows = rows.with_columns(n_expected=due_here.cast(pl.Int64))
    rows = rows.with_columns(n=pl.when(value.is_null()).then(0).otherwise(pl.min_horizontal(pl.coalesce("n", 1), "n_expected")))
    share = pl.when(pl.col("n_expected") > 0).then(pl.col("n") / pl.col("n_expected"))
    best = pl.when(pl.col("figure").replace_strict(dict(units)) == "%").then(1.0).otherwise(value.max().over("figure"))
    worst = pl.min_horizontal(0.0, value.min().over("figure"))
    return rows.select(
        *keys,
        "value",
        least=value.fill_null(0.0) * share + worst * (1 - share),
        most=value.fill_null(0.0) * share + best * (1 - share),
        n=pl.col("n").cast(pl.Int64),
        n_expected="n_expected",
    )


def _keyed(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame with a cluster, and keys of types that can be joined."""
    whole = frame if "cluster" in frame.columns else frame.with_columns(cluster=pl.lit(""))
    numbers = selectors.by_name(*_QUERY) & selectors.integer()
    return whole.with_columns(numbers.cast(pl.Int64), (selectors.by_name(*_KEYS) - numbers).cast(pl.String))


Chosen = Sequence[tuple[tuple[int, str], tuple[int, str]]]
"""Pairs of systems, each as (index of the run, system)."""


def compare_runs(runs: Sequence[RunScores], systems: Sequence[str] = (), over: Over | None = None) -> SystemComparison:
    """Compare systems of one or two runs on the queries that both answered. Raises UserError if there is nothing to compare.

    `systems`: two names or patterns (`*` matches anything). In one run, systems that match the first are compared with those
    that match the second; by default, every pair. In two runs, the first applies to the first run and the second to the
    second; by default, systems of the same name are compared. `over`: whether the results generalize to further queries of
    these clusters, or to other clusters; by default the latter with six clusters or more.
    """
    _shared_figures(runs)
    comparison = compare_pairs(runs, _pairs(runs, systems), over=over)
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


def every_pair(run: RunScores, figures: Sequence[str] = (), over: Over | None = None) -> SystemComparison | None:
    """Every pair of a run's systems; None for fewer than two systems, too many pairs, or none on the same queries."""
    return compare_pairs([run], list(itertools.combinations([(0, name) for name in run.systems], 2)), figures, over)


def compare_pairs(
    runs: Sequence[RunScores], chosen: Chosen, figures: Sequence[str] = (), over: Over | None = None
) -> SystemComparison | None:
    """Compare the chosen pairs in each figure (by default, in all), together. None without pairs, with too many, or if none has
    a scored query in common.

    Raises UserError without a common figure, or a common query that is scored.
    """
    if not 1 <= len(chosen) <= MOST_PAIRS:
        return None
    sides = sorted(set(itertools.chain.from_iterable(chosen)))
    place = {side: index for index, side in enumerate(sides)}
    frames = [run.frame.with_columns(run=pl.lit(index, pl.Int64)) for index, run in enumerate(runs)]
    queries = functools.reduce(lambda frame, other: frame.join(other, on=_QUERY, how="semi"), frames)
    if queries.is_empty():
        raise UserError(f"{_named_runs(runs)} have no query in common that is scored in both")
    compared = pl.DataFrame(sides, schema={"run": pl.Int64, "system": pl.String}, orient="row")
    scores = pl.concat(frames).join(compared, on=["run", "system"], how="semi").join(queries, on=_QUERY, how="semi")
    asked = _Asked(runs, sides, [(place[a], place[b]) for a, b in chosen], scores.sort(*_QUERY, "run", "system"), over)
    found = [one for figure in figures or _shared_figures(runs) if (one := _compared(asked, figure)) is not None]
    if not found:
        return None
    warnings = list(dict.fromkeys(warning for one in found for warning in one.warnings))
    if len({run.judge for run in runs}) > 1:
        warnings.append("the runs are judged by different judges: a difference may be theirs")
    return replace(
        found[0],
        pairs=pl.concat([one.pairs for one in found]),
        standings={figure: order for one in found for figure, order in one.standings.items()},
        about={figure: about for one in found for figure, about in one.about.items()},
        units={figure: unit for one in found for figure, unit in one.units.items()},
        warnings=warnings,
    )


@dataclass(frozen=True)
class _Asked:
    """What is compared: `sides`, each as (index of the run, system), in `pairs` of their places, by `scores` of all figures: rows
    of `_by_figure`, sorted by query and side."""

    runs: Sequence[RunScores]
    sides: Sequence[tuple[int, str]]
    pairs: Sequence[tuple[int, int]]
    scores: pl.DataFrame
    over: Over | None


def _compared(asked: _Asked, figure: str) -> SystemComparison | None:
    """The comparison in one figure; None if no pair has a scored query in common."""
    import numpy as np

    runs, sides, n_systems = asked.runs, asked.sides, len(asked.sides)
    unit, cluster, counted = runs[0].units[figure], runs[0].cluster, runs[0].counted
    own = asked.scores.filter(pl.col("figure") == figure)
    own = own.filter((pl.col("n_expected") > 0).any().over(_QUERY))
    value, least, best, n, due = (own[name].to_numpy().reshape(-1, n_systems) for name in _MATRICES)
    n, due = n.sum(axis=0), due.sum(axis=0)
    if not n.any():
        return None
    observed = Observed(value, least, best, np.where(due > 0, 1 - n / np.maximum(1, due), 0.0))
    clusters = own["cluster"].gather_every(n_systems).to_list()
    paired, most = Paired(clusters, asked.over), 1.0 if unit == "%" else math.inf
    found = paired.differences(observed, asked.pairs, most=most)
    in_run = [f"{runs[index].run} " if len(runs) > 1 else "" for index, _ in sides]
    systems = {
        "name": [f"{run}{system}" for run, (_, system) in zip(in_run, sides, strict=True)],
        "label": [f"{run}{runs[index].label(system)}" for run, (index, system) in zip(in_run, sides, strict=True)],
        "usd": [runs[index].costs.get(system) for index, system in sides],
        "ceiling": [system in runs[index].ceilings for index, system in sides],
        "n": n,
        "n_expected": due,
        "missing": observed.missing,
    }
    standings = _standings(pl.DataFrame(systems, schema_overrides={"usd": pl.Float64}), observed, found, asked.pairs)
    lacking = [
        f"{runs[index].label(system)} lacks {of - n_own:,} of {of:,} {counted}" if missing > LITTLE else ""
        for (index, system), n_own, of, missing in zip(sides, n, due, observed.missing, strict=True)
    ]
    judge = " and ".join(dict.fromkeys(run.judge for run in runs if run.judge))
    told = [
        _verdict(
            row, [runs[sides[x][0]].label(sides[x][1]) for x in pair], unit, cluster, [lacking[x] for x in pair if lacking[x]]
        )
        + (f"; judged by {judge}" if judge else "")
        for row, pair in zip(found.iter_rows(named=True), asked.pairs, strict=True)
    ]
    # Without every judge's bias, nothing is known.
    ways = [[getattr(runs[index], way).get((figure, name)) for index, name in sides] for way in ("unbiased", "labelled")]
    corrected, by_labels = (
        _corrected(paired, observed, asked.pairs, known, most) if all(known) else found.to_struct().clear(len(found))
        for known in ways
    )
    a, b = ([runs[sides[x][0]].side(sides[x][1]) for x in side] for side in zip(*asked.pairs, strict=True))
    given = {"figure": figure, "unit": unit, "a": a, "b": b, "differs": found["p_adjusted"] < LEVEL, "paired": found.to_struct()}
    frame = pl.DataFrame({**given, "verdict": told, "corrected": corrected, "labelled": by_labels})
    frame = frame.filter((found["n_queries"] > 0) | found["worst_low"].is_not_null())
    if frame.is_empty():
        return None
    n_clusters = len(set(clusters))
    these = f"this {cluster}" if n_clusters == 1 else f"these {n_clusters} {cluster}s"
    warnings = []
    if paired.over == "queries" and asked.over != "queries":
        warnings.append(f"the figures are for {these} only: fewer than {FEWEST_UNITS} {cluster}s say little of others")
    elif n_clusters < FEWEST_UNITS and paired.over == "haystacks":
        warnings.append(f"{n_clusters} {cluster}s are few: only large differences can be shown to hold for others")
    names = systems["name"]
    rows = [
        {"a": names[x], "b": names[y], "differs": row["p_adjusted"] < LEVEL, **row}
        for (x, y), row in zip(asked.pairs, found.drop("a", "b").iter_rows(named=True), strict=True)
    ]
    limits = tuple(dict.fromkeys(limit for run in runs for limit in run.limits))
    evidence = Evidence(figure, unit, counted, cluster, len(clusters), n_clusters, paired.over, judge, any(ways[1]), limits)
    return SystemComparison(
        runs=tuple(run.run for run in runs),
        pairs=frame,
        standings={figure: standings},
        decision=decide(standings.to_dicts(), rows, evidence),
        warnings=warnings,
        about={
            figure: f"further queries of {these}" if paired.over == "queries" else f"other {cluster}s than these {n_clusters}"
        },
        units={figure: unit},
        judge=judge,
        cluster=cluster,
        counted=counted,
    )


def _corrected(
    paired: Paired, observed: Observed, pairs: Sequence[tuple[int, int]], biases: Sequence[Any], most: float
) -> pl.Series:
    """The differences without the judges' bias, whose uncertainty is added. `biases`: the `Unbiased` of each system."""
    import numpy as np

    ends = [one.slope * one.bias.se for one in biases]
    extra = [abs(ends[a] - ends[b]) if biases[a].bias == biases[b].bias else math.hypot(ends[a], ends[b]) for a, b in pairs]
    factor, shift = (np.array([getattr(one, name) for one in biases]) for name in ("factor", "shift"))
    values, least, best = (of * factor - shift for of in (observed.values, observed.least, observed.most))
    return paired.differences(Observed(values, least, best, observed.missing), pairs, np.array(extra), most).to_struct()


def _standings(systems: pl.DataFrame, observed: Observed, found: pl.DataFrame, pairs: Sequence[tuple[int, int]]) -> pl.DataFrame:
    """The ranked systems, best first, then those without a rank; not those that were asked nothing. Ranks, and who may be the
    best, follow from the `pairs` of complete systems. `found`: of `metrics.Paired.differences`."""
    import numpy as np

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
    # Ranked on what all of them answered; where that is nothing, with what is missing as 0.
    whole = (~np.isnan(observed.values) & (observed.most - observed.least < 1e-9))[:, ranked].all(axis=1)
    by = observed.values[whole].mean(axis=0) if whole.any() else floors
    # Systems that differ by rounding alone are equal.
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
            mend = "give a second run, or two of its judges with --judges A B"
            raise UserError(f"{runs[0].run} has no two systems to compare among {', '.join(runs[0].systems)}; {mend}")
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
    """The report's sections: the decision; for the first figure the ranking, the comparison with the best and every pair; for
    each further figure the comparison with its best."""
    first, *others = comparison.standings
    yield _decided(comparison)
    yield _ranking(comparison, first)
    yield from _with_best(comparison, first)
    top, pairs = comparison.standings[first]["name"].head(SHOWN), comparison.of(first)
    turned = (_turned(name).alias(name) for name in ("paired", "corrected", "labelled"))
    both_ways = pl.concat([pairs, pairs.with_columns(*turned, a="b", b="a")])
    a, b = (pl.col(side).struct.field("system") for side in "ab")
    shown = both_ways.filter(a.is_in(top.implode()) & b.is_in(top.implode()))
    if shown.height:
        ordered = shown.sort(*(side.replace_strict(top, range(len(top))) for side in (a, b)))
        yield _pairs_section(comparison, first, ordered, verdicts=True)
    for figure in others:
        yield from _with_best(comparison, figure, f"forest {figure}")


def _turned(paired: str) -> pl.Expr:
    """The differences of A from B as those of B from A."""
    of = pl.col(paired).struct.field
    names = {"difference": "difference", "low": "high", "high": "low", "effect": "effect"}
    turned = {name: -of(other) for name, other in (names | {"worst_low": "worst_high", "worst_high": "worst_low"}).items()}
    return pl.col(paired).struct.with_fields(wins=of("losses"), losses=of("wins"), **turned)


def _decided(comparison: SystemComparison) -> Section:
    """The decision in one paragraph."""
    title = f"Decision by {comparison.judged(comparison.decision.figure)}"
    return Section(title, comparison.decision.text, name="decision", notes=comparison.warnings)


def _ranking(comparison: SystemComparison, figure: str, most: int | None = None) -> Section:
    """The ranking of systems with its uncertainty. `most`: how many of them to show."""
    standings, unit = comparison.standings[figure], comparison.units[figure]
    text = (
        f"Mean {figure}, each query counting once; n: {comparison.counted}. In brackets the ranks that the pairs leave open: 1 "
        "where no pair shows a better system. All of them hold the true ranks together in 95 % of cases."
    )
    if (standings["missing"] > 0).any():
        text += (
            " Systems are ranked on the queries of which all of them lack nothing; if there are none, with what is missing as 0 "
            f"(floor). One that lacks more than a tenth of {comparison.counted} is incomplete: it has no rank, and changes "
            "nothing for the others."
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
    table = table.select("system", pl.col("best").alias("may be the best"), pl.exclude("system", "best")).head(
        most or table.height
    )
    title = f"{comparison.judged(figure)}: ranking, for {comparison.about[figure]}"
    return Section(title, text, table, {figure: unit} if unit else {}, name="ranking")


def _with_best(comparison: SystemComparison, figure: str, name: str = "forest") -> Iterator[Section]:
    """Each system compared with the first."""
    standings, points = comparison.standings[figure], comparison.units[figure] == "%"
    known, apart = standings.drop_nulls("from_best"), f"from {standings['label'][0]}"
    if known.is_empty():
        return
    rest = f" The first {SHOWN} of {known.height} systems are shown." if known.height > SHOWN else ""
    columns = {"system": "label", **{f"{apart}{end}": f"from_best{end}" for end in ("", "_low", "_high")}}
    yield Section(
        f"Is it real? {_titled(figure)}, compared with the best by score",
        f"The mean {figure} of each system minus that of the first{', in points' * points}, with the interval of their pair, for "
        f"{comparison.about[figure]}: the pair differs where it excludes 0 (orange).{rest}",
        known.head(SHOWN).select(**{new: pl.col(old) for new, old in (columns | {"n": "n", "n_expected": "n_expected"}).items()}),
        {apart: "points"} if points else {},
        Chart.forest(apart, "system"),
        name=name,
        more=name != "forest",
    )


def _named(comparison: SystemComparison, side: str) -> pl.Expr:
    """The labels of a side's systems in tables, as in `standings`."""
    of = pl.col(side).struct.field
    return (of("label") if len(comparison.runs) == 1 else pl.format("{} {}", of("run"), of("label"))).alias(side)


def _pairs_section(comparison: SystemComparison, figure: str, pairs: pl.DataFrame, verdicts: bool = False) -> Section:
    """These pairs of a figure. `verdicts`: with one in each row."""
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
        **({"verdict": pl.col("verdict")} if verdicts else {}),
    }
    table = pairs.select(**columns)
    table = table.select(name for name in table.columns if name == "difference" or table[name].null_count() < table.height)
    removed = " Bias removed: the difference without the judge's bias against people." if "bias removed" in table.columns else ""
    removed += " By labels: the difference corrected by people's labels." if "by labels" in table.columns else ""
    in_points = ("difference", "least detectable", "bias removed", "by labels") if points else ()
    return Section(
        f"Is it real? {_titled(figure)}, pair by pair",
        f"{_titled(figure)} of the row's system minus that of the one that it is compared with{', in points' * points}, on the "
        "queries that both answered. p: Student's t of the pair alone; p (all pairs): with Holm's correction for all "
        f"{n_pairs:,} pairs. A pair differs where this is below 0.05 (a dot in the figure), exactly where its interval excludes "
        "0. Least detectable: what these queries show in 80 % of cases; queries needed: how many would show the difference so."
        f"{removed}",
        table,
        {name: "points" for name in in_points if name in table.columns},
        Chart.matrix("compared with", "system", "difference", sure="p (all pairs)"),
        name="pairs",
        more=True,
    )


def _titled(figure: str) -> str:
    """A figure's name at the beginning of a sentence; nDCG and ROUGE-1 stay as they are."""
    return figure.capitalize() if figure.islower() else figure
