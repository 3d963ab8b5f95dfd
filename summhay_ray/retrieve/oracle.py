"""The `oracle` retriever: retrieval's upper bound (paper, section 5.1, "Orac"), optionally with errors."""

from __future__ import annotations

import random
from typing import ClassVar, Literal, get_args

from summhay_ray.plugins import UnknownName, unknown
from summhay_ray.retrieve.base import Ranked, by_score
from summhay_ray.retrieve.corpus import Corpus, Query
from summhay_ray.retrieve.plain import OverCorpus

Errors = Literal["replace", "add", "drop", "shuffle"]


class Oracle(OverCorpus):
    """Score: each document's grade of relevance to the query; in a haystack, how many of the subtopic's insights it contains.

    `{oracle: replace, share: 0.2}` adds errors to a share of the relevant documents, drawn by seed and content. `replace`: an
    irrelevant document takes each one's score, which falls to 0. `add`: the same number of irrelevant documents get these scores,
    too. `drop`: their scores fall to 0. `shuffle`: they exchange their scores.
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
        """All documents, the most relevant first; irrelevant documents come last, in document order."""
        scores = [query.gold.get(document_id, 0.0) for document_id in corpus.document_ids]
        return by_score(self._with_errors(scores, random.Random(repr((self.seed, corpus.topic, query.query_id)))))

    def _with_errors(self, scores: list[float], draw: random.Random) -> list[float]:
        relevant = [index for index, score in enumerate(scores) if score > 0]
        irrelevant = [index for index, score in enumerate(scores) if score <= 0]
        chosen = draw.sample(relevant, round(self.share * len(relevant)))
        changed = list(scores)
        if self.errors == "shuffle":
            for index, source in zip(chosen, draw.sample(chosen, len(chosen)), strict=True):
                changed[index] = scores[source]
        if self.errors in ("replace", "drop"):
            for index in chosen:
                changed[index] = 0.0
        if self.errors in ("replace", "add"):
            for index, source in zip(draw.sample(irrelevant, min(len(chosen), len(irrelevant))), chosen, strict=False):
                changed[index] = scores[source]
        return changed
