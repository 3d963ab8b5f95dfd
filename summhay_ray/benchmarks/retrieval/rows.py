"""What a run keeps of its rankings: the tables `ranked` and `retrieved`, of any benchmark with corpora."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated

from summhay_ray.benchmark import Rows, Table, Tables
from summhay_ray.benchmarks.retrieval.measure import Retrieved
from summhay_ray.retrieve import Corpus, Query, Ranked
from summhay_ray.text import count_tokens


@dataclass(frozen=True, slots=True)
class RankedDocument:
    """One document's place in what a retriever returns for a query."""

    corpus_id: Annotated[str, "content hash of the corpus"]
    query_id: Annotated[str, "the query, unique within its corpus"]
    retriever: Annotated[str, "retriever as the spec names it"]
    rank: Annotated[int, "place in the ranking, from 1; ties stand in document order"]
    number: Annotated[int, "document number in the corpus, from 1"]
    document_id: Annotated[str, "document identifier"]
    score: Annotated[float, "the retriever's relevance score"]


@dataclass(frozen=True, slots=True)
class RetrievedQuery:
    """One query as one retriever answered it: what its ranking is measured by."""

    corpus_id: Annotated[str, "content hash of the corpus"]
    query_id: Annotated[str, "the query, unique within its corpus"]
    retriever: Annotated[str, "retriever as the spec names it"]
    shown: Annotated[int, "documents at the ranking's beginning that fit into the token budget, the one that it cuts included"]
    tokens: Annotated[int, "cl100k tokens of those"]
    ordered: Annotated[bool, "whether the ranking has an order of its own"]
    gold: Annotated[tuple[str, ...], "the relevant documents, as far as anybody knows"]
    grades: Annotated[tuple[float, ...], "how relevant each is; 1 where relevance is yes or no"]


RANKING_TABLES = (
    Table("ranked", RankedDocument, ("corpus_id", "retriever", "query_id", "rank")),
    Table("retrieved", RetrievedQuery, ("corpus_id", "retriever", "query_id")),
)


def ranking_rows(
    corpus: Corpus, retriever: str, query: Query, ranking: Sequence[Ranked], *, whole: bool, token_budget: int, depth: int
) -> Rows:
    """The rows of one query's ranking, of which the first `depth` documents are kept, and all that the token budget shows.

    `whole`: the ranking is the corpus itself, in no order of its own: it is kept, and shown, as it is.
    """
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
    """How many documents the token budget shows, and their tokens; the last one may be cut. Without a budget, all of them."""
    total = 0
    for place, one in enumerate(ranking, start=1):
        total += count_tokens(corpus.texts[one.number - 1])
        if token_budget is not None and total >= token_budget:
            return place, token_budget
    return len(ranking), total


def retrieved_of(tables: Tables, deepest: int) -> Iterator[Retrieved]:
    """What the tables `ranked` and `retrieved` hold, to be measured: of each ranking the first `deepest` documents, and all that
    the token budget shows."""
    import polars as pl

    keys = ["corpus_id", "retriever", "query_id"]
    shown = tables["retrieved"].select(*keys, "shown")
    counted = tables["ranked"].select(*keys, "rank", "document_id").join(shown, on=keys)
    # Of a ranking only so much is measured.
    counted = counted.filter(pl.col("rank") <= pl.max_horizontal("shown", pl.lit(deepest))).sort(*keys, "rank")
    ranked = {key: part["document_id"].to_list() for key, part in counted.group_by(keys)}
    for row in tables["retrieved"].iter_rows(named=True):
        key = row["corpus_id"], row["retriever"], row["query_id"]
        yield Retrieved(
            retriever=row["retriever"],
            query=f"{row['corpus_id']}/{row['query_id']}",
            document_ids=ranked.get(key, []),
            gold=dict(zip(row["gold"], row["grades"], strict=True)),
            shown=row["shown"],
            tokens=row["tokens"],
            ordered=row["ordered"],
        )
