"""`support`: each sentence of the summary gets its best sources before any gets more. Part of the extract room.

For judges of faithfulness: a statement without its source in the extract looks unfaithful. Where joint recall may spend a budget
on the words of a few statements, here every sentence of the summary has a turn; and the neighbours of its best source follow,
since pronouns point to them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import ClassVar

from summhay_ray.extract.base import AsReleased, Document
from summhay_ray.extract.py_rouge import rouge_words
from summhay_ray.text import punkt_sentences


class Support:
    """Rounds: in each, the best source that is left for each summary sentence, in order, then the neighbours of these."""

    name: ClassVar[str] = "support"
    takes_model: ClassVar[bool] = False
    released: ClassVar[AsReleased] = AsReleased()

    def rank(self, document: Document, summary: str, compat: str = "default") -> Iterator[int]:
        """See `Extractor`."""
        words = [rouge_words(sentence) for sentence in document.sentences]
        best = [_by_support(rouge_words(sentence), words) for sentence in punkt_sentences(summary)]
        taken: set[int] = set()
        while any(best):
            found = []
            for order in best:
                while order and order[-1] in taken:
                    order.pop()
                if order:
                    taken.add(order[-1])
                    found.append(order.pop())
            yield from found
            for number in found:
                for neighbour in (number - 1, number + 1):
                    if 0 <= neighbour < len(words) and neighbour not in taken:
                        taken.add(neighbour)
                        yield neighbour
        yield from (number for number in range(len(words)) if number not in taken)


def _by_support(wanted: Sequence[str], sources: Sequence[Sequence[str]]) -> list[int]:
    """The sources that share a word with a summary sentence, the best last (of equals the first in the source).

    Support: the words of the sentence that the source has, each weighted by how few sources have it (idf), and as much again
    for each pair of neighbours, of which two words are one statement.
    """
    spread = Counter(word for source in sources for word in set(source))
    weights = {word: math.log(1 + len(sources) / spread[word]) for word in set(wanted) if word in spread}
    pairs = set(zip(wanted, wanted[1:], strict=False))
    scores = []
    for source in sources:
        shared = [weights[word] for word in set(source) if word in weights]
        shared += [weights[word] for pair in pairs & set(zip(source, source[1:], strict=False)) for word in pair]
        # Sets have another order in every process: the sum must have none.
        scores.append(math.fsum(shared))
    return sorted((number for number, score in enumerate(scores) if score), key=lambda number: (scores[number], -number))
