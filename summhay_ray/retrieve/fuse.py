"""Several rankings made one: `{fuse: [bm25, vector], method: rrf|sum}`. Part of the `retrieve` room."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

from summhay_ray.retrieve.base import Ranked, by_score
from summhay_ray.retrieve.corpus import Corpus, Query
from summhay_ray.retrieve.models import Models

Method = Literal["rrf", "sum"]
RRF_K = 60
"""Of reciprocal rank fusion (Cormack, Clarke, Buettcher 2009)."""


class Fuse:
    """rrf: the sum of 1 / (60 + rank). sum: the sum of the scores, each ranking's spread over 0 to 1 (min-max)."""

    whole: ClassVar[bool] = False

    def __init__(self, parts: Sequence[Any], method: Method = "rrf") -> None:
        self.parts = parts
        self.method = method

    async def rank_with(self, models: Models, queries: Sequence[Query], corpus: Corpus) -> list[list[Ranked]]:
        """See `ModelRetriever`. A document that none of the rankings holds is in none of the result."""
        from summhay_ray.retrieve.ranking import rank_all

        rankings = [await rank_all(part, models, queries, corpus) for part in self.parts]
        return [self._fused([one[place] for one in rankings]) for place in range(len(queries))]

    def _fused(self, rankings: Sequence[Sequence[Ranked]]) -> list[Ranked]:
        gains: dict[int, float] = {}
        for ranking in rankings:
            for number, gain in (_by_rank if self.method == "rrf" else _by_share)(ranking):
                gains[number] = gains.get(number, 0.0) + gain
        numbers = sorted(gains)
        return [Ranked(numbers[one.number - 1], one.score) for one in by_score([gains[number] for number in numbers])]


def _by_rank(ranking: Sequence[Ranked]) -> list[tuple[int, float]]:
    return [(one.number, 1 / (RRF_K + rank)) for rank, one in enumerate(ranking, start=1)]


def _by_share(ranking: Sequence[Ranked]) -> list[tuple[int, float]]:
    """Each document's share of the way from the least score to the greatest; where all are equal, nothing."""
    if not ranking:
        return []
    least, greatest = min(one.score for one in ranking), max(one.score for one in ranking)
    width = greatest - least
    return [(one.number, (one.score - least) / width if width > 0 else 0.0) for one in ranking]
