"""The contract of a retriever. Imports records only; `retrieve/__init__.py` is the door for other rooms.

To add one: put one file into this folder with a class that has a `name` and the `rank` method below; the spec then knows
the name. A class of your own module works without a file here: write `retrievers: [my_package.my_module:MyRetriever]`.
One that answers all queries of a corpus at once has `rank_all` in the place of `rank` (`BatchRetriever`).
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

    `argument` is what stands behind the slash of the spec's name (`released/vector` -> "vector"), `seed` the spec's.
    """

    name: ClassVar[str]
    whole: ClassVar[bool]
    """True where the ranking is the haystack itself: orderings apply, and the token budget does not."""

    def __init__(self, argument: str = "", seed: int = 0) -> None: ...

    def rank(self, subtopic: Subtopic, haystack: Haystack) -> list[Ranked]:
        """All documents that may be shown, best first, ties in document order; empty for no documents.

        Raises LookupError, saying what is missing, where the haystack lacks what the retriever reads.
        """
        ...


@runtime_checkable
class BatchRetriever(Protocol):
    """Queries and corpus in, a ranking a query out: for retrievers that answer many queries faster than one by one."""

    def rank_all(self, queries: Sequence[Query], corpus: Corpus) -> Sequence[Sequence[Ranked]]:
        """One ranking a query, in their order, each as `Retriever.rank` gives it; raises LookupError as that does."""
        ...


@runtime_checkable
class ModelRetriever(Protocol):
    """A retriever of this room that needs models: vectors of texts, or how well texts answer a query."""

    async def rank_with(self, models: Models, queries: Sequence[Query], corpus: Corpus) -> Sequence[Sequence[Ranked]]:
        """As `BatchRetriever.rank_all`; whoever calls it decides where the models run and who pays."""
        ...


def by_score(scores: Sequence[float]) -> list[Ranked]:
    """The ranking of `scores` (one a document, in document order): highest first, ties in document order."""
    order = sorted(range(len(scores)), key=lambda index: -scores[index])
    return [Ranked(index + 1, float(scores[index])) for index in order]
