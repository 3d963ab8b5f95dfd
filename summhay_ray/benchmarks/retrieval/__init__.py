"""Shared parts of benchmarks with retrievers: entries of a spec, measures of rankings, and runs that only retrieve.

A benchmark uses `RetrieverEntry` as the type of its spec's `retrievers`, builds a `retrieve.Corpus` from its documents and
queries, and offers `summhay retrieve` through a subclass of `Retrieving`.
"""

from summhay_ray.benchmarks.retrieval.entries import (
    Entry,
    RetrieverEntry,
    check_retrievers,
    every,
    files,
    located_errors,
    make_retriever,
    own_code,
    retriever_label,
    services,
    with_retrievers,
)
from summhay_ray.benchmarks.retrieval.rankings import (
    CUT_TEXTS,
    RANKING_TABLES,
    Retrieved,
    cut_texts,
    cut_warnings,
    ranking_rows,
    retrieval_by_query,
    retrieval_details,
    retrieval_section,
    retrieval_table,
    retrieved_of,
)
from summhay_ray.benchmarks.retrieval.retrieval_run import (
    Corpora,
    RetrievalFields,
    Retrieving,
    retrieval_alone,
    write_beir,
    write_trec,
)
from summhay_ray.benchmarks.retrieval.retrievers import UNORDERED, NothingFound, Retrievers, missing_scores, no_ranking
from summhay_ray.benchmarks.retrieval.stored_models import NotComputed, StoredModels

__all__ = [
    "CUT_TEXTS",
    "RANKING_TABLES",
    "UNORDERED",
    "Corpora",
    "Entry",
    "NotComputed",
    "NothingFound",
    "RetrievalFields",
    "Retrieved",
    "RetrieverEntry",
    "Retrievers",
    "Retrieving",
    "StoredModels",
    "check_retrievers",
    "cut_texts",
    "cut_warnings",
    "every",
    "files",
    "located_errors",
    "make_retriever",
    "missing_scores",
    "no_ranking",
    "own_code",
    "ranking_rows",
    "retrieval_alone",
    "retrieval_by_query",
    "retrieval_details",
    "retrieval_section",
    "retrieval_table",
    "retrieved_of",
    "retriever_label",
    "services",
    "with_retrievers",
    "write_beir",
    "write_trec",
]
