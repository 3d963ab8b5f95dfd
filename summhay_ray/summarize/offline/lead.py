"""The simple baseline `offline/lead`. Found by name; reads only the prompt.

It takes one sentence from each of the documents most similar to the query. No statement is compared with a second document, so
citations may have high precision, but recall is low.
"""

from typing import ClassVar

import numpy as np

from summhay_ray.llm import Request
from summhay_ray.summarize.offline.index import NOTHING_SAID, as_bullet, as_text, index_of
from summhay_ray.summarize.offline.reading import read

# Leading sentences are introductory: the lead is the first sentence at least half as similar to the query as the best one.
_NEAR = 0.5


class Lead:
    """Takes the documents most similar to the query; from each its first sentence close to the query, with one citation."""

    name: ClassVar[str] = "offline/lead"
    revision: ClassVar[str] = "3"

    def answer(self, request: Request) -> str:
        """One bullet per insight requested, at most one per document, or one text. No bullets if the documents yield none. If
        they contain no word of the query, one bullet says so."""
        question = read(request.prompt)
        index = index_of(tuple(sorted(question.documents)))
        query = index.encode(question.query)
        relevance = index.similarities(query)
        if not relevance.any() and index.is_english_with(question.query):
            return f"- {NOTHING_SAID}" if question.n_words is None else NOTHING_SAID
        ranking = np.argsort(-np.round(index.document_similarities(query), 12), kind="stable").tolist()
        chosen: list[tuple[str, int]] = []
        for place in ranking:
            sentences = np.flatnonzero(index.documents == place)
            if len(chosen) == question.n_insights:
                break
            if sentences.size:
                lead = sentences[np.argmax(relevance[sentences] >= _NEAR * relevance[sentences].max())]
                chosen.append((index.texts[lead], index.numbers[place]))
        if question.n_words is None:
            return "\n".join(as_bullet(sentence, [number]) for sentence, number in chosen)
        return as_text(sentence for sentence, _ in chosen)
