"""The scores of one run's systems, query by query, as rows that can be compared."""

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import polars as pl
from polars import selectors

from summhay_ray.engine import ByQuery
from summhay_ray.errors import UserError
from summhay_ray.metrics import JudgeBias

QUERY = ("cluster", "query")
_KEYS = ("system", *QUERY)
Estimate = tuple[float, float | None, float | None]
"""A value and the ends of its 95 % interval, if there is one."""


@dataclass(frozen=True, slots=True)
class Unbiased:
    """The correction of a system's scores for a judge's bias: score * factor - shift."""

    bias: JudgeBias
    """The judge's bias. If both sides of a pair have the same bias, the common part of its uncertainty cancels."""
    factor: float = 1.0
    shift: float = 0.0
    slope: float = 1.0
    """Change of the score per unit of the judge's bias."""


class RunScores:
    """One run's scores by query.

    - `judge`: the judge of the scores; empty if they are not judgments.
    - `names`: key of a system -> its `label` and its parts, such as `model`, `retriever` and `ordering`. By default, these are
      the text columns of `by_query`.
    - `unbiased`: the correction by figure and system, if a judge's bias is known and applies.
    - `labelled`: scores corrected by people's labels.
    - `costs`: system -> dollars per query, if known.
    - `corrections`: `corrected` (for the judge's bias) and `labels` (by people's labels) -> system -> figure -> its
      corrected mean.
    - `limits`: reasons against any recommendation, whatever the scores, each a clause such as `too few queries`.
    - `caveats`: further limits of the confidence in a recommendation, such as `gold documents that nobody has checked`.
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
        caveats: Sequence[str] = (),
        corrections: Mapping[str, Mapping[str, Mapping[str, Estimate]]] = MappingProxyType({}),
    ) -> None:
        self.run, self.judge, self.cluster, self.counted = run, judge, by_query.cluster, by_query.counted
        self.unbiased, self.labelled, self.costs, self.limits = unbiased, labelled, costs, limits
        self.corrections, self.caveats = corrections, caveats
        self.ceilings = frozenset(by_query.ceilings)
        text = [name for name, kind in by_query.scores.schema.items() if kind == pl.String and name not in _KEYS]
        parts = by_query.scores.select("system", *text).unique().with_columns(pl.col(text).fill_null("")) if text else None
        parts_of = {} if parts is None else {str(row.pop("system")): row for row in parts.iter_rows(named=True)}
        labels = {name: " + ".join(filter(None, row.values())) for name, row in parts_of.items()} | dict(by_query.labels)
        self.names = {name: {"label": label, **parts_of.get(name, {})} for name, label in labels.items()} | dict(names)
        self.units = {name: by_query.units.get(name, "") for name in by_query.scores.columns if name not in (*_KEYS, *text)}
        self.frame = _by_figure(by_query, self.units)
        self.systems = [*self.frame["system"].unique().sort()]
        """The systems' keys."""

    def label(self, system: str) -> str:
        """Return the system's name for people."""
        return self.names[system]["label"] if system in self.names else system

    def side(self, system: str) -> dict[str, str]:
        """Return the system as a side of a pair."""
        parts = {name: self.names.get(system, {}).get(name, "") for name in ("model", "retriever", "ordering")}
        return {"run": self.run, "system": system, "label": self.label(system), **parts, "judge": self.judge}


def by_factor(run: RunScores, factors: Mapping[str, tuple[str, str]]) -> RunScores:
    """Return the scores of each value of a factor instead of each system's. On each query, they are the mean over the values of
    the other factor.

    `factors`: system -> (value of the factor, value of the other factor). All means are over the same values of the other
    factor: those that occur with every value of this factor. If one of them lacks a score, the mean is missing. Raises
    UserError if there are no such values.
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
    made.frame, made.systems, made.names, made.unbiased, made.corrections = frame, sorted(others), {}, {}, {}
    return made


def _by_figure(by_query: ByQuery, units: Mapping[str, str]) -> pl.DataFrame:
    """Return a row for each query, system and figure. Its columns:

    - `value`: the score of the existing answers or judgments.
    - `least`: the score if each missing answer scored 0, or the lowest score of the figure if that is negative.
    - `most`: the score if each missing answer scored 100 %, or for other units the highest score of the figure.
    - `n`, `n_expected`: the existing and the expected number of answers or judgments.
    """
    own, value = pl.col([*units]), pl.col("value")
    scores = _by_key(by_query.scores).with_columns(own.cast(pl.Float64).fill_nan(None))
    scores = scores.filter(pl.any_horizontal(own.is_not_null()))
    expected = scores.select(_KEYS).clear() if by_query.expected is None else _by_key(by_query.expected)
    named = pl.concat([scores.select(_KEYS), expected.select(_KEYS)])
    grid = named.select("system").unique().join(named.select(QUERY).unique(), how="cross")
    # An answer may lack a figure of `may_lack`; it exists if it has another figure.
    others = [pl.col(name).is_not_null() for name in units if name not in by_query.may_lack]
    answers = scores.with_columns(_others=pl.any_horizontal(pl.lit(False), *others))
    counts = [pl.col(name) if name in expected.columns else pl.lit(1).alias(name) for name in ("n", "n_expected")]
    # Without `expected`, every system should answer each query that some system answered.
    default = value.is_not_null().any().over(*QUERY).cast(pl.Int64) if by_query.expected is None else pl.lit(0)
    share = pl.when(pl.col("n_expected") > 0).then(pl.col("n") / pl.col("n_expected"))
    parts = []
    # All figures together would take several times the memory.
    for figure, unit in units.items():
        due = expected.filter(figure=figure) if "figure" in expected.columns else expected
        rows = grid.join(answers.select(*_KEYS, "_others", value=figure), on=_KEYS, how="left")
        rows = rows.join(due.select(*_KEYS, *counts).unique(_KEYS), on=_KEYS, how="left")
        without = pl.lit(figure in by_query.may_lack) & pl.col("_others").fill_null(False) & value.is_null()
        due_here = pl.when(without).then(0).otherwise(pl.max_horizontal(pl.coalesce("n_expected", default), value.is_not_null()))
        rows = rows.with_columns(n_expected=due_here.cast(pl.Int64))
        n = pl.when(value.is_null()).then(0).otherwise(pl.min_horizontal(pl.coalesce("n", 1), "n_expected"))
        rows = rows.with_columns(n=n.cast(pl.Int64))
        best, worst = 1.0 if unit == "%" else value.max(), pl.min_horizontal(0.0, value.min())
        part = rows.select(
            *_KEYS,
            pl.lit(figure).alias("figure"),
            "value",
            least=value.fill_null(0.0) * share + worst * (1 - share),
            most=value.fill_null(0.0) * share + best * (1 - share),
            n="n",
            n_expected="n_expected",
        )
        parts.append(part)
    return pl.concat(parts)


def _by_key(frame: pl.DataFrame) -> pl.DataFrame:
    """Add a cluster to the frame, and convert its keys to types that can be joined."""
    whole = frame if "cluster" in frame.columns else frame.with_columns(cluster=pl.lit(""))
    numbers = selectors.by_name(*QUERY) & selectors.integer()
    return whole.with_columns(numbers.cast(pl.Int64), (selectors.by_name(*_KEYS) - numbers).cast(pl.String))
