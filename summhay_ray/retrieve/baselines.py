"""Retrievers that read no text: the paper's baselines `random`, `oracle`, `full` and `none`, and stored scores (`released/NAME`).

It also has the base classes of retrievers that rank a corpus for one query at a time.
"""

import hashlib
import json
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

from summhay_ray.plugins import UnknownName, unknown
from summhay_ray.records import Haystack, Subtopic
from summhay_ray.retrieve.base import Ranked, by_score
from summhay_ray.retrieve.corpus import Corpus, Query, corpus_of, query_of

Errors = Literal["replace", "add", "drop", "shuffle"]


class OverCorpus:
    """Base of retrievers that rank a corpus for one query at a time, by the method `ranking`."""

    def rank(self, subtopic: Subtopic, haystack: Haystack) -> list[Ranked]:
        return list(self.ranking(query_of(subtopic, haystack), corpus_of(haystack)))

    def rank_all(self, queries: Sequence[Query], corpus: Corpus) -> list[Sequence[Ranked]]:
        return [self.ranking(query, corpus) for query in queries]

    def ranking(self, query: Query, corpus: Corpus) -> Sequence[Ranked]:
        raise NotImplementedError


@dataclass(eq=False)
class Plain(OverCorpus):
    """Base of retrievers without options."""

    name: ClassVar[str] = ""
    whole: ClassVar[bool] = False

    argument: str = ""
    seed: int = 0


class Full(Plain):
    """No retrieval: all documents in document order, each with score 0 (paper, section 5.1, "Full").

    Orderings apply, but the token budget does not.
    """

    name: ClassVar[str] = "full"
    whole: ClassVar[bool] = True

    def ranking(self, query: Query, corpus: Corpus) -> list[Ranked]:
        return [Ranked(number, 0.0) for number in range(1, len(corpus.texts) + 1)]


class Nothing(Plain):
    """Returns an empty ranking, for the baseline without documents (paper, section 5.5)."""

    name: ClassVar[str] = "none"
    whole: ClassVar[bool] = False

    def ranking(self, query: Query, corpus: Corpus) -> list[Ranked]:
        return []


class Random(Plain):
    """Retrieval's lower bound (section 5.1, "Rand"). The score is a hash of seed, topic, query and document in [0, 1), equal in
    every process."""

    name: ClassVar[str] = "random"
    whole: ClassVar[bool] = False

    def ranking(self, query: Query, corpus: Corpus) -> list[Ranked]:
        scores = []
        for document_id in corpus.document_ids:
            # The corpus's id must not be used: it changes when a summary is added to a haystack's file, but the scores must not
            # change.
            content = ["retrieve", self.seed, corpus.topic, query.query_id, document_id]
            digest = hashlib.sha256(json.dumps(content).encode("ascii")).digest()
            # A double has 53 bits of precision; with more, the score could round up to 1.0.
            scores.append((int.from_bytes(digest[:8], "big") >> 11) / 2**53)
        return by_score(scores)


@dataclass(eq=False)
class Oracle(OverCorpus):
    """Retrieval's upper bound (section 5.1, "Orac"). The score is a document's grade of relevance to the query; in a haystack,
    the number of the subtopic's insights that it contains.

    `{oracle: replace, share: 0.2}` has the kind of errors as its argument, and adds them to a share of the relevant documents,
    drawn by seed and content. `replace`: each
    of these documents exchanges its score with an irrelevant document, whose score is 0. `add`: an irrelevant document gets the
    same score, too. `drop`: their scores become 0. `shuffle`: they exchange their scores.
    """

    name: ClassVar[str] = "oracle"
    whole: ClassVar[bool] = False

    argument: str = ""
    seed: int = 0
    share: float = 0.0

    def __post_init__(self) -> None:
        if self.argument and self.argument not in get_args(Errors):
            raise unknown("kind of error of the oracle", self.argument, get_args(Errors))
        if not 0 <= self.share <= 1:
            raise UnknownName(f"retriever 'oracle': the share of errors is {self.share}; expected 0 to 1")

    def ranking(self, query: Query, corpus: Corpus) -> list[Ranked]:
        """Return all documents, the most relevant first. Irrelevant documents come last, in document order."""
        scores = [query.gold.get(document_id, 0.0) for document_id in corpus.document_ids]
        relevant = [index for index, score in enumerate(scores) if score > 0]
        irrelevant = [index for index, score in enumerate(scores) if score <= 0]
        draw = random.Random(repr((self.seed, corpus.topic, query.query_id)))
        chosen = draw.sample(relevant, round(self.share * len(relevant)))
        changed = list(scores)
        if self.argument == "shuffle":
            for index, source in zip(chosen, draw.sample(chosen, len(chosen)), strict=True):
                changed[index] = scores[source]
        if self.argument in ("replace", "drop"):
            for index in chosen:
                changed[index] = 0.0
        if self.argument in ("replace", "add"):
            for index, source in zip(draw.sample(irrelevant, min(len(chosen), len(irrelevant))), chosen, strict=False):
                changed[index] = scores[source]
        return by_score(changed)


class Released(OverCorpus):
    """Ranks by the stored scores of retriever NAME. The name may contain slashes: `released/dwzhu/e5-base-4k`."""

    name: ClassVar[str] = "released"
    whole: ClassVar[bool] = False

    def __init__(self, argument: str = "", seed: int = 0) -> None:
        if not argument:
            raise UnknownName("retriever 'released' needs the name of a stored retriever; write released/NAME (released/vector)")
        self.argument = argument

    def ranking(self, query: Query, corpus: Corpus) -> list[Ranked]:
        """Return all documents. Stored scores of documents outside the corpus are ignored.

        Raises LookupError if the source has no scores of this retriever, or none for one of the documents.
        """
        scores = query.stored.get(self.argument)
        where = f"haystack {corpus.name!r}, subtopic {query.query_id!r}"
        if scores is None:
            names = ", ".join(sorted(query.stored)) or "none"
            raise LookupError(f"{where} stores no scores of retriever {self.argument!r}; stored are: {names}")
        for number, document_id in enumerate(corpus.document_ids, start=1):
            if math.isnan(scores.get(document_id, math.nan)):
                raise LookupError(
                    f"{where} stores no score of retriever {self.argument!r} for document {number} ({document_id!r})"
                )
        return by_score([scores[document_id] for document_id in corpus.document_ids])
