"""Fusion of several rankings: `{fuse: [bm25, vector], method: rrf|sum}`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

from summhay_ray.retrieve.base import Ranked, by_score
from summhay_ray.retrieve.corpus import Corpus, Query
from summhay_ray.retrieve.models import Models

Method = Literal["rrf", "sum"]
RRF_K = 60
"""The constant of reciprocal rank fusion (Cormack, Clarke, Buettcher 2009)."""


class Fuse:
    """Score: for `rrf`, the sum of 1 / (60 + rank); for `sum`, the sum of scores, min-max scaled to 0..1 per ranking."""

    whole: ClassVar[bool] = False

    def __init__(self, parts: Sequence[Any], method: Method = "rrf") -> None:
        self.parts = parts
        self.method = method

    async def rank_with(self, models: Models, queries: Sequence[Query], corpus: Corpus) -> list[list[Ranked]]:
        """See `ModelRetriever`. Documents in none of the fused rankings are left out."""
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
    """(document number, min-max scaled score) of each document; 0 if all scores are equal."""
    if not ranking:
        return []
    lowest, highest = min(one.score for one in ranking), max(one.score for one in ranking)
    width = highest - lowest
    return [(one.number, (one.score - lowest) / width if width > 0 else 0.0) for one in ranking]
