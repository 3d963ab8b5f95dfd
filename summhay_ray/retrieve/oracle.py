"""The `oracle` retriever: the upper bound of retrieval (paper, section 5.1, "Orac"), and it with errors. Part of `retrieve`."""

from __future__ import annotations

import random
from typing import ClassVar, Literal, get_args

from summhay_ray.plugins import UnknownName, unknown
from summhay_ray.retrieve.base import Ranked, by_score
from summhay_ray.retrieve.corpus import Corpus, Query
from summhay_ray.retrieve.plain import OverCorpus

Errors = Literal["replace", "add", "drop", "shuffle"]


class Oracle(OverCorpus):
    """Score: how relevant each document is to the query; in a haystack, how many of the subtopic's insights it contains.

    `{oracle: replace, share: 0.2}` makes errors, drawn by the seed and the content, in a share of the relevant documents:
    another document takes the place of each (`replace`), as many others come in between (`add`), they are ranked as documents
    that nobody needs (`drop`), or they stand in another order (`shuffle`).
    """

    name: ClassVar[str] = "oracle"
    whole: ClassVar[bool] = False

    def __init__(self, argument: str = "", seed: int = 0, errors: str | None = None, share: float = 0.0) -> None:
        if argument:
            raise UnknownName(f"retriever 'oracle' takes nothing behind a slash; leave {f'/{argument}'!r} out")
        if errors is not None and errors not in get_args(Errors):
            raise unknown("kind of error of the oracle", errors, get_args(Errors))
        if not 0 <= share <= 1:
            raise UnknownName(f"retriever 'oracle': the share of errors is {share}; expected 0 to 1")
        self.seed, self.errors, self.share = seed, errors, share

    def ranking(self, query: Query, corpus: Corpus) -> list[Ranked]:
        """All documents, those with the most insights first; documents without one come last, in their order."""
        scores = [query.gold.get(document_id, 0.0) for document_id in corpus.document_ids]
        return by_score(self._with_errors(scores, random.Random(repr((self.seed, corpus.topic, query.query_id)))))

    def _with_errors(self, scores: list[float], draw: random.Random) -> list[float]:
        relevant = [place for place, score in enumerate(scores) if score > 0]
        others = [place for place, score in enumerate(scores) if score <= 0]
        chosen = draw.sample(relevant, round(self.share * len(relevant)))
        found = list(scores)
        if self.errors == "shuffle":
            for place, source in zip(chosen, draw.sample(chosen, len(chosen)), strict=True):
                found[place] = scores[source]
        if self.errors in ("replace", "drop"):
            for place in chosen:
                found[place] = 0.0
        if self.errors in ("replace", "add"):
            for place, source in zip(draw.sample(others, min(len(chosen), len(others))), chosen, strict=False):
                found[place] = scores[source]
        return found
