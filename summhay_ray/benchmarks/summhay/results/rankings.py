"""Measures of the rankings of a SummHay run against the gold documents of its haystacks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import polars as pl

from summhay_ray.benchmark import RunStore
from summhay_ray.benchmarks.retrieval import Retrieved, retrieval_table, retriever_label
from summhay_ray.benchmarks.summhay.haystacks.gold import gold_by_query
from summhay_ray.benchmarks.summhay.haystacks.metadata import HaystackMetadata
from summhay_ray.benchmarks.summhay.results.claims import PLACE, absent_queries
from summhay_ray.benchmarks.summhay.spec import SummhaySpec


def retrieval_of(
    run: RunStore, metadata: Sequence[HaystackMetadata], gold: pl.DataFrame, expected: pl.DataFrame
) -> pl.DataFrame | None:
    """One row per retriever and k, and one for the documents within the token budget; None for a run without rankings.

    `gold`: `gold_by_insight` of the haystacks. `expected`: a row for each system and query that was asked (`PLACE`, retriever).
    """
    spec = run.record.get("spec", {})
    if not spec.get("retrievers"):
        return None
    contexts = run.table("contexts")
    shown = contexts.select("haystack_id", "subtopic_id", "retriever", "n_tokens", n_shown=pl.col("numbers").list.len())
    shown = shown.unique(["haystack_id", "subtopic_id", "retriever"], maintain_order=True)
    whole = set(contexts.filter(pl.col("ordering") != "given")["retriever"]) | {"full"}
    ks = spec.get("k", [])
    # A query that no document answers has nothing to find.
    absent = absent_queries(metadata)
    asked_of = expected.select("retriever", *PLACE).unique().group_by("retriever").agg(pl.len())
    n_queries = {str(retriever): n for retriever, n in asked_of.iter_rows()}
    # A retriever such as `none` shows no document, so there is nothing to measure.
    empty = set(shown["retriever"]) - set(shown.filter(pl.col("n_shown") > 0)["retriever"])
    labels = map(retriever_label, SummhaySpec.model_validate(spec).retrievers)
    names = sorted(label for label in labels if label not in empty and label in n_queries)
    shown = shown.filter(pl.col("retriever").is_in(names)).join(absent, on=PLACE, how="anti", maintain_order="left")
    asked = shown.join(gold_by_query(run, gold), on=["haystack_id", "subtopic_id"], how="left", maintain_order="left")
    retrieved = _retrieved(run, asked, whole, max(ks, default=0))
    return retrieval_table(retrieved, ks, {name: n_queries[name] for name in names}, whole)


def _retrieved(run: RunStore, asked: pl.DataFrame, whole: set[str], deepest: int) -> Iterator[Retrieved]:
    """`asked`: haystack_id, subtopic_id, retriever, n_shown, n_tokens, and the gold `documents` (null without insights)."""
    keys = ["haystack_id", "subtopic_id", "retriever"]
    # A haystack's rows are all in one piece, in the order of the ranks.
    for piece in run.pieces("rankings", [*keys, "rank", "number"]):
        ranked = piece.join(asked.select(*keys, "n_shown"), on=keys, maintain_order="left")
        kept = ranked.filter(pl.col("rank") <= pl.max_horizontal("n_shown", pl.lit(deepest)))
        queries = kept.group_by(keys, maintain_order=True).agg(pl.col("number").cast(pl.String))
        for row in queries.join(asked, on=keys, maintain_order="left").iter_rows(named=True):
            yield Retrieved(
                retriever=row["retriever"],
                query=f"{row['haystack_id']}/{row['subtopic_id']}",
                document_ids=row["number"],
                gold={str(number): 1.0 for number in row["documents"] or ()},
                shown=row["n_shown"],
                tokens=row["n_tokens"],
                ordered=row["retriever"] not in whole,
            )
