"""Rankings made of other rankings: `{fuse: [bm25, vector], method: rrf|sum}`, `rerank3` and `{rerank: MODEL, of: RETRIEVER}`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from summhay_ray.encoders import Scoring
from summhay_ray.retrieve.base import Models, Ranked, by_score, rank_all
from summhay_ray.retrieve.corpus import Corpus, Query

Method = Literal["rrf", "sum"]
RRF_K = 60
"""The constant of reciprocal rank fusion (Cormack, Clarke, Buettcher 2009)."""
RERANK3 = "cohere/rerank-english-v3.0"
"""The release's reranking model."""


@dataclass(frozen=True)
class Fuse:
    """Fuses rankings. The score is the sum of 1 / (60 + rank) for `rrf`. For `sum`, it is the sum of scores, which are min-max
    scaled to 0..1 per ranking."""

    whole: ClassVar[bool] = False
    parts: Sequence[Any]
    """The retrievers whose rankings are fused."""
    method: Method = "rrf"

    async def rank_with(self, models: Models, queries: Sequence[Query], corpus: Corpus) -> list[list[Ranked]]:
        """See `ModelRetriever`. Documents in none of the fused rankings are left out."""
        rankings = [await rank_all(part, models, queries, corpus) for part in self.parts]
        fused = []
        for of_query in zip(*rankings, strict=True):
            gains: dict[int, float] = {}
            for ranking in map(list, of_query):
                lowest = min((one.score for one in ranking), default=0.0)
                width = max((one.score for one in ranking), default=0.0) - lowest
                for rank, one in enumerate(ranking, start=1):
                    # If all scores are equal, they become 0.
                    scaled = (one.score - lowest) / width if width > 0 else 0.0
                    gains[one.number] = gains.get(one.number, 0.0) + (1 / (RRF_K + rank) if self.method == "rrf" else scaled)
            numbers = sorted(gains)
            best = by_score([gains[number] for number in numbers])
            fused.append([Ranked(numbers[one.number - 1], one.score) for one in best])
        return fused


@dataclass(frozen=True)
class Rerank:
    """Reranks the first `top` documents of another ranking by the model's scores. The other documents follow in their order."""

    whole: ClassVar[bool] = False
    scoring: Scoring
    of: Any = None
    """The retriever whose ranking is reranked; None: all documents are scored."""
    top: int | None = None

    async def rank_with(self, models: Models, queries: Sequence[Query], corpus: Corpus) -> list[list[Ranked]]:
        everything = [Ranked(number, 0.0) for number in range(1, len(corpus.texts) + 1)]
        first: list[Sequence[Ranked]] = [everything] * len(queries)
        first = first if self.of is None else await rank_all(self.of, models, queries, corpus)
        reranked = []
        for query, given in zip(queries, first, strict=True):
            head = sorted(one.number for one in given[: self.top])
            if not head:
                reranked.append(list(given))
                continue
            scores = await models.score(self.scoring, query.text, [corpus.texts[number - 1] for number in head])
            best = [Ranked(head[one.number - 1], one.score) for one in by_score(scores)]
            # Documents that the model did not score keep their order, with scores below those of the model.
            lowest = min(scores)
            others = (Ranked(one.number, lowest - rank) for rank, one in enumerate(given[len(head) :], start=1))
            reranked.append([*best, *others])
        return reranked


class Rerank3(Rerank):
    """Cohere's rerank-english-v3.0 over all documents, as in the release (paper, section 5.1, "RR3")."""

    name: ClassVar[str] = "rerank3"
    whole: ClassVar[bool] = False

    def __init__(self, argument: str = "", seed: int = 0) -> None:
        super().__init__(Scoring(RERANK3))
