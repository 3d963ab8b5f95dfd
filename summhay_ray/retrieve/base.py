"""The contract of a retriever, and functions that call any kind of retriever for all queries of a corpus.

To add a retriever, put a file into this folder, with a class that has the members of `Retriever`. Specs can then use its `name`.
For a class in your own module, write `retrievers: [my_package.my_module:MyRetriever]` instead. A retriever that handles all
queries of a corpus together has `rank_all` instead of `rank` (`BatchRetriever`). The options of a retriever in a spec, such as
`{first: 20}`, are fields in `benchmarks/retrieval/entries.py`.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar, runtime_checkable

from summhay_ray.encoders import Encoder, Encoding, Scorer, Scoring, Vectors, load_encoder, load_scorer
from summhay_ray.records import Haystack, Subtopic
from summhay_ray.retrieve.corpus import Corpus, Query

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

KEPT = 1000
"""Number of documents of a long ranking that are kept in memory."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """A document's number in the haystack (from 1) and its relevance score."""

    number: int
    score: float


class Retriever(Protocol):
    """Ranks the documents of a haystack for a query (paper, section 5.1).

    `argument` is the part after the slash of the name in the spec (`released/vector` -> "vector"); `seed` is the spec's.
    """

    name: ClassVar[str]
    whole: ClassVar[bool]
    """Whether the ranking is the haystack itself. If so, orderings apply, but the token budget does not."""

    def __init__(self, argument: str = "", seed: int = 0) -> None: ...

    def rank(self, subtopic: Subtopic, haystack: Haystack) -> list[Ranked]:
        """Return the documents that may be shown, best first, with ties in document order. An empty list means failure. Raise
        LookupError, which names the data that the haystack lacks."""
        ...


@runtime_checkable
class BatchRetriever(Protocol):
    """Returns one ranking per query of a corpus. This is for retrievers that are faster when they handle many queries
    together."""

    def rank_all(self, queries: Sequence[Query], corpus: Corpus) -> Sequence[Sequence[Ranked]]:
        """Return one ranking per query, in their order. Rankings and LookupError are as in `Retriever.rank`."""
        ...


class Models(Protocol):
    """Embeds texts, and scores texts for a query. Implementations run models locally or call services."""

    async def embed(self, encoding: Encoding, texts: Sequence[str]) -> Vectors:
        """Return one vector per text, in their order."""
        ...

    async def score(self, scoring: Scoring, query: str, texts: Sequence[str]) -> Sequence[float]:
        """Return the relevance of each text to the query, in their order."""
        ...


@runtime_checkable
class ModelRetriever(Protocol):
    """A built-in retriever that needs a model for embeddings of texts, or for relevance scores of texts."""

    async def rank_with(self, models: Models, queries: Sequence[Query], corpus: Corpus) -> Sequence[Sequence[Ranked]]:
        """Like `BatchRetriever.rank_all`, with models that the caller provides."""
        ...


def by_score(scores: Sequence[float]) -> list[Ranked]:
    """Return the ranking by `scores` (one per document, in document order): highest first, with ties in document order."""
    order = sorted(range(len(scores)), key=lambda index: -scores[index])
    return [Ranked(index + 1, float(scores[index])) for index in order]


def best_first(n: int, scores: Callable[[], NDArray[np.float64]], later_first: bool = False) -> Sequence[Ranked]:
    """Return the ranking of `n` documents by their scores, which are in document order. Among equal scores, the earlier document
    comes first. `scores` may be called again, since only the first documents of a long ranking are kept."""
    if n > KEPT:
        return Best(n, scores, later_first)
    return list(map(Ranked, *(part.tolist() for part in _first(scores(), n, later_first))))


def _first(scores: NDArray[np.float64], n: int, later_first: bool) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """Return numbers and scores of the first `n` documents of a ranking; see `best_first`."""
    import numpy as np

    found = scores[::-1] if later_first else scores
    if n < len(found):
        least = np.partition(found, len(found) - n)[len(found) - n]
        above = np.flatnonzero(found > least)
        places = np.concatenate([above, np.flatnonzero(found == least)[: n - len(above)]])
    else:
        places = np.arange(len(found))
    places = places[np.argsort(-found[places], kind="stable")]
    places = len(found) - 1 - places if later_first else places
    return (places + 1).astype(np.int32), scores[places]


@dataclass(eq=False)
class Best(Sequence[Ranked]):
    """A ranking that keeps its first `KEPT` documents in memory. To read further, it scores all documents again."""

    n: int
    scores: Callable[[], NDArray[np.float64]]
    later_first: bool

    @functools.cached_property
    def _first_ranks(self) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
        return _first(self.scores(), KEPT, self.later_first)

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, int):
            return self[place : place + 1 or None][0]
        wanted = range(self.n)[place]
        deepest = max((*wanted[:1], *wanted[-1:]), default=0)
        numbers, scores = self._first_ranks if deepest < KEPT else _first(self.scores(), deepest + 1, self.later_first)
        return [Ranked(int(numbers[one]), float(scores[one])) for one in wanted]

    def __iter__(self) -> Iterator[Ranked]:
        numbers, scores = self._first_ranks
        yield from map(Ranked, numbers.tolist(), scores.tolist())
        numbers, scores = _first(self.scores(), self.n, self.later_first)
        yield from map(Ranked, numbers[KEPT:].tolist(), scores[KEPT:].tolist())


T = TypeVar("T")


class BadRanking(ValueError):
    """A retriever returned an invalid ranking. The message states what is wrong and what is expected."""


async def rank_all(retriever: Any, models: Models, queries: Sequence[Query], corpus: Corpus) -> list[Sequence[Ranked]]:
    """Return one checked ranking per query. Raise LookupError if the corpus lacks data that the retriever needs. Raise BadRanking
    for unknown or duplicate documents, infinite scores, or a wrong number of rankings."""
    if isinstance(retriever, ModelRetriever):
        rankings: Any = await retriever.rank_with(models, queries, corpus)
    elif isinstance(retriever, BatchRetriever):
        rankings = retriever.rank_all(queries, corpus)
    else:
        haystack = corpus.haystack
        known = {subtopic.subtopic_id: subtopic for subtopic in haystack.subtopics}
        rankings = []
        for one in queries:
            subtopic = known.get(one.query_id) or Subtopic(corpus.corpus_id, one.query_id, 0, "", "", one.text)
            rankings.append(retriever.rank(subtopic, haystack))
    name = getattr(retriever, "name", "") or type(retriever).__name__
    if not isinstance(rankings, list | tuple) or len(rankings) != len(queries):
        given = f"{len(rankings)} rankings" if isinstance(rankings, list | tuple) else type(rankings).__name__
        raise BadRanking(
            f"retriever {name!r} gave {given} for {len(queries)} queries; expected a list with one ranking per query"
        )
    return [_check(ranking, name, query, corpus) for ranking, query in zip(rankings, queries, strict=True)]


def _check(ranking: Any, name: str, query: Query, corpus: Corpus) -> Sequence[Ranked]:
    """Return the ranking with plain numbers, as a list or a ranking made by this package. Raise BadRanking."""
    if isinstance(ranking, Best):
        return ranking
    where = f"retriever {name!r}, query {query.query_id!r} of {corpus.name!r}"
    if not isinstance(ranking, list | tuple):
        raise BadRanking(f"{where}: gave {type(ranking).__name__}; expected a list of Ranked(number, score)")
    n, by_number = len(corpus.texts), dict[int, Ranked]()
    for place, one in enumerate(ranking, start=1):
        try:
            # A user-defined retriever may return numpy numbers.
            number, score = operator.index(one.number), float(one.score)
        except (AttributeError, TypeError, ValueError):
            raise BadRanking(f"{where}: place {place} holds {one!r:.60}; expected Ranked(number, score)") from None
        if not 1 <= number <= n:
            raise BadRanking(f"{where}: ranks document {number} in place {place}; documents have the numbers 1 to {n}")
        if number in by_number:
            raise BadRanking(f"{where}: ranks document {number} twice; rank each once")
        if not math.isfinite(score):
            raise BadRanking(f"{where}: document {number} has the score {score}; expected a finite number")
        by_number[number] = one if type(one) is Ranked and type(one.number) is int else Ranked(number, score)
    return list(by_number.values())


def rankings(
    retriever: Any, corpus: Corpus, queries: Sequence[Query] | None = None, models: Models | None = None
) -> list[Sequence[Ranked]]:
    """Like `rank_all`, but without `await`. By default, it uses all queries of the corpus, and models in this process."""
    return run_now(rank_all(retriever, models or ModelsHere(), corpus.queries if queries is None else queries, corpus))


def run_now(work: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine that never suspends. This works with and without a running event loop.

    Raises RuntimeError if the coroutine suspends.
    """
    try:
        work.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    work.close()
    raise RuntimeError("the models of this retriever answer later: await rank_all")


@dataclass(eq=False)
class ModelsHere:
    """Runs models in this process, which are loaded when first needed. Results are not stored."""

    _encoders: dict[Encoding, Encoder] = field(init=False, default_factory=dict)
    _scorers: dict[Scoring, Scorer] = field(init=False, default_factory=dict)

    async def embed(self, encoding: Encoding, texts: Sequence[str]) -> Vectors:
        if encoding not in self._encoders:
            self._encoders[encoding] = load_encoder(encoding)
        return self._encoders[encoding].encode(texts)

    async def score(self, scoring: Scoring, query: str, texts: Sequence[str]) -> Sequence[float]:
        if scoring not in self._scorers:
            self._scorers[scoring] = load_scorer(scoring)
        scores: list[float] = self._scorers[scoring].score([(query, text) for text in texts]).tolist()
        return scores
