"""The sentences of all documents, with the words and numbers by which they are compared.

A *fact* of a sentence is the root of a word, or a number (`#1025`). Its weight is its rarity: the logarithm of the number of
documents divided by the number of documents that have it. An inverted index finds similar sentences, so memory grows only
linearly with the text.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import sparse

from summhay_ray.synth import read_words
from summhay_ray.text import FUNCTION_WORDS, boilerplate, is_latin, plain_words, read_prose, words_of

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

FEWEST = 4
"""Minimum number of facts of an insight. A sentence with fewer, such as a heading or "She agreed.", states none."""
_NUMBER_WEIGHT = 1.5
"""Weight of a number, relative to a word of the same rarity."""
_LEAST_WEIGHT = 0.05
"""Weight of a fact that every document has."""
_NO_STATEMENT = re.compile(
    r"[!?？！]|\b(?:you|your|yours|click|subscribe|unsubscribe|advertisement|all rights reserved)\b"
    r"|\b(?:visit|contact|follow) (?:us|our)\b|www\.|https?:|©",
    re.IGNORECASE,
)
"""Matches questions, exclamations and sentences to the reader. Advertisements and footers recur, too, but state no insight."""
_DENIES = re.compile(
    r"(?<!\bor )\bnot\b(?! (?:only|just|merely|one|least)\b)|\b(?:never|cannot|no longer)\b|n[’']t\b", re.IGNORECASE
)
_MARKS = re.compile(r"^(?:[#>*\-+•|\s]|\*\*[^*]{1,30}\*\*|\[[^\[\]]{1,40}\](?=\s))+|\*\*|__|`")
"""Matches emphasis in a text without other Markdown, and a label in bold or brackets before a sentence."""
_RECURS, _SUBJECT_OF = 4, 0.35
"""A document is about a word if at least `_RECURS` of its sentences have it, but at most the share `_SUBJECT_OF` of all
documents."""
_ENGLISH = 0.2
"""Minimum share of function words in an English text; it is usually above 0.4."""


@dataclass(frozen=True, slots=True)
class DocumentClaim:
    """A statement from a document, worded so that it can be understood alone, and the document's own words for it."""

    text: str
    words: str


@dataclass(frozen=True, slots=True)
class SentenceFacts:
    """The sentences of some documents and their facts."""

    facts: Sequence[str]
    documents: Sequence[Sequence[tuple[str, bool, Sequence[int]]]]
    """The sentences of each document: the text, whether it may state an insight, and the indexes of its facts in `facts`, sorted
    by fact."""
    left_out: Mapping[str, int]
    """Number of omitted lines by reason; they are not prose."""

    @classmethod
    def read(cls, documents: Iterable[str]) -> SentenceFacts:
        """Read the documents. This is the slowest step that is done once for each document."""
        places: dict[str, int] = {}
        read: list[list[tuple[str, bool, Sequence[int]]]] = []
        left_out: Counter[str] = Counter()
        for document in documents:
            latin = is_latin(document)
            prose = read_prose(document)
            left_out.update(left.reason for left in prose.left_out)
            of_document: list[tuple[str, bool, Sequence[int]]] = []
            for statement in prose.statements:
                text = _MARKS.sub("", statement.text).strip()
                found = [places.setdefault(fact, len(places)) for fact in _facts(text, latin)]
                of_document.append((text, statement.kind == "sentence", found))
            read.append(of_document)
        return cls(list(places), read, left_out)

    def to_bytes(self) -> bytes:
        """Serialize the sentences and facts as JSON."""
        content = [self.facts, self.documents, self.left_out]
        return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")

    @classmethod
    def from_bytes(cls, content: bytes) -> SentenceFacts:
        """Read what `to_bytes` wrote."""
        return cls(*json.loads(content))


class Statements:
    """The sentences of all documents, in order, with the facts by which they are compared.

    `claims`: index of a document -> its claims, which follow its sentences. In such documents, only claims may be insights, but
    all sentences are searched.
    """

    def __init__(
        self,
        documents: Sequence[str],
        facts: Iterable[SentenceFacts] = (),
        claims: Mapping[int, Sequence[DocumentClaim]] | None = None,
    ) -> None:
        """`facts`: the facts of all documents, in blocks; computed here by default."""
        self.n_documents = len(documents)
        self.texts: list[str] = []
        self.evidence: list[str] = []
        """The document's own words for each sentence: the sentence itself, or the words behind a claim (n)."""
        self.left_out: Counter[str] = Counter()
        """Number of omitted lines by reason; they are not prose."""
        owners: list[int] = []
        passages: list[int] = []
        given = claims or {}
        may: list[bool] = []
        sizes: list[int] = []
        columns = array("i")
        places: dict[str, int] = {}
        sentences = self._numbered(facts or [SentenceFacts.read(documents)], places)
        for number, (document, of_document) in enumerate(zip(documents, sentences, strict=True)):
            listed = [(text, text, states and number not in given, found, 0) for text, states, found in of_document]
            for claim in given.get(number, ()):
                found = [places.setdefault(fact, len(places)) for fact in _facts(claim.text, is_latin(document))]
                listed.append((claim.text, claim.words, True, found, 1))
            for text, words, states, found, is_claim in listed:
                if found:
                    self.texts.append(text)
                    self.evidence.append(words)
                    owners.append(number)
                    passages.append(2 * number + is_claim)
                    may.append(states)
                    sizes.append(len(found))
                    columns.extend(found)
        by_document = itertools.groupby(range(len(owners)), key=owners.__getitem__)
        self.boilerplate = boilerplate([self.texts[row] for row in rows] for _, rows in by_document)
        """Statements that are left out because many documents contain them in the same words; see `text.boilerplate`."""
        kept = [row for row, text in enumerate(self.texts) if text not in self.boilerplate]
        starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        ones = np.ones(len(columns), dtype=np.float32)
        every = sparse.csr_matrix((ones, np.array(columns, dtype=np.int32), starts), (len(owners), len(places)))
        self.bags = every[kept] if self.boilerplate else every
        """Sentence x fact matrix: 1 if the sentence has the fact (n, n_facts)."""
        self.texts = [self.texts[row] for row in kept]
        self.evidence = [self.evidence[row] for row in kept]
        may, sizes = [may[row] for row in kept], [sizes[row] for row in kept]
        self.documents: Ints = np.array(owners, dtype=np.int64)[kept]
        """Index of each sentence's document (n)."""
        self.passages: Ints = np.array(passages, dtype=np.int64)[kept]
        """A window may contain consecutive sentences only if their numbers here are equal (n)."""
        self.numeric = np.fromiter((fact.startswith("#") for fact in places), dtype=bool, count=len(places))
        pairs = np.unique(np.repeat(self.documents, sizes) * max(1, len(places)) + self.bags.indices)
        frequency = np.bincount(pairs % max(1, len(places)), minlength=len(places))
        rarity = np.log((1 + self.n_documents) / np.maximum(frequency, 1))
        self.weights: Floats = np.maximum(rarity, _LEAST_WEIGHT) * np.where(self.numeric, _NUMBER_WEIGHT, 1.0)
        """Weight of each fact (n_facts)."""
        self.sizes: Floats = self.bags @ self.weights
        """Weight of each sentence: the sum over its facts (n)."""
        self.denies = np.fromiter((bool(_DENIES.search(text)) for text in self.texts), dtype=bool, count=len(self.texts))
        self.states = np.fromiter(
            (
                allowed and size >= FEWEST and not _NO_STATEMENT.search(text)
                for text, size, allowed in zip(self.texts, sizes, may, strict=True)
            ),
            dtype=bool,
            count=len(self.texts),
        )
        """Whether a sentence may state an insight (n)."""
        self._places = places
        by_fact = self.bags.tocsc()
        self._posted, self._post_starts = by_fact.indices, by_fact.indptr

    def _numbered(self, blocks: Iterable[SentenceFacts], places: dict[str, int]) -> Iterator[list[tuple[str, bool, list[int]]]]:
        """Yield the sentences of each document, with the numbers of their facts. New facts are added to `places`."""
        for block in blocks:
            self.left_out.update(block.left_out)
            numbers = [places.setdefault(fact, len(places)) for fact in block.facts]
            for document in block.documents:
                yield [(text, states, [numbers[one] for one in found]) for text, states, found in document]

    @property
    def n(self) -> int:
        """Number of sentences."""
        return len(self.texts)

    def facts(self, sentence: int) -> npt.NDArray[np.int32]:
        """Return the facts of a sentence."""
        found: npt.NDArray[np.int32] = self.bags.indices[self.bags.indptr[sentence] : self.bags.indptr[sentence + 1]]
        return found

    def count(self, word: str, document: int) -> int:
        """Return the number of the document's sentences that have a word, given by its root."""
        if word not in self._places:
            return 0
        span = np.searchsorted(self.documents, [document, document + 1])
        first, last = np.searchsorted(self.posted(self._places[word]), span).tolist()
        return int(last - first)

    def weight(self, word: str) -> float:
        """Return the weight of a word, given by its root, or of a number (`#1025`)."""
        return float(self.weights[self._places[word]]) if word in self._places else 0.0

    def is_about(self, document: int, word: str) -> bool:
        """Whether several sentences of a document have a word, given by its root, but few documents do."""
        rare = word in self._places and self.weights[self._places[word]] >= math.log(1 / _SUBJECT_OF)
        return bool(rare) and self.count(word, document) >= _RECURS

    def facts_of(self, sentences: Ints) -> tuple[npt.NDArray[np.int32], Ints]:
        """Return the facts of several sentences in sequence, and the index of each fact's sentence."""
        starts = self.bags.indptr[sentences]
        sizes = self.bags.indptr[sentences + 1] - starts
        rows = np.repeat(np.arange(sentences.size), sizes)
        shift = np.repeat(starts - np.concatenate([[0], np.cumsum(sizes)[:-1]]), sizes)
        found: npt.NDArray[np.int32] = self.bags.indices[np.arange(rows.size) + shift]
        return found, rows

    def posted(self, fact: int) -> npt.NDArray[np.int32]:
        """Return the sentences that have a fact, in order."""
        found: npt.NDArray[np.int32] = self._posted[self._post_starts[fact] : self._post_starts[fact + 1]]
        return found

    def n_posted(self, facts: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
        """Return the number of sentences with each of the facts."""
        found: npt.NDArray[np.int32] = self._post_starts[facts + 1] - self._post_starts[facts]
        return found


def _facts(text: str, latin: bool) -> list[str]:
    """Return the facts of a text, sorted."""
    if not latin:
        return sorted({f"#{word}" if word.isdecimal() else word for word in words_of(text)})
    reading = read_words(text)
    return sorted({*reading.roots, *(f"#{number}" for number in reading.numbers)})


def language_of(texts: Sequence[str]) -> str:
    """Return `english`, `latin` (another language in Latin letters, or a list of names) or `other` (another script)."""
    sample = " ".join(text[:2000] for text in texts[:: max(1, len(texts) // 200)])
    if not is_latin(sample):
        return "other"
    words = plain_words(sample)
    return "english" if sum(word in FUNCTION_WORDS for word in words) >= _ENGLISH * len(words) else "latin"
