"""The scores of systems, pooled over insights, with intervals."""

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from summhay_ray.metrics.coverage_citation_joint import CITATION_VALUES, VALUES
from summhay_ray.metrics.paired_differences import INCOMPLETE
from summhay_ray.metrics.score_intervals import FEWEST_UNITS, unit_means
from summhay_ray.records import column_of, system_label

Floats = NDArray[np.float64]

KEYS = ("system", "retriever", "ordering", "model", "judge")
ORDER = ("model", "retriever", "ordering", "system", "judge")
CLUSTER = ("haystack_id", "subtopic_id")
Weighting = Literal["insights", "queries"]
"""What has equal weight in a mean: insights, as in the release, or queries, as in rankings and comparisons of systems."""
WEIGHTINGS: Mapping[Weighting, str] = {"insights": "insights weigh the same", "queries": "queries weigh the same"}

_COUNT_OF = {name: "covered" if name in CITATION_VALUES else "graded" if name == "joint" else "scored" for name in VALUES}
_COUNTS = ("scored", "covered", "graded")
"""Numbers of scored insights, of covered ones among them, and of those with known gold documents."""
_UNIT = 2.0**60
"""Figures are added as integer multiples of 1 / _UNIT, so that a sum does not depend on their order, to the last bit."""
_WORD = r"[^\s\x1c-\x1f]+"
_WHOLE = ("full", "released/full")
"""Retrievers that show the whole haystack."""
_FIRST = ("none", "random", "released/random")
_LAST = ("oracle", "released/oracle", *_WHOLE)
FIGURES = {
    "citation" if name == "citation_f1" else name: (len(_COUNTS) + place, _COUNTS.index(_COUNT_OF[name]))
    for place, name in enumerate(VALUES)
}
"""Figure of a system -> columns of its numerator and its denominator in the sums by cluster."""


def words_per_bullet(summaries: pl.Series | Sequence[Sequence[str]]) -> pl.Series:
    """Return words (separated by white space) per bullet of each summary (appendix A.3); null without bullets."""
    bullets = pl.Series(summaries, dtype=pl.List(pl.String))
    words = bullets.list.eval(pl.element().str.count_matches(_WORD)).list.sum()
    return words.cast(pl.Int64) / bullets.list.len().cast(pl.Int64).replace(0, None)


def bullets_per_summary(summaries: pl.Series | Sequence[Sequence[str]]) -> pl.Series:
    """Return the number of bullets of each summary."""
    return pl.Series(summaries, dtype=pl.List(pl.String)).list.len()


BULLET_FIGURES: Mapping[str, Callable[[pl.Series], pl.Series]] = {
    "words_per_bullet": words_per_bullet,
    "bullets_per_summary": bullets_per_summary,
}
"""Field of `SystemScore` -> function from a summary's bullets to its value (null: does not count). The field is the mean over
the summaries of answerable queries."""


@dataclass(frozen=True, slots=True)
class TakenOff:
    """The bias subtracted from a score: its judge, mean and standard error (fractions), and source."""

    judge: str
    mean: float
    se: float
    source: str


def of_column(column: str) -> tuple[str, str]:
    """Return (retriever, ordering) of a column. Only the whole haystack has orderings; any other name may contain a space."""
    retriever, _, ordering = column.rpartition(" ")
    return (retriever, ordering) if retriever in _WHOLE else (column, "given")


def column_place(column: str) -> tuple[int, str]:
    """Return the sort key of a column: baselines come first, then columns by name; oracle and the whole haystack come last."""
    retriever = of_column(column)[0]
    if retriever in _FIRST:
        return _FIRST.index(retriever) - len(_FIRST), column
    return (_LAST.index(retriever) + 1 if retriever in _LAST else 0), column


@dataclass(frozen=True, slots=True)
class Corrected:
    """A mean corrected by people's labels: an estimate of the mean if people had labelled all items."""

    value: float
    low: float
    """The ends of the 95 % interval for these items: `low`, `high`."""
    high: float
    weight: float
    """Weight of the judge's scores. 1 is plain prediction-powered inference, 0 is the mean of the labels alone."""
    n: int
    """Number of labels."""


@dataclass(frozen=True, slots=True)
class ByLabels:
    """A system's figures, corrected by people's labels of `n` of its own judgments."""

    n: int
    coverage: Corrected | None
    joint: Corrected | None


@dataclass(frozen=True, slots=True)
class SystemScore:
    """The scores of one system by one judge, as fractions. A figure is None if nothing was scored or, for citations, nothing
    was covered. Citation figures and joint use only insights with gold documents.

    `n_scored` of `n_expected` insights were scored; `n_covered` of those are covered and have gold documents. `ci`: figure ->
    its 95 % interval. Corrected figures are None if the judge's bias against people is unknown (`metrics.corrections`).
    """

    system: str
    retriever: str
    ordering: str
    model: str
    judge: str
    coverage: float | None
    citation: float | None
    citation_precision: float | None
    citation_recall: float | None
    joint: float | None
    n_expected: int
    n_scored: int
    n_covered: int
    words_per_bullet: float | None
    """Mean number of words in a bullet."""
    bullets_per_summary: float | None = None
    """Mean number of bullets of a summary."""
    ci: dict[str, tuple[float, float]] = field(default_factory=dict)
    coverage_corrected: float | None = None
    joint_corrected: float | None = None
    bias: TakenOff | None = None
    coverage_labelled: float | None = None
    joint_labelled: float | None = None
    labels: ByLabels | None = None
    """Figures corrected by people's labels (`metrics.corrections`); None without labels."""
    weighting: Weighting = "insights"
    n_queries: int = 0
    """Number of queries with a scored insight."""
    ci_reasons: Mapping[str, str] = field(default_factory=dict)
    """Figure without an interval -> the reason."""
    # The results of `floor` that depend on the queries. They are not in the JSON document.
    floors: Mapping[str, float | None] = field(default_factory=dict)
    nuggets: Mapping[str, float | None] | None = None
    """NUGGET_SCORES, NAME_floor, n_queries and n_queries_expected (`metrics.nugget_scores`); None without nuggets."""
    invented: float | None = None
    """Share of answers that make a claim, among answers to queries that no document answers. `n_absent` of
    `n_absent_expected` such answers are judged. They count in no other figure."""
    n_absent: int = 0
    n_absent_expected: int = 0
    unsupported_bullets: float | None = None
    """Share of bullets that no document supports and that cover no insight, among the `n_bullets` bullets that a support run
    has judged. None without a support run."""
    n_bullets: int = 0

    @property
    def label(self) -> str:
        return system_label(self.retriever, self.ordering, self.model)

    @property
    def column(self) -> str:
        """The column with the system's figures in tables: its way of choosing and ordering documents."""
        return column_of(self.retriever, self.ordering)

    @property
    def missing(self) -> float:
        return 1 - self.n_scored / self.n_expected if self.n_expected else 0.0

    @property
    def incomplete(self) -> bool:
        """Whether the system lacks too many answers to be ranked, or to be the best."""
        return self.missing > INCOMPLETE

    def floor(self, figure: str) -> float | None:
        """Return a figure with every missing insight as 0 (for citations: as covered, without a correct citation). None if no
        insight is expected. A corrected figure is reduced in proportion to the raw one."""
        value = getattr(self, figure)
        if (raw := figure.removesuffix("_corrected").removesuffix("_labelled")) != figure:
            least, of = self.floor(raw), getattr(self, raw)
            return None if value is None else value * (least / of if least is not None and of else 1 - self.missing)
        if figure in self.floors:
            return self.floors[figure]
        if figure != "coverage" and self.joint is None and self.n_scored:
            # No insight has gold documents.
            return None
        n = self.n_covered if figure.startswith("citation") else self.n_scored
        due = n + max(0, self.n_expected - self.n_scored)
        return (value or 0.0) * n / due if due else None

    def to_json(self) -> dict[str, Any]:
        """Map each field to its value, as JSON, with FIGURE_floor and `missing`. `dataclasses.asdict` takes seven times as
        long."""
        fields = {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "floors"}
        floors = {f"{name}_floor": self.floor(name) for name in FIGURES}
        said = {name: None if (one := fields[name]) is None else asdict(one) for name in ("bias", "labels")}
        return {
            "system": self.system,
            "label": self.label,
            **fields,
            "ci": {**dict.fromkeys(self.ci_reasons), **self.ci},
            "ci_reasons": dict(self.ci_reasons),
            "nuggets": None if self.nuggets is None else dict(self.nuggets),
            **said,
            **floors,
            "missing": self.missing,
        }


def insight_sums(insights: pl.DataFrame) -> pl.DataFrame:
    """Return counts and exact sums of scored insights by KEYS and CLUSTER. `insights`: one row per scored insight, with KEYS,
    CLUSTER and VALUES (citation columns are null if it is not covered)."""
    counts = [pl.len().cast(pl.Int64).alias("scored")]
    counts += [pl.col(name).count().cast(pl.Int64).alias(of) for name, of in (("citation_f1", "covered"), ("joint", "graded"))]
    sums = [(pl.col(name).cast(pl.Float64) * _UNIT).round().cast(pl.Int128).sum() for name in VALUES]
    return insights.group_by(*KEYS, *CLUSTER).agg(*counts, *sums)


def add_sums(sums: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Combine frames of `insight_sums`. The result does not depend on how the insights were divided."""
    return pl.concat(sums).group_by(*KEYS, *CLUSTER).agg(pl.col(*_COUNTS, *VALUES).sum()).sort(*KEYS, *CLUSTER)


def query_means(sums: pl.DataFrame) -> pl.DataFrame:
    """Return KEYS and CLUSTER; the means of VALUES over the scored insights (citation: over the covered ones); and the
    numbers of insights: scored (`n`), covered (`covered`), and with known gold documents (`graded`)."""
    means = [(pl.col(name).cast(pl.Float64) / _UNIT / pl.col(_COUNT_OF[name]).replace(0, None)).alias(name) for name in VALUES]
    return sums.select(*KEYS, *CLUSTER, *means, pl.col("scored").alias("n"), "covered", "graded")


def system_scores(
    sums: pl.DataFrame, expected: pl.DataFrame, bullets: pl.DataFrame, weighting: Weighting = "insights"
) -> list[SystemScore]:
    """Return the scores of every system that was scored or expected, sorted by model, retriever, ordering, system and judge.
    The order of rows does not affect them, to the last bit.

    `sums`: `insight_sums` of all scored insights. `expected`: KEYS, CLUSTER and n_expected. `bullets`: KEYS without judge, and
    BULLET_FIGURES, one row per summary.

    Weighted by insights, coverage and joint are the release's means over all scored insights, and citation figures are means
    over the covered ones (section 4.1). Weighted by queries, all are means of the queries' means. Intervals (`unit_means`) are
    for further queries of these haystacks or, with FEWEST_UNITS haystacks, for further haystacks.
    """
    return [score for _, score in _scores(sums, expected, bullets, (), weighting)]


def haystack_scores(
    sums: pl.DataFrame, expected: pl.DataFrame, bullets: pl.DataFrame, weighting: Weighting = "insights"
) -> dict[str, list[SystemScore]]:
    """Map the id of each haystack to the `system_scores` of its rows. `bullets` has the column haystack_id, too."""
    found: dict[str, list[SystemScore]] = {}
    for (haystack_id,), score in _scores(sums, expected, bullets, ("haystack_id",), weighting):
        found.setdefault(haystack_id, []).append(score)
    return found


def _scores(
    sums: pl.DataFrame, expected: pl.DataFrame, bullets: pl.DataFrame, within: tuple[str, ...], weighting: Weighting
) -> Iterator[tuple[tuple[str, ...], SystemScore]]:
    """Yield (values of the columns `within`, score) for each combination of these values and each system, sorted by both."""
    keys, summary_keys = (*within, *KEYS), (*within, *KEYS[:4])
    clusters = list(dict.fromkeys((*keys, *CLUSTER)))
    due = expected.group_by(clusters).agg(pl.col("n_expected").sum())
    both = sums.join(due, on=clusters, how="full", coalesce=True)
    groups = both.select(keys).unique().sort(*within, *ORDER).with_row_index("group")
    ordered = both.join(groups, on=keys).sort("group", *CLUSTER)
    numbers = (
        pl.col("n_expected", *_COUNTS).fill_null(0).cast(pl.Float64),
        *((pl.col(name).cast(pl.Float64) / _UNIT).fill_null(0.0) for name in VALUES),
    )
    rows = ordered.select(numbers).to_numpy()
    haystacks = ordered["haystack_id"].rle_id().to_numpy()
    starts = ordered["group"].to_numpy().searchsorted(range(len(groups) + 1))
    by_summary = bullets.group_by(summary_keys).agg(pl.col(*BULLET_FIGURES).drop_nulls())
    named = groups.join(by_summary, on=summary_keys, how="left").sort("group")
    tops, bottoms = (list(columns) for columns in zip(*FIGURES.values(), strict=True))
    is_over_haystacks = both["haystack_id"].n_unique() >= FEWEST_UNITS
    for row, (start, end) in zip(named.iter_rows(named=True), itertools.pairwise(starts), strict=True):
        n_expected, totals, haystack = rows[start:end, 0], rows[start:end, 1:], haystacks[start:end]
        top, bottom = totals[:, tops], totals[:, bottoms]
        if weighting == "queries":
            top, bottom = np.divide(top, bottom, out=np.zeros_like(top), where=bottom > 0), (bottom > 0).astype(np.float64)
        floors = _floors(n_expected, totals, top) if weighting == "queries" else {}
        above, below = top.sum(axis=0), bottom.sum(axis=0)
        ends, reasons = query_intervals(top, bottom, haystack, [*FIGURES], is_over_haystacks)
        fields: dict[str, Any] = {key: row[key] for key in KEYS}
        for place, name in enumerate(FIGURES):
            fields[name] = float(above[place] / below[place]) if below[place] else None
        total = totals.sum(axis=0)
        fields |= {"n_expected": int(n_expected.sum()), "n_scored": int(total[0]), "n_covered": int(total[1])}
        for name in BULLET_FIGURES:
            # Summed in such a way that the order of the summaries does not matter (appendix A.3).
            fields[name] = math.fsum(row[name]) / len(row[name]) if row[name] else None
        fields |= {"n_queries": int((totals[:, 0] > 0).sum()), "weighting": weighting, "floors": floors}
        yield tuple(row[name] for name in within), SystemScore(**fields, ci=ends, ci_reasons=reasons)


def query_intervals(
    sums: Floats, counts: Floats, haystacks: NDArray[Any], names: Sequence[str], is_over_haystacks: bool
) -> tuple[dict[str, tuple[float, float]], dict[str, str]]:
    """Return (figure -> its 95 % interval, figure without an interval -> the reason). `sums`, `counts`: shape (queries,
    figures), as in `unit_means`. `haystacks`: the haystack of each query, sorted into groups."""
    strata: NDArray[Any] | None = haystacks
    if is_over_haystacks and len(haystacks):
        firsts, strata = np.flatnonzero(np.append(True, haystacks[1:] != haystacks[:-1])), None
        sums, counts = (np.add.reduceat(part, firsts) for part in (sums, counts))
    means, unit = unit_means(sums, counts, strata), "haystacks" if is_over_haystacks else "queries"
    intervals = {name: means.interval(place) for place, name in enumerate(names)}
    reasons = {name: means.reason(place, unit) for place, name in enumerate(names)}
    known = {name: ends for name, ends in intervals.items() if ends is not None}
    return known, {name: reason for name, reason in reasons.items() if reason}


def _floors(n_expected: Floats, totals: Floats, means: Floats) -> dict[str, float | None]:
    """Map each figure to the mean over queries with every missing insight as 0. `totals`: counts and sums of each query.
    `means`: the query's figures."""
    scored, covered, graded = totals[:, : len(_COUNTS)].T
    missing, floors = np.maximum(0, n_expected - scored), {}
    for place, name in enumerate(FIGURES):
        n = covered if name.startswith("citation") else scored
        # Without gold documents, a query has no citation figures and no joint.
        known = (n + missing > 0) & ((name == "coverage") | (graded > 0) | (scored == 0))
        shares = means[known, place] * n[known] / (n + missing)[known]
        floors[name] = float(shares.mean()) if known.any() and (name == "coverage" or graded.any() or not scored.any()) else None
    return floors
