"""The tables of rankings, `ranked` and `retrieved`, for any benchmark with corpora."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from summhay_ray.benchmark import Rows, RunStore, RunTables, Table
from summhay_ray.benchmarks.retrieval.measure import Retrieved
from summhay_ray.retrieve import Corpus, Query, Ranked
from summhay_ray.text import count_tokens

if TYPE_CHECKING:
    import polars as pl


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
    """One retriever's result for one query: the data by which its ranking is measured."""

    corpus_id: Annotated[str, "content hash of the corpus"]
    query_id: Annotated[str, "the query, unique within its corpus"]
    retriever: Annotated[str, "retriever as the spec names it"]
    shown: Annotated[int, "number of first documents within the token budget, including one that the budget cuts"]
    tokens: Annotated[int, "cl100k tokens of those documents"]
    ordered: Annotated[bool, "false if the ranking is the corpus itself, in document order"]
    gold: Annotated[tuple[str, ...], "ids of the relevant documents; if a judged query has none, ids of the judged ones"]
    grades: Annotated[tuple[float, ...], "grade of each of them: 1 if relevance is binary, 0 if judged irrelevant"]


@dataclass(frozen=True, slots=True)
class CutTexts:
    """The part of its texts that a retriever's model did not read: documents or their pieces, queries, or pairs."""

    corpus_id: Annotated[str, "content hash of the corpus"]
    retriever: Annotated[str, "retriever as the spec names it"]
    query_id: Annotated[str, "the query, if a service makes its ranking; empty: all queries of the corpus"]
    model: Annotated[str, "the model"]
    texts: Annotated[int, "number of texts that the model was given"]
    cut: Annotated[int, "number of texts longer than the model's limit"]
    tokens: Annotated[int, "their tokens beyond the limit, which the model does not read"]


CUT_TEXTS = Table("cut_texts", CutTexts, ("corpus_id", "retriever", "query_id", "model"))
RANKING_TABLES = (
    Table("ranked", RankedDocument, ("corpus_id", "retriever", "query_id", "rank")),
    Table("retrieved", RetrievedQuery, ("corpus_id", "retriever", "query_id")),
)


def ranking_rows(
    corpus: Corpus, retriever: str, query: Query, ranking: Sequence[Ranked], *, whole: bool, token_budget: int, depth: int
) -> Rows:
    """The rows of one query's ranking. Keeps the first `depth` documents, and all within the token budget.

    `whole`: the ranking is the corpus itself, unordered; all of it is kept and shown, regardless of the budget.
    """
    if corpus.ignore_identical_ids:
        ranking = [one for one in ranking if corpus.document_ids[one.number - 1] != query.query_id]
    shown, tokens = _shown(corpus, ranking, None if whole else token_budget)
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


def _shown(corpus: Corpus, ranking: Sequence[Ranked], token_budget: int | None) -> tuple[int, int]:
    """(number of first documents within the token budget, their tokens); the last may be cut. Without a budget, all documents."""
    total = 0
    for place, one in enumerate(ranking, start=1):
        total += count_tokens(corpus.texts[one.number - 1])
        if token_budget is not None and total >= token_budget:
            return place, token_budget
    return len(ranking), total


def cut_texts(run: RunStore) -> list[dict[str, Any]]:
    """A row per retriever and model: number of texts, number that the model cut, and tokens cut. Covers all corpora; if a
    service is asked query by query, it covers the query with the most."""
    import polars as pl

    if CUT_TEXTS.name not in run.declared:
        return []
    by, figures = ["retriever", "model"], [pl.col(name) for name in ("texts", "cut", "tokens")]
    worst = run.table(CUT_TEXTS.name).group_by("corpus_id", *by).agg(figure.max() for figure in figures)
    return worst.group_by(by).agg(figure.sum() for figure in figures).sort(by).to_dicts()


def cut_warnings(run: RunStore) -> list[str]:
    """A warning for each row of `cut_texts`."""
    return [
        f"{row['retriever']}: {row['model']} cuts {row['cut']} of {row['texts']} texts, by {row['tokens']} tokens in all; "
        "embed documents in chunks, or take a model that reads longer texts"
        for row in cut_texts(run)
    ]


def retrieved_of(tables: RunTables, deepest: int) -> Iterator[Retrieved]:
    """The rankings in the tables `ranked` and `retrieved`, as input of `retrieval_table`.

    Reads only the first `deepest` documents of each ranking and those within the token budget.
    """
    by_corpus = tables["retrieved"].partition_by("corpus_id", as_dict=True, maintain_order=True)
    # One corpus at a time: rankings take many times the memory as Python strings.
    for piece in tables.pieces("ranked", ["document_id"]):
        for corpus, ranked in piece.partition_by("corpus_id", as_dict=True, maintain_order=True).items():
            yield from _of_corpus(by_corpus.pop(corpus), ranked, deepest)
    # A retriever may rank no document.
    for retrieved in by_corpus.values():
        yield from _of_corpus(retrieved, None, deepest)


def _of_corpus(retrieved: pl.DataFrame, ranked: pl.DataFrame | None, deepest: int) -> Iterator[Retrieved]:
    import polars as pl

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
