"""What benchmarks with retrievers have in common: a spec's entries, and how rankings are measured.

Any benchmark takes `RetrieverEntry` as the type of its spec's entries and makes a `retrieve.Corpus` of its documents and queries.
"""

from summhay_ray.benchmarks.retrieval.entries import (
    Entry,
    RetrieverEntry,
    every,
    files,
    identity_of,
    make_retriever,
    own_code,
    retriever_label,
    settled,
)

__all__ = ["Entry", "RetrieverEntry", "every", "files", "identity_of", "make_retriever", "own_code", "retriever_label", "settled"]
