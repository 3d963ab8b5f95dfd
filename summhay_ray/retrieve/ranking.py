"""One way to ask any retriever: all queries of a corpus at once. Part of the `retrieve` room."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from summhay_ray.records import Subtopic
from summhay_ray.retrieve.base import BatchRetriever, ModelRetriever, Ranked
from summhay_ray.retrieve.corpus import Corpus, Query
from summhay_ray.retrieve.models import Models, ModelsHere

T = TypeVar("T")


async def rank_all(retriever: Any, models: Models, queries: Sequence[Query], corpus: Corpus) -> list[list[Ranked]]:
    """A ranking a query by a retriever of whatever form. Raises LookupError where the corpus lacks what it reads."""
    if isinstance(retriever, ModelRetriever):
        return [list(one) for one in await retriever.rank_with(models, queries, corpus)]
    if isinstance(retriever, BatchRetriever):
        return [list(one) for one in retriever.rank_all(queries, corpus)]
    haystack = corpus.as_haystack()
    known = {subtopic.subtopic_id: subtopic for subtopic in haystack.subtopics}
    return [retriever.rank(known.get(one.query_id) or _subtopic(one, corpus), haystack) for one in queries]


def rankings(
    retriever: Any, corpus: Corpus, queries: Sequence[Query] | None = None, models: Models | None = None
) -> list[list[Ranked]]:
    """As `rank_all`, at once: of all queries where none are named, by models in this process where none are given."""
    return at_once(rank_all(retriever, models or ModelsHere(), corpus.queries if queries is None else queries, corpus))


def at_once(work: Coroutine[Any, Any, T]) -> T:
    """What a coroutine gives that waits for nothing outside of itself; no event loop is needed, and one may be running."""
    try:
        work.send(None)
    except StopIteration as done:
        found: T = done.value
        return found
    work.close()
    raise RuntimeError("the models of this retriever answer later: await rank_all")


def _subtopic(query: Query, corpus: Corpus) -> Subtopic:
    return Subtopic(corpus.corpus_id, query.query_id, 0, "", "", query.text)
