"""`rouge-1`, `rouge-2`, `rouge-1+2`: greedily select sentences by the ROUGE recall of the summary (paper, section 2).

Each step adds the sentence with which the selection, in source order, has the highest recall of the summary's words, of its
bigrams, or of the sum of both. Ties go to the first sentence. Overlap is clipped, so redundant sentences gain nothing. When no
sentence improves the recall, the rest follow in source order. Counts are updated from step to step, whereas the paper's code
recounts the whole text for each candidate.
"""

from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from summhay_ray.extract.base import AsReleased, Document
from summhay_ray.extract.py_rouge import ngrams

Gram = tuple[str, ...]


class Rouge1:
    """Selects by unigram recall."""

    name: ClassVar[str] = "rouge-1"
    orders: ClassVar[tuple[int, ...]] = (1,)
    takes_model: ClassVar[bool] = False
    released: ClassVar[AsReleased] = AsReleased()

    def rank(self, document: Document, summary: str, compat: str = "default") -> Iterator[int]:
        words, wanted = document.words_by_sentence, document.words(summary)
        parts = [Overlap(words, wanted, n) for n in self.orders]
        left = np.zeros(len(words))
        for _ in range(len(words)):
            best = int(np.argmax(sum((part.recalls() for part in parts), left)))
            left[best] = -np.inf
            for part in parts:
                part.take(best)
            yield best


class Rouge2(Rouge1):
    """Selects by bigram recall, including bigrams across sentence boundaries of the selection."""

    name: ClassVar[str] = "rouge-2"
    orders: ClassVar[tuple[int, ...]] = (2,)


class Rouge12(Rouge1):
    """Selects by the sum of unigram and bigram recall."""

    name: ClassVar[str] = "rouge-1+2"
    orders: ClassVar[tuple[int, ...]] = (1, 2)


class Overlap:
    """The clipped overlap of the selection's n-grams (n: 1 or 2) with the summary's, including bigrams across sentence
    boundaries."""

    def __init__(self, words: Sequence[Sequence[str]], summary: Sequence[str], n: int) -> None:
        self._n, self._words = n, words
        self.wanted, self.overlap = ngrams(summary, n), 0
        counted = (ngrams(tokens, n) for tokens in words)
        self.grams = [{gram: n for gram, n in counts.items() if gram in self.wanted} for counts in counted]
        self.room: dict[Gram, int] = dict(self.wanted)
        """n-gram of the summary -> how many are still missing; negative if the selection has more than the summary."""
        where: dict[Gram, list[tuple[int, int]]] = {}
        for number, counts in enumerate(self.grams):
            for gram, n in counts.items():
                where.setdefault(gram, []).append((number, n))
        self._where = {gram: np.array(found).T for gram, found in where.items()}
        self.gains = np.array([self.gain(counts) for counts in self.grams], dtype=np.int64)
        """The gain of each sentence, without bigrams across sentence boundaries."""
        self._taken: list[int] = []
        """The selected sentences with words, sorted. A sentence without words is not a neighbour."""
        self._touching: set[int] = set()
        """Sentences that would make or break a bigram of the summary at their ends."""

    def gain(self, more: Mapping[Gram, int]) -> int:
        """Return the increase of the overlap by these n-gram counts, which may be negative."""
        return sum(max(self.room[gram], 0) - max(self.room[gram] - n, 0) for gram, n in more.items())

    def recalls(self) -> NDArray[np.float64]:
        """Return the recall of the selection after adding each sentence, shape (sentences,); 0 if the summary has no n-gram."""
        gains = self.gains.copy()
        for number in self._touching:
            gains[number] = self.gain(self.change(number))
        return (self.overlap + gains) / max(self.wanted.total(), 1)

    def take(self, number: int) -> None:
        more = self.change(number)
        self.overlap += self.gain(more)
        for gram, n in more.items():
            before = max(self.room[gram], 0)
            self.room[gram] -= n
            after = max(self.room[gram], 0)
            if before != after and gram in self._where:
                numbers, counts = self._where[gram]
                self.gains[numbers] += np.minimum(counts, after) - np.minimum(counts, before)
        self._touching.discard(number)
        if self._n == 1 or not self._words[number]:
            return
        left, right = self._neighbours(number)
        insort(self._taken, number)
        for other in range(0 if left is None else left + 1, len(self._words) if right is None else right):
            if other != number and self._words[other]:
                (self._touching.add if self._joints(other) else self._touching.discard)(other)

    def change(self, number: int) -> Mapping[Gram, int]:
        """Return n-gram of the summary -> how many more (or fewer) the selection has after adding a sentence."""
        if self._n == 1 or not self._words[number]:
            return self.grams[number]
        change = dict(self.grams[number])
        for pair, n in self._joints(number):
            change[pair] = change.get(pair, 0) + n
        return change

    def _joints(self, number: int) -> list[tuple[Gram, int]]:
        """Return the bigrams of the summary that a sentence would make (1) and break (-1) at its ends."""
        words, (before, after) = self._words, self._neighbours(number)
        first, last = words[number][0], words[number][-1]
        found: list[tuple[Gram, int]] = []
        if before is not None:
            found.append(((words[before][-1], first), 1))
        if after is not None:
            found.append(((last, words[after][0]), 1))
        if before is not None and after is not None:
            found.append(((words[before][-1], words[after][0]), -1))
        return [(pair, n) for pair, n in found if pair in self.wanted]

    def _neighbours(self, number: int) -> tuple[int | None, int | None]:
        place = bisect_left(self._taken, number)
        before = self._taken[place - 1] if place else None
        return before, self._taken[place] if place < len(self._taken) else None
