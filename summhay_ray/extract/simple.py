"""`lead` and `support`: extractors that run no model.

`lead` takes the source's first sentences (paper, section 2). `support`, which is not in the paper, takes the best source sentence
of every sentence of the summary before it takes a second one for any. It is for judges of faithfulness, to whom a statement looks
unfaithful if its source is not in the extract. Methods that maximize joint recall may spend the budget on a few statements; here,
all statements take turns. The neighbours of the best sources follow, because pronouns refer to them.
"""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import ClassVar

from summhay_ray.extract.base import AsReleased, Document


class Lead:
    """Takes sentences in source order, whatever the summary. It takes whole sentences, whereas the paper takes the first
    tokens."""

    name: ClassVar[str] = "lead"
    takes_model: ClassVar[bool] = False
    released: ClassVar[AsReleased] = AsReleased(newline=False)

    def rank(self, document: Document, summary: str, compat: str = "default") -> Iterator[int]:
        return iter(range(len(document.sentences)))


class Support:
    """Works in rounds: takes the best remaining source of each summary sentence, then the neighbours of these sources."""

    name: ClassVar[str] = "support"
    takes_model: ClassVar[bool] = False
    released: ClassVar[AsReleased] = AsReleased()

    def rank(self, document: Document, summary: str, compat: str = "default") -> Iterator[int]:
        words = document.words_by_sentence
        best = [_by_support(document.words(sentence), words) for sentence in document.split(summary)]
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
    """Return the indices of the source sentences that share a word with a summary sentence, best last (the first one among
    equals).

    The score is the sum of the idf of the shared words, plus the idf of both words of each shared bigram.
    """
    spread = Counter(word for source in sources for word in set(source))
    weights = {word: math.log(1 + len(sources) / spread[word]) for word in set(wanted) if word in spread}
    pairs = set(zip(wanted, wanted[1:], strict=False))
    scores = []
    for source in sources:
        shared = [weights[word] for word in set(source) if word in weights]
        shared += [weights[word] for pair in pairs & set(zip(source, source[1:], strict=False)) for word in pair]
        # Sets iterate in a different order in every process. fsum does not depend on the order.
        scores.append(math.fsum(shared))
    return sorted((number for number, score in enumerate(scores) if score), key=lambda number: (scores[number], -number))
