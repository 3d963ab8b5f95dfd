"""Compares the sentences of a collection. It finds similar sentences, the facts that they share, and the passages with these
facts in all documents.

1. Every sentence, or claim if a document's claims are given, is compared with those that share enough of its weight (see
   `statements`). A sentence with similar ones in enough documents is a candidate. Its core consists of the facts that its similar
   sentences agree on. The weight of a fact is the share of these sentences that have it.
2. Windows of one to three sentences of EVERY document are searched for the core. The best window of a document gets a score: how
   much of the candidate's core and words it has, how much of them in one sentence, and in the same order.

`Comparing.block` does both for one block of sentences, on any machine.
"""

from __future__ import annotations

import io
import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import sparse

from summhay_ray.mine.findings import worth
from summhay_ray.mine.statements import Floats, Ints, Statements, language_of
from summhay_ray.synth import read_words

ALIKE, FEW = 0.4, 2.6
"""Two sentences are similar if they share at least `ALIKE` of the lighter one's weight. That weight counts as at least the weight
of `FEW` facts that only one document has."""
SURENESS = 3
"""Exponent of a similarity when the core is computed: nearly equal sentences count more than loosely related ones."""
CORE = 0.25
"""Minimum share of the similar sentences that must have a fact of the core."""
HELD = 0.35
"""Minimum share of a core's weight that a window must have to be scored."""
WORDED = 0.2
"""Minimum share of the core's word weight that a window must have, since numbers alone are no evidence."""
WORTH = (1.0, 0.95, 0.9)
"""Factors on that share for windows of one, two and three sentences, since longer windows have more words by chance."""
OPPOSED = 0.6
"""Minimum share of the heavier sentence's words that two opposites have in common."""
_MOST_NEIGHBOURS = 200
"""Maximum number of similar sentences that describe a group. The limit bounds memory if a sentence is in most documents."""
_MOST_POSTED = 1000
"""A fact in more sentences than this carries little information. Sentences are compared by it only within a random sample of
about this size, and it alone never selects a window. So time stays linear. All facts sample the same sentences, so a sampled
sentence is found by all of its facts."""
_MOST_COMPARED = 500
"""Maximum number of sentences that are compared in full with one sentence: those that share most of the facts used for the
search. In a collection with few different words, every sentence shares facts with very many others."""
_LEFT_OUT = 0.6
"""The search for similar sentences leaves out the most common facts of a sentence. Together they have less than this share of the
weight that similar sentences must have in common. At 1, the search would use the fewest facts, but would examine more pairs in
vain."""
_AT_ONCE = 512
_ROUNDING = 1e-3


@dataclass(frozen=True, slots=True)
class Candidate:
    """A candidate with its similar sentences, and the best window of each document (m): its first sentence, length and score."""

    sentence: int
    near: Ints
    likeness: Floats
    firsts: Ints
    lengths: Ints
    scores: Floats

    def window(self, of: Statements, row: int) -> str:
        """Return the words of a window."""
        first = int(self.firsts[row])
        return " ".join(of.evidence[first : first + int(self.lengths[row])])


@dataclass(frozen=True, slots=True)
class Compared:
    """The candidates in a block of sentences, with their similar sentences, and with the best window of each document.

    k, n and m are the lengths of the arrays: k candidates; n similar sentences and m windows, each summed over the candidates.
    """

    sentences: Ints
    """Indices of the candidates (k)."""
    n_near: Ints
    """Number of similar sentences of each candidate (k)."""
    near: Ints
    """Indices of these sentences, including the candidate itself, most similar first (n)."""
    likeness: Floats
    """Their similarities, 0 to 1 (n)."""
    n_windows: Ints
    """Number of documents with a window that states the candidate, or nearly does (k)."""
    firsts: Ints
    """Index of the first sentence of each window (m)."""
    lengths: Ints
    """Number of sentences in each window (m)."""
    scores: Floats
    """How much of the candidate each window has, 0 to 1 (m)."""

    def to_bytes(self) -> bytes:
        """Serialize the arrays as a numpy archive."""
        buffer = io.BytesIO()
        np.savez(buffer, **{name: getattr(self, name) for name in self.__slots__})
        return buffer.getvalue()

    @classmethod
    def from_bytes(cls, content: bytes) -> Compared:
        """Read what `to_bytes` wrote."""
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            return cls(**arrays)

    def candidates(self) -> Iterator[Candidate]:
        """Yield the candidates one by one."""
        near, windows = np.cumsum(self.n_near)[:-1], np.cumsum(self.n_windows)[:-1]
        yield from map(
            Candidate,
            self.sentences.tolist(),
            np.split(self.near, near),
            np.split(self.likeness, near),
            np.split(self.firsts, windows),
            np.split(self.lengths, windows),
            np.split(self.scores, windows),
        )


class Comparing:
    """Compares the sentences of a collection. `least`: minimum number of documents that state an insight."""

    def __init__(self, statements: Statements, least: int) -> None:
        self.of, self.least = statements, least
        self._words = np.where(statements.numeric, 0.0, statements.weights)
        self._worded: Floats = statements.bags @ self._words
        self._light = FEW * math.log(1 + statements.n_documents)
        self._marked = np.full(len(statements.weights), -1, dtype=np.int64)
        self._held = np.zeros(statements.n + len(WORTH))
        self._paired: dict[int, frozenset[tuple[str, str]]] = {}
        self._english = language_of(statements.texts) == "english"
        # A lighter sentence is not similar to any other.
        self._may: npt.NDArray[np.bool_] = statements.states & (statements.sizes >= ALIKE * self._light - _ROUNDING)
        self._thinned, self._counts = _thinned(statements, self._may)
        self._first, spread = _equal(statements)
        self.commonplaces = np.flatnonzero(self._first & ~self._may & (spread >= least))
        """Recurring statements in the same words, which consist only of facts too common to distinguish documents."""

    def worth(self, sentence: int) -> float:
        """Return how clearly a sentence is a finding, 0 to 1 (see `findings.worth`). A given claim scores 1."""
        is_claim = bool(self.of.passages[sentence] % 2)
        return 1.0 if is_claim else worth(self.of.texts[sentence], self._english)

    def block(self, begin: int, end: int) -> Compared:
        """Find the candidates among the sentences of the documents from `begin` to before `end`.

        A candidate needs similar sentences in only `least` - 1 documents, since its core also finds other wordings.
        """
        of = self.of
        first, last = np.searchsorted(of.documents, [begin, end]).tolist()
        asked = first + np.flatnonzero(self._may[first:last] & self._first[first:last])
        found: list[Candidate] = []
        for at in range(0, asked.size, _AT_ONCE):
            sentences = asked[at : at + _AT_ONCE]
            rows, near, likeness = self._alike(sentences)
            spread = self._spread(sentences.size, rows, near)
            starts = np.searchsorted(rows, np.arange(sentences.size + 1))
            for row in np.flatnonzero(spread >= max(2, self.least - 1)).tolist():
                span = slice(starts[row], starts[row + 1])
                found.append(self._found(int(sentences[row]), near[span], likeness[span]))
        none = np.zeros(0, dtype=np.int64)
        return Compared(
            np.array([one.sentence for one in found], dtype=np.int64),
            np.array([one.near.size for one in found], dtype=np.int64),
            np.concatenate([none, *(one.near for one in found)]),
            np.concatenate([none, *(one.likeness for one in found)]),
            np.array([one.firsts.size for one in found], dtype=np.int64),
            np.concatenate([none, *(one.firsts for one in found)]),
            np.concatenate([none, *(one.lengths for one in found)]),
            np.concatenate([none, *(one.scores for one in found)]),
        )

    def _spread(self, n: int, rows: Ints, near: Ints) -> Ints:
        """Return the number of documents with a sentence that is similar to each (n)."""
        of = self.of
        pairs = np.unique(rows * max(1, of.n_documents) + of.documents[near])
        return np.bincount(pairs // max(1, of.n_documents), minlength=n)

    def _alike(self, block: Ints) -> tuple[Ints, Ints, Floats]:
        """Return the pairs of a sentence of the block and a similar one, including itself: position in the block, index,
        similarity."""
        of = self.of
        asked, left_out = self._telling(block)
        touched = asked @ self._thinned
        # Minimum weight that a similar sentence of the sample must share. It has a lower bound: a pair that shares less cannot be
        # distinguished from chance.
        floor = (1 - _LEFT_OUT) * ALIKE * self._light
        least = (np.maximum(ALIKE * self._light - left_out, floor) - _ROUNDING).astype(np.float32)
        # This rejects most pairs, so it comes first and must be cheap.
        places = np.flatnonzero(touched.data >= least.min(initial=np.inf))
        rows = np.searchsorted(touched.indptr, places, side="right") - 1
        passed = np.bincount(rows[touched.data[places] >= least[rows]], minlength=block.size)
        for row in np.flatnonzero(passed > _MOST_COMPARED).tolist():
            in_common = touched.data[touched.indptr[row] : touched.indptr[row + 1]]
            least[row] = np.partition(in_common, -_MOST_COMPARED)[-_MOST_COMPARED]
        rough = touched.data[places] >= least[rows]
        places, rows = places[rough], rows[rough]
        two, in_common = touched.indices[places].astype(np.int64), touched.data[places] + left_out[rows]
        may = in_common >= ALIKE * np.minimum(of.sizes[block[rows]], of.sizes[two]) - _ROUNDING
        rows, two = rows[may], two[may]
        one = block[rows]
        shared = self._shared(one, two, of.weights)
        alike = np.minimum(1.0, shared / np.maximum(np.minimum(of.sizes[one], of.sizes[two]), self._light))
        near = np.flatnonzero(alike >= ALIKE)
        words = self._shared(one[near], two[near], self._words)
        near = near[words >= WORDED * np.minimum(self._worded[one[near]], self._worded[two[near]]) - 1e-9]
        rows, two, alike = rows[near], two[near], np.round(alike[near], 6)
        order = np.lexsort((two, -alike, rows))
        rows, two, alike = rows[order], two[order], alike[order]
        first = np.arange(rows.size) - np.searchsorted(rows, rows) < _MOST_NEIGHBOURS
        return rows[first], two[first], alike[first]

    def _telling(self, block: Ints) -> tuple[sparse.csr_matrix, Floats]:
        """Return the weights of the facts by which the block's sentences are searched, and the weight that this search may miss
        for each sentence (m).

        The most common facts of a sentence are left out. Together they weigh less than a similar sentence must share.
        """
        of = self.of
        facts, rows = of.facts_of(block)
        weights = of.weights[facts]
        order = np.lexsort((weights, rows))
        summed = np.cumsum(weights[order])
        firsts: Ints = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=block.size))[:-1]])
        before = np.concatenate([[0.0], summed])[firsts]
        keep = np.zeros(weights.size, dtype=bool)
        keep[order] = summed - before[rows[order]] >= _LEFT_OUT * ALIKE * self._light
        missed = ~keep | (self._counts[facts] > _MOST_POSTED)
        left_out: Floats = np.bincount(rows[missed], weights[missed], block.size).astype(np.float64)
        kept = (weights[keep].astype(np.float32), (rows[keep], facts[keep]))
        return sparse.csr_matrix(kept, (block.size, of.bags.shape[1])), left_out

    def _shared(self, one: Ints, two: Ints, weights: Floats) -> Floats:
        """Return the weight of the facts that each pair of sentences has in common."""
        shared = [
            np.asarray(self.of.bags[one[part]].multiply(self.of.bags[two[part]]) @ weights).ravel()
            for part in (slice(at, at + 100_000) for at in range(0, one.size, 100_000))
        ]
        return np.concatenate(shared) if shared else np.zeros(0)

    def opposite(self, sentence: int, others: Ints) -> npt.NDArray[np.bool_]:
        """Whether each of the others (m) is an opposite: it has the sentence's words but different numbers, or only one of the
        two contains a denial."""
        of = self.of
        own = of.facts(sentence)
        facts, rows = of.facts_of(others)
        both, numeric = self._places(own, facts) >= 0, of.numeric[facts]
        shared = np.bincount(rows[both], self._words[facts[both]], others.size)
        same_words = shared >= OPPOSED * np.maximum(np.maximum(self._worded[sentence], self._worded[others]), _ROUNDING)
        theirs = np.bincount(rows[numeric], minlength=others.size)
        common = np.bincount(rows[numeric & both], minlength=others.size)
        other_numbers = (common < of.numeric[own].sum()) & (common < theirs)
        found: npt.NDArray[np.bool_] = same_words & (other_numbers | (of.denies[others] != of.denies[sentence]))
        return found

    def _places(self, own: npt.NDArray[np.int32], facts: npt.NDArray[np.int32]) -> Ints:
        """Return the position of each fact among a few `own` ones; -1 if it is not one of them."""
        self._marked[own] = np.arange(own.size)
        found = self._marked[facts]
        self._marked[own] = -1
        return found

    def _core(self, sentence: int, near: Ints, likeness: Floats) -> tuple[npt.NDArray[np.int32], Floats]:
        """Return the facts that a candidate's similar sentences agree on, with weights that add up to 1."""
        of = self.of
        same_side = ~self.opposite(sentence, near)
        sureness = likeness[same_side] ** SURENESS
        facts, rows = of.facts_of(near[same_side])
        facts, places = np.unique(facts, return_inverse=True)
        share = np.bincount(places, sureness[rows]) / sureness.sum()
        kept = share >= CORE
        facts = facts[kept]
        weights = share[kept] * of.weights[facts]
        return facts, weights / weights.sum()

    def _found(self, sentence: int, near: Ints, likeness: Floats) -> Candidate:
        """Return the best window of every document that may state a candidate."""
        of = self.of
        facts, weights = self._core(sentence, near, likeness)
        rows = self._touched(facts, weights)
        theirs, owners = of.facts_of(rows)
        places = self._places(facts, theirs)
        held = np.zeros((rows.size, facts.size), dtype=bool)
        held[owners[places >= 0], places[places >= 0]] = True
        held[self.opposite(sentence, rows)] = False
        words = np.where(of.numeric[facts], 0.0, weights)

        def score(window: npt.NDArray[np.bool_]) -> Floats:
            return np.where(window @ words >= WORDED * words.sum() - 1e-9, window @ weights, 0.0)

        best, sizes = score(held), np.ones(rows.size, dtype=np.int64)
        window = held
        for size in range(2, len(WORTH) + 1):
            step = size - 1
            follows = np.zeros(rows.size, dtype=bool)
            follows[:-step] = (rows[step:] == rows[:-step] + step) & (of.passages[rows[step:]] == of.passages[rows[:-step]])
            added = np.zeros_like(held)
            added[:-step] = held[step:]
            window = window | (added & follows[:, None])
            scores = score(window) * WORTH[step]
            longer = follows & (scores > best + 1e-9)
            best, sizes = np.where(longer, scores, best), np.where(longer, size, sizes)
        kept = best >= HELD
        rows, sizes, best = rows[kept], sizes[kept], np.round(best[kept], 6)
        documents = of.documents[rows]
        order = np.lexsort((rows, -best, documents))
        first = np.ones(order.size, dtype=bool)
        first[1:] = documents[order][1:] != documents[order][:-1]
        chosen = order[first]
        firsts, lengths = rows[chosen], sizes[chosen]
        return Candidate(sentence, near, likeness, firsts, lengths, self._scores(sentence, firsts, lengths, best[chosen]))

    def _scores(self, sentence: int, firsts: Ints, lengths: Ints, cores: Floats) -> Floats:
        """Return how much of a sentence each window has. It is the mean of four shares: of the core (given), of the sentence's
        own weight, of that weight in one sentence of the window, and of the sentence's pairs of consecutive words."""
        of = self.of
        if not firsts.size:
            return np.zeros(0)
        own, pairs = of.facts(sentence), self._pairs(sentence)
        weights = of.weights[own] / of.weights[own].sum()
        begins = np.cumsum(lengths) - lengths
        sentences = np.arange(lengths.sum()) + np.repeat(firsts - begins, lengths)
        theirs, owners = of.facts_of(sentences)
        places = self._places(own, theirs)
        held = np.zeros((sentences.size, own.size), dtype=bool)
        held[owners[places >= 0], places[places >= 0]] = True
        whole = np.logical_or.reduceat(held, begins, axis=0) @ weights
        single = np.maximum.reduceat(held @ weights, begins)
        followed = [
            len(pairs & frozenset().union(*map(self._pairs, range(first, first + length)))) / len(pairs) if pairs else 1.0
            for first, length in zip(firsts.tolist(), lengths.tolist(), strict=True)
        ]
        scores = cores + whole + single + np.array(followed)
        # A short sentence states so little that it may be found by chance.
        size = float(of.sizes[sentence])
        found: Floats = np.round(scores / 4 * size / (size + math.log(1 + of.n_documents) / 2), 6)
        return found

    def _pairs(self, sentence: int) -> frozenset[tuple[str, str]]:
        """Return the pairs of consecutive words in the sentence, without function words."""
        if sentence not in self._paired:
            roots = read_words(self.of.texts[sentence]).roots
            self._paired[sentence] = frozenset(itertools.pairwise(roots))
        return self._paired[sentence]

    def _touched(self, facts: npt.NDArray[np.int32], weights: Floats) -> Ints:
        """Return the sentences of all windows that may have enough of a core, in order. A window must contain a fact of the core
        that is not very common."""
        counts = self.of.n_posted(facts)
        listed = np.flatnonzero(counts <= max(_MOST_POSTED, int(counts.min())))
        posted = [self.of.posted(fact) for fact in facts[listed].tolist()]
        for sentences, weight in zip(posted, weights[listed].tolist(), strict=True):
            self._held[sentences] += weight
        hits = np.concatenate(posted).astype(np.int64)
        missing = HELD - (1 - weights[listed].sum()) - _ROUNDING
        most = len(WORTH)
        starts = (hits[self._held[hits] >= missing / most][:, None] - np.arange(most)).ravel()
        starts = starts[starts >= 0]
        # The array ends with empty sentences, so that every window is complete.
        starts = _distinct(starts[sum(self._held[starts + step] for step in range(most)) >= missing])
        for sentences in posted:
            self._held[sentences] = 0.0
        rows = _distinct((starts[:, None] + np.arange(most)).ravel())
        return rows[rows < self.of.n]


def _distinct(places: Ints) -> Ints:
    """Return the positions in order, without duplicates. Sorting is faster here than numpy's unique, which hashes."""
    ordered = np.sort(places)
    found: Ints = ordered[np.concatenate([[True], ordered[1:] != ordered[:-1]])[: ordered.size]]
    return found


def _thinned(of: Statements, may: npt.NDArray[np.bool_]) -> tuple[sparse.csr_matrix, Ints]:
    """Return the matrix of facts x sentences for the sentences that `may` be similar to another, and the number of sentences with
    each fact. A very common fact keeps a random sample of its sentences."""
    sizes = np.diff(of.bags.indptr)
    held = np.repeat(may, sizes)
    facts, sentences = of.bags.indices[held], np.repeat(np.arange(of.n, dtype=np.int32), sizes)[held]
    by_fact = sparse.csr_matrix((of.bags.data[held], (facts, sentences)), of.bags.shape[::-1])
    counts = np.diff(by_fact.indptr).astype(np.int64)
    if counts.size and counts.max() > _MOST_POSTED:
        share = np.repeat(_MOST_POSTED / np.maximum(counts, 1), counts)
        keep = np.random.default_rng(0).random(of.n)[by_fact.indices] < share
        rows = np.repeat(np.arange(counts.size), counts)[keep]
        by_fact = sparse.csr_matrix((by_fact.data[keep], (rows, by_fact.indices[keep])), by_fact.shape)
    return by_fact, counts


def _equal(of: Statements) -> tuple[npt.NDArray[np.bool_], Ints]:
    """Return whether each statement is the first one with its facts (n), and the number of documents with these facts (n). Of
    equal statements, only the first is a candidate."""
    lots = np.random.default_rng(0).integers(0, 2**62, len(of.weights))
    stating = np.flatnonzero(of.states)
    first, spread = np.zeros(of.n, dtype=bool), np.zeros(of.n, dtype=np.int64)
    if stating.size:
        # Each set of facts gets a sum of random numbers. The sums of different sets are equal only with probability 2**-63.
        sums = 2 * np.add.reduceat(lots[of.bags.indices], of.bags.indptr[:-1]) + of.denies
        _, firsts, groups = np.unique(sums[stating], return_index=True, return_inverse=True)
        first[stating[firsts]] = True
        held = np.unique(groups * of.n_documents + of.documents[stating]) // of.n_documents
        spread[stating[firsts]] = np.bincount(held)
    return first, spread
