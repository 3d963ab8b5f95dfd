"""Measures of the rankings of a SummHay run against the gold documents of its haystacks."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import polars as pl

from summhay_ray.benchmarks.retrieval import Retrieved, retrieval_table, retriever_label
from summhay_ray.benchmarks.summhay.sources import Outline
from summhay_ray.benchmarks.summhay.spec import SummhaySpec
from summhay_ray.store import RunStore

Gold = Mapping[tuple[str, str], frozenset[int]]
"""(haystack_id, subtopic_id) -> numbers of the documents that contain an insight of the subtopic."""


def retrieval_of(run: RunStore, sources: Sequence[Outline]) -> pl.DataFrame | None:
    """One row per retriever and k, and one for the documents within the token budget; None for a run without rankings."""
    spec = run.record.get("spec", {})
    if not spec.get("retrievers"):
        return None
    contexts = run.table("contexts")
    shown = contexts.select("haystack_id", "subtopic_id", "retriever", "n_tokens", n_shown=pl.col("numbers").list.len())
    shown = shown.unique(["haystack_id", "subtopic_id", "retriever"], maintain_order=True)
    whole = set(contexts.filter(pl.col("ordering") != "given")["retriever"]) | {"full"}
    ks = spec.get("k", [])
    n_queries = sum(len(source.subtopics) for source in sources)
    # A retriever such as `none` shows no document: there is nothing to measure.
    empty = set(shown["retriever"]) - set(shown.filter(pl.col("n_shown") > 0)["retriever"])
    labels = map(retriever_label, SummhaySpec.model_validate(spec).retrievers)
    names = sorted(label for label in labels if label not in empty)
    retrieved = _retrieved(run, shown.filter(pl.col("retriever").is_in(names)), _gold(run, sources), whole, max(ks, default=0))
    return retrieval_table(retrieved, ks, dict.fromkeys(names, n_queries), spec.get("seed", 0), whole)


def _gold(run: RunStore, sources: Sequence[Outline]) -> Gold:
    by_haystack = {source.haystack_id: source.gold() for source in sources}
    documents: defaultdict[tuple[str, str], set[int]] = defaultdict(set)
    for haystack_id, subtopic_id, insight_id in (
        run.table("insights").select("haystack_id", "subtopic_id", "insight_id").iter_rows()
    ):
        documents[haystack_id, subtopic_id] |= by_haystack[haystack_id].get(insight_id, frozenset())
    return {query: frozenset(numbers) for query, numbers in documents.items()}


def _retrieved(run: RunStore, shown: pl.DataFrame, gold: Gold, whole: set[str], deepest: int) -> Iterator[Retrieved]:
    keys = ["haystack_id", "subtopic_id", "retriever"]
    # A haystack's rows are all in one piece.
    ranked = (piece.join(shown, on=keys) for piece in run.pieces("rankings", [*keys, "rank", "number"]))
    kept = (rows.filter(pl.col("rank") <= pl.max_horizontal("n_shown", pl.lit(deepest))).sort(*keys, "rank") for rows in ranked)
    for key, rows in itertools.chain.from_iterable(rows.group_by(keys, maintain_order=True) for rows in kept):
        haystack_id, subtopic_id, retriever = map(str, key)
        yield Retrieved(
            retriever=retriever,
            query=f"{haystack_id}/{subtopic_id}",
            document_ids=list(map(str, rows["number"].to_list())),
            gold={str(number): 1.0 for number in gold.get((haystack_id, subtopic_id), ())},
            shown=rows["n_shown"][0],
            tokens=rows["n_tokens"][0],
            ordered=retriever not in whole,
        )
