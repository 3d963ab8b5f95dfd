"""Nugget scores by the definitions of the TREC RAG track, in addition to plain coverage.

Sources: Pradeep et al., "The Great Nugget Recall" (arXiv 2504.15068), and castorini/nuggetizer, `core/metrics.py`. A nugget
counts 1 if the answer supports it and 0.5 if it partially supports it (the values of coverage). In a `_strict` score only full
support counts. A query's score is the mean over its nuggets, weighted by importance (`records.NUGGET_WEIGHTS`), and 0 if no
nugget has a weight. A system's score is the mean over its queries, unlike coverage, which is the mean over all insights.
"""

from collections.abc import Sequence
from dataclasses import replace

import polars as pl

from summhay_ray.metrics.score_intervals import FEWEST_UNITS
from summhay_ray.metrics.scores_by_system import CLUSTER, KEYS, SystemScore, query_intervals
from summhay_ray.records import NUGGET_WEIGHTS

NUGGET_SCORES = tuple(f"{name}{strict}" for name in NUGGET_WEIGHTS for strict in ("", "_strict"))
"""Names of the scores: all, all_strict, vital, ..."""
_QUERY = [*KEYS, *CLUSTER]


def nugget_sums(judged: pl.DataFrame) -> pl.DataFrame:
    """Sum the judged nuggets by KEYS, CLUSTER and importance: their number `n`, their `coverage`, and the fully covered ones,
    `strict`. `judged`: a row per judged nugget, with KEYS, CLUSTER, importance and coverage. Sums of several parts can be
    added up."""
    full = (pl.col("coverage") == 1).sum().cast(pl.Float64).alias("strict")
    return judged.group_by(*_QUERY, "importance").agg(pl.len().cast(pl.Float64).alias("n"), pl.col("coverage").sum(), full)


def nugget_scores_by_query(sums: Sequence[pl.DataFrame], expected: pl.DataFrame, nuggets: pl.DataFrame) -> pl.DataFrame:
    """Return columns KEYS, CLUSTER, NUGGET_SCORES, and for each score NAME_floor, in which missing judgments count 0.

    `sums`: parts of `nugget_sums`. `expected`: KEYS, CLUSTER, n_expected. `nuggets`: CLUSTER, importance, a row per nugget. A
    score is null if no nugget of the query was judged, or if no nugget of the haystack has a weight.
    """
    counts = nuggets.group_by(*CLUSTER, "importance").agg(pl.len().alias("nuggets"))
    due = expected.join(counts, on=CLUSTER).with_columns(
        due=pl.col("n_expected") * pl.col("nuggets") / pl.col("nuggets").sum().over(_QUERY)
    )
    found = pl.concat(sums).group_by(*_QUERY, "importance").agg(pl.col("n", "coverage", "strict").sum())
    rows = due.join(found, on=[*_QUERY, "importance"], how="left").with_columns(pl.col("n", "coverage", "strict").fill_null(0.0))
    scores = []
    for name, weights in NUGGET_WEIGHTS.items():
        weight = pl.col("importance").replace_strict(weights, default=0.0, return_dtype=pl.Float64)
        rows = rows.with_columns(weight.alias(name), (weight > 0).any().over("haystack_id").alias(f"{name}_known"))
        for column, value in ((name, "coverage"), (f"{name}_strict", "strict")):
            total = (pl.col(name) * pl.col(value)).sum()
            known = pl.col(f"{name}_known").first()
            judged, all_due = ((pl.col(name) * pl.col(number)).sum() for number in ("n", "due"))
            scores += [
                pl.when(known & (pl.col("n").sum() > 0))
                .then(pl.when(judged > 0).then(total / judged).otherwise(0.0))
                .alias(column),
                pl.when(known).then(pl.when(all_due > 0).then(total / all_due).otherwise(0.0)).alias(f"{column}_floor"),
            ]
    return rows.group_by(_QUERY).agg(scores).sort(_QUERY)


def with_nuggets(scores: Sequence[SystemScore], queries: pl.DataFrame) -> list[SystemScore]:
    """Add to each score its `nuggets`, and the intervals of `nuggets_NAME`. `queries`: the result of `nugget_scores_by_query`."""
    expected = dict(queries.group_by(KEYS, maintain_order=True))
    values = pl.col(NUGGET_SCORES).fill_null(0.0)
    counted = [pl.col(name).is_not_null().cast(pl.Float64).alias(f"n_{name}") for name in NUGGET_SCORES]
    over = queries["haystack_id"].n_unique() >= FEWEST_UNITS

    def with_own(score: SystemScore) -> SystemScore:
        key = tuple(getattr(score, name) for name in KEYS)
        if key not in expected:
            return score
        judged = expected[key].drop_nulls("all")
        means = judged.select(pl.col(NUGGET_SCORES).mean()).row(0, named=True)
        floors = expected[key].select(pl.col(f"{name}_floor").mean() for name in NUGGET_SCORES).row(0, named=True)
        counts = {"n_queries": len(judged), "n_queries_expected": len(expected[key])}
        sums, numbers = judged.select(values).to_numpy(), judged.select(counted).to_numpy()
        found = query_intervals(
            sums, numbers, judged["haystack_id"].to_numpy(), [f"nuggets_{name}" for name in NUGGET_SCORES], over
        )
        nuggets = {**means, **floors, **counts}
        return replace(score, nuggets=nuggets, ci={**score.ci, **found[0]}, ci_reasons={**score.ci_reasons, **found[1]})

    return [with_own(score) for score in scores]
