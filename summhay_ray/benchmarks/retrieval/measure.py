"""Measures the rankings of a run: a row per retriever and k, with intervals over queries, and the report's section."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from summhay_ray.benchmark import ByQuery, Section
from summhay_ray.metrics import RetrievalScore, column_intervals, retrieval_scores

if TYPE_CHECKING:
    import polars as pl

MEASURES = ("precision", "recall", "f1", "ndcg", "ap", "mrr")
_TITLES = {"precision": "P", "recall": "R", "f1": "F1", "ndcg": "nDCG", "ap": "AP", "mrr": "MRR"}


@dataclass(frozen=True, slots=True)
class Retrieved:
    """One retriever's ranking for one query, with what is needed to measure it."""

    retriever: str
    query: str
    """An id that is unique over all corpora."""
    document_ids: Sequence[str]
    """Best first."""
    gold: Mapping[str, float]
    """Document id -> grade, above 0; queries without gold are not measured."""
    shown: int | None = None
    """How many first documents fit into the token budget; None without a budget."""
    tokens: int | None = None
    """Tokens of the documents shown."""
    ordered: bool = True
    """False where the ranking is the corpus itself, in document order."""


def retrieval_table(
    found: Iterable[Retrieved], ks: Sequence[int], expected: Mapping[str, int], seed: int = 0, unordered: Collection[str] = ()
) -> pl.DataFrame:
    """A row per retriever and k, and one with k null for the documents within the token budget.

    `expected`: retriever -> number of its queries, which also gives the order of rows. Columns: retriever, k, `n` (queries
    measured) of `n_expected`, each measure with its 95 % interval (percentile bootstrap over queries), and the mean `tokens`
    within the budget. A retriever without results has rows with an n of 0. An unordered retriever has no rows at a k, since the
    first documents of its ranking mean nothing.
    """
    import polars as pl

    by_retriever: dict[str, list[Retrieved]] = {name: [] for name in expected}
    for one in found:
        if any(grade > 0 for grade in one.gold.values()):
            by_retriever.setdefault(one.retriever, []).append(one)
    rows: list[dict[str, Any]] = []
    for retriever, queries in by_retriever.items():
        # A fixed order, so that the seeded bootstrap draws the same queries.
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
    """The score of each query, in order. Without a k, the documents within the token budget are scored."""
    by_cut: defaultdict[int, list[int]] = defaultdict(list)
    for index, query in enumerate(queries):
        by_cut[k if k is not None else query.shown or 0].append(index)
    scores: dict[int, RetrievalScore] = {}
    for cut, indices in by_cut.items():
        rankings = [(queries[index].document_ids[:cut], queries[index].gold) for index in indices]
        scores.update(zip(indices, retrieval_scores(rankings, max(cut, 1), ordered=ordered), strict=True))
    return [scores[index] for index in range(len(queries))]


def retrieval_by_query(found: Iterable[Retrieved], ks: Sequence[int], unordered: Collection[str] = ()) -> ByQuery:
    """How the retrievers scored on each query: F1, recall and precision of the documents within the token budget, F1 at each k,
    and nDCG at the deepest k. Queries of one corpus are resampled together."""
    import polars as pl

    by_retriever: dict[str, list[Retrieved]] = {}
    for one in found:
        if any(grade > 0 for grade in one.gold.values()):
            by_retriever.setdefault(one.retriever, []).append(one)
    cuts = [("f1", None), ("recall", None), ("precision", None), *(("f1", k) for k in ks), ("ndcg", max(ks))]
    figures = {(name, k): _TITLES[name] + ("" if k is None else f"@{k}") for name, k in cuts}
    rows = []
    for retriever, queries in by_retriever.items():
        ordered = all(one.ordered for one in queries) and retriever not in unordered
        wanted = [cut for cut in figures if (ordered if cut[1] is not None else all(one.shown is not None for one in queries))]
        scores = {k: _scores(queries, k, ordered) for k in dict.fromkeys(k for _, k in wanted)}
        for place, one in enumerate(queries):
            corpus, _, query = one.query.partition("/")
            named = {figures[name, k]: getattr(scores[k][place], name) for name, k in wanted}
            rows.append({"system": retriever, "cluster": corpus, "query": query, **named})
    schema = {**dict.fromkeys(("system", "cluster", "query"), pl.String), **dict.fromkeys(figures.values(), pl.Float64)}
    return ByQuery(pl.DataFrame(rows, schema=schema, orient="row"), dict.fromkeys(figures.values(), "%"))


def retrieval_rows(table: pl.DataFrame) -> list[dict[str, Any]]:
    """The rows of `summhay retrieve --json`: fractions; k is null in the row at the token budget."""
    return table.select("retriever", "k", "n", *MEASURES).to_dicts()


def retrieval_details(table: pl.DataFrame) -> dict[str, Any]:
    """Fields of a run's JSON document: the rows, and separately their intervals and tokens."""
    intervals = [f"{name}_{end}" for name in MEASURES for end in ("low", "high")]
    beside = table.select("retriever", "k", "n_expected", "tokens", *intervals).to_dicts()
    return {"retrieval": retrieval_rows(table), "retrieval_intervals": beside}


def retrieval_section(table: pl.DataFrame, token_budget: int | None) -> Section:
    """The report's section with the retrieval table."""
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
        higher_is_better=[*_TITLES.values()],
    )
