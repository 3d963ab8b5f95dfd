"""Room summarize: the simple baseline `offline/lead`. Found by name; reads the prompt text and nothing else.

What a reader gets who takes the documents nearest the query, one sentence of each, and looks no further: no statement is
checked against a second document, so that citations can be precise but never thorough.
"""

from __future__ import annotations

import itertools
from typing import ClassVar

import numpy as np

from summhay_ray.llm import Request
from summhay_ray.summarize.offline.index import Floats, SentenceIndex, index_of
from summhay_ray.summarize.offline.reading import read
from summhay_ray.summarize.offline.words import as_bullet, as_text

# Leading sentences set the scene: the first one counts that is half as near the query as the document's nearest.
_NEAR = 0.5


class Lead:
    """The documents that match the query best, and of each its first sentence near the query, citing that document alone."""

    name: ClassVar[str] = "offline/lead"
    revision: ClassVar[str] = "1"

    def answer(self, request: Request) -> str:
        """One bullet an insight asked for, at most one a document; empty where the documents yield nothing."""
        question = read(request.prompt)
        index = index_of(tuple(sorted(question.documents)))
        query = index.encode(question.query)
        relevance = index.similarities(query)
        ranking = np.argsort(-np.round(index.document_similarities(query), 12), kind="stable").tolist()
        leads = ((place, _lead(index, relevance, place)) for place in ranking)
        found = ((index.texts[lead], index.numbers[place]) for place, lead in leads if lead is not None)
        chosen = itertools.islice(found, question.n_insights)
        if question.n_words is None:
            return "\n".join(as_bullet(sentence, [number]) for sentence, number in chosen)
        return as_text(sentence for sentence, _ in chosen)


def _lead(index: SentenceIndex, relevance: Floats, place: int) -> int | None:
    own = np.flatnonzero(index.documents == place)
    if own.size == 0:
        return None
    return int(own[np.argmax(relevance[own] >= _NEAR * relevance[own].max())])
