"""The terms, sentences and bullets of the offline models, and TF-IDF vectors of all sentences of a context.

With an inverted index, a sentence is compared only with those that share a term with it. Memory grows with the text, not with the
square of the number of sentences. Vectors are binary term vectors weighted by inverse sentence frequency and scaled to length 1,
so a dot product is a cosine.

The titles, function words and suffixes are fixed here because answers depend on them: a change requires a new `revision` of the
models.
"""

import functools
import itertools
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from summhay_ray.text import FUNCTION_WORDS, plain_words, read_prose, sentences

_FIRST, _ENGLISH = 100, 0.15
_BEGINNING = 5
"""Number of letters that two forms of one word have in common at the beginning: printer, printing."""

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

# A sentence with fewer terms (a heading, "She agreed.") states no insight.
_FEWEST_TERMS = 4
# The nearest 500 sentences describe a cluster well. The bound limits the cost of a text that repeats one sentence.
_MOST_NEIGHBOURS = 500


@dataclass(frozen=True, slots=True)
class Vector:
    """A sparse vector: term numbers and their weights, of equal shape."""

    terms: Ints
    weights: Floats


class SentenceIndex:
    """The sentences of `documents` ((number, text) pairs), indexed 0..n-1 in document order, then text order.

    `texts` (n); `lengths` (n), in words; `documents` (n), the index in `numbers` of each sentence's document; `numbers`
    (n_documents), the documents' numbers. `n_terms`: the number of distinct terms, which is the length of a dense vector.
    """

    def __init__(self, documents: Iterable[tuple[int, str]]) -> None:
        self.texts: list[str] = []
        self.numbers: list[int] = []
        self._places: defaultdict[str, int] = defaultdict(itertools.count().__next__)
        self._neighbours: dict[tuple[int, float], tuple[Ints, Floats]] = {}
        owners: list[int] = []
        bags: list[tuple[int, ...]] = []
        for number, text in documents:
            seen: set[tuple[int, ...]] = set()
            for sentence, terms in _statements(text):
                bag = tuple(sorted(map(self._places.__getitem__, terms)))
                # A sentence that a document repeats counts once.
                if bag not in seen:
                    seen.add(bag)
                    self.texts.append(sentence)
                    owners.append(len(self.numbers))
                    bags.append(bag)
            self.numbers.append(number)
        self._beginnings = {term[:_BEGINNING] for term in self._places}
        self.documents: Ints = np.array(owners, dtype=np.int64)
        self.n, self.n_terms = len(self.texts), len(self._places)
        self.lengths: Ints = np.array([len(sentence.split()) for sentence in self.texts], dtype=np.int64)
        sizes = np.array([len(bag) for bag in bags], dtype=np.int64)
        rows = np.repeat(np.arange(self.n, dtype=np.int64), sizes)
        self._terms: Ints = np.fromiter(itertools.chain.from_iterable(bags), np.int64)
        frequency = np.bincount(self._terms, minlength=self.n_terms)
        self._idf: Floats = np.log((self.n + 1) / np.maximum(frequency, 1))
        weights = self._idf[self._terms]
        norms = np.sqrt(sums(rows, weights * weights, self.n))
        self._weights: Floats = weights / np.maximum(norms, np.finfo(np.float64).tiny)[rows]
        self._starts: Ints = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        by_term = np.argsort(self._terms, kind="stable")
        self._posted_rows = rows[by_term]
        self._posted_weights = self._weights[by_term]
        self._posting_starts = np.concatenate([[0], np.cumsum(frequency)])

    def vector(self, sentence: int) -> Vector:
        """Return the vector of a sentence."""
        span = slice(self._starts[sentence], self._starts[sentence + 1])
        return Vector(self._terms[span], self._weights[span])

    def encode(self, text: str) -> Vector:
        """Return the vector of any text, scaled to length 1. Terms that are in no sentence are left out, so it may be empty."""
        places = sorted({self._places[term] for term in terms_of(text) if term in self._places})
        return self.unit(Vector(np.array(places, dtype=np.int64), self._idf[places] if places else np.zeros(0)))

    def unknown(self, text: str) -> float:
        """Return the share (0 to 1) of a text's term weight that its unknown terms have. A term is unknown if no sentence
        contains it or a word with the same beginning. For an empty text, the share is 0.

        An unknown term weighs as much as the rarest known one. A known term weighs at least half of that, even a term that all
        documents have.
        """
        terms = set(terms_of(text))
        rarest = float(np.log(self.n + 1))
        places = [self._places.get(term) for term in terms if term in self._places or term[:_BEGINNING] in self._beginnings]
        known = sum(max(rarest / 2, 0.0 if place is None else float(self._idf[place])) for place in places)
        lacking = rarest * (len(terms) - len(places))
        return lacking / (lacking + known) if lacking else 0.0

    def is_english_with(self, query: str) -> bool:
        """Whether the query and the first sentences are English, judged by their function words. Documents in another language
        lack the query's words, but may still cover its subject."""
        words = plain_words(" ".join(self.texts[:_FIRST]))
        english = sum(word in FUNCTION_WORDS for word in words) > _ENGLISH * len(words)
        return english and not FUNCTION_WORDS.isdisjoint(plain_words(query))

    def unit(self, vector: Vector) -> Vector:
        """Return the vector scaled to length 1. An empty or zero vector stays as it is."""
        norm = float(np.sqrt(np.sum(vector.weights * vector.weights)))
        return Vector(vector.terms, vector.weights / norm) if norm > 0 else vector

    def similarities(self, vector: Vector) -> Floats:
        """Return the dot product of `vector` with every sentence (n)."""
        spans = [slice(self._posting_starts[term], self._posting_starts[term + 1]) for term in vector.terms]
        if not spans:
            return np.zeros(self.n)
        rows = np.concatenate([self._posted_rows[span] for span in spans])
        sizes = [span.stop - span.start for span in spans]
        weights = np.concatenate([self._posted_weights[span] for span in spans]) * np.repeat(vector.weights, sizes)
        return sums(rows, weights, self.n)

    def document_similarities(self, vector: Vector) -> Floats:
        """Return the cosine of `vector` (length 1) with the sum of each document's sentence vectors (n_documents)."""
        owners = np.repeat(self.documents, np.diff(self._starts))
        cells, places = np.unique(owners * self.n_terms + self._terms, return_inverse=True)
        totals = sums(places, self._weights, cells.size)
        norms = np.sqrt(sums(cells // max(self.n_terms, 1), totals * totals, len(self.numbers)))
        dots = sums(self.documents, self.similarities(vector), len(self.numbers))
        return dots / np.maximum(norms, np.finfo(np.float64).tiny)

    def centroid(self, sentences: Ints, weights: Floats, most_terms: int) -> Vector:
        """Return the weighted sum of some sentences' vectors, reduced to its `most_terms` heaviest terms and scaled to length
        1."""
        dense = np.zeros(self.n_terms)
        for sentence, weight in zip(sentences.tolist(), weights.tolist(), strict=True):
            vector = self.vector(sentence)
            dense[vector.terms] += weight * vector.weights
        heaviest = np.argsort(-dense, kind="stable")[:most_terms]
        terms = np.sort(heaviest[dense[heaviest] > 0])
        return self.unit(Vector(terms, dense[terms]))

    def neighbours(self, sentence: int, least: float) -> tuple[Ints, Floats]:
        """Return the sentences at least `least` similar to a sentence, including itself, in document order, and their
        similarities; at most 500."""
        key = (sentence, least)
        if key not in self._neighbours:
            similar = self.similarities(self.vector(sentence))
            near = np.flatnonzero(similar >= least)
            if near.size > _MOST_NEIGHBOURS:
                near = np.sort(near[np.argsort(-similar[near], kind="stable")[:_MOST_NEIGHBOURS]])
            self._neighbours[key] = (near, similar[near])
        return self._neighbours[key]


def sums(groups: Ints, values: Floats, n: int) -> Floats:
    """Return the sum of the values of each group 0..n-1 (n)."""
    return np.bincount(groups, weights=values, minlength=n).astype(np.float64, copy=False)


# Cached, since a document is in the prompts of several queries and steps.
@functools.lru_cache(maxsize=128)
def _statements(text: str) -> list[tuple[str, tuple[str, ...]]]:
    """Return the sentences of `text` with enough terms to state something, each with its distinct terms."""
    read = (statement.text for statement in read_prose(text, sentences_of).statements)
    bags = ((sentence, tuple(dict.fromkeys(terms_of(sentence)))) for sentence in read)
    return [(sentence, terms) for sentence, terms in bags if len(terms) >= _FEWEST_TERMS]


index_of = functools.lru_cache(maxsize=2)(SentenceIndex)
"""The index of `documents`. The last two contexts are cached for further queries over the same documents."""


# Kana and CJK ideographs are written without spaces, so each character is a term.
_WIDE = "\u3040-\u30ff\u3400-\u9fff"
_TERM = re.compile(rf"\d+(?:[.,]\d+)*|[{_WIDE}]|[^\W\d_{_WIDE}][^\W_{_WIDE}]*")
_SUFFIXES = ("ies", "es", "s", "ing", "ed")
_SHORTEST_STEM = 4
# A longer term is noise (base64, a line without spaces), and is cut to this many characters.
_LONGEST_TERM = 40

_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]+")
_BRACKETS = str.maketrans("[]【】［］", "()()()")

# Function words that nevertheless count as terms.
_TELLING = """
    against although am another because between doing down either even every few however many much neither onto per several since
    though toward towards upon via whether within without yet
"""
_FUNCTION_WORDS = FUNCTION_WORDS - frozenset(_TELLING.split()) | {"hers", "itself", "once", "ours", "theirs", "yours"}


sentences_of = functools.partial(sentences, abbreviations=("Mr", "Ms", "Dr", "St"))
"""Returns the sentences of a text in order, stripped, each at most 600 characters long."""


def terms_of(text: str) -> list[str]:
    """Return the words of `text` in order, in lower case, without function words and common English suffixes."""
    words = (word[:_LONGEST_TERM] for word in _TERM.findall(text.lower()))
    return list(filter(None, map(_term, words)))


NOTHING_SAID = "The documents do not say."


def answer_text(chosen: Sequence[tuple[str, Sequence[int]]], as_bullets: bool) -> str:
    """Return sentences, each with the numbers of its documents, as bullets with citations or as one text. If there are no
    sentences, the text states that the documents do not answer.

    Each sentence is on one line, without a leading bullet mark, and with parentheses instead of square brackets, so that it
    cannot imitate our citations.
    """
    lines = [" ".join(_UNPRINTABLE.sub(" ", sentence).translate(_BRACKETS).split()).lstrip("-*•– ") for sentence, _ in chosen]
    if not as_bullets:
        return " ".join(lines) or NOTHING_SAID
    cited = ("".join(f"[{number}]" for number in numbers) for _, numbers in chosen)
    return "\n".join(f"- {line} {numbers}" for line, numbers in zip(lines, cited, strict=True))


# Cached, since texts repeat a limited number of words.
@functools.lru_cache(maxsize=32_768)
def _term(word: str) -> str:
    """Return the term for a word in lower case, or an empty string for a function word."""
    if word in _FUNCTION_WORDS:
        return ""
    for suffix in _SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= _SHORTEST_STEM:
            return word[: -len(suffix)]
    return word
