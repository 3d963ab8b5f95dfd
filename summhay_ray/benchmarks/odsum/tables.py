"""The tables of an ODSum run. Scores are fractions from 0 to 1; ratings are from 1 to 5."""

from dataclasses import dataclass
from typing import Annotated

from summhay_ray.benchmark import Table
from summhay_ray.benchmarks.odsum.spec import GEVAL
from summhay_ray.benchmarks.retrieval import CUT_TEXTS, RANKING_TABLES
from summhay_ray.benchmarks.summhay.haystacks.metadata import BY_NAME


@dataclass(frozen=True, slots=True)
class DocumentRow:
    """A document that retrieval searches."""

    document_id: Annotated[str, "identifier, unique within the collection"]
    number: Annotated[int, "position in the collection, from 1; breaks ties in rankings"]
    split: Annotated[str, "train, dev or test; empty if documents have no split"]
    n_tokens: Annotated[int, "cl100k tokens of its text"]
    blank: Annotated[bool, "whether the text is only white space"]


@dataclass(frozen=True, slots=True)
class QueryRow:
    """A query with its gold documents and references."""

    query_id: Annotated[str, "identifier, unique within the collection"]
    split: Annotated[str, "train, dev or test; empty if the collection has no splits"]
    text: Annotated[str, "the query"]
    gold: Annotated[tuple[str, ...], "ids of the documents that the answer needs"]
    references: Annotated[tuple[str, ...], "reference summaries"]


@dataclass(frozen=True, slots=True)
class RetrievalRow:
    """Scores of the first k documents of a ranking."""

    retriever: Annotated[str, "retriever as the spec names it"]
    k: Annotated[int, "maximum number of documents retrieved"]
    query_id: Annotated[str, "the query"]
    precision: Annotated[float, "share of the retrieved documents that are gold; 0 if none is retrieved"]
    recall: Annotated[float, "share of the gold documents that are retrieved"]
    f1: Annotated[float, 'harmonic mean of precision and recall; the paper reports its mean as "R@K"']
    ndcg: Annotated[float | None, "normalized discounted cumulative gain; null for an unordered ranking"]
    ap: Annotated[float | None, "average precision, over all gold documents; null for an unordered ranking"]
    mrr: Annotated[float | None, "reciprocal rank of the first gold document, 0 for none; null for an unordered ranking"]


@dataclass(frozen=True, slots=True)
class SummaryRow:
    """The summary of one item."""

    item_id: Annotated[str, "the item"]
    query_id: Annotated[str, "the query"]
    retriever: Annotated[str | None, "retriever as the spec names it; null for an answer from a file whose retriever is unknown"]
    k: Annotated[int | None, "maximum number of documents retrieved; null for an unknown retriever, and for oracle and full"]
    strategy: Annotated[str, "summarizing strategy; given: the answer comes from a file"]
    model: Annotated[str, "summarizer as the spec names it"]
    text: Annotated[str, "the summary"]
    n_tokens: Annotated[int, "cl100k tokens of the summary"]
    key: Annotated[str, "key of the raw answer that holds the text; with several calls, the last one's"]


@dataclass(frozen=True, slots=True)
class SummaryScore:
    """Scores of a summary; null if the metric was not measured or the query has no reference."""

    item_id: Annotated[str, "the item"]
    rouge1: Annotated[float | None, "ROUGE-1, F1"]
    rouge2: Annotated[float | None, "ROUGE-2, F1"]
    rougeL: Annotated[float | None, "ROUGE-L, F1"]
    rougeLsum: Annotated[float | None, "ROUGE-Lsum, F1"]
    bertscore: Annotated[float | None, "BERTScore, F1, with the best reference"]
    geval: Annotated[float | None, "G-EVAL, 1 to 5: mean over the criteria; null if a rating is missing"]
    geval_extract: Annotated[float | None, "G-EVAL on extracts, if it is also measured on whole references; else null"] = None


@dataclass(frozen=True, slots=True)
class RatingRow:
    """One rating of G-EVAL: a summary against one reference."""

    item_id: Annotated[str, "the item"]
    criterion: Annotated[str, "consistency or relevance"]
    reference: Annotated[int, "index of the reference, from 0"]
    rating: Annotated[float, "1 to 5: a whole number, the mean of samples, or an expectation"]
    n_votes: Annotated[int, "readable samples; 0 for an expectation"]
    sum_votes: Annotated[float, "sum of the samples, for pooled means as in the release"]
    key: Annotated[str, "key of the raw answer that holds the rating"]
    rater: Annotated[str, "geval, or geval_extract for ratings on extracts"] = GEVAL
    votes: Annotated[tuple[float, ...], "for a panel, the ratings of its members, in their order"] = ()
    keys: Annotated[tuple[str, ...], "for a panel, the raw answers of its members"] = ()


TABLES = (
    Table("odsum_documents", DocumentRow, ("document_id",)),
    Table("odsum_queries", QueryRow, ("query_id",)),
    *RANKING_TABLES,
    CUT_TEXTS,
    Table("odsum_retrieval", RetrievalRow, ("retriever", "k", "query_id")),
    Table("odsum_summaries", SummaryRow, ("item_id",)),
    Table("odsum_scores", SummaryScore, ("item_id",)),
    Table("odsum_ratings", RatingRow, ("item_id", "criterion", "reference", "rater")),
    # For a failed rating, `insight_id` holds CRITERION/REFERENCE.
    BY_NAME["failures"],
)
