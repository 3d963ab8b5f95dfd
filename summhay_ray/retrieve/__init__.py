"""Retrievers, which rank the documents of a corpus for queries.

A corpus is a list of documents with ids, and queries; `corpus_of` turns a haystack into one. `make` creates a retriever by its
name; the classes can also be constructed directly. Then call `rankings`, or await `rank_all` if the models are remote services.
"""

import sys
from collections.abc import Mapping
from typing import Any

from summhay_ray import plugins
from summhay_ray.retrieve.base import BadRanking, Models, Ranked, by_score, rank_all, rankings, run_now
from summhay_ray.retrieve.baselines import Errors, Nothing, Oracle, Released
from summhay_ray.retrieve.beir import CORPUS, QRELS, QUERIES, beir_files, read_beir, read_beir_qrels
from summhay_ray.retrieve.combined import RERANK3, Fuse, Method, Rerank
from summhay_ray.retrieve.corpus import Corpus, Query, corpus_of, query_flaw, query_of
from summhay_ray.retrieve.dense import MPNET, Chunks, Combine, Dense, Embed, Longe, Similarity
from summhay_ray.retrieve.lexical import Bm25, OfWords, Tokenization
from summhay_ray.retrieve.search import Fields, Search
from summhay_ray.retrieve.trec import (
    BadTrec,
    Qrels,
    Run,
    corpus_of_runs,
    long_name,
    qrels_lines,
    query_names,
    read_qrels,
    read_run,
    run_lines,
    with_qrels,
)

__all__ = [
    "CORPUS",
    "MPNET",
    "QRELS",
    "QUERIES",
    "RERANK3",
    "BadRanking",
    "BadTrec",
    "Bm25",
    "Chunks",
    "Combine",
    "Corpus",
    "Dense",
    "Embed",
    "Errors",
    "Fields",
    "Fuse",
    "Longe",
    "Method",
    "Models",
    "Nothing",
    "OfWords",
    "Oracle",
    "Qrels",
    "Query",
    "Ranked",
    "Rerank",
    "Run",
    "Search",
    "Similarity",
    "Tokenization",
    "beir_files",
    "by_score",
    "corpus_of",
    "corpus_of_runs",
    "known",
    "long_name",
    "make",
    "qrels_lines",
    "query_flaw",
    "query_names",
    "query_of",
    "rank_all",
    "rankings",
    "read_beir",
    "read_beir_qrels",
    "read_qrels",
    "read_run",
    "run_lines",
    "run_now",
    "with_qrels",
]


def make(name: str, seed: int, options: Mapping[str, Any] | None = None) -> Any:
    """Create the retriever that a spec names: `bm25`, `released/vector` (with an argument), or
    `my_package.my_module:MyRetriever`. The result is a `Retriever`, `BatchRetriever` or `ModelRetriever`. `options`: those of an
    entry that is a mapping; None for a name. Raise UnknownName for an unknown name, and for an unexpected or missing argument."""
    head, slash, argument = name.partition("/")
    if slash and not argument:
        raise plugins.UnknownName(f"retriever {name!r} ends in a slash; add the argument after it, or remove the slash")
    if ":" in head:
        retriever_class = plugins.load(head)
        if (
            not isinstance(retriever_class, type)
            or not any(hasattr(retriever_class, method) for method in ("rank", "rank_all", "rank_with"))
            or not isinstance(getattr(retriever_class, "whole", None), bool)
        ):
            raise plugins.UnknownName(
                f"{head!r} is not a retriever; expected a class with `whole` (True or False) and `rank` or `rank_all`"
            )
    else:
        retrievers = plugins.discover(sys.modules[__name__])
        if head not in retrievers:
            raise plugins.unknown("retriever", head, retrievers)
        retriever_class = retrievers[head]
        if argument and options is None and head != Released.name:
            mends = {"bm25": "{bm25: split}", "rerank3": f"{{rerank: {argument}}}", "vector": f"{{embed: {argument}}}"}
            mend = f"leave {f'/{argument}'!r} out" + (f", or write {mends[head]}" if head in mends else "")
            raise plugins.UnknownName(f"retriever {head!r} takes nothing behind a slash; {mend}")
    with plugins.own_code(f"retriever {name!r} cannot be made", "its class is called with the argument and the seed"):
        return retriever_class(argument, seed, **(options or {}))


def known() -> list[str]:
    """Return the names of the built-in retrievers, sorted. `released` needs an argument: `released/NAME`."""
    return sorted(plugins.discover(sys.modules[__name__]))
