"""Reranking: `rerank3` (paper, section 5.1, "RR3") and `{rerank: MODEL, of: RETRIEVER, top: N}`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from summhay_ray.encoders import Scoring
from summhay_ray.plugins import UnknownName
from summhay_ray.retrieve.base import Ranked, by_score
from summhay_ray.retrieve.corpus import Corpus, Query
from summhay_ray.retrieve.models import Models

RERANK3 = "cohere/rerank-english-v3.0"
"""The reranking model of the release."""


class Rerank:
    """Reranks the first `top` documents of another ranking by the model's scores; the others follow in their order."""

    whole: ClassVar[bool] = False

    def __init__(self, scoring: Scoring, of: Any = None, top: int | None = None) -> None:
        self.scoring = scoring
        self.of = of
        """The retriever whose ranking is reranked; None: all documents are scored."""
        self.top = top

    async def rank_with(self, models: Models, queries: Sequence[Query], corpus: Corpus) -> list[list[Ranked]]:
        """See `ModelRetriever`."""
        from summhay_ray.retrieve.ranking import rank_all

        everything = [Ranked(number, 0.0) for number in range(1, len(corpus.texts) + 1)]
        first: list[Sequence[Ranked]] = [everything] * len(queries)
        first = first if self.of is None else await rank_all(self.of, models, queries, corpus)
        return [await self._ranked(models, query, corpus, given) for query, given in zip(queries, first, strict=True)]

    async def _ranked(self, models: Models, query: Query, corpus: Corpus, given: Sequence[Ranked]) -> list[Ranked]:
        head = sorted(one.number for one in given[: self.top])
        if not head:
            return list(given)
        scores = await models.score(self.scoring, query.text, [corpus.texts[number - 1] for number in head])
        ranked = [Ranked(head[one.number - 1], one.score) for one in by_score(scores)]
        # The other documents get falling scores below the model's, so that they keep their order.
        lowest = min(scores)
        return [*ranked, *(Ranked(one.number, lowest - rank) for rank, one in enumerate(given[len(head) :], start=1))]


class Rerank3(Rerank):
    """Cohere's rerank-english-v3.0 over all documents, as in the release."""

    name: ClassVar[str] = "rerank3"
    whole: ClassVar[bool] = False

    def __init__(self, argument: str = "", seed: int = 0) -> None:
        if argument:
            raise UnknownName(f"retriever 'rerank3' takes nothing behind a slash; write {{rerank: {argument}}} for another model")
        super().__init__(Scoring(RERANK3))
