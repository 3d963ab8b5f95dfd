"""What the rankings of a run are worth: a row for each retriever and k, with intervals over queries, and the report's section."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from summhay_ray.benchmark import Section
from summhay_ray.metrics import RetrievalScore, column_intervals, retrieval_scores

if TYPE_CHECKING:
    import polars as pl

MEASURES = ("precision", "recall", "f1", "ndcg", "ap", "mrr")
_TITLES = {"precision": "P", "recall": "R", "f1": "F1", "ndcg": "nDCG", "ap": "AP", "mrr": "MRR"}


@dataclass(frozen=True, slots=True)
class Retrieved:
    """What one retriever found for one query."""

    retriever: str
    query: str
    """Tells queries apart, over all corpora."""
    document_ids: Sequence[str]
    """Best first."""
    gold: Mapping[str, float]
    """document -> how relevant, above 0; a query without any is left out of all figures."""
    shown: int | None = None
    """The first so many fit into the token budget; None where there is none."""
    tokens: int | None = None
    """Tokens of those."""
    ordered: bool = True
    """Whether the ranking has an order of its own."""


def retrieval_table(
    found: Iterable[Retrieved], ks: Sequence[int], expected: Mapping[str, int], seed: int = 0, unordered: Collection[str] = ()
) -> pl.DataFrame:
    """A row for each retriever and k (null: what the token budget shows), in the order of `expected`: retriever -> its queries.

    Columns: retriever, k, `n` queries measured of `n_expected`, each measure with its 95 % interval (percentile bootstrap over
    queries), and the mean `tokens` of what the budget shows. A retriever of which nothing is there has its rows, with an n of 0.
    A ranking without an order, as the `unordered` retrievers' are, has no row at a k: which of its documents come first says
    nothing.
    """
    import polars as pl

    by_retriever: dict[str, list[Retrieved]] = {name: [] for name in expected}
    for one in found:
        if any(grade > 0 for grade in one.gold.values()):
            by_retriever.setdefault(one.retriever, []).append(one)
    rows: list[dict[str, Any]] = []
    for retriever, queries in by_retriever.items():
        # In one order, wherever they come from: what is drawn must fall on the same queries.
        queries.sort(key=lambda one: one.query)
        ordered = all(one.ordered for one in queries) and retriever not in unordered
        cuts: list[int | None] = [*(ks if ordered else ()), *([None] if all(one.shown is not None for one in queries) else [])]
        for k in cuts:
            rows.append({"retriever": retriever, "k": k, "n": len(queries), "n_expected": expected.get(retriever, len(queries))})
            rows[-1].update(_measured(queries, k, ordered, seed))
    figures = {name: pl.Float64 for measure in MEASURES for name in (measure, f"{measure}_low", f"{measure}_high")}
    schema = {"retriever": pl.String, "k": pl.Int64, **figures, "tokens": pl.Float64, "n": pl.Int64, "n_expected": pl.Int64}
    return pl.DataFrame(rows, schema=schema, orient="row")


def _measured(queries: Sequence[Retrieved], k: int | None, ordered: bool, seed: int) -> dict[str, float | None]:
    scores = _scores(queries, k, ordered)
    found: dict[str, float | None] = {}
    values = {name: [getattr(score, name) for score in scores] for name in MEASURES[: 6 if ordered else 3]}
    if k is None:
        found["tokens"] = sum(one.tokens or 0 for one in queries) / len(queries) if queries else None
    for name, (mean, low, high) in column_intervals(values, seed).items():
        found.update({name: mean, f"{name}_low": low, f"{name}_high": high})
    return found


def _scores(queries: Sequence[Retrieved], k: int | None, ordered: bool) -> list[RetrievalScore]:
    """One a query, in their order; without a k, at as many documents as its budget shows."""
    at: defaultdict[int, list[int]] = defaultdict(list)
    for place, one in enumerate(queries):
        at[k if k is not None else one.shown or 0].append(place)
    found: dict[int, RetrievalScore] = {}
    for cut, places in at.items():
        rankings = [(queries[place].document_ids[:cut], queries[place].gold) for place in places]
        found.update(zip(places, retrieval_scores(rankings, max(cut, 1), ordered=ordered), strict=True))
    return [found[place] for place in range(len(queries))]


def retrieval_rows(table: pl.DataFrame) -> list[dict[str, Any]]:
    """The rows of `summhay retrieve --json`: fractions; k is null in the row at the token budget."""
    return table.select("retriever", "k", "n", *MEASURES).to_dicts()


def retrieval_details(table: pl.DataFrame) -> dict[str, Any]:
    """Fields of a run's JSON document: the rows, and beside them their intervals and the tokens shown."""
    intervals = [f"{name}_{end}" for name in MEASURES for end in ("low", "high")]
    beside = table.select("retriever", "k", "n_expected", "tokens", *intervals).to_dicts()
    return {"retrieval": retrieval_rows(table), "retrieval_intervals": beside}


def retrieval_section(table: pl.DataFrame, token_budget: int | None) -> Section:
    """The retrieval table, for people."""
    import polars as pl

    names = [name for measure in MEASURES for name in (measure, f"{measure}_low", f"{measure}_high")]
    titled = {name: _TITLES[name.partition("_")[0]] + name[len(name.partition("_")[0]) :] for name in names}
    at = pl.col("k").cast(pl.String).fill_null("budget").alias("k")
    shown = table.select("retriever", at, *names, pl.col("tokens").round().cast(pl.Int64), "n", "n_expected").rename(titled)
    budget = "" if token_budget is None else f" In the rows at the budget, the documents that fit into {token_budget:,} tokens."
    return Section(
        "Retrieval",
        text=f"Precision, recall and F1 of the set; nDCG, AP and MRR of the order. Ties stand in document order.{budget}",
        table=shown,
        units=dict.fromkeys(_TITLES.values(), "%"),
    )
