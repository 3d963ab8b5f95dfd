"""What benchmarks with retrievers have in common: a spec's entries, and how rankings are measured.

Any benchmark takes `Retriever` as the type of its spec's entries and makes a `retrieve.Corpus` of its documents and queries.
"""

from summhay_ray.benchmarks.retrieval.entries import (
    Entry,
    Retriever,
    every,
    files,
    identity_of,
    label_of,
    make_retriever,
    own_code,
    settled,
)

__all__ = ["Entry", "Retriever", "every", "files", "identity_of", "label_of", "make_retriever", "own_code", "settled"]
