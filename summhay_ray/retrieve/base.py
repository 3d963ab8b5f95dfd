"""The contract of a retriever. Imports records only; other rooms import `summhay_ray.retrieve`.

To add a retriever, put a file into this folder with a class that has the members of `Retriever`; specs can then use its `name`.
A class in your own module needs no file here: write `retrievers: [my_package.my_module:MyRetriever]`. A retriever that handles
all queries of a corpus at once has `rank_all` instead of `rank` (`BatchRetriever`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol, runtime_checkable

from summhay_ray.records import Haystack, Subtopic
from summhay_ray.retrieve.corpus import Corpus, Query

if TYPE_CHECKING:
    from summhay_ray.retrieve.models import Models


@dataclass(frozen=True, slots=True)
class Ranked:
    """A document's number in the haystack (from 1) and its relevance score."""

    number: int
    score: float


class Retriever(Protocol):
    """Query and haystack in, ranking out (paper, section 5.1).

    `argument` is the part after the slash of the name in the spec (`released/vector` -> "vector"); `seed` is the spec's.
    """

    name: ClassVar[str]
    whole: ClassVar[bool]
    """True where the ranking is the haystack itself: orderings apply, but the token budget does not."""

    def __init__(self, argument: str = "", seed: int = 0) -> None: ...

    def rank(self, subtopic: Subtopic, haystack: Haystack) -> list[Ranked]:
        """The documents that may be shown, best first, ties in document order; may be empty.

        Raises LookupError, naming what is missing, where the haystack lacks data that the retriever needs.
        """
        ...


@runtime_checkable
class BatchRetriever(Protocol):
    """Queries and corpus in, one ranking per query out: for retrievers that handle many queries faster than one by one."""

    def rank_all(self, queries: Sequence[Query], corpus: Corpus) -> Sequence[Sequence[Ranked]]:
        """One ranking per query, in their order. Each ranking, and LookupError, as in `Retriever.rank`."""
        ...


@runtime_checkable
class ModelRetriever(Protocol):
    """A retriever of this room that needs models: embeddings of texts, or relevance scores of texts for a query."""

    async def rank_with(self, models: Models, queries: Sequence[Query], corpus: Corpus) -> Sequence[Sequence[Ranked]]:
        """Like `BatchRetriever.rank_all`, with models provided by the caller."""
        ...


def by_score(scores: Sequence[float]) -> list[Ranked]:
    """The ranking by `scores` (one per document, in document order): highest first, ties in document order."""
    order = sorted(range(len(scores)), key=lambda index: -scores[index])
    return [Ranked(index + 1, float(scores[index])) for index in order]
