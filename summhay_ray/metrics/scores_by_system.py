"""The scores of systems, pooled over insights, with intervals. Part of the metrics room; imported from `summhay_ray.metrics`."""

from __future__ import annotations

import functools
import itertools
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from summhay_ray.metrics.coverage_citation_joint import CITATION_VALUES, VALUES
from summhay_ray.metrics.paired_differences import INCOMPLETE
from summhay_ray.metrics.score_intervals import generator, ratio_intervals
from summhay_ray.records import system_label

if TYPE_CHECKING:
    import numpy as np
    import polars as pl
    from numpy.typing import NDArray

KEYS = ("system", "retriever", "ordering", "model", "judge")
ORDER = ("model", "retriever", "ordering", "system", "judge")
CLUSTER = ("haystack_id", "subtopic_id")
_Clusters = tuple[tuple[str, str], ...]
"""Haystack and subtopic of each: a cluster is all insights of one summary."""

_COUNT_OF = {name: "covered" if name in CITATION_VALUES else "graded" if name == "joint" else "scored" for name in VALUES}
_COUNTS = ("scored", "covered", "graded")
"""Scored insights; those that are covered, and those whose gold documents are known."""
_UNIT = 2.0**60
"""Figures are added as multiples of 1 / _UNIT, which are whole numbers: a sum does not depend on their order, to the last bit."""
_WHOLE = ("full", "released/full")
"""Retrievers that show the whole haystack."""
_FIRST = ("none", "random", "released/random")
_LAST = ("oracle", "released/oracle", *_WHOLE)
_SYSTEMS_AT_ONCE = 8
"""Systems whose resamples a thread holds, and sorts, at once. For 16 systems in one haystack of nine subtopics, numpy multiplies
with threads of its own, beside ours: 190 haystacks took twice as long. All together take a fifth longer than with 32."""
_HAYSTACKS_AT_ONCE = 16
"""Haystacks whose draws are multiplied at once."""
_HIGH = 2.0**26
FIGURES = {
    "citation" if name == "citation_f1" else name: (len(_COUNTS) + place, _COUNTS.index(_COUNT_OF[name]))
    for place, name in enumerate(VALUES)
}
"""Figure of a system -> columns of its numerator and its denominator among the clusters' sums."""


@dataclass(frozen=True, slots=True)
class TakenOff:
    """The bias subtracted from a score: the judge it belongs to, mean and standard error (fractions), and its source."""

    judge: str
    mean: float
    se: float
    source: str


def with_labels(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows, which have `retriever`, `ordering` and `model`, with a column `label`: each one's system, for people."""
    import polars as pl

    parts = pl.struct("retriever", "ordering", "model")
    return rows.with_columns(parts.map_elements(lambda one: system_label(**one), pl.String).alias("label"))


def of_column(column: str) -> tuple[str, str]:
    """(retriever, ordering) of a column. Only the whole haystack has orderings; any other name may contain a space."""
    retriever, _, ordering = column.rpartition(" ")
    return (retriever, ordering) if retriever in _WHOLE else (column, "given")


def column_place(column: str) -> tuple[int, str]:
    """The sort key of a column: baselines first, then by name; oracle and the whole haystack last."""
    retriever = of_column(column)[0]
    if retriever in _FIRST:
        return _FIRST.index(retriever) - len(_FIRST), column
    return (_LAST.index(retriever) + 1 if retriever in _LAST else 0), column


@dataclass(frozen=True, slots=True)
class Corrected:
    """A mean after people's labels: what people would have said of all items, as estimated."""

    value: float
    half: float | None
    """Half of its 95 % interval for the items at hand; None with too few labels."""
    weight: float
    """What the judge's scores count for: 1 is plain prediction-powered inference, 0 the mean of the labels alone."""
    n: int
    """Labels."""


@dataclass(frozen=True, slots=True)
class ByLabels:
    """A system's figures corrected by people's labels. `n`: labels used; `own`: whether they are all the system's own."""

    n: int
    own: bool
    coverage: Corrected | None
    joint: Corrected | None


@dataclass(frozen=True, slots=True)
class SystemScore:
    """The scores of one system by one judge, as fractions; None where nothing was scored or, for citations, nothing covered.
    Citations and joint are of insights with gold documents; None where none has any.

    `n_scored` of `n_expected` insights were scored, and `n_covered` of those are covered and have gold documents. `ci` maps a
    figure's name to its 95 % interval; it is empty where there is nothing to resample (no haystack with two scored subtopics).
    The corrected figures are None where the judge's bias against people is unknown (`metrics.bias`).
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
    ci: dict[str, tuple[float, float]] = field(default_factory=dict)
    coverage_corrected: float | None = None
    joint_corrected: float | None = None
    bias: TakenOff | None = None
    coverage_labelled: float | None = None
    joint_labelled: float | None = None
    labels: ByLabels | None = None
    """By people's labels (`metrics.labelled`); None without any."""
    nuggets: Mapping[str, float | None] | None = None
    """NUGGET_SCORES, NAME_floor, n_queries and n_queries_expected (`metrics.nugget_scores`); None without nuggets."""
    invented: float | None = None
    """Of the answers to queries about what no document says, the share that claims anything; `n_absent` of `n_absent_expected`
    such answers are judged. They enter no other figure."""
    n_absent: int = 0
    n_absent_expected: int = 0
    unsupported_bullets: float | None = None
    """Share of the `n_bullets` bullets that a support run has judged that no document says and that cover no insight; None if no
    support run has judged any."""
    n_bullets: int = 0

    @property
    def label(self) -> str:
        """The system's name for people."""
        return system_label(self.retriever, self.ordering, self.model)

    @property
    def missing(self) -> float:
        """Share of the expected insights that were not scored."""
        return 1 - self.n_scored / self.n_expected if self.n_expected else 0.0

    @property
    def incomplete(self) -> bool:
        """Whether it lacks so much that it is not ranked, and the best of nothing."""
        return self.missing > INCOMPLETE

    def floor(self, figure: str) -> float | None:
        """A figure with every missing insight as 0 (of citations: as covered, without a right citation); None if none is due."""
        if figure != "coverage" and self.joint is None and self.n_scored:
            # No insight has gold documents.
            return None
        n = self.n_covered if figure.startswith("citation") else self.n_scored
        due = n + max(0, self.n_expected - self.n_scored)
        return (getattr(self, figure) or 0.0) * n / due if due else None

    def to_json(self) -> dict[str, Any]:
        """Field -> value, as JSON, with FIGURE_floor and `missing`. `dataclasses.asdict` takes seven times as long."""
        fields = {name: getattr(self, name) for name in self.__dataclass_fields__}
        floors = {f"{name}_floor": self.floor(name) for name in FIGURES}
        said = {name: None if (one := fields[name]) is None else asdict(one) for name in ("bias", "labels")}
        return {
            "system": self.system,
            "label": self.label,
            **fields,
            "ci": dict(self.ci),
            "nuggets": None if self.nuggets is None else dict(self.nuggets),
            **said,
            **floors,
            "missing": self.missing,
        }


def insight_sums(insights: pl.DataFrame) -> pl.DataFrame:
    """What `system_scores` needs of scored insights: counts and exact sums by KEYS and CLUSTER, a row each.

    `insights`: one row per scored insight, with KEYS, CLUSTER and VALUES (citation columns null where the insight is not
    covered). Insights may come in parts: `added` makes one frame of several.
    """
    import polars as pl

    counts = [pl.len().cast(pl.Int64).alias("scored")]
    counts += [pl.col(name).count().cast(pl.Int64).alias(of) for name, of in (("citation_f1", "covered"), ("joint", "graded"))]
    return insights.group_by(*KEYS, *CLUSTER).agg(*counts, *map(_exact_sum, VALUES))


def added(sums: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Frames of `insight_sums` as one, whose rows do not depend on how the insights were parted."""
    import polars as pl

    return pl.concat(sums).group_by(*KEYS, *CLUSTER).agg(pl.col(*_COUNTS, *VALUES).sum()).sort(*KEYS, *CLUSTER)


def query_means(sums: pl.DataFrame) -> pl.DataFrame:
    """KEYS and CLUSTER, the means of VALUES over the scored insights (citation: over the covered ones), their number `n`, and of
    these the `covered` ones and those that are `graded`, with known gold documents."""
    import polars as pl

    means = [(_total(name) / pl.col(_COUNT_OF[name]).replace(0, None)).alias(name) for name in VALUES]
    return sums.select(*KEYS, *CLUSTER, *means, pl.col("scored").alias("n"), "covered", "graded")


def system_scores(
    sums: pl.DataFrame, expected: pl.DataFrame, words: pl.DataFrame, seed: int = 0, samples: int = 1000
) -> list[SystemScore]:
    """The scores of every system that was scored or expected, sorted by model, retriever, ordering, system and judge.

    `sums`: `insight_sums` of all scored insights. `expected`: KEYS, CLUSTER and n_expected, the number of insights to be scored.
    `words`: KEYS without judge, and words_per_bullet, one row per summary (null without bullets). Pooling is the release's:
    coverage and joint are means over all scored insights, citation figures over the covered ones (section 4.1). Intervals: a
    cluster bootstrap with `samples` resamples of subtopics within haystacks, which systems share: equal scores have equal ones.
    The result does not depend on the order of rows, to the last bit.
    """
    return [score for _, score in _scores(sums, expected, words, (), seed, samples)]


def haystack_scores(
    sums: pl.DataFrame, expected: pl.DataFrame, words: pl.DataFrame, seed: int = 0, samples: int = 1000
) -> dict[str, list[SystemScore]]:
    """Id of a haystack -> what `system_scores` makes of its rows alone. `words` has haystack_id, too."""
    found: dict[str, list[SystemScore]] = {}
    for (haystack_id,), score in _scores(sums, expected, words, ("haystack_id",), seed, samples):
        found.setdefault(haystack_id, []).append(score)
    return found


def _scores(
    sums: pl.DataFrame, expected: pl.DataFrame, words: pl.DataFrame, within: tuple[str, ...], seed: int, samples: int
) -> Iterator[tuple[tuple[str, ...], SystemScore]]:
    """Yields (values of the columns `within`, score) for each system in each of them, sorted by both."""
    import polars as pl

    keys, summary_keys = (*within, *KEYS), (*within, *KEYS[:4])
    frames = [sums.select(keys), expected.select(keys)]
    groups = pl.concat(frames).unique().sort(*within, *ORDER).with_row_index("group")
    ordered = sums.join(groups, on=keys).sort("group", *CLUSTER)
    clusters = ordered.select(CLUSTER).rows()
    totals = ordered.select(pl.col(*_COUNTS).cast(pl.Float64), *map(_total, VALUES)).to_numpy()
    starts = ordered["group"].to_numpy().searchsorted(range(len(groups) + 1))
    counts = expected.group_by(keys).agg(pl.col("n_expected").sum())
    spoken = words.group_by(summary_keys).agg(pl.col("words_per_bullet").drop_nulls())
    counted = groups.join(counts, on=keys, how="left").join(spoken, on=summary_keys, how="left").sort("group")
    parts = [slice(start, end) for start, end in itertools.pairwise(starts)]
    intervals = cluster_intervals([(totals[part], tuple(clusters[part])) for part in parts], FIGURES, seed, samples)
    for row, part, ci in zip(counted.iter_rows(named=True), parts, intervals, strict=True):
        total = totals[part].sum(axis=0)
        fields: dict[str, Any] = {key: row[key] for key in KEYS}
        for name, (top, bottom) in FIGURES.items():
            fields[name] = float(total[top] / total[bottom]) if total[bottom] else None
        fields |= {"n_expected": row["n_expected"] or 0, "n_scored": int(total[0]), "n_covered": int(total[1])}
        # The mean over a system's summaries with bullets (appendix A.3), independent of their order.
        lengths = row["words_per_bullet"]
        fields["words_per_bullet"] = math.fsum(lengths) / len(lengths) if lengths else None
        yield tuple(row[name] for name in within), SystemScore(**fields, ci=ci)


def _exact_sum(name: str) -> pl.Expr:
    import polars as pl

    return (pl.col(name).cast(pl.Float64) * _UNIT).round().cast(pl.Int128).sum()


def _total(name: str) -> pl.Expr:
    import polars as pl

    return pl.col(name).cast(pl.Float64) / _UNIT


def cluster_intervals(
    systems: Sequence[tuple[NDArray[np.float64], _Clusters]], figures: Mapping[str, tuple[int, int]], seed: int, samples: int
) -> list[dict[str, tuple[float, float]]]:
    """For each system (sums of its clusters, clusters): figure -> its interval; empty where no haystack has two clusters.

    `figures`: figure -> columns of its numerator and its denominator among the sums.
    """
    import numpy as np

    alike: dict[_Clusters, list[int]] = {}
    for place, (_, clusters) in enumerate(systems):
        alike.setdefault(clusters, []).append(place)
    found: list[dict[str, tuple[float, float]]] = [{} for _ in systems]

    @functools.cache
    def counts_of(clusters: _Clusters) -> NDArray[np.unsignedinteger[Any]]:
        """(samples, clusters) of a haystack: how often each resample draws each of them. Systems with the same ones share it."""
        n = len(clusters)
        drawn = generator(seed, [*itertools.chain(*clusters)]).multinomial(n, [1 / n] * n, size=samples)
        # Of all haystacks together these are the largest thing that scoring holds.
        return drawn.astype(np.min_scalar_type(n))

    def resample(places: Sequence[int]) -> None:
        """The intervals of systems that have the same clusters."""
        clusters = systems[places[0]][1]
        haystacks = [tuple(own) for _, own in itertools.groupby(clusters, key=lambda cluster: cluster[0])]
        if len(haystacks) == len(clusters):
            return
        sums = np.stack([systems[place][0] for place in places], axis=1)
        start, drawn = 0, np.zeros(())
        for first in range(0, len(haystacks), _HAYSTACKS_AT_ONCE):
            counts = np.hstack([counts_of(own) for own in haystacks[first : first + _HAYSTACKS_AT_ONCE]]).astype(np.float64)
            own = sums[start : start + counts.shape[1]].reshape(counts.shape[1], -1)
            # In two parts, as in `_exact_sum`: adding half a million of each makes no rounding error, in whatever order.
            high = np.floor(own * _HIGH) / _HIGH
            drawn = drawn + counts @ np.stack([high, own - high])
            start += counts.shape[1]
        drawn = drawn.sum(axis=0).reshape(samples, *sums.shape[1:])
        above, below = (drawn[:, :, list(side)].reshape(samples, -1) for side in zip(*figures.values(), strict=True))
        named = [(place, name) for place in places for name in figures]
        for (place, name), interval in zip(named, ratio_intervals(above, below), strict=True):
            if interval is not None:
                found[place][name] = interval

    together = [own[n : n + _SYSTEMS_AT_ONCE] for own in alike.values() for n in range(0, len(own), _SYSTEMS_AT_ONCE)]
    # numpy sorts without the interpreter's lock.
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        list(threads.map(resample, together))
    return found
