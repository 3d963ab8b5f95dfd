"""Calls any kind of retriever for all queries of a corpus, and checks its rankings."""

import math
import operator
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from summhay_ray.encoders import Encoder, Encoding, Scorer, Scoring, Vectors, load_encoder, load_scorer
from summhay_ray.records import Subtopic
from summhay_ray.retrieve.base import BatchRetriever, Best, ModelRetriever, Models, Ranked
from summhay_ray.retrieve.corpus import Corpus, Query

T = TypeVar("T")


class BadRanking(ValueError):
    """A retriever returned an invalid ranking; the message says what is wrong and what is expected."""


async def rank_all(retriever: Any, models: Models, queries: Sequence[Query], corpus: Corpus) -> list[Sequence[Ranked]]:
    """One checked ranking per query. Raises LookupError if the corpus lacks data that the retriever needs, and BadRanking for
    unknown or duplicate documents, infinite scores, or a wrong number of rankings."""
    if isinstance(retriever, ModelRetriever):
        found: Any = await retriever.rank_with(models, queries, corpus)
    elif isinstance(retriever, BatchRetriever):
        found = retriever.rank_all(queries, corpus)
    else:
        haystack = corpus.haystack
        known = {subtopic.subtopic_id: subtopic for subtopic in haystack.subtopics}
        found = []
        for one in queries:
            subtopic = known.get(one.query_id) or Subtopic(corpus.corpus_id, one.query_id, 0, "", "", one.text)
            found.append(retriever.rank(subtopic, haystack))
    name = getattr(retriever, "name", "") or type(retriever).__name__
    if not isinstance(found, list | tuple) or len(found) != len(queries):
        given = f"{len(found)} rankings" if isinstance(found, list | tuple) else type(found).__name__
        raise BadRanking(
            f"retriever {name!r} gave {given} for {len(queries)} queries; expected a list with one ranking per query"
        )
    return [_check(ranking, name, query, corpus) for ranking, query in zip(found, queries, strict=True)]


def _check(ranking: Any, name: str, query: Query, corpus: Corpus) -> Sequence[Ranked]:
    """The ranking with plain numbers: a list, or a ranking made by this package. Raises BadRanking."""
    if isinstance(ranking, Best):
        return ranking
    where = f"retriever {name!r}, query {query.query_id!r} of {corpus.name!r}"
    if not isinstance(ranking, list | tuple):
        raise BadRanking(f"{where}: gave {type(ranking).__name__}; expected a list of Ranked(number, score)")
    n, found = len(corpus.texts), dict[int, Ranked]()
    for place, one in enumerate(ranking, start=1):
        try:
            # A user-defined retriever may return numpy numbers.
            number, score = operator.index(one.number), float(one.score)
        except (AttributeError, TypeError, ValueError):
            raise BadRanking(f"{where}: place {place} holds {one!r:.60}; expected Ranked(number, score)") from None
        if not 1 <= number <= n:
            raise BadRanking(f"{where}: ranks document {number} in place {place}; documents have the numbers 1 to {n}")
        if number in found:
            raise BadRanking(f"{where}: ranks document {number} twice; rank each once")
        if not math.isfinite(score):
            raise BadRanking(f"{where}: document {number} has the score {score}; expected a finite number")
        found[number] = one if type(one) is Ranked and type(one.number) is int else Ranked(number, score)
    return list(found.values())


def rankings(
    retriever: Any, corpus: Corpus, queries: Sequence[Query] | None = None, models: Models | None = None
) -> list[Sequence[Ranked]]:
    """Like `rank_all`, without awaiting. Defaults: all queries of the corpus, and models in this process."""
    return at_once(rank_all(retriever, models or ModelsHere(), corpus.queries if queries is None else queries, corpus))


def at_once(work: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that never suspends. Works with and without a running event loop.

    Raises RuntimeError if the coroutine suspends.
    """
    try:
        work.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    work.close()
    raise RuntimeError("the models of this retriever answer later: await rank_all")


class ModelsHere:
    """Models in this process, loaded when first needed. Results are not stored."""

    def __init__(self) -> None:
        self._encoders: dict[Encoding, Encoder] = {}
        self._scorers: dict[Scoring, Scorer] = {}

    async def embed(self, encoding: Encoding, texts: Sequence[str]) -> Vectors:
        if encoding not in self._encoders:
            self._encoders[encoding] = load_encoder(encoding)
        return self._encoders[encoding].encode(texts)

    async def score(self, scoring: Scoring, query: str, texts: Sequence[str]) -> Sequence[float]:
        if scoring not in self._scorers:
            self._scorers[scoring] = load_scorer(scoring)
        scores: list[float] = self._scorers[scoring].score([(query, text) for text in texts]).tolist()
        return scores
