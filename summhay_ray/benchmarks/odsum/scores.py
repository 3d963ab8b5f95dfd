"""Score a run from its tables: retrieval (Table 2), summaries (Tables 3 and 4), the cost of retrieval errors (Table 5).

Means are over the n values that were scored, out of n_expected. Failures are left out; they never count as zero.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from summhay_ray.benchmark import ByQuery, RunTables, Tables, mean_interval
from summhay_ray.benchmarks.odsum.spec import GEVAL, GEVAL_EXTRACT, GevalSpec, OdsumSpec
from summhay_ray.benchmarks.rating import sample_counts
from summhay_ray.benchmarks.retrieval import retrieval_by_query, retrieval_details, retrieval_table, retrieved_of, retriever_label
from summhay_ray.benchmarks.summarizing import GIVEN
from summhay_ray.metrics import ROUGE_TYPES

ORACLE = "oracle"
OWN_N = ("bertscore", GEVAL, GEVAL_EXTRACT)
"""Metrics that may have fewer scores than there are summaries."""
METRICS = (*ROUGE_TYPES, *OWN_N)
NAMES = {
    "rouge1": "ROUGE-1",
    "rouge2": "ROUGE-2",
    "rougeL": "ROUGE-L",
    "rougeLsum": "ROUGE-Lsum",
    "bertscore": "BERTScore",
    GEVAL: "G-EVAL",
    GEVAL_EXTRACT: "G-EVAL (extract)",
}
SYSTEM = ("retriever", "k", "strategy", "model")
RATINGS = (1.0, 5.0)
_BOUNDS = {GEVAL: RATINGS, GEVAL_EXTRACT: RATINGS}
"""Metric -> its minimum and maximum, for metrics whose range is not 0 to 1."""


def frames(tables: RunTables, spec: OdsumSpec, unordered: Collection[str] = ()) -> Tables:
    """Return the tables `retrieval`, `summaries`, `ratings` and `robustness`, with rows per system. `unordered`: see
    `retrieval_table`."""
    retrievers = [retriever_label(entry) for entry in spec.retrievers]
    scored = _scored(tables)
    ranked, n_queries = retrieved_of(tables, max(spec.k)), tables["odsum_queries"].height
    # Leave out retrievers whose items were never asked: they have not ranked anything yet.
    asked = set(scored["retriever"]) if spec.summarizers and scored.height else set(retrievers)
    ranking = [name for name in retrievers if name in asked]
    ratings = [_ratings(tables, scored, name, geval) for name, geval in spec.gevals.items()]
    by_name = {
        "retrieval": retrieval_table(ranked, spec.k, dict.fromkeys(ranking, n_queries), unordered),
        "summaries": _summaries(scored),
        "ratings": pl.concat(ratings) if ratings else pl.DataFrame(),
        "robustness": robustness(scored),
    }
    # Rows follow the order of the spec, not the alphabet.
    orders = {
        "retriever": retrievers,
        "strategy": [summarizer.strategy_label for summarizer in spec.summarizers],
        "model": [summarizer.model_label for summarizer in spec.summarizers],
    }
    return {name: _in_order(frame, orders) for name, frame in by_name.items()}


def details(scores: Tables) -> Mapping[str, Any]:
    """Return `retrieval`, `summaries` and `robustness` as fields of a run's JSON document."""
    columns = (*SYSTEM, "n_expected", "n_scored", *METRICS, *(f"{name}_floor" for name in METRICS))
    summaries = scores["summaries"].select(*columns, *(f"n_{name}" for name in ("rouge", *OWN_N)))
    own = {"summaries": summaries.to_dicts(), "robustness": scores["robustness"].to_dicts()}
    return {**retrieval_details(scores["retrieval"]), **own}


def _scored(tables: Tables) -> pl.DataFrame:
    """Return one row per expected summary: its system and query, and its scores (null if it has none)."""
    items = tables["items"]
    texts = ("query_id", "retriever", "strategy", "called")
    absent = {**dict.fromkeys(texts, pl.String), "k": pl.Int64, "summarizer": pl.Int64}
    items = items.with_columns(pl.lit(None, kind).alias(name) for name, kind in absent.items() if name not in items.columns)
    items = items.filter(pl.col("summarizer").is_not_null()).select(
        "item_id",
        *(pl.col(name).cast(pl.String) for name in ("query_id", "retriever", "strategy")),
        pl.col("k").cast(pl.Int64),
        pl.col("called").cast(pl.String).alias("model"),
    )
    written = tables["odsum_summaries"].select("item_id", pl.lit(True).alias("written"))
    return items.join(written, on="item_id", how="left").join(tables["odsum_scores"], on="item_id", how="left")


def by_query(tables: RunTables, spec: OdsumSpec, unordered: Collection[str] = ()) -> ByQuery:
    """Return each system's score on each query. Systems are named RETRIEVER@K_MODEL+STRATEGY; unknown parts of a name are
    left out."""
    if not spec.summarizers:
        retrievers = [retriever_label(entry) for entry in spec.retrievers]
        ranked = retrieval_by_query(retrieved_of(tables, max(spec.k)), spec.k, unordered, retrievers)
        expected = None if ranked.expected is None else ranked.expected.drop("cluster")
        return replace(ranked, scores=ranked.scores.drop("cluster"), expected=expected)
    shown = pl.concat_str("retriever", pl.concat_str(pl.lit("@"), "k").fill_null(""), pl.lit("_")).fill_null("")
    written = pl.when(pl.col("strategy") != GIVEN).then(pl.concat_str(pl.lit("+"), "strategy")).otherwise(pl.lit(""))
    strategy = pl.when(pl.col("strategy") != GIVEN).then("strategy")
    parts = {"retriever": pl.col("retriever"), "k": pl.format("k={}", "k"), "model": pl.col("model"), "strategy": strategy}
    scored = _scored(tables).with_columns(system=pl.concat_str(shown, "model", written)).with_columns(**parts)
    measured = {NAMES[name]: pl.col(name).cast(pl.Float64) for name in METRICS if scored[name].count()}
    units = {name: "" if name.startswith(NAMES[GEVAL]) else "%" for name in measured}
    asked = scored.select("system", query="query_id")
    ceilings = scored.filter(pl.col("retriever") == ORACLE)["system"].unique()
    return ByQuery(scored.select("system", *parts, query="query_id", **measured), units, expected=asked, ceilings=[*ceilings])


def _summaries(scored: pl.DataFrame) -> pl.DataFrame:
    counts = scored.group_by(SYSTEM).agg(
        pl.len().cast(pl.Int64).alias("n_expected"),
        pl.any_horizontal(pl.col(name).is_not_null() for name in METRICS).sum().cast(pl.Int64).alias("n_scored"),
        pl.col("written").sum().cast(pl.Int64).alias("n_written"),
        pl.col("rouge1").count().cast(pl.Int64).alias("n_rouge"),
        *(pl.col(name).count().cast(pl.Int64).alias(f"n_{name}") for name in OWN_N),
    )
    means = counts
    for name in METRICS:
        mean = mean_interval(scored, name, SYSTEM, bounds=_BOUNDS.get(name)).drop("n")
        means = means.join(mean, on=SYSTEM, how="left", nulls_equal=True)
    of = {name: "n_rouge" if name in ROUGE_TYPES else f"n_{name}" for name in METRICS}
    measured = {name: pl.col(name).fill_null(0.0) if scored[name].count() else pl.col(name) for name in METRICS}
    return means.with_columns(
        (value * pl.col(of[name]) / pl.col("n_expected")).alias(f"{name}_floor") for name, value in measured.items()
    )


def _ratings(tables: Tables, scored: pl.DataFrame, name: str, geval: GevalSpec) -> pl.DataFrame:
    """Return one G-EVAL by criterion, without queries that lack a rating. `rating`: each query counts once, with its best
    reference or the mean over references. `pooled`: the mean over all answers, as in the release."""
    by = (*SYSTEM, "criterion")
    ratings = tables["odsum_ratings"].filter(pl.col("rater") == name)
    n_references = pl.col("references").list.eval(pl.element().str.strip_chars() != "").list.sum().alias("references")
    wanted = tables["odsum_queries"].select("query_id", n_references).filter(pl.col("references") > 0)
    asked = scored.join(wanted, on="query_id").join(pl.DataFrame({"criterion": geval.criteria}), how="cross")
    rating = pl.col("rating").max() if geval.over == "best" else pl.col("rating").mean()
    votes = pl.col("n_votes").sum(), pl.col("sum_votes").sum(), pl.col("n_votes").min().alias("least")
    queries = (
        ratings.join(asked.select("item_id", "references", *by), on=["item_id", "criterion"])
        .group_by(*by, "item_id")
        .agg(rating, *votes, (pl.len() == pl.col("references").first()).alias("whole"))
        .filter("whole")
    )
    # An expectation over log probabilities has no votes to pool.
    every = pl.when(pl.col("least").min() > 0).then(pl.col("sum_votes").sum() / pl.col("n_votes").sum()).alias("pooled")
    means = mean_interval(queries, "rating", by, expected=asked.select(by), bounds=RATINGS)
    rated = ratings.join(asked.select("item_id", *by), on=["item_id", "criterion"])
    samples = sample_counts(rated.with_columns(n_asked=pl.lit(geval.samples)), by)
    pooled = queries.group_by(by).agg(every)
    pooled = means.join(pooled, on=by, how="left", nulls_equal=True).join(samples, on=by, how="left", nulls_equal=True)
    return pooled.with_columns(pl.lit(NAMES[name]).alias("rater"))


def robustness(scored: pl.DataFrame) -> pl.DataFrame:
    """Return the loss when a retriever's documents replace the oracle's (Table 5), for every k: a row per system and metric.
    `oracle` and `retrieved` are means over the n queries scored in both settings. `lost` is the mean difference with its 95 %
    interval."""
    long = scored.unpivot(METRICS, index=["query_id", *SYSTEM], variable_name="metric").drop_nulls("value")
    pair = ["query_id", "strategy", "model", "metric"]
    ideal = long.filter(pl.col("retriever") == ORACLE).select(*pair, pl.col("value").alias("oracle"))
    pairs = (
        long.filter(pl.col("retriever") != ORACLE)
        .join(ideal, on=pair)
        .with_columns((pl.col("oracle") - pl.col("value")).alias("lost"))
    )
    by = [*SYSTEM, "metric"]
    means = pairs.group_by(by).agg(pl.col("oracle").mean(), pl.col("value").mean().alias("retrieved"))
    rated = pl.col("metric").is_in(list(_BOUNDS))
    lost = [mean_interval(pairs.filter(of), "lost", by, bounds=(-reach, reach)) for of, reach in ((rated, 4.0), (~rated, 1.0))]
    return means.join(pl.concat(lost), on=by, how="left", nulls_equal=True)


def _in_order(frame: pl.DataFrame, orders: Mapping[str, Sequence[str]]) -> pl.DataFrame:
    """Sort the frame as the spec lists retrievers, strategies and models; metrics have the order of `METRICS`."""
    known = {**orders, "metric": METRICS}
    keys = []
    for name in ("model", "strategy", "retriever", "k", "metric", "criterion"):
        if name in frame.columns:
            places = {value: place for place, value in reversed(list(enumerate(known.get(name, ()))))}
            key = pl.col(name).replace_strict(places, default=len(places), return_dtype=pl.Int64) if places else pl.col(name)
            keys.append(key)
    return frame.sort(keys, nulls_last=True) if keys else frame
