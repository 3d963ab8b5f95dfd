"""The rankings of a run, for any benchmark with corpora: their tables, measures with intervals, and a section of the report."""

import itertools
import operator
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import polars as pl

from summhay_ray.benchmark import ByQuery, Rows, RunStore, RunTables, Section, Table
from summhay_ray.metrics import Ranking, floor_of, scores_at_cuts, unit_means
from summhay_ray.retrieve import Corpus, Query, Ranked
from summhay_ray.text import count_tokens

MEASURES = ("precision", "recall", "f1", "ndcg", "ap", "mrr")
BATCH_SIZE = 100
"""Rankings to measure at a time. A measure takes some hundred bytes for each document of a ranking."""
_TITLES = {"precision": "P", "recall": "R", "f1": "F1", "ndcg": "nDCG", "ap": "AP", "mrr": "MRR"}


@dataclass(frozen=True, slots=True)
class Retrieved:
    """One retriever's ranking for one query, with the data needed to measure it."""

    retriever: str
    query: str
    """An id that is unique over all corpora."""
    document_ids: Sequence[str]
    """Best first."""
    gold: Mapping[str, float]
    """Document id -> grade. A query without a judged document is not measured."""
    shown: int | None = None
    """Number of top documents that fit into the token budget; None without a budget."""
    tokens: int | None = None
    """Tokens of the documents that fit into the budget."""
    ordered: bool = True
    """False if the ranking is the corpus itself, in document order."""


@dataclass(frozen=True, slots=True)
class RankedDocument:
    """One document in a retriever's ranking for a query."""

    corpus_id: Annotated[str, "content hash of the corpus"]
    query_id: Annotated[str, "the query, unique within its corpus"]
    retriever: Annotated[str, "retriever as the spec names it"]
    rank: Annotated[int, "position in the ranking, from 1; ties are in document order"]
    number: Annotated[int, "document number in the corpus, from 1"]
    document_id: Annotated[str, "document identifier"]
    score: Annotated[float, "the retriever's relevance score"]


@dataclass(frozen=True, slots=True)
class RetrievedQuery:
    """One retriever's result for one query, with the data needed to measure its ranking."""

    corpus_id: Annotated[str, "content hash of the corpus"]
    query_id: Annotated[str, "the query, unique within its corpus"]
    retriever: Annotated[str, "retriever as the spec names it"]
    shown: Annotated[int, "number of first documents within the token budget, including one that the budget cuts"]
    tokens: Annotated[int, "cl100k tokens of those documents"]
    ordered: Annotated[bool, "false if the ranking is the corpus itself, in document order"]
    gold: Annotated[tuple[str, ...], "ids of the relevant documents; if a judged query has none, ids of the judged ones"]
    grades: Annotated[tuple[float, ...], "grade of each of these documents: 1 if relevance is binary, 0 if judged irrelevant"]


@dataclass(frozen=True, slots=True)
class CutTexts:
    """How much of its texts a retriever's model did not read. The texts are documents or their pieces, queries, or pairs."""

    corpus_id: Annotated[str, "content hash of the corpus"]
    retriever: Annotated[str, "retriever as the spec names it"]
    query_id: Annotated[str, "the query, if a service ranks for it; empty: all queries of the corpus"]
    model: Annotated[str, "the model"]
    texts: Annotated[int, "number of texts that the model was given"]
    cut: Annotated[int, "number of texts longer than the model's limit"]
    tokens: Annotated[int, "number of tokens beyond the limit, which the model did not read"]


CUT_TEXTS = Table("cut_texts", CutTexts, ("corpus_id", "retriever", "query_id", "model"))
RANKING_TABLES = (
    Table("ranked", RankedDocument, ("corpus_id", "retriever", "query_id", "rank")),
    Table("retrieved", RetrievedQuery, ("corpus_id", "retriever", "query_id")),
)


def ranking_rows(
    corpus: Corpus, retriever: str, query: Query, ranking: Sequence[Ranked], *, whole: bool, token_budget: int, depth: int
) -> Rows:
    """Return the rows of one query's ranking: the first `depth` documents, and all within the token budget. `whole`: the
    ranking is the unordered corpus itself, and is shown regardless of the budget."""
    if corpus.ignore_identical_ids:
        ranking = [one for one in ranking if corpus.document_ids[one.number - 1] != query.query_id]
    shown, tokens = len(ranking), 0
    for place, one in enumerate(ranking, start=1):
        tokens += count_tokens(corpus.texts[one.number - 1])
        if not whole and tokens >= token_budget:
            # The budget may cut the last document.
            shown, tokens = place, token_budget
            break
    here = corpus.corpus_id, query.query_id, retriever
    kept = ranking if whole else ranking[: max(depth, shown)]
    ranked = [
        RankedDocument(*here, rank, one.number, corpus.document_ids[one.number - 1], float(one.score))
        for rank, one in enumerate(kept, start=1)
    ]
    gold = corpus.grades(query)
    return {
        "ranked": ranked,
        "retrieved": [RetrievedQuery(*here, shown, tokens, not whole, tuple(gold), tuple(gold.values()))],
    }


def cut_texts(run: RunStore) -> list[dict[str, Any]]:
    """Return a row per retriever and model, over all corpora: number of texts, number of texts that the model cut, and tokens
    cut. For a service that is called query by query, the query with the most cut tokens counts."""
    if CUT_TEXTS.name not in run.declared:
        return []
    by, figures = ["retriever", "model"], [pl.col(name) for name in ("texts", "cut", "tokens")]
    worst = run.table(CUT_TEXTS.name).group_by("corpus_id", *by).agg(figure.max() for figure in figures)
    return worst.group_by(by).agg(figure.sum() for figure in figures).sort(by).to_dicts()


def cut_warnings(run: RunStore) -> list[str]:
    return [
        f"{row['retriever']}: {row['model']} cuts {row['cut']} of {row['texts']} texts, by {row['tokens']} tokens in all; "
        "embed documents in chunks, or take a model that reads longer texts"
        for row in cut_texts(run)
    ]


def retrieved_of(tables: RunTables, deepest: int) -> Iterator[Retrieved]:
    """Yield the rankings in the tables `ranked` and `retrieved`: the first `deepest` documents of each, and those within the
    token budget."""
    by_corpus = tables["retrieved"].partition_by("corpus_id", as_dict=True, maintain_order=True)
    # Read one corpus at a time: as Python strings, rankings take many times the memory.
    for piece in tables.pieces("ranked", ["document_id"]):
        for corpus, ranked in piece.partition_by("corpus_id", as_dict=True, maintain_order=True).items():
            yield from _of_corpus(by_corpus.pop(corpus), ranked, deepest)
    # A ranking may be empty.
    for retrieved in by_corpus.values():
        yield from _of_corpus(retrieved, None, deepest)


def _of_corpus(retrieved: pl.DataFrame, ranked: pl.DataFrame | None, deepest: int) -> Iterator[Retrieved]:
    keys, documents = ["retriever", "query_id"], {}
    if ranked is not None:
        own = ranked.join(retrieved.select(*keys, "shown"), on=keys)
        own = own.filter(pl.col("rank") <= pl.max_horizontal("shown", pl.lit(deepest))).sort(*keys, "rank")
        documents = {key: part["document_id"].to_list() for key, part in own.group_by(keys)}
    for row in retrieved.iter_rows(named=True):
        yield Retrieved(
            retriever=row["retriever"],
            query=f"{row['corpus_id']}/{row['query_id']}",
            document_ids=documents.get((row["retriever"], row["query_id"]), []),
            gold=dict(zip(row["gold"], row["grades"], strict=True)),
            shown=row["shown"],
            tokens=row["tokens"],
            ordered=row["ordered"],
        )


def retrieval_table(
    found: Iterable[Retrieved], ks: Sequence[int], expected: Mapping[str, int], unordered: Collection[str] = ()
) -> pl.DataFrame:
    """Return a row per retriever and k, and one with k null for the documents within the token budget. `expected`: retriever ->
    number of its queries, in the order of rows.

    Columns: retriever, k, `n` (queries measured) of `n_expected`, each measure with its 95 % interval over queries
    (`unit_means`) and its floor (every missing ranking as 0), and the mean `tokens` within the budget. An unordered retriever
    has no rows for a k.
    """
    scored = _score_rankings(found, ks, unordered)
    rows: list[dict[str, Any]] = []
    for retriever in [*expected, *sorted(set(scored["retriever"]) - expected.keys())]:
        own = scored.filter(retriever=retriever)
        cuts = own["k"].unique() if own.height else pl.Series([*(() if retriever in unordered else ks), None], dtype=pl.Int64)
        for k in (*(k for k in ks if k in cuts), *([None] if cuts.has_nulls() else ())):
            queries = own.filter(pl.col("k").eq_missing(k))
            n = queries.height
            rows.append({"retriever": retriever, "k": k, "n": n, "n_expected": expected.get(retriever, n)})
            if k is None:
                rows[-1]["tokens"] = queries["tokens"].mean()
            measured = [name for name in MEASURES if not queries[name].has_nulls()]
            values = queries.select(measured).cast(pl.Float64).to_numpy()
            means = unit_means(values, np.ones_like(values))
            for place, name in enumerate(measured if n else ()):
                low, high = means.interval(place) or (None, None)
                rows[-1] |= {name: float(means.mean[place]), f"{name}_low": low, f"{name}_high": high}
                rows[-1][f"{name}_reason"] = means.reason(place, "queries") or None
    figures: dict[str, Any] = {f"{measure}{end}": pl.Float64 for measure in MEASURES for end in ("", "_low", "_high")}
    figures |= {f"{measure}_reason": pl.String for measure in MEASURES}
    schema = {"retriever": pl.String, "k": pl.Int64, **figures, "tokens": pl.Float64, "n": pl.Int64, "n_expected": pl.Int64}
    # Unordered rankings lack the measures that need an order; these are not missing values.
    due = {name: pl.col(name).is_not_null() | (pl.col("n") == 0) for name in MEASURES}
    floors = [pl.when(is_due).then(floor_of(name)).alias(f"{name}_floor") for name, is_due in due.items()]
    return pl.DataFrame(rows, schema=schema, orient="row").with_columns(floors)


def _score_rankings(found: Iterable[Retrieved], ks: Sequence[int], unordered: Collection[str]) -> pl.DataFrame:
    """Return a row per ranking and k (null for the documents within the token budget), sorted by retriever and query. The
    columns are retriever, query, k, tokens, and the measures. A measure that needs an order is null if there is none."""
    schema = {"retriever": pl.String, "query": pl.String, "k": pl.Int64, "tokens": pl.Int64, "ordered": pl.Boolean}
    schema |= dict.fromkeys(MEASURES, pl.Float64)
    measured = (one for one in found if one.gold)
    parts, values = [pl.DataFrame(schema=schema)], operator.attrgetter(*MEASURES)
    while batch := list(itertools.islice(measured, BATCH_SIZE)):
        rows: list[tuple[Any, ...]] = []
        for ordered in (True, False):
            alike = [one for one in batch if (one.ordered and one.retriever not in unordered) == ordered]
            wanted = [[*(ks if ordered else ()), *([] if one.shown is None else [None])] for one in alike]
            rankings = [
                Ranking(one.document_ids, one.gold, [one.shown if k is None else k for k in cuts])
                for one, cuts in zip(alike, wanted, strict=True)
            ]
            for one, cuts, scores in zip(alike, wanted, scores_at_cuts(rankings, ordered=ordered), strict=True):
                for k, score in zip(cuts, scores, strict=True):
                    rows.append((one.retriever, one.query, k, one.tokens or 0, ordered, *values(score)))
        parts.append(pl.DataFrame(rows, schema=schema, orient="row"))
    # A fixed order makes sums equal to the last bit.
    return pl.concat(parts).sort("retriever", "query", maintain_order=True)


def retrieval_by_query(
    found: Iterable[Retrieved], ks: Sequence[int], unordered: Collection[str] = (), retrievers: Collection[str] = ()
) -> ByQuery:
    """Return each retriever's scores on each query: F1, recall and precision within the token budget, F1 at each k, and nDCG
    at the deepest k. Queries of one corpus form a cluster. `retrievers`: those that should have ranked every query."""
    cuts = [("f1", None), ("recall", None), ("precision", None), *(("f1", k) for k in ks), ("ndcg", max(ks))]
    figures = {_TITLES[name] + ("" if k is None else f"@{k}"): (name, k) for name, k in cuts}
    columns = [pl.col(name).filter(pl.col("k").eq_missing(k)).first().alias(title) for title, (name, k) in figures.items()]
    by_query = _score_rankings(found, ks, unordered).group_by("retriever", "query", maintain_order=True).agg(columns)
    place = pl.col("query").str.splitn("/", 2).struct.rename_fields(["cluster", "query"])
    named = by_query.select(pl.col("retriever").alias("system"), place.alias("place"), *figures).unnest("place")
    places = named.select("cluster", "query").unique(maintain_order=True)
    asked = pl.DataFrame({"system": sorted({*named["system"], *retrievers})}, schema={"system": pl.String})
    # An unordered ranking has no figures at a k.
    at_k = [title for title, (_, k) in figures.items() if k is not None]
    expected = asked.join(places, how="cross")
    return ByQuery(named, dict.fromkeys(figures, "%"), expected=expected, may_lack=at_k, ceilings=("oracle",))


def retrieval_details(table: pl.DataFrame) -> dict[str, Any]:
    """Return fields of a run's JSON document: the rows (fractions; k is null at the token budget), and their intervals and
    tokens."""
    intervals = [f"{name}_{end}" for name in MEASURES for end in ("low", "high", "reason", "floor")]
    return {
        "retrieval": table.select("retriever", "k", "n", *MEASURES).to_dicts(),
        "retrieval_intervals": table.select("retriever", "k", "n_expected", "tokens", *intervals).to_dicts(),
    }


def retrieval_section(table: pl.DataFrame, token_budget: int | None) -> Section:
    names = [f"{measure}{end}" for measure in MEASURES for end in ("", "_low", "_high", "_reason", "_floor")]
    titled = {name: _TITLES[name.partition("_")[0]] + name[len(name.partition("_")[0]) :] for name in names}
    # Documents without texts have no tokens, so all of them fit into any budget.
    textless = table.filter(pl.col("k").is_null())["tokens"].sum() == 0
    at = pl.col("k").cast(pl.String).fill_null("all" if textless else "budget").alias("k")
    shown = table.select("retriever", at, *names, pl.col("tokens").round().cast(pl.Int64), "n", "n_expected").rename(titled)
    budget = (
        ""
        if token_budget is None or textless
        else f" Rows at the budget cover the documents that fit into {token_budget:,} tokens."
    )
    return Section(
        "Retrieval",
        text=f"Precision, recall and F1 of the set; nDCG, AP and MRR of the order. Ties are in document order.{budget}",
        table=shown,
        units=dict.fromkeys(_TITLES.values(), "%"),
        higher_is_better=[*_TITLES.values()],
    )
