"""The tables of an ODSum run. Figures are fractions, ratings 1 to 5."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from summhay_ray.benchmark import Table
from summhay_ray.benchmarks.retrieval import RANKING_TABLES
from summhay_ray.benchmarks.summhay.tables import BY_NAME


@dataclass(frozen=True, slots=True)
class DocumentRow:
    """A document that was searched."""

    document_id: Annotated[str, "identifier, unique within the collection"]
    number: Annotated[int, "place in the collection, from 1: ties are broken by it"]
    split: Annotated[str, "train, dev or test where documents belong to one, else empty"]
    n_tokens: Annotated[int, "cl100k tokens of its text"]
    blank: Annotated[bool, "whether the text holds nothing but white space"]


@dataclass(frozen=True, slots=True)
class QueryRow:
    """A query with what is true about it."""

    query_id: Annotated[str, "identifier, unique within the collection"]
    split: Annotated[str, "train, dev or test, empty where the collection has no splits"]
    text: Annotated[str, "the query"]
    gold: Annotated[tuple[str, ...], "ids of the documents that the answer needs"]
    references: Annotated[tuple[str, ...], "reference summaries"]


@dataclass(frozen=True, slots=True)
class RetrievalRow:
    """What the first k documents of a ranking are worth."""

    retriever: Annotated[str, "retriever as the spec names it"]
    k: Annotated[int, "documents that were retrieved, at most"]
    query_id: Annotated[str, "the query"]
    precision: Annotated[float, "share of the documents retrieved that are gold; 0 where none is retrieved"]
    recall: Annotated[float, "share of the gold documents that are retrieved"]
    f1: Annotated[float, 'harmonic mean of the two; its mean is what the paper calls "R@K"']
    ndcg: Annotated[float | None, "normalized discounted cumulative gain; null where the ranking has no order"]
    ap: Annotated[float | None, "average precision, over all gold documents; null where the ranking has no order"]
    mrr: Annotated[float | None, "one over the rank of the first gold document, 0 for none; null without an order"]


@dataclass(frozen=True, slots=True)
class SummaryRow:
    """The answer of one item."""

    item_id: Annotated[str, "the item"]
    query_id: Annotated[str, "the query"]
    retriever: Annotated[
        str | None, "retriever as the spec names it; null for an answer made elsewhere whose retriever is not told"
    ]
    k: Annotated[int | None, "documents that were retrieved, at most; null as before"]
    strategy: Annotated[str, "how the model was asked; given: the answer was made elsewhere"]
    model: Annotated[str, "summarizer as the spec names it"]
    text: Annotated[str, "the summary"]
    n_tokens: Annotated[int, "cl100k tokens of the summary"]
    key: Annotated[str, "the raw answer that the text comes from: the last of a chain"]


@dataclass(frozen=True, slots=True)
class SummaryScore:
    """What a summary is worth; null where it was not measured, or the query has no reference."""

    item_id: Annotated[str, "the item"]
    rouge1: Annotated[float | None, "ROUGE-1, F"]
    rouge2: Annotated[float | None, "ROUGE-2, F"]
    rougeL: Annotated[float | None, "ROUGE-L, F"]
    rougeLsum: Annotated[float | None, "ROUGE-Lsum, F"]
    bertscore: Annotated[float | None, "BERTScore, F, of the best reference"]
    geval: Annotated[float | None, "G-EVAL, 1 to 5: mean over the criteria; null where a criterion has no rating"]


@dataclass(frozen=True, slots=True)
class RatingRow:
    """One rating of G-EVAL: a summary against one reference."""

    item_id: Annotated[str, "the item"]
    criterion: Annotated[str, "consistency or relevance"]
    reference: Annotated[int, "place of the reference, from 0"]
    rating: Annotated[float, "1 to 5: a whole number, the mean of samples, or an expectation"]
    n_votes: Annotated[int, "samples that could be read; 0 for an expectation"]
    sum_votes: Annotated[float, "their sum: the release pools all of them"]
    key: Annotated[str, "the raw answer that the rating comes from"]


TABLES = (
    Table("odsum_documents", DocumentRow, ("document_id",)),
    Table("odsum_queries", QueryRow, ("query_id",)),
    *RANKING_TABLES,
    Table("odsum_retrieval", RetrievalRow, ("retriever", "k", "query_id")),
    Table("odsum_summaries", SummaryRow, ("item_id",)),
    Table("odsum_scores", SummaryScore, ("item_id",)),
    Table("odsum_ratings", RatingRow, ("item_id", "criterion", "reference")),
    # A failed rating's criterion and reference stand where a judgment has its insight.
    BY_NAME["failures"],
)
